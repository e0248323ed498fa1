"""What a free id's request means: a table for each verb, the only place that decides.

Rule 1: everything that decides about a free id stands in this file.
Rule 2: this file reads no clock and does no I/O; whether a lease is over is an argument.

The index compiles `actions()` into its kernels; the tables of docs/decisions.md are drawn from these.
P1..P6 and LOSS are the properties of RELIABILITY.md that a cell serves.
"""

from enum import IntEnum

from oncegate.core.cells import Cell


class IdTime(IntEnum):
    """Names how the ids of a namespace carry the time at which they were made. NONE: not, or nobody says how.

    EVENT_ID: as the clients' `EventIds` makes them, `<12 hexadecimal digits of milliseconds>-…`. UUID7: as RFC 9562
    says, 16 raw bytes or their text.
    """

    NONE = 0
    EVENT_ID = 1
    UUID7 = 2


# By how much the clocks of writers and of the gateway may differ: an id is past so much sooner. NTP keeps them closer.
ID_TIME_SKEW_MS = 60_000


def past_ms(horizon_ms: int, known_from_ms: int, wall_ms: int) -> int:
    """Returns up to when, in milliseconds since 1970, an id was made that is past; 0: none is.

    horizon_ms: how long what is done is known, 0 for ever. known_from_ms: what was done before is forgotten.
    """
    since_ms = max(known_from_ms, wall_ms - horizon_ms if horizon_ms else 0)
    return since_ms + ID_TIME_SKEW_MS if since_ms > 0 else 0


class IdState(IntEnum):
    """Names what is known about one id. Released and retired ids are absent, swept or not. TAKEN: an owner's, for good.

    DONE_OTHER: done with another payload than the one it is asked with. Where either has no digest it is just DONE.
    PAST: absent, and by the time that it carries older than anything that is still known.
    """

    ABSENT = 0
    CLAIMED_LIVE = 1
    CLAIMED_OVER = 2
    DONE = 3
    TAKEN = 4
    DONE_OTHER = 5
    PAST = 6


class Asker(IntEnum):
    """Names who asks, seen from the id's holder.

    SAME_CLAIM: the same (token, call) as the holder. REPEAT: a (token, call) already decided, whose claim does
    not hold this id. SAME_TOKEN: another call of the holder's attempt. OTHER: anybody else, or no holder.
    To `take` an owner is what a token is to the others; it has no calls.
    """

    SAME_CLAIM = 0
    REPEAT = 1
    SAME_TOKEN = 2
    OTHER = 3


class LeaseExpiry(IntEnum):
    """Names what becomes of an id whose holder's lease ran out: a namespace's setting.

    TAKEOVER: the next to ask is granted it. HOLD: it stays its holder's, and others wait, until the holder settles it
    or a person resolves it. FAIL: the same, and others are told at once that it is in doubt.
    """

    TAKEOVER = 0
    HOLD = 1
    FAIL = 2


class OnLedgerDown(IntEnum):
    """Names what whoever claims ids is told while the ledger is down: a namespace's setting.

    REJECT: it is refused, and asks again. PASS_MARKED: all is granted, marked as unchecked; nothing is held as known.
    """

    REJECT = 0
    PASS_MARKED = 1


