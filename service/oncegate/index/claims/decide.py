"""Decides the answers for ids from the store of claims. `claim_many` decides and applies many new claims at once.

`claim_many` needs one kernel call and fills all rows together. The result of each claim is that of `decide` and
`apply`, one after the other in the same order. It leaves some claims to be decided alone: those that would take ids
over, repeats (`is_repeat`), claims with payloads, and claims of a batch scope.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oncegate.arraytypes import I32, I64, U32, U64
from oncegate.core.claims import Action
from oncegate.core.entries.kinds import Claimed
from oncegate.core.errors import TokenReused
from oncegate.index.claims.apply import ClaimUndo, own, settle, undo
from oncegate.index.claims.by_name import ClaimRecord
from oncegate.index.claims.evict import stand
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import NO_COLD, NO_DIGESTS, NO_ROW, NO_TIMES, Answers, BatchGrants, IdTimes, Question
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC
from oncegate.index.table.rows import OPEN, Rows, words
from oncegate.index.writers import words_of

# No attempt has this token, since a token is 128 random bits.
_NOBODY = b"\xff" * 16


def decide(
    store: ClaimStore,
    token: bytes,
    call: int,
    digest: bytes,
    ids: U64,
    now_ms: int,
    verb: str = "claim",
    digests: U32 = NO_DIGESTS,
    times: IdTimes = NO_TIMES,
) -> ClaimDecision:
    """Decides the answer for each of `ids`, shape (n, 2). No effect.

    verb: claim or produce.
    digest: of the whole request.
    digests: of the payload of each id, 0 for none; empty: none has one.
    times: when each id was made, if it carries its time.

    Raises TokenReused if this (token, call) is remembered with another digest. Raises Recovering if a run of archived
    ids is damaged and may hold one of these.
    """
    remembered = store.registry.find(token, call, now_ms)
    if remembered is not None and remembered[1].digest != digest:
        raise TokenReused("this token and call were used with other ids: send the new request with a new call")
    return decide_verb(
        store, verb, token, call, remembered[0] if remembered is not None else None, ids, now_ms, digests, times
    )


def decide_take(store: ClaimStore, owner: bytes, ids: U64, now_ms: int, times: IdTimes = NO_TIMES) -> ClaimDecision:
    """Decides the answer for each of `ids`, shape (n, 2), if this owner takes it. No effect. Raises Recovering."""
    return decide_verb(store, "take", owner, 0, None, ids, now_ms, NO_DIGESTS, times)


def decide_look_up(store: ClaimStore, ids: U64, now_ms: int, times: IdTimes = NO_TIMES) -> ClaimDecision:
    """Decides the answer for each of `ids`, shape (n, 2), in a look-up. No effect. Raises Recovering."""
    return decide_verb(store, "look up", _NOBODY, 0, None, ids, now_ms, NO_DIGESTS, times)


def decide_verb(
    store: ClaimStore,
    verb: str,
    token: bytes,
    call: int,
    claim: bytes | None,
    ids: U64,
    now_ms: int,
    digests: U32,
    times: IdTimes = NO_TIMES,
) -> ClaimDecision:
    """Decides by the table of `verb`, like `decide`. claim: the claim made by this (token, call); None: none."""
    table, ids, n = store.table, own(ids), len(ids)
    first, second = words(token)
    question = Question(first, second, call, claim is not None, now_ms, table.tag_mask, digests, *times)
    answers = Answers.empty(n)
    granted, slots = np.empty((n, 2), np.uint64), np.empty(n, np.int64)
    cold, archives = cold_rows(store, ids)
    rests_on, again, fresh, taken = store.kernels.decide(
        table.slots, store.rows.holders, store.rules[verb], question, ids, answers, cold, granted, slots
    )
    table.hint(granted[:fresh], slots[:fresh])
    return ClaimDecision(
        *answers,
        granted[:fresh],
        granted[n - taken :],
        again=bool(again),
        claim=claim,
        rests_on=int(rests_on),
        digests=_in_order(digests, answers) if len(digests) else b"",
        archives=archives,
    )


def _in_order(digests: U32, answers: Answers) -> bytes:
    """Returns the digests in the kernels' order: first of the fresh ids, then of the taken-over ids in reverse."""
    granted: bytes = digests[answers.actions == Action.GRANT].tobytes()
    taken: bytes = digests[answers.actions == Action.TAKE_OVER][::-1].tobytes()
    return granted + taken


