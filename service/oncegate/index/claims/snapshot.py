"""Saves the store of claims as a snapshot (named byte strings that replace old ledger entries), and restores it.

    head        the format's version, tag bits, and the counts and counters that everything else must add up to
    topics      the names that rows refer to, as JSON
    rows/<n>    rows, column after column (`LASTING`): first those of claims that can be named, claim by claim
    slots/<n>   pairs of 64-bit words, little-endian: the tag; the home's 32 bits above the row's number + 1
    digests/<n> of the payload of each of these slots' ids, 32 bits, 0 for none; only if any payload has one
    sums        the CRC-32 of each of these pieces, as JSON

A snapshot does not depend on capacities or segments. It omits leases, and rows that hold nothing and cannot be named.

A snapshot is made in small steps while the store changes, and shows the store at its first step. Rows are copied in
that step, slots one segment per step. Until it ends, no row number is reused and no slot is dropped, so a slot that
names an older row is unchanged; `overwritten` keeps slots that are overwritten before their segment's turn.
"""

import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import I64, U32, U64
from oncegate.core.errors import Overloaded
from oncegate.index.claims.by_name import ClaimRecord
from oncegate.index.claims.store import ClaimStore
from oncegate.index.part import Piece, Steps
from oncegate.index.table.arrays import NO_DIGESTS, NO_ROW, TAKEN
from oncegate.index.table.bulk_insert import ALONE
from oncegate.index.table.grants import NO_TOPIC
from oncegate.index.table.rows import DONE, LASTING, LIVE, PAYLOADS, Rows
from oncegate.index.table.table import Table
from oncegate.index.writers import WORDS

VERSION = 1
# Version, tag bits, rows, slots, takeovers, open claims, wall_ms.
HEAD = struct.Struct("<IIQQQQQ")
# Size of a piece, which is assembled and checksummed in one step: at least a MiB of slots, at most one segment.
_ROWS_PER_PIECE = 25_000
_SLOTS_PER_PIECE = 65_536


WritersSnapshot = tuple[bytes, bytes, dict[int, list[int]]]


class SnapshotStopped(Exception):
    """Raised when a snapshot must be abandoned because a change was undone or its memory was needed. Begin it again;
    nothing is lost.
    """


def snapshot(store: ClaimStore) -> Iterator[Piece]:
    """Yields everything known, except leases, as named byte strings. Changes that wait for the ledger are included.

    Nothing may be applied or undone before the last one is yielded.
    """
    for pieces in snapshot_steps(store):
        yield from pieces


def snapshot_steps(store: ClaimStore) -> Steps:
    """Creates a snapshot of the current state in steps of a few milliseconds; entries may be applied between steps.

    Each step returns the strings that are complete. Exhaust or close the generator. A step raises SnapshotStopped if a
    change was undone or rows ran out; then begin again.
    """
    return begin(store).steps


class Begun(NamedTuple):
    """A snapshot that has begun.

    steps: as of `snapshot_steps`.
    results: results of claims, in their order, by the number that their row is saved under.
    writers: numbers of the rows that have a writer, uint32 (n,), and their words, uint32 (n, WORDS), both as
    little-endian bytes; and the order of runs.
    """

    steps: Steps
    results: list[tuple[int, bytes]]
    writers: WritersSnapshot


def begin(store: ClaimStore) -> Begun:
    made = _ClaimsSnapshot(store)
    steps = made.steps()
    # It has begun, so closing or discarding it releases the store.
    next(steps)
    return Begun(steps, made.results, made.writers)


