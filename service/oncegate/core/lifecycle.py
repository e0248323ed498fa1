"""The life of a namespace on one gateway: the next state after each event, and the answer to each caller.

Rule 1: everything that decides about the life of a ledger is in this file.
Rule 2: this file reads no clock and does no I/O. An event is an argument; other modules serve, wait and reopen.

Theory of operation
===================

A namespace is served from an index that was rebuilt from its ledger. The ledger has one owner, which lives until its
ledger ends. After that end nothing in the index may be answered any more: the index may hold entries that the ledger
never got. A new life begins with a new opening, which fences the previous owner, verifies the ledger and replays it.

There are three kinds of callers, and every end has to answer all of them:

  in flight   their entries are in the current append
  waiting     their entries are queued after it, or their answer depends on an entry that is not durable yet
  new         they arrive afterwards

Hence four tables:

  AFTER   (state, event)     -> the next state
  ENDS    event              -> the outcome for callers in flight and waiting, and whether the ledger is opened again
  WHILE   (state, condition) -> the effective state while a condition lasts
  ROWS    state              -> the answer to new callers, and the name of the state in probes and metrics

An event changes the state permanently. A condition does not: another owner is followed, the disk has no room, the
server cannot be reached, or an operator drains the gateway. When the condition ends, the state is the one from before.
Conditions are read at their source, so no copy of them can be stale.

Example: the disk of the rollback check (`witness`) fails during an append. The append raises, and the content of the
disk is unknown: UNKNOWN. AFTER: a serving namespace becomes LOST. ENDS: callers in flight and waiting get "unknown:
send it again", and the ledger is reopened soon. ROWS: new callers are asked to retry; claims pass unchecked if the
namespace is configured for that. If the disk fails between two appends, while the witness is synced, the event is
ENDED, and only the callers of a current append are in doubt. `tests/faults/ledger/test_witness_fails.py` reads these
rows and provokes both cases on the log ledger.

Three rules hold in every cell, and tests/core/test_lifecycle.py walks all of them:

  1. An unknown outcome is reported as unknown, never as a refusal ("nothing was written") and never as a success. The
     reverse is allowed: something that was certainly not written may be reported as unknown; the caller retries it.
  2. The first end of a ledger counts. No later event of the same opening changes it; only a new opening serves again.
  3. STOPPED is final. Requests accepted before it are still written and answered with their outcome.

An opened ledger has one `EndCell`. The part that detects the end writes it, and every part that serves the ledger
reads it.

Two kinds of events end a ledger. An append that fails reports its own end: its error shows whether it was written. An
end that is detected *beside* appends (by a folder check, a health check or an election) does not show whether the
current append was written. Its callers are in doubt, whatever the end is.
"""

from enum import IntEnum
from typing import NamedTuple

from oncegate.core.cells import Cell
from oncegate.core.errors import LedgerDown, LedgerFenced, OncegateError, Stop


class State(IntEnum):
    """The states of a namespace on one gateway.

    OPENING: its ledger is being opened and replayed.
    FOLLOWING: another gateway owns it; this one replays along as a standby.
    FULL: it serves, but the ledger has no room.
    AWAY: it serves, but the ledger's server is unreachable.
    LEAVING: it serves, but begins nothing new.
    LOST: its ledger ended, perhaps with the last append in doubt; it is reopened soon.
    DOWN: a person must fix the cause; the gateway retries every minute.
    SUPERSEDED: another gateway owns it.
    STOPPED: this gateway no longer serves it.
    """

    OPENING = 0
    FOLLOWING = 1
    SERVING = 2
    FULL = 3
    AWAY = 4
    LEAVING = 5
    LOST = 6
    DOWN = 7
    SUPERSEDED = 8
    STOPPED = 9


class Event(IntEnum):
    """The events that change a namespace's state.

    OPENED: the ledger was replayed and its epoch is durable.
    STANDS_BY: this gateway begins to follow another owner.

    Outcomes of an append:

    WRITTEN: it is durable.
    NO_ROOM: nothing of it was written.
    PART_REFUSED: the ledger rejects one of its changes.
    UNKNOWN: the ledger failed during it.
    FAILED: anything else failed during it, or between two appends.
    FENCED: it met a newer owner.
    DAMAGED: it met damage.

    Detected beside appends: ENDED, FENCED_BESIDE, DAMAGED_BESIDE. Openings that fail:

    UNREACHED: the ledger is down.
    SHORT: another cause that passes by itself.
    BROKEN: a person must fix the cause.

    STOPPED: the gateway stops, or the namespace is deleted.
    """

    OPENED = 0
    STANDS_BY = 1
    WRITTEN = 2
    NO_ROOM = 3
    PART_REFUSED = 4
    UNKNOWN = 5
    FAILED = 6
    FENCED = 7
    DAMAGED = 8
    ENDED = 9
    FENCED_BESIDE = 10
    DAMAGED_BESIDE = 11
    UNREACHED = 12
    SHORT = 13
    BROKEN = 14
    STOPPED = 15


