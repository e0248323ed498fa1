"""Decides what ids are answered; reads the store of claims and changes no answer of it."""

import numpy as np

from oncegate.arraytypes import I32, I64, U32, U64
from oncegate.core.claims import Action
from oncegate.core.errors import TokenReused
from oncegate.index.claims.apply import own
from oncegate.index.claims.evict import stand
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import NO_COLD, NO_DIGESTS, NO_TIMES, Answers, IdTimes, Question
from oncegate.index.table.rows import words

# No attempt's token: whoever draws one draws 128 random bits.
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
    """Decides what each of `ids`, shape (n, 2), is answered now; `verb`: claim or produce. No effect.

    `digest`: of the whole request. `digests`: of the payload of each id, 0 for none; no elements: none has one.
    `times`: when each was made, if it says so.
    Raises TokenReused: this (token, call) is remembered with another digest; Recovering: a run of old ids is
    damaged, and one of these may be in it.
    """
    remembered = store.registry.find(token, call, now_ms)
    if remembered is not None and remembered[1].digest != digest:
        raise TokenReused("this token and call were used with other ids: a new request needs a new call")
    return decide_verb(
        store, verb, token, call, remembered[0] if remembered is not None else None, ids, now_ms, digests, times
    )


def decide_take(store: ClaimStore, owner: bytes, ids: U64, now_ms: int, times: IdTimes = NO_TIMES) -> ClaimDecision:
    """Decides what each of `ids`, shape (n, 2), is answered when this owner takes it. No effect. Raises Recovering."""
    return decide_verb(store, "take", owner, 0, None, ids, now_ms, NO_DIGESTS, times)


def decide_look_up(store: ClaimStore, ids: U64, now_ms: int, times: IdTimes = NO_TIMES) -> ClaimDecision:
    """Decides what is told of each of `ids`, shape (n, 2), to whoever looks them up. No effect. Raises Recovering."""
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
    """Decides by the table of `verb`, as `decide` does; `claim`: what this (token, call) made, None: nothing."""
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
    """Orders digests of what is granted, then of what is taken over, from the last one back: as kernels have it."""
    granted: bytes = digests[answers.actions == Action.GRANT].tobytes()
    taken: bytes = digests[answers.actions == Action.TAKE_OVER][::-1].tobytes()
    return granted + taken


def cold_rows(store: ClaimStore, ids: U64) -> tuple[I32, I64 | None]:
    """Returns the rows that stand for ids in live archives, int32 (n,), -1 for others; no elements: none is in one.
    And the archives themselves, int64 (n,), or None.

    An archive's ids are all alike, so one row stands for all of a kind; it is made when it is first met.
    Raises Recovering: a run of old ids is damaged; Overloaded: no row is free. Nothing was written.
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
    """Returns the ids, shape (n, 2), with tags as narrow as the table's."""
    mask = store.table.tag_mask
    if mask == np.uint64(0xFFFF_FFFF_FFFF_FFFF):
        return ids
    return np.stack([ids[:, 0] & mask, ids[:, 1]], axis=1)
