"""Decides and applies many claims of new calls at once, by one call of a kernel and one filling of all their rows.

For each it is what `decide` and `apply` would do, one after the other in the same order. A claim that would take ids
over is left as it is, to be asked for alone; so is what `is_repeat`, and what comes with payloads or goes with a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oncegate.arraytypes import I64, U32, U64
from oncegate.core.entries.kinds import Claimed
from oncegate.index.claims.apply import Undo, settle, undo
from oncegate.index.claims.by_name import ClaimRecord
from oncegate.index.claims.decide import cold_rows
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import NO_ROW, NO_TIMES, Answers, BatchGrants, IdTimes
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC
from oncegate.index.table.rows import OPEN, Rows
from oncegate.index.writers import words_of

# What a claim rests on that was left alone.
LEFT = -1


def is_repeat(store: ClaimStore, token: bytes, call: int, now_ms: int) -> bool:
    """Says whether a claim is remembered that this (token, call) made."""
    return store.registry.find(token, call, now_ms) is not None


@dataclass
class ClaimBatch:
    """Holds the answers to many claims, and what those were granted that hold ids now; settled or undone as one change.

    claims: each with all its ids as `fresh`. ends: where each one's answers end. rests_on: the highest position that
    its verdicts rest on, 0 for none; LEFT: it is to be asked for alone.
    entries: of those that were granted any, in order; `rows`, `grants` and `registered` (what each one's name stood for
    before) have an element for each of these. counters: before the first. losers: rows that slots named for dead ids.
    archives: as of `ClaimDecision`.
    """

    store: ClaimStore
    claims: Sequence[Claimed]
    answers: Answers
    ends: list[int]
    rests_on: list[int]
    counters: tuple[int, int, int]
    rows: I64
    grants: BatchGrants
    entries: list[Claimed]
    registered: list[tuple[ClaimRecord | None, bytes | None]]
    losers: U32
    archives: I64 | None

    def settle(self) -> None:
        """Lets go of what an undo would need: the entries are durable."""
        pinned = np.concatenate([self.rows.astype(np.uint32), self.losers])
        settle(self.store, Undo(self.counters, NO_CLAIM, pinned=pinned))

    def undo(self) -> None:
        """Takes all of them back, the last one first: each as if it had come alone."""
        takeovers, open_claims, ids = self.counters
        ends, absent = self.grants.ends.tolist(), self.grants.absent.tolist()
        for n in range(len(self.rows) - 1, -1, -1):
            at, row = slice(ends[n - 1] if n else 0, ends[n]), int(self.rows[n])
            change = Undo(
                (takeovers, open_claims + n, ids + sum(absent[:n])), self.entries[n].claim, self.registered[n]
            )
            change.puts = [(row, self.grants.ids[at], self.grants.previous[at], absent[n], self.grants.old_digests[at])]
            change.pinned = (row, *(() if n else self.losers.tolist()))
            undo(self.store, change)


def claim_many(
    store: ClaimStore, position: int, claims: Sequence[Claimed], now_ms: int, times: IdTimes = NO_TIMES
) -> ClaimBatch:
    """Decides on claims that nothing is known of, no two of one (token, call); `position`: of the first entry, if any.

    times: of the ids of all of them, one claim's after the other's.

    Raises Overloaded and Recovering, before any effect.
    """
    ids = np.frombuffer(bytearray().join([claim.fresh for claim in claims]), np.uint64).reshape(-1, 2)
    cold, archives = cold_rows(store, ids)
    store.make_room(len(ids), now_ms, entries=len(claims))
    store.table.make_room_for([ids])
    counters, ends = store.counters(), np.cumsum([len(claim.fresh) // 16 for claim in claims])
    rows = _take_all(store.rows, claims, now_ms)
    answers, grants = store.table.claim_each(store.rules["claim"], now_ms, ids, cold, rows, ends, position, times)
    granted = np.diff(grants.ends, prepend=0)
    store.rows.granted[rows] = granted
    store.rows.let_go(rows[granted == 0])
    given = np.flatnonzero(granted)
    rests_on, rows = grants.rests_on.tolist(), rows[given]
    grants = grants._replace(ends=grants.ends[given], absent=grants.absent[given])
    entries = _entries(claims, given.tolist(), grants)
    # Nobody loses an id, but dead slots may have named rows: these stay what they are until all of it is settled.
    losers = np.unique(grants.previous[grants.previous != NO_ROW])
    store.rows.holders.pins[losers] += 1
    registered = _count_in(store, entries, rows.tolist())
    store.ids += int(grants.absent.sum())
    return ClaimBatch(
        store, claims, answers, ends.tolist(), rests_on, counters, rows, grants, entries, registered, losers, archives
    )


def _entries(claims: Sequence[Claimed], indices: list[int], grants: BatchGrants) -> list[Claimed]:
    """Returns the claims at those indices, each with what it was granted alone."""
    raw, ends, first, entries = grants.ids.tobytes(), grants.ends.tolist(), 0, []
    for index, end in zip(indices, ends, strict=True):
        claim = claims[index]
        if len(claim.fresh) != 16 * (end - first):
            claim = replace(claim, fresh=raw[16 * first : 16 * end])
        entries.append(claim)
        first = end
    return entries


def _count_in(
    store: ClaimStore, entries: Sequence[Claimed], rows: Sequence[int]
) -> list[tuple[ClaimRecord | None, bytes | None]]:
    """Remembers the claims by their names and calls; returns what each stood for before."""
    put, registered = store.registry.put, []
    for claim, row in zip(entries, rows, strict=True):
        registered.append(put(claim.claim, ClaimRecord(claim.token, claim.call, claim.digest, (row,))))
        store.wall_ms = max(store.wall_ms, claim.wall_ms)
        store.runs.note(claim.writer)
    store.open_claims += len(rows)
    store.last_granted = tuple(rows[-1:])
    return registered


def _take_all(rows: Rows, claims: Sequence[Claimed], now_ms: int) -> I64:
    """Takes free rows, filled in as `Rows.take` fills in one each, but for their positions and how many ids are
    granted."""
    at, holders = np.array([rows.next_free() for _ in claims], np.int64), rows.holders
    lease_ms = np.array([claim.lease_ms for claim in claims], np.int64)
    rows.used[at], holders.remembered[at], holders.pins[at], holders.state[at] = True, True, 1, OPEN
    rows.claim[at] = _words([claim.claim for claim in claims])
    holders.token[at] = _words([claim.token for claim in claims])
    rows.digest[at] = _words([claim.digest for claim in claims])
    holders.call[at] = [claim.call for claim in claims]
    rows.lease_ms[at], holders.lease_until_ms[at] = lease_ms, now_ms + lease_ms
    rows.wall_ms[at] = [claim.wall_ms for claim in claims]
    rows.topic[at] = NO_TOPIC
    for zero in (holders.takeover, holders.named, holders.slots, rows.ended_ms, rows.partition, rows.first_offset):
        zero[at] = 0
    rows.beside[at], rows.scoped[at] = 0, 0
    rows.writer[at] = [words_of(claim.writer) for claim in claims]
    return at


def _words(raw: Sequence[bytes]) -> U64:
    """Returns 16 bytes each as the two words that arrays hold, (n, 2)."""
    return np.frombuffer(b"".join(raw), np.uint64).reshape(-1, 2)
