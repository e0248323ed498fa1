"""Makes the snapshot of a store of claims, named byte strings that replace old entries in a compacted ledger.

    head        the format's version, tag bits, and the counts and counters that everything else must add up to
    topics      the names that rows refer to, as JSON
    rows/<n>    rows, column after column (`LASTING`): of the claims that can be named, claim by claim; then others
    slots/<n>   pairs of 64-bit words, little-endian: the tag; the home's 32 bits above the row's number + 1
    digests/<n> of the payload of each of these slots' ids, 32 bits, 0 for none; only where any payload has one
    sums        the CRC-32 of each of these pieces, as JSON

It does not depend on capacities or segments. What holds nothing and cannot be named is left out; leases are not kept.

A snapshot is made in small steps while the store changes, and what comes out is the store as it was at the first. Rows
are copied then; slots are copied a segment at a step. Meanwhile no row's number is given anew and no slot left out,
so a slot that names an older row is as it was; of one overwritten before its segment's turn, `overwritten`
keeps what it was.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.index.claims.store import ClaimStore
from oncegate.index.part import Piece, Steps
from oncegate.index.table.arrays import NO_DIGESTS, NO_ROW
from oncegate.index.table.rows import LASTING, LIVE

VERSION = 1
# Version, tag bits, rows, slots, takeovers, open claims, wall_ms.
HEAD = struct.Struct("<IIQQQQQ")
# A piece is put together and summed up in one step: a MiB of slots at least, a segment of them at most.
_ROWS_PER_PIECE = 25_000
_SLOTS_PER_PIECE = 65_536


WritersSnapshot = tuple[bytes, bytes, dict[int, list[int]]]


class SnapshotStopped(Exception):
    """Says that a snapshot is of no use: a change was undone, or room was needed. To be begun anew; nothing is lost."""


def snapshot(store: ClaimStore) -> Iterator[Piece]:
    """Makes everything that is known into named byte strings, leases aside; what waits for the ledger counts as known.

    Nothing may be applied or undone before the last one is made.
    """
    for pieces in snapshot_steps(store):
        yield from pieces


def snapshot_steps(store: ClaimStore) -> Steps:
    """Makes the same, as it is at the call, in steps of a few milliseconds between which anything may be applied.

    Each step brings the strings that are complete by then. To be gone through to the end, or closed.
    A step raises SnapshotStopped when a change has been undone since, or rows ran out: then it is begun anew.
    """
    return begin(store).steps


class Begun(NamedTuple):
    """Holds a snapshot that has begun: its steps, as of `snapshot_steps`, and what it has beside them.

    results: of claims, in the order they came, by the number that their row is saved under. writers: the rows that have
    one, by the same number, uint32 (n,), and their words, uint32 (n, WORDS), as little-endian bytes; and the order of
    runs.
    """

    steps: Steps
    results: list[tuple[int, bytes]]
    writers: WritersSnapshot


def begin(store: ClaimStore) -> Begun:
    """Begins a snapshot."""
    made = _ClaimsSnapshot(store)
    steps = made.steps()
    # It has begun: closing it, or throwing it away, sets the store free.
    next(steps)
    return Begun(steps, made.results, made.writers)


class _ClaimsSnapshot:
    """Makes one snapshot. `numbers`: by row, what it is saved as; NO_ROW for one that held nothing. `results`,
    `writers`: as of `Begun`."""

    def __init__(self, store: ClaimStore) -> None:
        rows, order = store.rows, _rows_in_order(store)
        self._store = store
        self._columns = [rows.column(name)[order] for name in LASTING]
        self._count = len(order)
        self._numbers = np.full(rows.made, NO_ROW, np.uint32)
        live = np.isin(rows.column("state")[order], LIVE)
        self._numbers[order[live]] = np.flatnonzero(live).astype(np.uint32)
        numbered = ((int(self._numbers[row]), result) for row, result in rows.results.by_row.items())
        self.results = [(number, result) for number, result in numbered if number != NO_ROW]
        words = rows.column("writer")[order]
        said = np.flatnonzero(words.any(axis=1)).astype("<u4")
        self.writers: WritersSnapshot = said.tobytes(), words[said].astype("<u4").tobytes(), store.runs.snapshot()
        self._digests = len(store.table.slots.digests) > 0
        tag_bits, counters = int(store.table.tag_mask).bit_length(), (store.takeovers, store.open_claims)
        head = HEAD.pack(VERSION, tag_bits, self._count, store.ids, *counters, store.wall_ms)
        self._first = [("head", head), ("topics", json.dumps(store.topics).encode())]
        self._segment = self._pieces = 0
        # Of whole segments, and of what was overwritten: apart, for a segment that is a piece by itself is not copied.
        self._parts, self._before = _Parts([], []), _Parts([], [])
        store.begin_snapshot(self)

    def overwritten(self, ids: U64, previous: U32, digests: U32) -> None:
        """Keeps what these slots were, where their segment is still to come and they named a row of the snapshot."""
        table = self._store.table
        at = np.flatnonzero(previous < len(self._numbers))
        at = at[self._numbers[previous[at]] != NO_ROW]
        tags = ids[at, 0] & table.tag_mask
        later = (tags & np.uint64(len(table.slots.base) - 1)).astype(np.int64) >= self._segment
        at, tags = at[later], tags[later]
        words = ids[at, 1] << np.uint64(32) | self._numbers[previous[at]].astype(np.uint64) + np.uint64(1)
        self._before.slots.append(np.stack([tags, words], axis=1).tobytes())
        if self._digests:
            self._before.digests.append(digests[at].tobytes())

    def steps(self) -> Steps:
        """Goes through all steps; the store is free again after the last, or when they are closed."""
        sums: dict[str, int] = {}
        try:
            yield []
            for pieces in self._steps():
                sums |= {name: zlib.crc32(data) for name, data in pieces}
                yield pieces
                if self._store.snapshot is not self:
                    raise SnapshotStopped("a change was taken back, or room was needed; to be saved anew")
        finally:
            if self._store.snapshot is self:
                self._store.end_snapshot()
        yield [("sums", json.dumps(sums).encode())]

    def _steps(self) -> Iterator[list[Piece]]:
        yield self._first
        for piece, at in enumerate(range(0, self._count, _ROWS_PER_PIECE)):
            yield [(f"rows/{piece}", b"".join(column[at : at + _ROWS_PER_PIECE].tobytes() for column in self._columns))]
        self._columns = []
        for segment in range(len(self._store.table.slots.base)):
            self._gather(segment)
            self._segment = segment + 1
            yield [piece for parts in (self._parts, self._before) if parts.is_full for piece in self._taken(parts)]
        yield self._taken(self._parts)
        yield self._taken(self._before)

    def _gather(self, segment: int) -> None:
        slots = self._store.table.slots
        if not self._digests:
            slots = slots._replace(digests=NO_DIGESTS)
        room = int(slots.used[segment]) + 1
        copied, digests = np.empty((room, 2), np.uint64), np.empty(room if self._digests else 0, np.uint32)
        count = int(self._store.kernels.gather(slots, segment, self._numbers, copied, digests))
        self._parts.slots.append(copied[:count].tobytes())
        self._parts.digests.append(digests[:count].tobytes())

    def _taken(self, parts: "_Parts") -> list[Piece]:
        """Returns what the parts are together, and empties them. None of nothing: its digests would be the next
        one's."""
        if not any(parts.slots):
            return []
        pieces = parts.pieces(self._pieces)
        self._pieces += 1
        parts.slots.clear()
        parts.digests.clear()
        return pieces


def _rows_in_order(store: ClaimStore) -> U32:
    """Returns the rows in the order in which they are saved."""
    column = store.rows.column
    named = [row for _, of in store.registry.all() for row in of]
    others = column("used") & (column("remembered") == 0) & np.isin(column("state"), LIVE) & (column("slots") > 0)
    return np.concatenate([np.array(named, np.uint32), np.flatnonzero(others).astype(np.uint32)])


class _Parts(NamedTuple):
    """Collects what one piece of slots, and one of digests, are put together from."""

    slots: list[bytes]
    digests: list[bytes]

    @property
    def is_full(self) -> bool:
        return sum(map(len, self.slots)) >= 16 * _SLOTS_PER_PIECE

    def pieces(self, number: int) -> list[Piece]:
        digests = b"".join(self.digests)
        return [(f"slots/{number}", b"".join(self.slots)), *([(f"digests/{number}", digests)] if digests else [])]
