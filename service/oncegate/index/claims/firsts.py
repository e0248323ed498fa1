"""Finds the first occurrence of each duplicate: its location, time and claim result, and the duplicate's cause.

A row holds the location of its request's rows, and so that of its id if it has only one. For several ids, the order is
only in the ledger's entry, which the caller must read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oncegate.arraytypes import I64, U8, U64
from oncegate.core.causes import Cause
from oncegate.core.entries.kinds import Span
from oncegate.core.verdicts import VERDICT_MASK, Flag, Verdict
from oncegate.index.claims.apply import own
from oncegate.index.claims.results import Located
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.grants import NO_TOPIC, first_offset_of
from oncegate.index.table.rows import DONE, Rows
from oncegate.index.writers import causes_of


class Unread(NamedTuple):
    """Ids whose location must be read from the ledger: from the `Produced` entry of a claim at `position`.

    at: int64 (k,), their indexes in the request.
    ids: (k, 2).
    """

    position: int
    claim: bytes
    at: I64
    ids: U64


@dataclass(frozen=True)
class Firsts:
    """The first occurrences known for a request's duplicates, and the ledger entries that contain the rest."""

    located: Located
    unread: Sequence[Unread]


class AskedBy(NamedTuple):
    """The caller of a request.

    call: the request's call.
    is_repeat: the call is known already.
    takes: it takes ids for an owner.
    scope: the driver and batch of its batch scope; None: none.
    writer: its writer, in bytes.
    seen_max: number of its duplicates to describe one by one.
    """

    call: int
    is_repeat: bool
    takes: bool = False
    scope: tuple[str, int] | None = None
    writer: bytes = b""
    seen_max: int = 0


class Seen(NamedTuple):
    """Descriptions of j duplicates, at `wall_ms`.

    ids: (j, 2), the fingerprints.
    causes: uint8 (j,), `Cause`.
    ages_ms, positions: int64 (j,), -1 if unknown: age of the first occurrence, and the entry that made it done or
    taken.
    topics: int64 (j,), the topic it was written to, by its number in `names`; NO_TOPIC: none.
    """

    wall_ms: int
    ids: U64
    causes: U8
    ages_ms: I64
    positions: I64
    topics: I64
    names: dict[int, str]

    def part(self, begin: int, end: int) -> "Seen":
        """Returns the elements from `begin` up to `end`, as views."""
        some = slice(begin, end)
        times = self.ages_ms[some], self.positions[some]
        return Seen(self.wall_ms, self.ids[some], self.causes[some], *times, self.topics[some], self.names)


class Duplicates(NamedTuple):
    """The causes of k duplicates, uint8 (k,), `Cause`.

    ages_ms: ages of their first occurrences, where known.
    seen: descriptions of the first of them, if requested.
    """

    causes: U8
    ages_ms: I64
    seen: Seen | None = None


def duplicates_of(
    store: ClaimStore, ids: U64, verdicts: U8, archives: I64 | None, asked: AskedBy, wall_ms: int
) -> Duplicates | None:
    """Finds the causes of the duplicates among `ids`, (n, 2), and the ages of their first occurrences at `wall_ms`.

    Call it directly after the decision. Changes no answer. Returns None if there are no duplicates. The age of an
    archived id is that of the newest id of its archive, so the id is somewhat older.
    """
    at = np.flatnonzero(verdicts & VERDICT_MASK == Verdict.DUPLICATE)
    if not len(at):
        return None
    holders, found = store.rows.holders, store.table.rows_of(own(ids[at]))
    is_taken = holders.state[found] == TAKEN
    held = (found >= 0) & ((holders.state[found] == DONE) | is_taken)
    is_own = verdicts[at] & Flag.OWN != 0
    causes = np.full(len(at), Cause.UNKNOWN, np.uint8)
    if asked.scope is not None:
        causes[held & np.isin(found, store.scopes.rows_in(*asked.scope))] = Cause.TASK_RETRY
    causes[(held & is_taken) | asked.takes] = Cause.OTHER_JOB
    if asked.writer:
        by_writer = _by_writer(store, np.where(held, found, -1), asked.writer)
        causes = np.where(by_writer == Cause.UNKNOWN, causes, by_writer)
    causes[is_own] = Cause.UPSTREAM
    causes[is_own & (asked.is_repeat | (held & (holders.call[found] == asked.call)))] = Cause.CLIENT_RETRY
    times_ms = [store.rows.wall_ms[found[held]]]
    if archives is not None:
        times_ms.append(_archived_ms(store, archives[at[~held]]))
    seen = None
    if asked.seen_max:
        few = slice(0, asked.seen_max)
        rows, archive = np.where(held, found, -1)[few], None if archives is None else archives[at[few]]
        # Copies, since they wait in a queue, and views would keep the whole request's arrays alive.
        seen = _seen(store, ids[at[few]], causes[few].copy(), rows, archive, wall_ms)
    return Duplicates(causes, np.maximum(wall_ms - np.concatenate(times_ms), 0), seen)


def _by_writer(store: ClaimStore, rows: I64, writer: bytes) -> U8:
    """Returns the causes of ids held by these rows, by their writers, uint8 (k,); UNKNOWN for row -1.

    Ids of one request usually come together, so each stretch of one row is compared once.
    """
    begins = np.flatnonzero(np.diff(rows, prepend=-2))
    firsts = store.rows.writer[rows[begins]] * (rows[begins] >= 0)[:, np.newaxis]
    causes = causes_of(firsts.astype(np.uint32), writer, store.runs)
    return causes.repeat(np.diff(begins, append=len(rows)))


