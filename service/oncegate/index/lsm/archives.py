"""Records which ids left memory, archive by archive: a pure function of the ledger's entries, as the table of hot
ids is.

An archive is the durable copy of ids that were done, or taken by one owner, within one bucket of time; its bytes are a
range of the ledger's own topic. What is known of it here answers for all of its ids. Once `Retired` says that the
newest of them is past its time, they are absent: at the next look-up, and gone from the runs at their next merge.

Proof that an archive cannot contradict the table. An id is sealed when it is done or taken and that is durable. From
then on every claim, produce or take of it is answered without an entry that names it, until a `Retired` lets go of the
archive. So until then no slot can hold the id but the one it had, which says the same; after that only newer ones do.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import I32, I64, U8, U64
from oncegate.core.entries.kinds import Evicted, Retired

ArchiveUndo = Callable[[], None]
# What an archive's ids are now: nothing, or one of the `kinds`.
GONE = -1
ArchiveKind = tuple[bytes, int]


@dataclass(slots=True)
class Archive:
    """Describes one archive: which ids, how many, and where its bytes lie.

    `owner`: zeros where the ids are done. `dropped`: how many of them the table let go of since.
    """

    number: int
    first_offset: int
    ids: int
    owner: bytes
    takeover: int
    oldest_wall_ms: int
    newest_wall_ms: int
    dropped: int = 0
    retired: bool = False

    @property
    def end_offset(self) -> int:
        """Returns the offset behind the archive's last id."""
        return self.first_offset + self.ids


@dataclass(frozen=True, slots=True)
class ArchivesSnapshot:
    """Holds all of an `ArchiveIndex`."""

    next_number: int
    high_offset: int
    archives: list[Archive]