class _ClaimsSnapshot:
    """A snapshot in progress. numbers: by row, its saved number; NO_ROW if it held nothing. results, writers: as in
    `Begun`.
    """

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
        # Slots of whole segments, and overwritten slots: separate, since a segment that is one piece needs no copy.
        self._parts, self._before = _Parts([], []), _Parts([], [])
        store.begin_snapshot(self)

    def overwritten(self, ids: U64, previous: U32, digests: U32) -> None:
        """Saves the slots' previous content if their segment is not yet copied and they pointed to a row of the
        snapshot.
        """
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
        """Runs all steps. Releases the store after the last step or when closed."""
        sums: dict[str, int] = {}
        try:
            yield []
            for pieces in self._steps():
                sums |= {name: zlib.crc32(data) for name, data in pieces}
                yield pieces
                if self._store.snapshot is not self:
                    raise SnapshotStopped("a change was undone or room was needed; begin the snapshot again")
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
        """Returns the collected parts as pieces, and clears the collection.

        Returns no piece if there are no slots: its digests would be taken for the next piece's.
        """
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
    """The parts of one piece of slots, and of one piece of digests."""

    slots: list[bytes]
    digests: list[bytes]

    @property
    def is_full(self) -> bool:
        return sum(map(len, self.slots)) >= 16 * _SLOTS_PER_PIECE

    def pieces(self, number: int) -> list[Piece]:
        digests = b"".join(self.digests)
        return [(f"slots/{number}", b"".join(self.slots)), *([(f"digests/{number}", digests)] if digests else [])]


# Ids inserted at once: enough for two threads, few enough that the same memory is reused for reading.
BATCH_IDS = 1 << 21


class ClaimsReader:
    """Fills an empty store from the pieces of `snapshot`, in their order.

    Call `reset_leases` afterwards, since leases are not saved. All methods raise ValueError if the pieces are damaged,
    inconsistent or too wide for this store; then discard the store.
    """

    def __init__(self, store: ClaimStore) -> None:
        assert store.rows.made == 0, "only an empty store is restored"
        self._store = store
        self._head: _Head | None = None
        self._sums: dict[str, int] = {}
        self._sums_expected: object = None
        self._taken: Counter[str] = Counter()
        self._rows = 0
        self._named: I64 | None = None
        self._waiting: list[_Slots] = []
        self._slots = 0
        self._takers: dict[str, Callable[[bytes], None]] = {
            "head": self._take_head,
            "topics": self._take_topics,
            "rows": self._take_rows,
            "slots": self._take_slots,
            "digests": self._take_digests,
        }

    def take(self, name: str, data: bytes) -> None:
        """Reads the next piece. Some slots are held back until there are many, or until the end."""
        kind = name.partition("/")[0]
        if kind == "sums":
            self._sums_expected = json.loads(data)
            return
        self._sums[name] = zlib.crc32(data)
        expected = kind if kind in ("head", "topics") else f"{kind}/{self._taken[kind]}"
        _check(kind in self._takers and name == expected, f"unexpected piece: {name}")
        self._taken[kind] += 1
        self._takers[kind](data)

    def finish(self) -> None:
        """Finishes the restore and checks the totals."""
        head, store = self._begun(), self._store
        named = self._all_named()
        self._fill()
        _check(self._slots == head.slots, f"{self._slots} slots instead of {head.slots}")
        _check(self._sums_expected == self._sums, "a piece is damaged or missing")
        column = store.rows.column
        live = np.isin(column("state"), LIVE)
        adds_up = bool((column("named")[live] == named[live]).all())
        _check(adds_up, "the number of ids of a row differs from the saved number")
        column("slots")[:] = named
        open_claims = _restore_registry(store)
        store.takeovers, store.open_claims, store.wall_ms = head.takeovers, head.open_claims, head.wall_ms
        _check(open_claims == head.open_claims, f"{open_claims} open claims instead of {head.open_claims}")
        store.ids = head.slots

    def _begun(self) -> "_Head":
        if self._head is None:
            raise ValueError("the saved claims have no head")
        return self._head

    def _take_head(self, data: bytes) -> None:
        try:
            head = self._head = _Head(*HEAD.unpack(data))
        except struct.error as error:
            raise ValueError(f"the saved claims have no head: {error}") from error
        rows, tag_bits = self._store.rows, int(self._store.table.tag_mask).bit_length()
        _check(head.version == VERSION, f"unknown version {head.version} of the saved claims")
        _check(head.tag_bits == tag_bits, f"tags of {head.tag_bits} bits instead of {tag_bits}")
        _check(head.rows <= rows.limit, f"{head.rows} saved rows exceed the limit of {rows.limit}")
        rows.restore(head.rows)

    def _take_topics(self, data: bytes) -> None:
        topics = json.loads(data)
        _check(
            isinstance(topics, list) and all(isinstance(name, str) for name in topics), "topics are not a list of names"
        )
        self._store.topics = topics

    def _take_rows(self, data: bytes) -> None:
        rows, count = self._store.rows, self._begun().rows
        columns: list[NDArray[Any]] = [rows.column(name) for name in LASTING]
        more, rest = divmod(len(data), max(1, sum(column[:1].nbytes for column in columns)))
        _check(not rest and self._rows + more <= count, f"a piece of {len(data)} bytes does not fit {count} rows")
        at = 0
        for column in columns:
            part = column[self._rows : self._rows + more]
            part.reshape(-1)[:] = np.frombuffer(data, column.dtype, part.size, at)
            at += part.nbytes
        self._rows += more

    def _all_named(self) -> I64:
        """Returns the number of slots inserted so far, by row. All rows must have been read."""
        if self._named is None:
            head, rows = self._begun(), self._store.rows
            _check(self._rows == head.rows, f"{self._rows} rows instead of {head.rows}")
            _check_rows(rows, len(self._store.topics))
            self._named = np.zeros(head.rows, np.int64)
            try:
                self._store.table.make_room(head.slots)
            except Overloaded as error:
                raise ValueError(f"no room for {head.slots} saved slots") from error
        return self._named

    def _take_slots(self, data: bytes) -> None:
        _check(len(data) % 16 == 0, f"a piece of {len(data)} bytes does not hold slots of 16 bytes")
        if sum(len(piece.given) for piece in self._waiting) >= BATCH_IDS:
            self._fill()
        self._all_named()
        given: U64 = np.frombuffer(data, np.uint64).reshape(-1, 2)
        self._waiting.append(_Slots(given, NO_DIGESTS, self._slots))
        self._slots += len(given)

    def _take_digests(self, data: bytes) -> None:
        _check(self._taken["digests"] == self._taken["slots"], "digests without their slots")
        piece = self._waiting.pop()
        self._waiting.append(piece._replace(digests=_digests_of(self._store, piece.given, data)))

    def _fill(self) -> None:
        """Inserts the slots held back and counts them by row."""
        table, named = self._store.table, self._all_named()
        waiting, self._waiting = [piece for piece in self._waiting if len(piece.given)], []
        table.make_room_for([piece.given for piece in waiting])
        wrong = _fill(table, waiting, named)
        _check(wrong is None, f"slot {wrong} names an impossible row, or occurs twice")