class Condition(IntEnum):
    """Conditions that change a state while they last. Several at once are applied in this order."""

    FOLLOWED = 0
    DRAINED = 1
    NO_ROOM = 2
    UNREACHABLE = 3


class AppendOutcome(IntEnum):
    """The outcome for a caller that waits for the ledger.

    GOES_ON: it keeps waiting for its own append.
    DURABLE: it gets its answer.
    NOT_WRITTEN: it gets an error that says so.
    UNKNOWN: it gets an error that says so, and sends the same request again.
    """

    GOES_ON = 0
    DURABLE = 1
    NOT_WRITTEN = 2
    UNKNOWN = 3


class Reopen(IntEnum):
    """When a ledger is reopened.

    NO: it stays open, or has ended permanently.
    SOON: after a moment, then with growing delays.
    LATER: every minute, since a person must fix the cause.
    """

    NO = 0
    SOON = 1
    LATER = 2


class Callers(IntEnum):
    """The answer to new callers.

    TAKEN: everything is answered and written.
    ENDING: reads are answered, and requests that end something are written; requests that begin something are refused.
    AGAIN: refused with Recovering. Claims pass unchecked if the namespace allows it and the ledger is known to be down.
    OWNER: refused with Recovering, which names the owner.
    CAUSE: refused with the cause.
    """

    TAKEN = 0
    ENDING = 1
    AGAIN = 2
    OWNER = 3
    CAUSE = 4


class End(NamedTuple):
    """The consequences of an event besides the next state.

    is_down: the ledger is known to be down, so claims may pass unchecked from now on.
    """

    in_flight: AppendOutcome
    waiting: AppendOutcome
    reopen: Reopen = Reopen.NO
    is_down: bool = False


class Row(NamedTuple):
    """The answer to new callers in a state, and the state's name in probes and metrics."""

    callers: Callers
    shown: str


SERVES = (State.SERVING, State.FULL, State.AWAY, State.LEAVING)
OPENS = (State.OPENING, State.FOLLOWING, State.LOST, State.DOWN, State.SUPERSEDED)
BY_APPENDS = (Event.UNKNOWN, Event.FAILED, Event.FENCED, Event.DAMAGED)
BESIDE_APPENDS = (Event.ENDED, Event.FENCED_BESIDE, Event.DAMAGED_BESIDE)

_LOST = Cell(
    State.LOST,
    "an end that an opening can clear up is LOST",
    "only the ledger knows what was written; until it is read again no answer may depend on the index",
)
_SUPERSEDED = Cell(
    State.SUPERSEDED,
    "a newer owner supersedes this one",
    "two owners would answer from two histories; this one never takes the ledger back from its successor",
)
_DOWN = Cell(
    State.DOWN,
    "a failure that a person must fix is DOWN",
    "damage is never repaired automatically; the files stay untouched and are checked again every minute",
)
_STAYS_DOWN = Cell(
    State.DOWN,
    "DOWN lasts until the namespace serves or follows",
    "a damaged ledger that cannot be reached is still damaged",
)
_SERVES = Cell(State.SERVING, "a replayed ledger whose epoch is durable serves", "every earlier owner is fenced")
_FOLLOWS = Cell(
    State.OPENING,
    "a standby starts again as a reader",
    "it follows the newer owner and takes over once that owner is gone",
)
_STOPPED = Cell(
    State.STOPPED,
    "STOPPED is final",
    "accepted requests are written and answered, new ones are not: only a restart serves again",
)


def _stays(state: State) -> Cell[State]:
    return Cell(state, "the first end counts", "a later end cannot change the answers already sent")


def _goes_on(state: State) -> Cell[State]:
    return Cell(state, "a definite answer of the ledger ends nothing", "the index is undone to match the ledger")


def _tries_again(state: State) -> Cell[State]:
    return Cell(state, "a failed opening with a transient cause is retried", "nothing was answered from it")


