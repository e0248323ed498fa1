"""Records which ids were moved out of memory, by archive (a durable copy of done or taken ids). Like the table of hot
ids, a pure function of the ledger's entries.

An archive is the durable copy of ids that were done, or taken by one owner, within one time bucket. Its bytes are a
range of the ledger's own topic. Its record here answers for all of its ids. Once a `Retired` covers the newest of them,
they are absent: at once in look-ups, and in the runs after their next merge.

Proof that an archive cannot contradict the table: an id is sealed once it is durably done or taken. From then on every
claim, produce or take of it is answered without an entry that names it, until a `Retired` drops the archive. Until
then, only the slot that the id already had can hold it, and that slot agrees with the archive. Afterwards only newer
slots can.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import I32, I64, U8, U64
from oncegate.core.entries.kinds import Evicted, Retired

ArchiveUndo = Callable[[], None]
# State of an archive's ids: gone, or one of the `kinds`.
GONE = -1
ArchiveKind = tuple[bytes, int]


@dataclass(slots=True)
class Archive:
    """An archive: its number, its kind, the number of its ids and the location of its bytes.

    owner: zeros if the ids are done.
    dropped: number of its ids that the table has dropped since.
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
        """Returns the offset after the archive's last id."""
        return self.first_offset + self.ids


@dataclass(frozen=True, slots=True)
class ArchivesSnapshot:
    """The content of an `ArchiveIndex`."""

    next_number: int
    high_offset: int
    archives: list[Archive]


class ArchiveIndex:
    """All archives of a ledger, from its entries alone.

    by_number: archives, oldest first; a retired one stays until its retirement is durable.
    kinds: numbers of the kinds of ids; a number is reused once nothing of its kind is left.
    new_kinds: by number, kinds whose row has not been made yet.
    high_offset: where the next archive begins.
    position: of the last entry that changed anything here.
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
        """Applies one entry. Returns its undo."""
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
        """Removes the archives that a durable entry retired."""
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
        """Compacts the list of numbers once at least half of them precede the first live archive."""
        first = next(iter(self.by_number), self.next_number)
        if 2 * (first - self._base) > max(64, self.next_number - self._base):
            self._kind_of, self._base = self._kind_of[first - self._base :].copy(), first
            if not len(self._kind_of):
                self._kind_of = np.full(64, GONE, np.int32)

    @property
    def live(self) -> list[Archive]:
        """Returns the archives that are not retired, oldest first."""
        return [archive for archive in self.by_number.values() if not archive.retired]

    @property
    def ids(self) -> int:
        """Counts the ids that are known only from archives and no longer in the table."""
        return sum(archive.dropped for archive in self.live)

    @property
    def oldest_wall_ms(self) -> int | None:
        """Returns the completion time of the ids that will retire first, among those no longer in the table; None if
        none.
        """
        return min((archive.oldest_wall_ms for archive in self.live if archive.dropped), default=None)

    def kinds_of(self, numbers: I64) -> I32:
        """Returns the kinds of the ids of these archives, int64 (n,): numbers of `kinds`, or GONE if unknown."""
        at = numbers - self._base
        known = (at >= 0) & (at < len(self._kind_of))
        return np.where(known, self._kind_of[np.where(known, at, 0)], GONE).astype(np.int32)

    def keep_mask(self) -> U8:
        """Returns a flag for each archive number assigned so far: 1 if a run must still contain the archive."""
        keep = np.zeros(self.next_number, np.uint8)
        keep[list(self.by_number)] = 1
        return keep

    def first_kept_offset(self, before_wall_ms: int) -> int:
        """Returns the offset below which the ledger's topic may be trimmed once everything older than `before_wall_ms`
        has retired.
        """
        offsets = (archive.first_offset for archive in self.live if archive.newest_wall_ms >= before_wall_ms)
        return next(offsets, self.high_offset)

    def snapshot(self) -> ArchivesSnapshot:
        """Returns the content for `restore`. Encode it at once, since its archives may change later."""
        return ArchivesSnapshot(self.next_number, self.high_offset, self.live)

    def restore(self, snapshot: ArchivesSnapshot) -> None:
        """Fills an empty index from a snapshot."""
        assert not self.next_number, "only an empty one is restored"
        self.next_number, self.high_offset = snapshot.next_number, snapshot.high_offset
        self._base = snapshot.archives[0].number if snapshot.archives else snapshot.next_number
        for archive in snapshot.archives:
            self._add(archive)


def records_of(archive: Archive, data: memoryview) -> U64:
    """Returns an archive's ids within a range as run records, uint64 (ids, 2).

    Raises ValueError if the bytes are not its own.
    """
    records = np.frombuffer(data, np.uint64).reshape(-1, 2)
    if len(records) != archive.ids or bool((records[:, 1] >> np.uint64(32) != archive.number).any()):
        raise ValueError(f"archive {archive.number} does not match its entry")
    return records


def total(archives: Iterable[Archive]) -> int:
    return sum(archive.ids for archive in archives)
