"""Decision tables for free ids: the only place that decides the answer to a request about an id.

Rule 1: everything that decides about a free id is in this file.
Rule 2: this file reads no clock and does no I/O. Whether a lease has expired is an argument.

Theory of operation
===================

A free id is an id that the caller chose, as opposed to a producer's sequence. The index has a slot for each id that it
knows. The slot names a row, which is shared by all ids of one claim, of one take or of one produce. Every id of a
request is decided separately, on the present state and never from a cache of earlier answers: between a request and
its retry another attempt may have taken the id over and written it.

A cell of the tables over ids is chosen by two coordinates:

  IdState   the state of the id: absent, claimed with a live or an expired lease, done, taken by an owner, ...
  Asker     the caller as seen from the id's holder: the holder's own call, another call of its attempt, anybody else

A cell holds an `Action`, the rule that demands it and the reason for the rule. GRANT, GRANT_AGAIN and TAKE_OVER let the
caller write its row. All other actions change nothing; they only determine the verdict.

  CLAIM     claims ids under a lease; the caller writes the rows elsewhere and completes the claim
  PRODUCE   writes rows with ids; claim, rows and completion are one append
  TAKE      claims ids without a lease; each belongs to the first owner that asks, permanently
  LOOK_UP   reports the state of ids and grants nothing
  EXPIRED   replaces cells of the tables above in namespaces whose `lease_expiry` forbids takeovers
  SETTLE    renews, completes or releases a claim; chosen by the verb and by the state of the claim

A claim is completed or released as a whole. It may still be OPEN after all its ids were taken over: SETTLE changes only
ids whose slots still name the claim, and counts the others.

Invariants, in the names of RELIABILITY.md:

  P1    An id that is done or taken is never granted to another caller.
  P2    An id under a live lease is never granted to anybody but its holder.
  P5    Two callers may write one id only after a takeover, and every takeover is counted.
  P6    A caller that keeps asking is granted the id in the end, unless `lease_expiry` or a person decides otherwise.
  LOSS  No id is done that was never written. Hence a repeated claim is granted only ids that it still holds: a late
        copy would otherwise grant ids under a claim that its sender has already completed.

A repeated produce may write absent ids, since it leaves no claim that could be completed without a row.

tests/core/test_tables.py checks that no cell is empty. The index compiles `actions()` into its kernels, and
docs/decisions.md is generated from these tables.
"""

from enum import IntEnum

from oncegate.core.cells import Cell


class IdTime(IntEnum):
    """How the ids of a namespace carry their creation time.

    NONE: they carry none, or the format is not configured.
    EVENT_ID: made by the clients' `EventIds`: `<12 hexadecimal digits of milliseconds>-…`.
    UUID7: RFC 9562, as 16 raw bytes or as text.
    """

    NONE = 0
    EVENT_ID = 1
    UUID7 = 2


# Largest clock difference between writers and the gateway: ids become stale this much earlier. NTP keeps it smaller.
ID_TIME_SKEW_MS = 60_000


def past_ms(horizon_ms: int, known_from_ms: int, wall_ms: int) -> int:
    """Returns the creation time, in milliseconds since 1970, up to which ids are stale; 0 if no id is stale.

    horizon_ms: how long completed ids are kept; 0: for ever.
    known_from_ms: ids completed before this time are forgotten.
    """
    since_ms = max(known_from_ms, wall_ms - horizon_ms if horizon_ms else 0)
    return since_ms + ID_TIME_SKEW_MS if since_ms > 0 else 0


class IdState(IntEnum):
    """The state of one id. Released and retired ids are absent, whether swept or not.

    TAKEN: belongs to an owner permanently.
    DONE_OTHER: done with another payload than the request brings. If either has no digest, the state is DONE.
    PAST: absent, and its own time is older than everything that is still known.
    """

    ABSENT = 0
    CLAIMED_LIVE = 1
    CLAIMED_OVER = 2
    DONE = 3
    TAKEN = 4
    DONE_OTHER = 5
    PAST = 6


