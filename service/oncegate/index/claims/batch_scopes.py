"""Records which rows were claimed in each batch of each driver, so that an ack of the batch can forget them.

Row numbers are reused, so each is stored with an identifier of its content: the first word of its claim id or, for
taken ids, which have none, the ledger position. That is twelve bytes per row until the batch is acked.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.index.table.rows import OPEN, Rows

# driver, batch, and the identifiers of some of its rows as little-endian uint64.
ScopesSnapshot = list[tuple[str, int, bytes]]
# Size of a snapshot part, which takes a millisecond or two.
_BATCHES_PER_PART, _ROWS_PER_PART = 1_000, 65_536


@dataclass(slots=True)
class _Batch:
    """The rows of one batch and their identifiers, in the same order."""

    rows: "array[int]" = field(default_factory=lambda: array("I"))
    made_by: "array[int]" = field(default_factory=lambda: array("Q"))


@dataclass(frozen=True, slots=True)
class OpenClaims:
    """The open claims of one batch: how many ids they hold, and their claim ids, 16 bytes each."""

    ids: int
    claims: tuple[bytes, ...]


class BatchScopes:
    """The rows of each driver's batches. rows: the index's rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._drivers: dict[str, dict[int, _Batch]] = {}

    def add(self, driver: str, batch: int, rows: Iterable[int]) -> Callable[[], None]:
        """Adds rows to a batch, to be forgotten when it is acked. Returns a callable that undoes it."""
        batches = self._drivers.setdefault(driver, {})
        members = batches.setdefault(batch, _Batch())
        numbers = np.array(list(rows), np.uint32)
        self._rows.scoped[numbers] = 1
        members.rows.extend(numbers.tolist())
        members.made_by.extend(self._makers(numbers).tolist())

        def undo() -> None:
            if len(numbers):
                del members.rows[-len(numbers) :], members.made_by[-len(numbers) :]
            if not members.rows:
                batches.pop(batch, None)

        return undo

    def _makers(self, rows: U32) -> U64:
        """Returns identifiers of the rows' current content."""
        claims = self._rows.claim[rows]
        positions = self._rows.holders.position[rows].astype(np.uint64)
        return np.where(claims.any(axis=1), claims[:, 0], positions)

    def acked(self, driver: str, batches: int, held_back: Sequence[int] = ()) -> tuple[U32, Callable[[], None]]:
        """Forgets the batches below `batches`, except those held back.

        Returns their rows, uint32 (n,), and a callable that undoes it.
        """
        known = self._drivers.get(driver, {})
        going = {batch for batch in known if batch < batches}.difference(held_back)
        forgotten = {batch: known.pop(batch) for batch in going}
        return self._rows_of(forgotten.values()), lambda: known.update(forgotten)

    def open_claims(self, driver: str, batches: int) -> dict[int, OpenClaims]:
        """Returns the batches below `batches` whose claims hold ids neither done nor free, in ascending order."""
        known = self._drivers.get(driver, {})
        by_batch = {batch: self._open(known[batch]) for batch in sorted(known) if batch < batches}
        return {batch: claims for batch, claims in by_batch.items() if claims.ids}

    def rows_in(self, driver: str, batch: int) -> U32:
        """Returns the rows of one batch, uint32 (n,); empty if the batch is acked or unknown."""
        known = self._drivers.get(driver, {}).get(batch)
        return self._rows_of([] if known is None else [known])

    def oldest_wall_ms(self) -> int | None:
        """Returns the time of the first claim in the batch that has waited longest for its ack; None if no batch is
        waiting.

        Takes one step per driver: a driver's first known batch is its oldest.
        """
        batches = [next(iter(known.values())) for known in self._drivers.values() if known]
        first = [_Batch(batch.rows[:1], batch.made_by[:1]) for batch in batches]
        return min(self._rows.wall_ms[self._rows_of(first)].tolist(), default=None)

    def _open(self, batch: _Batch) -> OpenClaims:
        rows, holders = self._rows_of([batch]), self._rows.holders
        rows = rows[(holders.state[rows] == OPEN) & (holders.named[rows] > 0)]
        names = dict.fromkeys(claim.tobytes() for claim in self._rows.claim[rows])
        return OpenClaims(int(holders.named[rows].sum()), tuple(names))

    def _rows_of(self, batches: Iterable[_Batch]) -> U32:
        """Returns the rows of these batches whose content is unchanged."""
        members = list(batches)
        rows = np.concatenate([np.empty(0, np.uint32), *(np.array(one.rows, np.uint32) for one in members)])
        made_by = np.concatenate([np.empty(0, np.uint64), *(np.array(one.made_by, np.uint64) for one in members)])
        unchanged: U32 = rows[self._rows.used[rows] & (self._makers(rows) == made_by)]
        return unchanged

    def snapshot(self) -> Iterator[ScopesSnapshot]:
        """Returns the current content for `restore`, in parts that are built lazily.

        A batch only grows, except by an undo; after one the parts are useless.
        """
        members = [
            (driver, batch, held.made_by, len(held.made_by))
            for driver, batches in self._drivers.items()
            for batch, held in batches.items()
        ]
        return _parts(members)

    def restore(self, snapshot: ScopesSnapshot) -> None:
        """Finds the restored rows by their identifiers. Call it after rows are restored; rows in no snapshot held
        nothing.
        """
        made_by = [np.frombuffer(raw, "<u8") for _, _, raw in snapshot]
        sorted_makers = np.concatenate([np.empty(0, np.uint64), *made_by])
        if not len(sorted_makers):
            return
        order = np.argsort(sorted_makers, kind="stable")
        sorted_makers, batch_of = (
            sorted_makers[order],
            np.repeat(np.arange(len(snapshot)), [len(makers) for makers in made_by])[order],
        )
        used = np.flatnonzero(self._rows.column("used")).astype(np.uint32)
        makers = self._makers(used)
        # The rows of a claim share one identifier: equal ones belong to the same batch.
        at = np.minimum(np.searchsorted(sorted_makers, makers), len(sorted_makers) - 1)
        is_known = sorted_makers[at] == makers
        batches = batch_of[at[is_known]]
        by_batch = np.argsort(batches, kind="stable")
        ends = np.searchsorted(batches[by_batch], np.arange(1, len(snapshot)))
        for (driver, batch, _), rows in zip(snapshot, np.split(used[is_known][by_batch], ends), strict=True):
            self.add(driver, batch, rows.tolist())


def _parts(members: "list[tuple[str, int, array[int], int]]") -> Iterator[ScopesSnapshot]:
    some, rows = ScopesSnapshot(), 0
    for driver, batch, made_by, count in members:
        for at in range(0, count, _ROWS_PER_PART):
            part = made_by[at : min(count, at + _ROWS_PER_PART)]
            some.append((driver, batch, np.array(part, "<u8").tobytes()))
            rows += len(part)
            if len(some) == _BATCHES_PER_PART or rows >= _ROWS_PER_PART:
                yield some
                some, rows = [], 0
    yield some