class Action(IntEnum):
    """Names what is done with one id of a request; FREE and LEFT: nothing, it is told that nobody holds it.

    HOLD and IN_DOUBT: nothing either, for its holder's lease ran out and `LeaseExpiry` grants it to nobody. STALE: nor
    this, for whether it was written is not known any more.
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
    "a repeat grants nothing that its claim does not hold",
    "a late copy would grant under a settled claim id, and complete would mark done what nobody wrote (LOSS)",
)
_DUPLICATE = Cell(
    Action.DUPLICATE, "done is done for everyone", "an acknowledged completion is never granted again (P1)"
)
_AGAIN = Cell(
    Action.GRANT_AGAIN,
    "a repeat is granted what its claim still holds, lease from now",
    "the reply was lost; refusing would leave the id to nobody until the lease ends (P6)",
)
_FRESH = Cell(Action.GRANT, "nobody holds it", "the first to ask writes it")
_TAKE = Cell(
    Action.TAKE_OVER,
    "an expired claim may be taken over",
    "its holder is probably dead; the duplicate it may cause is counted as a takeover (P5, P6)",
)
_BELONGS = Cell(
    Action.DUPLICATE,
    "an id that an owner took is that owner's for good",
    "the owner's job writes it; anybody else would write it twice (P1)",
)
_CONFLICT = Cell(
    Action.CONFLICT,
    "an id that was done with another payload is no duplicate",
    "dropping it would lose the second payload, writing it would make two of one id: whoever asks is told (LOSS, P1)",
)

_PAST = Cell(
    Action.STALE,
    "an id that carries its time is stale once it is older than what is known",
    "it may have been written and forgotten: granting it would write it twice (P1); one that never was is late by a "
    "whole horizon",
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
        "an attempt's own earlier call holds it",
        "granting it twice would write it twice within one attempt (P5)",
    ),
    (IdState.CLAIMED_LIVE, Asker.OTHER): Cell(
        Action.BUSY, "a live lease is respected", "its holder may be writing it now (P2)"
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
    "the rows are in the request: what it is granted it writes, and it is done",
    "no claim is left to complete, so a late copy cannot mark done what nobody wrote (LOSS)",
)
_TAKES_AND_WRITES = Cell(
    Action.TAKE_OVER,
    "an expired claim may be taken over, and is done at once",
    "its holder may have written the id elsewhere: counted as a takeover (P5)",
)
_HELD = Cell(Action.BUSY, "a live lease is respected", "its holder may be writing it now, to another place (P2)")
_OWN_CLAIM = Cell(
    Action.SAME,
    "an attempt's own open claim holds it",
    "the attempt said that it writes the id itself; both would be two copies (P5)",
)

_ENDED = (IdState.DONE, IdState.TAKEN, IdState.DONE_OTHER)
_DECIDED_ALIKE = (*_ENDED, IdState.PAST)

# Produce by ids: claim, done and output in one entry. GRANT and TAKE_OVER mean: written by this request.
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

_TAKES = Cell(Action.GRANT, "nobody holds it", "from now on it is this owner's, without lease or settling")
_KEEPS = Cell(
    Action.GRANT_AGAIN,
    "the same owner is granted again",
    "a retry or a re-run of one job keeps what it took; refusing would drop its rows (LOSS)",
)
_TAKES_OVER = Cell(Action.TAKE_OVER, "an expired claim may be taken over", "as for a claim (P5, P6)")

# Take: an id belongs to the first owner that asks. Owners have no calls, so no REPEAT is told from the rest.
TAKE: dict[tuple[IdState, Asker], Cell[Action]] = {
    **{(IdState.ABSENT, asker): _TAKES for asker in Asker},
    **{(IdState.CLAIMED_LIVE, asker): _HELD for asker in Asker},
    **{(IdState.CLAIMED_OVER, asker): _TAKES_OVER for asker in Asker},
    **{(IdState.DONE, asker): _DUPLICATE for asker in Asker},
    (IdState.TAKEN, Asker.SAME_CLAIM): _KEEPS,
    (IdState.TAKEN, Asker.REPEAT): _BELONGS,
    (IdState.TAKEN, Asker.SAME_TOKEN): _KEEPS,
    (IdState.TAKEN, Asker.OTHER): _BELONGS,
    # Who takes brings no payload, so what another verb was told is not asked here.
    **{(IdState.DONE_OTHER, asker): _DUPLICATE for asker in Asker},
    **{(IdState.PAST, asker): _PAST for asker in Asker},
}

_IS_FREE = Cell(Action.FREE, "nobody holds it", "it is told and not granted: who looks up writes nothing (P1)")
_IS_LEFT = Cell(
    Action.LEFT,
    "an expired claim is told from a free id",
    "its holder may have written it: whoever compares must not call it unwritten (P5)",
)
_IS_HELD = Cell(Action.BUSY, "a live lease is told as what it is", "whether it is written is not known yet (P2)")
_IS_KNOWN = Cell(Action.DUPLICATE, "done or taken is known", "a write of it would be told DUPLICATE (P1)")

# Look up: what is known of an id; grants nothing, so it is the same whoever asks.
LOOK_UP: dict[tuple[IdState, Asker], Cell[Action]] = {
    **{(IdState.ABSENT, asker): _IS_FREE for asker in Asker},
    **{(IdState.CLAIMED_LIVE, asker): _IS_HELD for asker in Asker},
    **{(IdState.CLAIMED_OVER, asker): _IS_LEFT for asker in Asker},
    # Who looks up brings no payload, so DONE_OTHER is done.
    **{(state, asker): _IS_KNOWN for state in _ENDED for asker in Asker},
    **{(IdState.PAST, asker): _PAST for asker in Asker},
}


_HOLDS = Cell(
    Action.HOLD,
    "an expired claim stays its holder's (lease_expiry is hold)",
    "it may have been written, and nobody is to write it twice: others wait for its holder or a person (P5 before P6)",
)
_IN_DOUBT = Cell(
    Action.IN_DOUBT,
    "an expired claim is in doubt (lease_expiry is fail)",
    "it may have been written, and nobody is to write it twice: whoever asks is stopped, not kept waiting (P5 before "
    "P6)",
)

# What takes the place of cells where a namespace lets nobody take over. Only the holder's own repeat goes on: it has
# the claim. A look-up tells what is known, so nothing takes the place of its cells.
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
    """Returns the tables over free ids that are in force, by what is asked: claim, produce, take, look up."""
    plain = {"claim": CLAIM, "produce": PRODUCE, "take": TAKE, "look up": LOOK_UP}
    return {verb: {**table, **EXPIRED[expiry].get(verb, {})} for verb, table in plain.items()}


def actions(table: dict[tuple[IdState, Asker], Cell[Action]]) -> bytes:
    """Returns a table as bytes, `Action` at `state * len(Asker) + asker`; KeyError when a cell is empty."""
    return bytes(table[state, asker].effect for state in IdState for asker in Asker)


class Verb(IntEnum):
    """Names the ways to settle a claim."""

    RENEW = 0
    COMPLETE = 1
    RELEASE = 2


class ClaimState(IntEnum):
    """Names what is known about one claim. A claim whose ids were all taken over is still OPEN."""

    OPEN = 0
    DONE = 1
    RELEASED = 2
    UNKNOWN = 3


class Effect(IntEnum):
    """Names what settling does to the rows of a claim, hence to just those ids whose slots still name them."""

    EXTEND = 0
    MARK_DONE = 1
    FREE = 2
    NOTHING = 3
    REFUSE_RELEASED = 4
    REFUSE_UNKNOWN = 5


# The state of a claim after an effect that changes or keeps it open; after any other it is what it was.
STATE_AFTER = {
    Effect.EXTEND: ClaimState.OPEN,
    Effect.MARK_DONE: ClaimState.DONE,
    Effect.FREE: ClaimState.RELEASED,
}


_UNKNOWN = Cell(
    Effect.REFUSE_UNKNOWN,
    "nothing is known of this claim",
    "it was never granted here, or settled long ago: stop",
)
_RELEASED = Cell(
    Effect.REFUSE_RELEASED,
    "a released claim stays released",
    "its ids may be another's by now; marking them done would lose that writer's rows (LOSS)",
)

SETTLE: dict[tuple[Verb, ClaimState], Cell[Effect]] = {
    (Verb.RENEW, ClaimState.OPEN): Cell(
        Effect.EXTEND,
        "lease from now, also after it ran out",
        "what was taken over stays with its taker (P2)",
    ),
    (Verb.RENEW, ClaimState.DONE): Cell(Effect.NOTHING, "nothing to hold", "a late renewal of a settled claim"),
    (Verb.RENEW, ClaimState.RELEASED): _RELEASED,
    (Verb.RENEW, ClaimState.UNKNOWN): _UNKNOWN,
    (Verb.COMPLETE, ClaimState.OPEN): Cell(
        Effect.MARK_DONE,
        "what still names the claim is done; what was taken over is counted and left alone",
        "the taker was told to write it, and its own completion must decide (LOSS)",
    ),
    (Verb.COMPLETE, ClaimState.DONE): Cell(Effect.NOTHING, "idempotent", "the reply was lost"),
    (Verb.COMPLETE, ClaimState.RELEASED): _RELEASED,
    (Verb.COMPLETE, ClaimState.UNKNOWN): _UNKNOWN,
    (Verb.RELEASE, ClaimState.OPEN): Cell(
        Effect.FREE,
        "what still names the claim is free at once",
        "its holder said that none of it was written",
    ),
    (Verb.RELEASE, ClaimState.DONE): Cell(
        Effect.NOTHING, "done is done", "a late release must not bring a written id back (P1)"
    ),
    (Verb.RELEASE, ClaimState.RELEASED): Cell(Effect.NOTHING, "idempotent", "the reply was lost"),
    (Verb.RELEASE, ClaimState.UNKNOWN): _UNKNOWN,
}