class Asker(IntEnum):
    """The relation of a request's caller to the current holder of the id.

    SAME_CLAIM: the same (token, call) as the holder.
    REPEAT: a (token, call) that was decided before and whose claim does not hold this id.
    SAME_TOKEN: another call of the holder's attempt.
    OTHER: any other caller, or no holder.

    For `take` the owner replaces the token; owners have no calls.
    """

    SAME_CLAIM = 0
    REPEAT = 1
    SAME_TOKEN = 2
    OTHER = 3


class LeaseExpiry(IntEnum):
    """Namespace setting: the treatment of ids whose lease has expired.

    TAKEOVER: the next caller is granted it.
    HOLD: it stays with its holder. Others wait until the holder completes or releases it, or a person resolves it.
    FAIL: like HOLD, but others are answered at once that the id is in doubt.
    """

    TAKEOVER = 0
    HOLD = 1
    FAIL = 2


class OnLedgerDown(IntEnum):
    """Namespace setting: the answer to claims of ids while the ledger is down.

    REJECT: they are refused, and the caller retries.
    PASS_MARKED: every id is granted and marked as unchecked; none is recorded as known.
    """

    REJECT = 0
    PASS_MARKED = 1


class Action(IntEnum):
    """The action for one id of a request.

    FREE, LEFT: changes nothing; reports that no live claim holds the id (LEFT: an expired one does).
    HOLD, IN_DOUBT: changes nothing; the lease expired and `LeaseExpiry` allows no takeover.
    STALE: changes nothing; whether the id was written is no longer known.
    """

    GRANT = 0
    GRANT_AGAIN = 1
    TAKE_OVER = 2
    SAME = 3
    BUSY = 4
    DUPLICATE = 5
    CONFLICT = 6
    FREE = 7
    LEFT = 8
    HOLD = 9
    IN_DOUBT = 10
    STALE = 11


_REPEAT_BUSY = Cell(
    Action.BUSY,
    "a repeat is granted only what its claim holds",
    "a late copy would be granted ids under a finished claim, and complete would mark unwritten ids done (LOSS)",
)
_DUPLICATE = Cell(
    Action.DUPLICATE, "done is done for every caller", "an acknowledged completion is never granted again (P1)"
)
_AGAIN = Cell(
    Action.GRANT_AGAIN,
    "a repeat is granted what its claim still holds; the lease restarts",
    "the reply was lost; a refusal would block the id until the lease expires (P6)",
)
_FRESH = Cell(Action.GRANT, "the id is free", "the first caller writes it")
_TAKE = Cell(
    Action.TAKE_OVER,
    "an expired claim may be taken over",
    "its holder is probably dead; the duplicate it may cause is counted as a takeover (P5, P6)",
)
_BELONGS = Cell(
    Action.DUPLICATE,
    "a taken id belongs to its owner permanently",
    "the owner's job writes it; any other caller would write it twice (P1)",
)
_CONFLICT = Cell(
    Action.CONFLICT,
    "an id that was done with another payload is not a duplicate",
    "dropping it would lose the second payload, writing it would give one id two rows: the caller must decide "
    "(LOSS, P1)",
)

_PAST = Cell(
    Action.STALE,
    "an id that carries its time is stale once it is older than everything known",
    "it may have been written and forgotten, and a grant would write it twice (P1); if it was never written, it is "
    "late by a whole retention period",
)