AFTER: dict[tuple[State, Event], Cell[State]] = {
    **{(state, event): _stays(state) for state in State for event in Event},
    **{(state, event): _goes_on(state) for state in SERVES for event in (Event.WRITTEN, Event.NO_ROOM)},
    **{(state, Event.PART_REFUSED): _goes_on(state) for state in SERVES},
    **{(state, Event.UNKNOWN): _LOST for state in SERVES},
    **{(state, Event.FAILED): _LOST for state in SERVES},
    **{(state, Event.ENDED): _LOST for state in SERVES},
    **{(state, event): _SUPERSEDED for state in SERVES for event in (Event.FENCED, Event.FENCED_BESIDE)},
    **{(state, event): _DOWN for state in SERVES for event in (Event.DAMAGED, Event.DAMAGED_BESIDE)},
    **{(state, Event.OPENED): _SERVES for state in OPENS},
    **{(state, Event.STANDS_BY): _FOLLOWS for state in OPENS},
    **{(state, event): _tries_again(state) for state in OPENS for event in (Event.UNREACHED, Event.SHORT)},
    **{(state, Event.BROKEN): _DOWN for state in OPENS},
    **{(state, Event.FENCED): _SUPERSEDED for state in OPENS},
    **{(State.DOWN, event): _STAYS_DOWN for event in (Event.UNREACHED, Event.SHORT, Event.FENCED)},
    **{(state, Event.STOPPED): _STOPPED for state in State},
    **{(State.STOPPED, event): _STOPPED for event in Event},
}

ENDS: dict[Event, Cell[End]] = {
    Event.OPENED: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON),
        "no caller waits for a ledger that is being opened",
        "new callers retry",
    ),
    Event.STANDS_BY: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.SOON),
        "the gateway follows at once",
        "its callers have their answers",
    ),
    Event.WRITTEN: Cell(
        End(AppendOutcome.DURABLE, AppendOutcome.GOES_ON),
        "durable before answered",
        "the entry survives this process (P1)",
    ),
    Event.NO_ROOM: Cell(
        End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN),
        "a full ledger refuses the append and everything queued after it",
        "nothing was written; decisions based on it are undone with it",
    ),
    Event.PART_REFUSED: Cell(
        End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN),
        "a refused change is undone with everything queued after it",
        "its submitter gets the refusal; the other changes are decided again without it",
    ),
    Event.UNKNOWN: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.UNKNOWN, Reopen.SOON, is_down=True),
        "a failed append may have been written",
        "only the ledger knows: the caller retries, and the replayed index answers (P1)",
    ),
    Event.FAILED: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.UNKNOWN, Reopen.SOON),
        "an unexpected error leaves the same doubt",
        "it proves nothing about the ledger, so it does not let claims pass unchecked",
    ),
    Event.FENCED: Cell(
        End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN, Reopen.LATER),
        "a fenced append wrote nothing",
        "the ledger refused it by the newer owner's epoch (P3)",
    ),
    Event.DAMAGED: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.UNKNOWN, Reopen.LATER),
        "an append that met damage may have been written",
        "the content must not be trusted before a person has looked at it",
    ),
    Event.ENDED: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.SOON),
        "an end beside appends leaves the current append in doubt",
        "it may already be written; changes queued after it never reach this ledger",
    ),
    Event.FENCED_BESIDE: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.LATER),
        "an end beside appends leaves the current append in doubt",
        "it may already be written; changes queued after it never reach this ledger",
    ),
    Event.DAMAGED_BESIDE: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.LATER),
        "an end beside appends leaves the current append in doubt",
        "it may already be written; changes queued after it never reach this ledger",
    ),
    Event.UNREACHED: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.SOON, is_down=True),
        "a ledger that cannot be opened is down",
        "it served before, or another gateway serves it, so the outage is transient",
    ),
    Event.SHORT: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.SOON),
        "a shortage of descriptors, memory, threads or room is transient",
        "other processes give them back",
    ),
    Event.BROKEN: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.LATER),
        "a failure that a person must fix is retried every minute",
        "a setting, a permission or a folder may be corrected meanwhile",
    ),
    Event.STOPPED: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON),
        "requests accepted before a stop are written and answered",
        "a stop loses nothing that was acknowledged or begun",
    ),
}