def restore(store: ClaimStore, pieces: Mapping[str, bytes]) -> None:
    """Fills an empty store from a complete `snapshot`, like `ClaimsReader`, but verifies the checksums first.

    Call `reset_leases` afterwards. Raises ValueError if the snapshot is damaged, inconsistent or too wide for this
    store; then discard the store.
    """
    try:
        sums = json.loads(pieces["sums"])
    except KeyError as error:
        raise ValueError("the saved claims have no sums") from error
    computed = {name: zlib.crc32(data) for name, data in pieces.items() if name != "sums"}
    _check(sums == computed, "a piece is damaged or missing")
    reader = ClaimsReader(store)
    for name, data in pieces.items():
        reader.take(name, data)
    reader.finish()


def restore_results(store: ClaimStore, results: Sequence[tuple[int, bytes]] | None) -> None:
    """Restores the results of claims after their rows. None: the snapshot is from a version without results.

    In rows from such a version the location of a single id among several is unknown. Raises ValueError.
    """
    rows = store.rows
    if results is None:
        first, written = rows.column("first_offset"), rows.column("topic") != NO_TOPIC
        first[written & (first >= 0)] = -1 - first[written & (first >= 0)]
        return
    for row, result in results:
        _check(0 <= row < rows.made and rows.holders.state[row] == DONE, "a result belongs to a row that is not done")
        rows.results.put([row], result)


def restore_writers(store: ClaimStore, saved: WritersSnapshot) -> None:
    """Restores the writers of claims after their rows. saved: `Begun.writers`. Raises ValueError."""
    numbers, words, runs = saved
    rows, at = store.rows, np.frombuffer(numbers, "<u4")
    of_rows = np.frombuffer(words, "<u4").astype(np.uint32).reshape(len(at), WORDS)
    _check(not len(at) or int(at.max()) < rows.made, "a writer belongs to a missing row")
    rows.column("writer")[at] = of_rows
    store.runs.restore(runs)


