"""A saved index of claims, loaded: the other half of `saving`, which has the format."""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oncegate.index.arrays import I64, NO_DIGESTS, TAKEN, U32, U64
from oncegate.index.folding import ClaimFold
from oncegate.index.gathered import ALONE
from oncegate.index.grants import NO_TOPIC
from oncegate.index.known import Known
from oncegate.index.rows import DONE, LASTING, LIVE, Rows
from oncegate.index.saving import HEAD, VERSION
from oncegate.index.table import Table


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
        version, tag_bits, rows, slots, *counters = HEAD.unpack(left.pop("head"))
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


class _Slots(NamedTuple):
    """A piece of them, shape (n, 2), with the digests beside it, if any; how many stand before it."""

    given: U64
    digests: U32
    before: int


def _load_slots(index: ClaimFold, rows: int, slots: int, pieces: dict[str, bytes]) -> None:
    """Insert them; each row then names as many as it was saved with."""
    table, column = index._table, index._rows.column
    table.make_room(slots)
    found = list(_slots(index, pieces))
    table.make_room_for([piece.given for piece in found])
    done = sum(len(piece.given) for piece in found)
    named, wrong = _fill(table, found, rows, alone=done < ALONE)
    _check(wrong is None, f"slot {wrong} names no row that could hold it, or is there twice")
    _check(done == slots, f"{done} slots of {slots}")
    live = np.isin(column("state"), LIVE)
    _check(bool((column("named")[live] == named[live]).all()), "a row holds more or fewer ids than were saved with it")
    column("slots")[:] = named


def _slots(index: ClaimFold, pieces: dict[str, bytes]) -> Iterator[_Slots]:
    before, digests = 0, _numbered(pieces, "digests")
    for data in _numbered(pieces, "slots"):
        _check(len(data) % 16 == 0, f"a piece of {len(data)} bytes is no piece of slots")
        given: U64 = np.frombuffer(data, np.uint64).reshape(-1, 2)
        yield _Slots(given, _digests_of(index, given, next(digests, b"")), before)
        before += len(given)


def _fill(table: Table, found: Sequence[_Slots], rows: int, alone: bool) -> tuple[I64, int | None]:
    """By row, how many slots name it; and the first slot that cannot be. Segments know nothing of one another, so
    two threads have half of them each, unless `alone`."""
    segments = len(table.slots.base)
    if alone:
        return _fill_part(table, found, rows, 0, segments)
    with ThreadPoolExecutor(1) as other:
        later = other.submit(_fill_part, table, found, rows, segments // 2, segments)
        parts = [_fill_part(table, found, rows, 0, segments // 2), later.result()]
    wrong = [first for _, first in parts if first is not None]
    return parts[0][0] + parts[1][0], min(wrong, default=None)


def _fill_part(table: Table, found: Sequence[_Slots], rows: int, begin: int, end: int) -> tuple[I64, int | None]:
    named = np.zeros(rows, np.int64)
    for piece in found:
        filled = table.fill(piece.given, piece.digests, begin, end, named)
        if filled < len(piece.given):
            return named, piece.before + filled
    return named, None


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