def cold_rows(store: ClaimStore, ids: U64) -> tuple[I32, I64 | None]:
    """Returns the rows that represent archived ids, int32 (n,), and the archive of each id, int64 (n,).

    A row is -1 for an id in no live archive. If no id is in one, returns no rows and None. All ids of one kind of
    archive share one row, which is made when the kind is first met.

    Raises Recovering if a run of archived ids is damaged, and Overloaded if no row is free. Nothing was written.
    """
    if not store.cold.runs:
        return NO_COLD, None
    archives = store.cold.find(as_wide_as(store, ids))
    if archives is None:
        return NO_COLD, None
    kinds = store.archives.kinds_of(archives)
    for number in list(store.archives.new_kinds):
        stand(store, number)
    return store.standing_rows[kinds], archives


def as_wide_as(store: ClaimStore, ids: U64) -> U64:
    """Returns the ids, shape (n, 2), with tags truncated to the table's width."""
    mask = store.table.tag_mask
    if mask == np.uint64(0xFFFF_FFFF_FFFF_FFFF):
        return ids
    return np.stack([ids[:, 0] & mask, ids[:, 1]], axis=1)


# In `rests_on`, marks a claim that was left to be decided alone.
LEFT = -1


def is_repeat(store: ClaimStore, token: bytes, call: int, now_ms: int) -> bool:
    """Returns whether a claim of this (token, call) is remembered."""
    return store.registry.find(token, call, now_ms) is not None


@dataclass
class ClaimBatch:
    """The answers to many claims, and the grants among them. They are settled or undone as one change.

    claims: each with all its ids as `fresh`.
    ends: the end of each claim's answers.
    rests_on: the highest log position that a claim's verdicts depend on, 0 for none; LEFT: decide it alone.
    entries: those of the claims that were granted any id, in order.
    rows, grants, registered: one element per entry; registered: the previous record of its name and call.
    counters: before the first claim.
    losers: rows that dead slots named before.
    archives: as in `ClaimDecision`.
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
        """Discards the undo information: the entries are durable."""
        pinned = np.concatenate([self.rows.astype(np.uint32), self.losers])
        settle(self.store, ClaimUndo(self.counters, NO_CLAIM, pinned=pinned))

    def undo(self) -> None:
        """Undoes all claims in reverse order, each as if it had arrived separately."""
        takeovers, open_claims, ids = self.counters
        ends, absent = self.grants.ends.tolist(), self.grants.absent.tolist()
        for n in range(len(self.rows) - 1, -1, -1):
            at, row = slice(ends[n - 1] if n else 0, ends[n]), int(self.rows[n])
            change = ClaimUndo(
                (takeovers, open_claims + n, ids + sum(absent[:n])), self.entries[n].claim, self.registered[n]
            )
            change.puts = [(row, self.grants.ids[at], self.grants.previous[at], absent[n], self.grants.old_digests[at])]
            change.pinned = (row, *(() if n else self.losers.tolist()))
            undo(self.store, change)


def claim_many(
    store: ClaimStore, position: int, claims: Sequence[Claimed], now_ms: int, times: IdTimes = NO_TIMES
) -> ClaimBatch:
    """Decides and applies new claims, no two of one (token, call). position: of the first entry, if there is one.

    times: of the ids of all claims, one claim after the other.

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
    # No live id changes hands, but dead slots may have named rows, which stay pinned until the claims are settled.
    losers = np.unique(grants.previous[grants.previous != NO_ROW])
    store.rows.holders.pins[losers] += 1
    registered = _count_in(store, entries, rows.tolist())
    store.ids += int(grants.absent.sum())
    return ClaimBatch(
        store, claims, answers, ends.tolist(), rests_on, counters, rows, grants, entries, registered, losers, archives
    )


def _entries(claims: Sequence[Claimed], indices: list[int], grants: BatchGrants) -> list[Claimed]:
    """Returns the claims at the given indices, each reduced to its granted ids."""
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
    """Remembers the claims by name and call. Returns the previous record of each."""
    put, registered = store.registry.put, []
    for claim, row in zip(entries, rows, strict=True):
        registered.append(put(claim.claim, ClaimRecord(claim.token, claim.call, claim.digest, (row,))))
        store.wall_ms = max(store.wall_ms, claim.wall_ms)
        store.runs.note(claim.writer)
    store.open_claims += len(rows)
    store.last_granted = tuple(rows[-1:])
    return registered


def _take_all(rows: Rows, claims: Sequence[Claimed], now_ms: int) -> I64:
    """Allocates free rows and fills them like `Rows.take`, but leaves out positions and numbers of granted ids."""
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
    """Returns 16-byte values as pairs of 64-bit words, shape (n, 2)."""
    return np.frombuffer(b"".join(raw), np.uint64).reshape(-1, 2)