class ArchiveIndex:
    """Knows every archive of a ledger, from its entries alone.

    `by_number`: archives, oldest first; retired ones until that is durable. `kinds`: what their ids are, numbered; a
    number is given anew when nothing is of its kind any more. `new_kinds`: by number, those that nobody took note of.

    high_offset: where the next archive begins. position: of the last entry that changed anything here.
    """

    def __init__(self) -> None:
        self.by_number: dict[int, Archive] = {}
        self.kinds: dict[ArchiveKind, int] = {}
        self.new_kinds: dict[int, ArchiveKind] = {}
        self._free_kinds: list[int] = []
        self.next_number = 0
        self.high_offset = 0
        self.position = 0
        self._base = 0
        self._kind_of: I32 = np.full(64, GONE, np.int32)

    def apply(self, position: int, entry: Evicted | Retired) -> ArchiveUndo:
        """Takes one entry in; returns what takes it back."""
        before = self.next_number, self.high_offset, self.position
        changed = self._evict(entry) if isinstance(entry, Evicted) else self._retire(entry)
        if changed:
            self.position = position

        def undo() -> None:
            for archive in changed:
                if isinstance(entry, Evicted):
                    self._kind_of[archive.number - self._base] = GONE
                    del self.by_number[archive.number]
                else:
                    archive.retired = False
                    self._set_kind(archive)
            self.next_number, self.high_offset, self.position = before

        return undo

    def _evict(self, entry: Evicted) -> list[Archive]:
        assert entry.first_offset == self.high_offset, "archives have no holes"
        made = []
        for part in entry.archives:
            times = part.oldest_wall_ms, part.newest_wall_ms
            archive = Archive(self.next_number, self.high_offset, part.ids, part.owner, part.takeover, *times)
            self._add(archive)
            made.append(archive)
            self.next_number, self.high_offset = self.next_number + 1, archive.end_offset
        return made

    def _retire(self, entry: Retired) -> list[Archive]:
        due = [archive for archive in self.live if archive.newest_wall_ms < entry.before_wall_ms]
        for archive in due:
            archive.retired = True
            self._kind_of[archive.number - self._base] = GONE
        return due

    def settle(self, entry: Evicted | Retired) -> None:
        """Forgets what a durable entry retired."""
        if isinstance(entry, Retired):
            for number in [number for number, archive in self.by_number.items() if self._is_due(archive, entry)]:
                del self.by_number[number]
            self._shorten()
            self._forget_kinds()

    def _forget_kinds(self) -> None:
        kept = {(archive.owner, archive.takeover) for archive in self.by_number.values()}
        for kind in self.kinds.keys() - kept:
            number = self.kinds.pop(kind)
            self.new_kinds.pop(number, None)
            self._free_kinds.append(number)

    @staticmethod
    def _is_due(archive: Archive, entry: Retired) -> bool:
        return archive.retired and archive.newest_wall_ms < entry.before_wall_ms

    def _add(self, archive: Archive) -> None:
        self.by_number[archive.number] = archive
        at = archive.number - self._base
        if at >= len(self._kind_of):
            more = np.full(max(at + 1, 2 * len(self._kind_of)), GONE, np.int32)
            more[: len(self._kind_of)] = self._kind_of
            self._kind_of = more
        self._set_kind(archive)

    def _set_kind(self, archive: Archive) -> None:
        kind = archive.owner, archive.takeover
        if kind not in self.kinds:
            number = self._free_kinds.pop() if self._free_kinds else len(self.kinds)
            self.kinds[kind], self.new_kinds[number] = number, kind
        self._kind_of[archive.number - self._base] = self.kinds[kind]

    def _shorten(self) -> None:
        """Lets go of the numbers below the first archive, half of all at least."""
        first = next(iter(self.by_number), self.next_number)
        if 2 * (first - self._base) > max(64, self.next_number - self._base):
            self._kind_of, self._base = self._kind_of[first - self._base :].copy(), first
            if not len(self._kind_of):
                self._kind_of = np.full(64, GONE, np.int32)

    @property
    def live(self) -> list[Archive]:
        """Lists the archives that are not retired, oldest first."""
        return [archive for archive in self.by_number.values() if not archive.retired]

    @property
    def ids(self) -> int:
        """Counts the ids that are known here and not in the table any more."""
        return sum(archive.dropped for archive in self.live)

    @property
    def oldest_wall_ms(self) -> int | None:
        """Tells when the ids were done or taken that will retire first, of those that are not in the table any more."""
        return min((archive.oldest_wall_ms for archive in self.live if archive.dropped), default=None)

    def kinds_of(self, numbers: I64) -> I32:
        """Returns what the ids of these archives, int64 (n,), are: numbers of `kinds`, GONE where nothing is known of
        them."""
        at = numbers - self._base
        known = (at >= 0) & (at < len(self._kind_of))
        return np.where(known, self._kind_of[np.where(known, at, 0)], GONE).astype(np.int32)

    def keep_mask(self) -> U8:
        """Returns, by number up to the next to be given, 1 where a run must hold the archive still."""
        keep = np.zeros(self.next_number, np.uint8)
        keep[list(self.by_number)] = 1
        return keep

    def first_kept_offset(self, before_wall_ms: int) -> int:
        """Returns the offset below which the ledger's topic may be trimmed once what is older has retired."""
        offsets = (archive.first_offset for archive in self.live if archive.newest_wall_ms >= before_wall_ms)
        return next(offsets, self.high_offset)

    def snapshot(self) -> ArchivesSnapshot:
        """Returns all of it, for `restore`; to be encoded at once, for its archives may change later."""
        return ArchivesSnapshot(self.next_number, self.high_offset, self.live)

    def restore(self, snapshot: ArchivesSnapshot) -> None:
        """Fills an empty index with what `snapshot` gave."""
        assert not self.next_number, "only an empty one is restored"
        self.next_number, self.high_offset = snapshot.next_number, snapshot.high_offset
        self._base = snapshot.archives[0].number if snapshot.archives else snapshot.next_number
        for archive in snapshot.archives:
            self._add(archive)


def records_of(archive: Archive, data: memoryview) -> U64:
    """Returns an archive's part of the range that holds it, as a run takes it, uint64 (ids, 2). ValueError: another's
    bytes."""
    records = np.frombuffer(data, np.uint64).reshape(-1, 2)
    if len(records) != archive.ids or bool((records[:, 1] >> np.uint64(32) != archive.number).any()):
        raise ValueError(f"archive {archive.number} is not what its entry says")
    return records


def total(archives: Iterable[Archive]) -> int:
    """Counts the ids that archives hold."""
    return sum(archive.ids for archive in archives)
