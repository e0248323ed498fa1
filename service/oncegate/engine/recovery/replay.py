"""Replays a ledger into a shard's index at a start."""

from collections.abc import Callable, Iterator

from oncegate.core.entries.codec import decode
from oncegate.core.entries.kinds import Entry, Opened, SnapshotPiece
from oncegate.core.errors import KeyMismatch, LedgerDamaged
from oncegate.engine.commit.marks import Marks
from oncegate.engine.recovery.read_ahead import read_ahead
from oncegate.index.claims.replay import rebuild as fold
from oncegate.index.shard import ShardIndex
from oncegate.ports import Ledger


def rebuild(
    index: ShardIndex,
    ledger: Ledger,
    marks: Marks,
    key_check: bytes,
    now_ms: int,
    *others: Callable[[int, Entry], None],
) -> int:
    """Fold the whole ledger into `index` and `marks`; every open claim then has a full lease from `now_ms`.

    Returns the bytes of entries since the ledger was last collected. `others` see what is no claim's alone, too.

    Raises KeyMismatch when the ledger was written with another key, LedgerDamaged when an entry cannot be read
    or contradicts those before it. Nothing is written.
    """
    entries = Entries(ledger, marks, key_check)
    try:
        fold(entries, index.claims, now_ms, index.replayed, *others)
        index.producers.reset_leases(now_ms)
    except (ValueError, KeyError, AssertionError) as error:
        raise LedgerDamaged(f"entry {entries.position} of the ledger makes no sense: {error}") from error
    return entries.size_bytes


class Entries:
    """The ledger's entries, decoded; `position` is the one last read."""

    def __init__(self, ledger: Ledger, marks: Marks, key_check: bytes) -> None:
        self._ledger = ledger
        self._marks = marks
        self._key_check = key_check
        self.position = 0
        self.size_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, Entry]]:
        for replayed in read_ahead(self._ledger.replay(1), lambda one: len(one.body)):
            self.position = replayed.position
            entry = decode(replayed.body)
            self.size_bytes += 0 if isinstance(entry, SnapshotPiece) else len(replayed.body)
            if isinstance(entry, Opened) and entry.key_check != self._key_check:
                raise KeyMismatch(
                    "the key file beside this ledger is not the one it was written with: with another key every id "
                    "would look new; put the right key file back"
                )
            yield replayed.position, entry
            self._marks.add(replayed.mark)
