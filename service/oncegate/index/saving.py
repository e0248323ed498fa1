"""An index of claims as named byte strings, and back: what a collected ledger holds in place of old entries.

    head        the format's version, tag bits, and the counts and counters that everything else must add up to
    topics      the names that rows refer to, as JSON
    rows/<n>    rows, column after column (`LASTING`): of the claims that can be named, claim by claim; then others
    slots/<n>   pairs of 64-bit words, little-endian: the tag; the place's 32 bits above the row's number + 1
    digests/<n> of the payload of each of these slots' ids, 32 bits, 0 for none; only where any payload has one
    sums        the CRC-32 of each of these pieces, as JSON

It does not depend on capacities or segments. What holds nothing and cannot be named is left out; leases are not kept.

Saving goes on in small steps while the index changes, and what comes out is the index as it was at the first. Rows are
copied then; slots are copied a segment at a step. Meanwhile no row's number is given anew and no slot left out, so a
slot that names an older row is as it was; of one that is overwritten before its segment's turn, what it was is told
(`overwritten`).
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oncegate.index.arrays import NO_DIGESTS, NO_ROW, TAKEN, U32, U64
from oncegate.index.folding import ClaimFold, own
from oncegate.index.grants import NO_TOPIC
from oncegate.index.known import Known
from oncegate.index.rows import DONE, LASTING, LIVE, Rows

VERSION = 1
# Version, tag bits, rows, slots, takeovers, open claims, wall_ms.
_HEAD = struct.Struct("<IIQQQQQ")
# A piece is put together and summed up in one step.
_ROWS_PER_PIECE = 25_000
_SLOTS_PER_PIECE = 200_000


Piece = tuple[str, bytes]


class SavingStopped(Exception):
    """Something was taken back, or room was needed: what was saved so far is of no use, and is to be saved anew."""


def save(index: ClaimFold) -> Iterator[Piece]:
    """Everything that is known, what waits for the ledger included. The index must not change before the last one."""
    for pieces in saving(index):
        yield from pieces


def saving(index: ClaimFold) -> Iterator[list[Piece]]:
    """The same in steps of a few milliseconds, each with the pieces that are complete by then; the index may change
    between them, and what is saved is what it is now, at the call.

    A step raises SavingStopped when a change has been taken back since, or rows ran out; the next save is another one.
    """
    steps = _Saving(index).steps()
    # It has begun: closing it, or throwing it away, sets the index free.
    next(steps)
    return steps


class _Saving:
    """`numbers`: by row, what it is saved as; NO_ROW for one that held nothing."""

    def __init__(self, index: ClaimFold) -> None:
        rows, order = index._rows, _saved_rows(index)
        self._index = index
        self._columns = [rows.column(name)[order] for name in LASTING]
        self._count = len(order)
        self._numbers = np.full(rows.made, NO_ROW, np.uint32)
        live = np.isin(rows.column("state")[order], LIVE)
        self._numbers[order[live]] = np.flatnonzero(live).astype(np.uint32)
        self._digests = len(index._table.slots.digests) > 0
        tag_bits, counters = int(index._table.tag_mask).bit_length(), (index.takeovers, index.open_claims)
        head = _HEAD.pack(VERSION, tag_bits, self._count, index.ids, *counters, index.wall_ms)
        self._first = [("head", head), ("topics", json.dumps(index._topics).encode())]
        self._segment = 0
        self._parts = _Parts([], [])
        index.begin_saving(self)

    def overwritten(self, ids: U64, previous: U32, digests: U32) -> None:
        """Keep what these slots were, where their segment is still to come and they named a saved row."""
        table = self._index._table
        at = np.flatnonzero(previous < len(self._numbers))
        at = at[self._numbers[previous[at]] != NO_ROW]
        tags = ids[at, 0] & table.tag_mask
        later = (tags & np.uint64(len(table.slots.base) - 1)).astype(np.int64) >= self._segment
        at, tags = at[later], tags[later]
        words = ids[at, 1] << np.uint64(32) | self._numbers[previous[at]].astype(np.uint64) + np.uint64(1)
        self._parts.slots.append(np.stack([tags, words], axis=1).tobytes())
        if self._digests:
            self._parts.digests.append(digests[at].tobytes())

    def steps(self) -> Iterator[list[Piece]]:
        """All steps; the index is free again after the last, or when they are closed."""
        sums: dict[str, int] = {}
        try:
            yield []
            for pieces in self._steps():
                sums |= {name: zlib.crc32(data) for name, data in pieces}
                yield pieces
                if self._index.saving_now is not self:
                    raise SavingStopped("a change was taken back, or room was needed; to be saved anew")
        finally:
            if self._index.saving_now is self:
                self._index.stop_saving()
        yield [("sums", json.dumps(sums).encode())]

    def _steps(self) -> Iterator[list[Piece]]:
        yield self._first
        for piece, at in enumerate(range(0, self._count, _ROWS_PER_PIECE)):
            yield [(f"rows/{piece}", b"".join(column[at : at + _ROWS_PER_PIECE].tobytes() for column in self._columns))]
        self._columns = []
        number = 0
        for segment in range(len(self._index._table.slots.base)):
            self._gather(segment)
            self._segment = segment + 1
            ready = self._parts.size_bytes >= 16 * _SLOTS_PER_PIECE
            yield self._taken(number) if ready else []
            number += ready
        yield self._taken(number)

    def _gather(self, segment: int) -> None:
        slots = self._index._table.slots
        if not self._digests:
            slots = slots._replace(digests=NO_DIGESTS)
        used = int(slots.used[segment])
        found, digests = np.empty((used, 2), np.uint64), np.empty(used if self._digests else 0, np.uint32)
        held = int(self._index._kernels.gather(slots, segment, self._numbers, found, digests))
        self._parts.slots.append(found[:held].tobytes())
        self._parts.digests.append(digests[:held].tobytes())

    def _taken(self, number: int) -> list[Piece]:
        parts, self._parts = self._parts, _Parts([], [])
        return parts.pieces(number)


def _saved_rows(index: ClaimFold) -> U32:
    """The rows in the order in which they are saved."""
    column = index._rows.column
    named = [row for _, of in index._known.all() for row in of]
    others = column("used") & (column("kept") == 0) & np.isin(column("state"), LIVE) & (column("slots") > 0)
    return np.concatenate([np.array(named, np.uint32), np.flatnonzero(others).astype(np.uint32)])


class _Parts(NamedTuple):
    """What one piece of slots, and one of digests, are put together from."""

    slots: list[bytes]
    digests: list[bytes]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.slots))

    def pieces(self, number: int) -> list[Piece]:
        digests = b"".join(self.digests)
        return [(f"slots/{number}", b"".join(self.slots)), *([(f"digests/{number}", digests)] if digests else [])]


def load(index: ClaimFold, pieces: Mapping[str, bytes]) -> None:
    """Fill an empty index with what `save` gave; `reset_leases` is to follow, for leases are not kept.

    Raises ValueError: the pieces are damaged, do not belong together, or are too wide for this index, which is then to
    be thrown away.
    """
    assert index._rows.made == 0, "only an empty index is loaded"
    left = dict(pieces)
    try:
        sums = json.loads(left.pop("sums"))
        _check(sums == {name: zlib.crc32(data) for name, data in left.items()}, "a piece is damaged or missing")
        version, tag_bits, rows, slots, *counters = _HEAD.unpack(left.pop("head"))
        topics = json.loads(left.pop("topics"))
    except (KeyError, struct.error) as error:
        raise ValueError(f"the saved claims have no head: {error}") from error
    _check(version == VERSION, f"version {version} of the saved claims is not known")
    _check(tag_bits == int(index._table.tag_mask).bit_length(), f"they were saved with tags of {tag_bits} bits")
    _check(rows <= index._rows.limit, f"{rows} rows were saved, and {index._rows.limit} are all there can be")
    _check(isinstance(topics, list) and all(isinstance(name, str) for name in topics), "topics are a list of names")
    index._topics = topics
    _load_rows(index._rows, rows, len(topics), left)
    _load_slots(index, rows, slots, left)
    _check(not left, f"pieces that nothing refers to: {sorted(left)[:5]}")
    open_claims = _load_known(index)
    index.takeovers, index.open_claims, index.wall_ms = counters
    _check(open_claims == index.open_claims, f"{open_claims} claims are open, and the head says {index.open_claims}")
    index.ids = slots


def _check(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(f"the saved claims do not add up: {why}")


def _numbered(pieces: dict[str, bytes], name: str) -> Iterator[bytes]:
    """The pieces of this name in their order, each taken out."""
    number = 0
    while f"{name}/{number}" in pieces:
        yield pieces.pop(f"{name}/{number}")
        number += 1


def _load_rows(rows: Rows, count: int, topics: int, pieces: dict[str, bytes]) -> None:
    rows.load(count)
    columns: list[NDArray[Any]] = [rows.column(name) for name in LASTING]
    row_bytes, done = sum(column[:1].nbytes for column in columns), 0
    for data in _numbered(pieces, "rows"):
        more, rest = divmod(len(data), row_bytes)
        _check(not rest and done + more <= count, f"a piece of {len(data)} bytes is no piece of {count} rows")
        at = 0
        for column in columns:
            part = column[done : done + more]
            part.reshape(-1)[:] = np.frombuffer(data, column.dtype, part.size, at)
            at += part.nbytes
        done += more
    _check(done == count, f"{done} rows of {count}")
    state, topic = rows.column("state"), rows.column("topic")
    _check(bool((state <= TAKEN).all()), "a row's state is unknown")
    _check(bool((np.isin(state, LIVE) | (rows.column("kept") > 0)).all()), "a row holds nothing and cannot be named")
    _check(bool(((topic < topics) | (topic == NO_TOPIC)).all()), "a row's topic is unknown")


def _load_slots(index: ClaimFold, rows: int, slots: int, pieces: dict[str, bytes]) -> None:
    """Insert them; each row then names as many as it was saved with."""
    table, column = index._table, index._rows.column
    live = np.isin(column("state"), LIVE)
    expected = column("named").copy()
    column("named")[live] = 0
    table.make_room(slots)
    done, digests = 0, _numbered(pieces, "digests")
    for data in _numbered(pieces, "slots"):
        _check(len(data) % 16 == 0, f"a piece of {len(data)} bytes is no piece of slots")
        given = own(np.frombuffer(data, np.uint64).reshape(-1, 2))
        filled = table.fill(given, rows, _digests_of(index, given, next(digests, b"")))
        _check(filled == len(given), f"slot {done + filled} names no row that could hold it, or is there twice")
        done += filled
    _check(done == slots, f"{done} slots of {slots}")
    _check(bool((column("named") == expected).all()), "a row holds more or fewer ids than were saved with it")


def _digests_of(index: ClaimFold, given: U64, data: bytes) -> U32:
    """The digests beside a piece of slots; their rows are marked, as they were when the digests came."""
    if not data:
        return NO_DIGESTS
    _check(4 * len(given) == len(data), f"{len(data)} bytes are no digests of {len(given)} slots")
    index._table.keep_digests()
    digests = np.frombuffer(data, np.uint32).copy()
    rows = (given[digests != 0, 1] & np.uint64(0xFFFF_FFFF)).astype(np.int64) - 1
    _check(not len(rows) or int(rows.max()) < index._rows.made, "a digest is of a slot that names no row")
    index._rows.digests[rows] = 1
    return digests


def _load_known(index: ClaimFold) -> int:
    """Let the claims be named that could be; how many of them are open."""
    rows, known, open_claims = index._rows, index._known, 0
    kept = rows.column("kept")
    count = int(np.count_nonzero(kept))
    _check(bool((kept[:count] == 1).all()), "claims that can be named come first")
    for raw, group in groupby(range(count), key=lambda row: rows.claim[row].tobytes()):
        of = tuple(group)
        holders = rows.holders
        _check(known.at_any_age(raw) is None, f"claim {raw.hex()} is there twice")
        token, call = holders.token[of[0]].tobytes(), int(holders.call[of[0]])
        known.put(raw, Known(token, call, rows.digest[of[0]].tobytes(), of))
        if rows.open_total(of):
            open_claims += 1
        else:
            known.is_ending(raw)
    settled = np.flatnonzero(np.isin(rows.column("state"), (DONE, TAKEN))).astype(np.uint32)
    index._settled.add_all(settled)
    return open_claims