WHILE: dict[tuple[State, Condition], Cell[State]] = {
    **{
        (state, Condition.FOLLOWED): Cell(
            State.FOLLOWING, "the ledger of another owner is followed", "a takeover then needs no replay from the start"
        )
        for state in (State.OPENING, State.LOST)
    },
    (State.SERVING, Condition.DRAINED): Cell(
        State.LEAVING,
        "an operator drains the gateway",
        "open work is finished here, so that nothing is in doubt when the gateway stops",
    ),
    **{
        (state, Condition.NO_ROOM): Cell(
            State.FULL,
            "a full ledger accepts only entries that end something",
            "completes and releases free claims; room is reserved for them",
        )
        for state in (State.SERVING, State.LEAVING)
    },
    **{
        (state, Condition.UNREACHABLE): Cell(
            State.AWAY,
            "an unreachable server is not an end",
            "nothing was written that could be lost; the ledger continues once the server is back",
        )
        for state in (State.SERVING, State.LEAVING, State.FULL)
    },
}

ROWS: dict[State, Cell[Row]] = {
    State.OPENING: Cell(
        Row(Callers.AGAIN, "RECOVERING"), "nothing is answered before the replay ends", "the index is incomplete (P1)"
    ),
    State.FOLLOWING: Cell(
        Row(Callers.OWNER, "STANDBY"), "one owner answers", "a follower lags behind the owner's last append (P1)"
    ),
    State.SERVING: Cell(Row(Callers.TAKEN, "SERVING"), "the owner answers", "its index equals its ledger"),
    State.FULL: Cell(
        Row(Callers.ENDING, "FULL"),
        "a full ledger refuses new work with LedgerFull",
        "known ids are answered, and open claims can end",
    ),
    State.AWAY: Cell(
        Row(Callers.TAKEN, "RECOVERING"),
        "the append decides",
        "it reaches the server, or is refused with nothing written; no probe has to guess",
    ),
    State.LEAVING: Cell(
        Row(Callers.ENDING, "SERVING"),
        "a drained gateway refuses new work with Stopping",
        "its readiness probe fails in every state, so that callers go elsewhere",
    ),
    State.LOST: Cell(
        Row(Callers.AGAIN, "RECOVERING"),
        "nothing is answered from a lost index",
        "its entries may be missing from the ledger (P1)",
    ),
    State.DOWN: Cell(Row(Callers.CAUSE, "DOWN"), "the caller gets the cause", "a person must act; waiting is no help"),
    State.SUPERSEDED: Cell(
        Row(Callers.CAUSE, "DOWN"), "the caller gets LedgerFenced", "another gateway now answers for this namespace"
    ),
    State.STOPPED: Cell(
        Row(Callers.CAUSE, "RECOVERING"),
        "the caller gets the reason for the stop",
        "another gateway may serve the namespace",
    ),
}


def end_of(error: BaseException, *, beside: bool = False) -> Event:
    """Returns the event for an error that ended a ledger; `beside`: the error was detected outside an append."""
    if isinstance(error, LedgerFenced):
        return Event.FENCED_BESIDE if beside else Event.FENCED
    if isinstance(error, Stop):
        return Event.DAMAGED_BESIDE if beside else Event.DAMAGED
    if beside:
        return Event.ENDED
    return Event.UNKNOWN if isinstance(error, LedgerDown | OSError) else Event.FAILED


def is_taken(state: State, *, begins: bool) -> bool:
    """Returns True if a namespace in this state accepts a call. begins: the call begins something."""
    callers = ROWS[state].effect.callers
    return callers is Callers.TAKEN or (callers is Callers.ENDING and not begins)


class Ending(NamedTuple):
    """The end of a ledger: its event, and the error with the reason."""

    event: Event
    error: OncegateError

    def again(self) -> OncegateError:
        """Returns a copy of the error for each caller, so that every copy has its own traceback."""
        return type(self.error)(self.error.detail, **self.error.extra)


class EndCell:
    """The end of one opened ledger: written once, from any thread, and read by every part that serves it.

    ending: how the ledger ended; None while it is open. An orderly close is the event `STOPPED`.
    """

    ending: Ending | None = None

    def write(self, event: Event, error: OncegateError) -> Ending:
        """Records the end of the ledger, unless it has ended already. Returns the end that counts, which is the
        first."""
        ending: Ending = vars(self).setdefault("ending", Ending(event, error))  # atomic across threads
        return ending

    def write_beside(self, error: OncegateError) -> Ending:
        """Like `write`, for an end that was detected outside an append."""
        return self.write(end_of(error, beside=True), error)

    def check(self) -> None:
        """Raises the error that ended the ledger, if it has ended."""
        if (ending := self.ending) is not None:
            raise ending.again()