class _Head(NamedTuple):
    version: int
    tag_bits: int
    rows: int
    slots: int
    takeovers: int
    open_claims: int
    wall_ms: int


class _Slots(NamedTuple):
    """A piece of slots, shape (n, 2), with their digests, if any. before: number of slots before it."""

    given: U64
    digests: U32
    before: int


def _check(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(f"the saved claims are inconsistent: {why}")


def _check_rows(rows: Rows, topics: int) -> None:
    state, topic = rows.column("state"), rows.column("topic")
    _check(bool((state <= TAKEN).all()), "a row's state is unknown")
    is_of_use = np.isin(state, LIVE) | (rows.column("remembered") > 0)
    _check(bool(is_of_use.all()), "a row holds nothing and cannot be named")
    _check(bool(((topic < topics) | (topic == NO_TOPIC)).all()), "a row's topic is unknown")


def _fill(table: Table, pieces: Sequence[_Slots], named: I64) -> int | None:
    """Inserts these slots and counts them in `named` by row. Returns the first that is invalid, or None.

    Segments are independent, so two threads share them. Slots were saved by segments, so each gets about half.
    """
    if sum(len(piece.given) for piece in pieces) < ALONE:
        return _fill_part(table, pieces, 0, len(table.slots.base), named)
    segments = len(table.slots.base)
    first, last = (int(slot[0]) & (segments - 1) for slot in (pieces[0].given[0], pieces[-1].given[-1]))
    middle, beside = (first + last + 1) // 2, np.zeros_like(named)
    with ThreadPoolExecutor(1) as other:
        later = other.submit(_fill_part, table, pieces, middle, segments, beside)
        wrong = [_fill_part(table, pieces, 0, middle, named), later.result()]
    named += beside
    return min((first for first in wrong if first is not None), default=None)


def _fill_part(table: Table, pieces: Sequence[_Slots], begin: int, end: int, named: I64) -> int | None:
    for piece in pieces:
        filled = table.fill(piece.given, piece.digests, begin, end, named)
        if filled < len(piece.given):
            return piece.before + filled
    return None


def _digests_of(store: ClaimStore, given: U64, data: bytes) -> U32:
    """Reads the digests of a piece of slots, and marks their rows as having payloads."""
    if not data:
        return NO_DIGESTS
    _check(4 * len(given) == len(data), f"{len(data)} bytes of digests for {len(given)} slots")
    store.table.keep_digests()
    digests = np.frombuffer(data, np.uint32).copy()
    rows = (given[digests != 0, 1] & np.uint64(0xFFFF_FFFF)).astype(np.int64) - 1
    _check(not len(rows) or int(rows.max()) < store.rows.made, "a digest belongs to a slot without a row")
    store.rows.beside[rows] |= PAYLOADS
    return digests


def _restore_registry(store: ClaimStore) -> int:
    """Restores the claims that can be named. Returns how many of them are open."""
    rows, registry, open_claims = store.rows, store.registry, 0
    remembered = rows.column("remembered")
    count = int(np.count_nonzero(remembered))
    _check(bool((remembered[:count] == 1).all()), "rows of named claims must come first")
    for raw, group in groupby(range(count), key=lambda row: rows.claim[row].tobytes()):
        claim_rows = tuple(group)
        holders = rows.holders
        _check(registry.at_any_age(raw) is None, f"claim {raw.hex()} occurs twice")
        token, call = holders.token[claim_rows[0]].tobytes(), int(holders.call[claim_rows[0]])
        registry.put(raw, ClaimRecord(token, call, rows.digest[claim_rows[0]].tobytes(), claim_rows))
        if rows.open_total(claim_rows):
            open_claims += 1
        else:
            registry.is_ending(raw)
    settled = np.flatnonzero(np.isin(rows.column("state"), (DONE, TAKEN))).astype(np.uint32)
    store.expiry.add_all(settled)
    return open_claims