def _seen(store: ClaimStore, ids: U64, causes: U8, found: I64, archives: I64 | None, wall_ms: int) -> Seen:
    """Describes duplicates one by one. found: the row that holds each; -1: none."""
    rows, held = store.rows, found >= 0
    ages_ms, positions, topics = (np.full(len(ids), one, np.int64) for one in (-1, -1, NO_TOPIC))
    ages_ms[held] = np.maximum(wall_ms - rows.wall_ms[found[held]], 0)
    positions[held], topics[held] = rows.holders.position[found[held]], rows.topic[found[held]]
    if archives is not None:
        cold = ~held & (archives >= 0)
        ages_ms[cold] = np.maximum(wall_ms - _archived_ms(store, archives[cold]), 0)
    names = {number: store.topics[number] for number in np.unique(topics).tolist() if number != NO_TOPIC}
    return Seen(wall_ms, ids, causes, ages_ms, positions, topics, names)


def _archived_ms(store: ClaimStore, archives: I64) -> I64:
    """Returns the time at which each archive's newest id was done or taken; skips ids that are in no archive."""
    unique, place = np.unique(archives[archives >= 0], return_inverse=True)
    newest = [store.archives.by_number[number].newest_wall_ms for number in unique.tolist()]
    return np.array(newest, np.int64)[place.reshape(-1)]


def firsts_of(store: ClaimStore, ids: U64, verdicts: U8, entries_max: int, elsewhere: bool = False) -> Firsts:
    """Finds the first occurrences of the duplicates among `ids`, (n, 2).

    Call it directly after the decision: a row belongs to its request only as long as its ids do.

    entries_max: number of entries worth reading; ids of later ones stay unknown.
    elsewhere: offsets in this gateway only count rows, so every entry must be read.
    """
    rows, located = store.rows, Located.unknown(len(ids))
    at = np.flatnonzero(verdicts & VERDICT_MASK == Verdict.DUPLICATE)
    found = store.table.rows_of(own(ids[at]))
    state = rows.holders.state[found]
    held = (found >= 0) & ((state == DONE) | (state == TAKEN))
    at, found = at[held], found[held]
    if rows.results.by_row:
        _tell_results(rows, located, at, found)
    written = rows.topic[found] != NO_TOPIC
    at, found = at[written], found[written]
    used, topic = np.unique(rows.topic[found], return_inverse=True)
    located.topics.extend(store.topics[number] for number in used.tolist())
    located.topic[at], located.partition[at] = topic.reshape(-1), rows.partition[found]
    alone = (rows.granted[found] == 1) & (rows.first_offset[found] >= 0) & (not elsewhere)
    located.offset[at[alone]] = rows.first_offset[found[alone]]
    return Firsts(located, _unread(rows, ids, at[~alone], found[~alone], entries_max))


def _tell_results(rows: Rows, located: Located, at: I64, found: I64) -> None:
    """Sets the result of each id's claim; each result is listed once."""
    numbers: dict[bytes, int] = {}
    unique, place = np.unique(found, return_inverse=True)
    results = [rows.results.by_row.get(row) for row in unique.tolist()]
    number_of = [-1 if one is None else numbers.setdefault(one, len(numbers)) for one in results]
    located.result[at] = np.array(number_of, np.int32)[place.reshape(-1)]
    located.results.extend(numbers)


def _unread(rows: Rows, ids: U64, at: I64, found: I64, most: int) -> list[Unread]:
    """Groups the ids to be read by entry, in the request's order. Fresh and taken ids of one entry share a group."""
    position = rows.holders.position[found]
    unique, first = np.unique(position, return_index=True)
    entries = sorted(zip(first.tolist(), unique.tolist(), strict=True))[:most]
    of_entries = [(position == one, one, rows.claim[found[place]].tobytes()) for place, one in entries]
    return [Unread(one, claim, at[its], ids[at[its]]) for its, one, claim in of_entries]


def written_by(store: ClaimStore, claim: bytes) -> tuple[Span, ...]:
    """Returns the spans that a remembered claim wrote; empty if its ids were not written to this gateway's topics."""
    record = store.registry.at_any_age(claim)
    if record is None:
        return ()
    rows, spans = store.rows, list[list[int]]()
    for row in sorted(record.rows, key=lambda row: _place(rows, row)):
        (partition, first), count = _place(rows, row), int(rows.granted[row])
        # The fresh and taken ids of one entry are two rows, interleaved in one range.
        if spans and spans[-1][0] == partition and first <= spans[-1][1] + spans[-1][2]:
            spans[-1][2] += count
        elif rows.topic[row] != NO_TOPIC:
            spans.append([partition, first, count])
    return tuple(Span(partition, first, count, 0) for partition, first, count in spans)


def positions_of(store: ClaimStore, claim: bytes) -> list[int]:
    """Returns the positions of the entries that wrote a remembered claim's rows, in ascending order."""
    record, rows = store.registry.at_any_age(claim), store.rows
    written = [] if record is None else [row for row in record.rows if rows.topic[row] != NO_TOPIC]
    return sorted({int(rows.holders.position[row]) for row in written})


def _place(rows: Rows, row: int) -> tuple[int, int]:
    return int(rows.partition[row]), first_offset_of(int(rows.first_offset[row]))