CLAIM: dict[tuple[IdState, Asker], Cell[Action]] = {
    (IdState.ABSENT, Asker.SAME_CLAIM): _REPEAT_BUSY,
    (IdState.ABSENT, Asker.REPEAT): _REPEAT_BUSY,
    (IdState.ABSENT, Asker.SAME_TOKEN): _FRESH,
    (IdState.ABSENT, Asker.OTHER): _FRESH,
    (IdState.CLAIMED_LIVE, Asker.SAME_CLAIM): _AGAIN,
    (IdState.CLAIMED_LIVE, Asker.REPEAT): _REPEAT_BUSY,
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN): Cell(
        Action.SAME,
        "an earlier call of the attempt holds it",
        "a second grant would write it twice within one attempt (P5)",
    ),
    (IdState.CLAIMED_LIVE, Asker.OTHER): Cell(
        Action.BUSY, "a live lease is respected", "its holder may be writing the id now (P2)"
    ),
    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM): _AGAIN,
    (IdState.CLAIMED_OVER, Asker.REPEAT): _REPEAT_BUSY,
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN): _TAKE,
    (IdState.CLAIMED_OVER, Asker.OTHER): _TAKE,
    (IdState.DONE, Asker.SAME_CLAIM): _DUPLICATE,
    (IdState.DONE, Asker.REPEAT): _DUPLICATE,
    (IdState.DONE, Asker.SAME_TOKEN): _DUPLICATE,
    (IdState.DONE, Asker.OTHER): _DUPLICATE,
    (IdState.TAKEN, Asker.SAME_CLAIM): _BELONGS,
    (IdState.TAKEN, Asker.REPEAT): _BELONGS,
    (IdState.TAKEN, Asker.SAME_TOKEN): _BELONGS,
    (IdState.TAKEN, Asker.OTHER): _BELONGS,
    (IdState.DONE_OTHER, Asker.SAME_CLAIM): _CONFLICT,
    (IdState.DONE_OTHER, Asker.REPEAT): _CONFLICT,
    (IdState.DONE_OTHER, Asker.SAME_TOKEN): _CONFLICT,
    (IdState.DONE_OTHER, Asker.OTHER): _CONFLICT,
    **{(IdState.PAST, asker): _PAST for asker in Asker},
}

_WRITES = Cell(
    Action.GRANT,
    "the request brings the rows: granted ids are written and done at once",
    "no claim is left to complete, so a late copy cannot mark unwritten ids done (LOSS)",
)
_TAKES_AND_WRITES = Cell(
    Action.TAKE_OVER,
    "an expired claim may be taken over, and is done at once",
    "its holder may have written the id elsewhere: counted as a takeover (P5)",
)
_HELD = Cell(Action.BUSY, "a live lease is respected", "its holder may be writing the id elsewhere now (P2)")
_OWN_CLAIM = Cell(
    Action.SAME,
    "an open claim of the same attempt holds it",
    "the attempt claimed it to write it elsewhere; both writes would be two copies (P5)",
)

_ENDED = (IdState.DONE, IdState.TAKEN, IdState.DONE_OTHER)
_DECIDED_ALIKE = (*_ENDED, IdState.PAST)

# Produce with ids: claim, completion and rows are one entry. GRANT and TAKE_OVER mean: written by this request.
PRODUCE: dict[tuple[IdState, Asker], Cell[Action]] = {
    (IdState.ABSENT, Asker.SAME_CLAIM): _WRITES,
    (IdState.ABSENT, Asker.REPEAT): _WRITES,
    (IdState.ABSENT, Asker.SAME_TOKEN): _WRITES,
    (IdState.ABSENT, Asker.OTHER): _WRITES,
    (IdState.CLAIMED_LIVE, Asker.SAME_CLAIM): _OWN_CLAIM,
    (IdState.CLAIMED_LIVE, Asker.REPEAT): _HELD,
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN): _OWN_CLAIM,
    (IdState.CLAIMED_LIVE, Asker.OTHER): _HELD,
    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM): _TAKES_AND_WRITES,
    (IdState.CLAIMED_OVER, Asker.REPEAT): _TAKES_AND_WRITES,
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN): _TAKES_AND_WRITES,
    (IdState.CLAIMED_OVER, Asker.OTHER): _TAKES_AND_WRITES,
    **{(state, asker): CLAIM[state, asker] for state in _DECIDED_ALIKE for asker in Asker},
}

_TAKES = Cell(Action.GRANT, "the id is free", "it now belongs to this owner, without a lease")
_KEEPS = Cell(
    Action.GRANT_AGAIN,
    "the same owner is granted the id again",
    "a retry or a re-run of a job keeps what it took; a refusal would drop its rows (LOSS)",
)
_TAKES_OVER = Cell(Action.TAKE_OVER, "an expired claim may be taken over", "as for a claim (P5, P6)")

# Take: an id belongs to the first owner that asks. Owners have no calls, so REPEAT is not distinguished.
TAKE: dict[tuple[IdState, Asker], Cell[Action]] = {
    **{(IdState.ABSENT, asker): _TAKES for asker in Asker},
    **{(IdState.CLAIMED_LIVE, asker): _HELD for asker in Asker},
    **{(IdState.CLAIMED_OVER, asker): _TAKES_OVER for asker in Asker},
    **{(IdState.DONE, asker): _DUPLICATE for asker in Asker},
    (IdState.TAKEN, Asker.SAME_CLAIM): _KEEPS,
    (IdState.TAKEN, Asker.REPEAT): _BELONGS,
    (IdState.TAKEN, Asker.SAME_TOKEN): _KEEPS,
    (IdState.TAKEN, Asker.OTHER): _BELONGS,
    # A take brings no payload, so a payload recorded by another verb is ignored.
    **{(IdState.DONE_OTHER, asker): _DUPLICATE for asker in Asker},
    **{(IdState.PAST, asker): _PAST for asker in Asker},
}

_IS_FREE = Cell(Action.FREE, "the id is free", "a look-up reports and grants nothing, so it writes nothing (P1)")
_IS_LEFT = Cell(
    Action.LEFT,
    "an expired claim is reported as one, not as a free id",
    "its holder may have written the id, so a comparison must not count it as unwritten (P5)",
)
_IS_HELD = Cell(Action.BUSY, "a live lease is reported", "whether the id is written is not known yet (P2)")
_IS_KNOWN = Cell(Action.DUPLICATE, "done or taken is known", "a write would be answered DUPLICATE (P1)")

# Look-up: reports the state of an id and grants nothing, so the asker makes no difference.
LOOK_UP: dict[tuple[IdState, Asker], Cell[Action]] = {
    **{(IdState.ABSENT, asker): _IS_FREE for asker in Asker},
    **{(IdState.CLAIMED_LIVE, asker): _IS_HELD for asker in Asker},
    **{(IdState.CLAIMED_OVER, asker): _IS_LEFT for asker in Asker},
    # A look-up brings no payload, so DONE_OTHER is reported as done.
    **{(state, asker): _IS_KNOWN for state in _ENDED for asker in Asker},
    **{(IdState.PAST, asker): _PAST for asker in Asker},
}


_HOLDS = Cell(
    Action.HOLD,
    "an expired claim stays with its holder (lease_expiry is hold)",
    "it may have been written, and no second write is allowed: others wait for the holder or a person (P5 before P6)",
)
_IN_DOUBT = Cell(
    Action.IN_DOUBT,
    "an expired claim is in doubt (lease_expiry is fail)",
    "it may have been written, and no second write is allowed: the caller is stopped instead of waiting (P5 before P6)",
)

# Cells that are replaced in namespaces that forbid takeovers. Only the holder's own repeat still succeeds, since it has
# the claim. A look-up only reports, so none of its cells is replaced.
EXPIRED: dict[LeaseExpiry, dict[str, dict[tuple[IdState, Asker], Cell[Action]]]] = {
    LeaseExpiry.TAKEOVER: {},
    LeaseExpiry.HOLD: {
        "claim": {
            (IdState.CLAIMED_OVER, Asker.SAME_TOKEN): CLAIM[IdState.CLAIMED_LIVE, Asker.SAME_TOKEN],
            (IdState.CLAIMED_OVER, Asker.OTHER): _HOLDS,
        },
        "produce": {
            (IdState.CLAIMED_OVER, Asker.SAME_CLAIM): _OWN_CLAIM,
            (IdState.CLAIMED_OVER, Asker.REPEAT): _HOLDS,
            (IdState.CLAIMED_OVER, Asker.SAME_TOKEN): _OWN_CLAIM,
            (IdState.CLAIMED_OVER, Asker.OTHER): _HOLDS,
        },
        "take": {(IdState.CLAIMED_OVER, asker): _HOLDS for asker in Asker},
    },
    LeaseExpiry.FAIL: {
        "claim": {(IdState.CLAIMED_OVER, asker): _IN_DOUBT for asker in (Asker.REPEAT, Asker.SAME_TOKEN, Asker.OTHER)},
        "produce": {(IdState.CLAIMED_OVER, asker): _IN_DOUBT for asker in Asker},
        "take": {(IdState.CLAIMED_OVER, asker): _IN_DOUBT for asker in Asker},
    },
}


def tables(expiry: LeaseExpiry) -> dict[str, dict[tuple[IdState, Asker], Cell[Action]]]:
    """Returns the effective tables over free ids, by operation: claim, produce, take, look up."""
    plain = {"claim": CLAIM, "produce": PRODUCE, "take": TAKE, "look up": LOOK_UP}
    return {verb: {**table, **EXPIRED[expiry].get(verb, {})} for verb, table in plain.items()}


def actions(table: dict[tuple[IdState, Asker], Cell[Action]]) -> bytes:
    """Returns a table as bytes, with the `Action` at `state * len(Asker) + asker`.

    Raises KeyError if a cell is empty.
    """
    return bytes(table[state, asker].effect for state in IdState for asker in Asker)


class Verb(IntEnum):
    """The operations on a granted claim."""

    RENEW = 0
    COMPLETE = 1
    RELEASE = 2


class ClaimState(IntEnum):
    """The state of one claim. A claim whose ids were all taken over is still OPEN."""

    OPEN = 0
    DONE = 1
    RELEASED = 2
    UNKNOWN = 3


class Effect(IntEnum):
    """The effect on a claim's rows in the index, and thereby on the ids whose slots still name these rows."""

    EXTEND = 0
    MARK_DONE = 1
    FREE = 2
    NOTHING = 3
    REFUSE_RELEASED = 4
    REFUSE_UNKNOWN = 5


# The state of a claim after the effects that change it or keep it open; all others leave it as it was.
STATE_AFTER = {
    Effect.EXTEND: ClaimState.OPEN,
    Effect.MARK_DONE: ClaimState.DONE,
    Effect.FREE: ClaimState.RELEASED,
}


_UNKNOWN = Cell(
    Effect.REFUSE_UNKNOWN,
    "the claim is unknown",
    "it was never granted here, or ended long ago: stop",
)
_RELEASED = Cell(
    Effect.REFUSE_RELEASED,
    "a released claim stays released",
    "its ids may be another writer's already; marking them done would lose that writer's rows (LOSS)",
)

SETTLE: dict[tuple[Verb, ClaimState], Cell[Effect]] = {
    (Verb.RENEW, ClaimState.OPEN): Cell(
        Effect.EXTEND,
        "the lease restarts now, even after it expired",
        "ids that were taken over stay with their new holder (P2)",
    ),
    (Verb.RENEW, ClaimState.DONE): Cell(Effect.NOTHING, "there is no lease to extend", "the renewal is late"),
    (Verb.RENEW, ClaimState.RELEASED): _RELEASED,
    (Verb.RENEW, ClaimState.UNKNOWN): _UNKNOWN,
    (Verb.COMPLETE, ClaimState.OPEN): Cell(
        Effect.MARK_DONE,
        "ids that still name the claim are done; ids that were taken over are counted and left alone",
        "the new holder was granted the write, and its own completion must decide (LOSS)",
    ),
    (Verb.COMPLETE, ClaimState.DONE): Cell(Effect.NOTHING, "idempotent", "the reply was lost"),
    (Verb.COMPLETE, ClaimState.RELEASED): _RELEASED,
    (Verb.COMPLETE, ClaimState.UNKNOWN): _UNKNOWN,
    (Verb.RELEASE, ClaimState.OPEN): Cell(
        Effect.FREE,
        "ids that still name the claim are free at once",
        "its holder reports that none of them was written",
    ),
    (Verb.RELEASE, ClaimState.DONE): Cell(
        Effect.NOTHING, "done is done", "a late release must not free a written id (P1)"
    ),
    (Verb.RELEASE, ClaimState.RELEASED): Cell(Effect.NOTHING, "idempotent", "the reply was lost"),
    (Verb.RELEASE, ClaimState.UNKNOWN): _UNKNOWN,
}
