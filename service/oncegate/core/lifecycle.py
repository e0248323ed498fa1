"""The life of one namespace on one gateway: which state follows from which event, and what its callers get.

Rule 1: everything that decides about the life of a ledger is in this file.
Rule 2: this file reads no clock and does no I/O. An event is an argument; who serves, waits or reopens is elsewhere.

Theory of operation
===================

A namespace is served from an index that was rebuilt from its ledger. The ledger has one owner, and an owner lives until
its ledger ends. Then nothing that the index knows may be answered any more: the index may hold entries that the ledger
never got. A new life begins with a new opening, which fences the owner before, verifies the ledger and replays it.

There are three kinds of callers, and every end has to answer all of them:

  in flight   their entries are in the append that was under way
  waiting     their entries are queued behind it, or their answer depends on an entry that is not durable yet
  new         they come afterwards

So there are four tables:

  AFTER   (state, event)     -> the next state
  ENDS    event              -> what callers in flight and waiting get, and whether the ledger is opened again
  WHILE   (state, condition) -> the state that is in force while a condition lasts
  ROWS    state              -> what new callers get, and the name of the state in probes and metrics

An event changes the state for good. A condition does not: another owner is followed, the disk has no room, the server
cannot be reached, or an operator drains the gateway. When it is over, the state is what it was. Conditions are read
where they arise, so no copy of them can be stale.

"What does a caller get when the witness's disk fails during an append?" The append raises, and it is unknown what is on
the disk: UNKNOWN. AFTER: a serving namespace is LOST. ENDS: the callers in flight and the waiting ones get "unknown:
send it again", and the ledger is opened again soon. ROWS: new callers are asked to come again; claims pass unchecked
where the namespace is set so. If the disk fails between two appends, in the sync of the witness, the event is ENDED,
and only the callers of an append that is under way are in doubt. `tests/faults/ledger/test_witness_fails.py` reads
these rows and provokes both on the log ledger.

Three rules hold in every cell, and tests/core/test_lifecycle.py walks all of them:

  1. An unknown outcome is reported as unknown. It is never a refusal ("nothing was written") and never a success. The
     reverse is allowed: what was certainly not written may be reported as unknown, since its caller sends it again.
  2. The first end of a ledger counts. No later event of the same opening changes it; only a new opening serves again.
  3. STOPPED is final. What was taken before is still written and answered, and its callers get the outcome.

An opened ledger has one `EndCell`, which whoever finds its end writes; every part that serves the ledger reads it.

Events of two kinds end a ledger. An append that fails reports its own end: its error says whether it was written. An
end that is found *beside* appends (by a look at a folder, a health check, an election) says nothing about the append
that is under way, which may be written: its callers are in doubt, whatever the end is.
"""

from enum import IntEnum
from typing import NamedTuple

from oncegate.core.cells import Cell
from oncegate.core.errors import LedgerDown, LedgerFenced, OncegateError, Stop


class State(IntEnum):
    """Names the states of a namespace on one gateway.

    OPENING: its ledger is being opened and replayed. FOLLOWING: another gateway owns it, and this one replays along.
    FULL: it serves, and the ledger has no room. AWAY: it serves, and the ledger's server cannot be reached. LEAVING: it
    serves, and begins nothing new. LOST: its ledger ended, and what the last append wrote may be unknown; it is opened
    again soon. DOWN: a person must mend the cause; it is tried again each minute. SUPERSEDED: another gateway owns it.
    STOPPED: this gateway serves it no more.
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
    """Names what changes a namespace's state.

    OPENED: the ledger was replayed and its epoch is durable. STANDS_BY: this gateway begins to follow another owner.
    Appends: WRITTEN; NO_ROOM: nothing of it was written; PART_REFUSED: the ledger refuses one change of it. UNKNOWN:
    the ledger failed in it. FAILED: anything else failed in it, or between two. FENCED: it met a newer owner. DAMAGED:
    it met damage. Found beside appends: ENDED, FENCED_BESIDE, DAMAGED_BESIDE. Openings that fail: UNREACHED: the ledger
    is down; SHORT: anything else that passes by itself; BROKEN: a person must mend it. STOPPED: the gateway stops, or
    the namespace is deleted.
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
    """Names what changes a state while it lasts. Where several hold, they are applied in this order."""

    FOLLOWED = 0
    DRAINED = 1
    NO_ROOM = 2
    UNREACHABLE = 3


class AppendOutcome(IntEnum):
    """Names what a caller gets that waits for the ledger.

    GOES_ON: it waits on, for its own append. DURABLE: its answer. NOT_WRITTEN: an error that says so. UNKNOWN: an error
    that says so; the caller sends the same request again.
    """

    GOES_ON = 0
    DURABLE = 1
    NOT_WRITTEN = 2
    UNKNOWN = 3


class Reopen(IntEnum):
    """Names when a ledger is opened again: NO: it goes on, or ends for good; SOON: in a moment, then ever more rarely;
    LATER: each minute, once a person may have mended the cause."""

    NO = 0
    SOON = 1
    LATER = 2


class Callers(IntEnum):
    """Names what new callers get.

    TAKEN: all is answered and written. ENDING: reads are answered and what ends something is written; what begins
    something is refused. AGAIN: refused with Recovering; claims pass unchecked where the namespace is set so and the
    ledger is known to be down. OWNER: refused with Recovering, which names the owner. CAUSE: refused with the cause.
    """

    TAKEN = 0
    ENDING = 1
    AGAIN = 2
    OWNER = 3
    CAUSE = 4


class End(NamedTuple):
    """Holds what follows from an event beside the next state.

    is_down: the ledger is known to be down, so claims may pass unchecked from now on.
    """

    in_flight: AppendOutcome
    waiting: AppendOutcome
    reopen: Reopen = Reopen.NO
    is_down: bool = False


class Row(NamedTuple):
    """Holds what new callers of a state get, and the state's name in probes and metrics."""

    callers: Callers
    shown: str


SERVES = (State.SERVING, State.FULL, State.AWAY, State.LEAVING)
OPENS = (State.OPENING, State.FOLLOWING, State.LOST, State.DOWN, State.SUPERSEDED)
BY_APPENDS = (Event.UNKNOWN, Event.FAILED, Event.FENCED, Event.DAMAGED)
BESIDE_APPENDS = (Event.ENDED, Event.FENCED_BESIDE, Event.DAMAGED_BESIDE)

_LOST = Cell(
    State.LOST,
    "an end that an opening can clear up is LOST",
    "the ledger knows what was written; until it is read again no answer may rest on the index",
)
_SUPERSEDED = Cell(
    State.SUPERSEDED,
    "a newer owner supersedes this one",
    "two owners would answer from two histories; this one takes nothing back from its successor",
)
_DOWN = Cell(
    State.DOWN,
    "what a person must mend is DOWN",
    "damage is never repaired by itself; it stays untouched, and is looked at again once it may be mended",
)
_STAYS_DOWN = Cell(
    State.DOWN,
    "DOWN lasts until it serves or follows",
    "that a damaged ledger cannot be reached now does not make it less damaged",
)
_SERVES = Cell(State.SERVING, "a replayed ledger whose epoch is durable serves", "every owner before it is fenced")
_FOLLOWS = Cell(
    State.OPENING,
    "a standby begins again, as a reader",
    "it follows the newer owner and takes over when that one is gone",
)
_STOPPED = Cell(
    State.STOPPED,
    "STOPPED is final",
    "what was taken is written and answered, and nothing new is: a restart begins another life",
)


def _stays(state: State) -> Cell[State]:
    return Cell(state, "the first end counts", "a later one says nothing about what callers were told before")


def _goes_on(state: State) -> Cell[State]:
    return Cell(state, "a definite answer of the ledger ends nothing", "the index is undone to what the ledger has")


def _tries_again(state: State) -> Cell[State]:
    return Cell(state, "an opening that fails for a while is tried again", "nothing was answered from it")


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
        "no caller waits for a ledger that opens",
        "callers come again",
    ),
    Event.STANDS_BY: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.SOON),
        "it follows at once",
        "its callers have their answers",
    ),
    Event.WRITTEN: Cell(
        End(AppendOutcome.DURABLE, AppendOutcome.GOES_ON),
        "durable before answered",
        "the entry survives this process (P1)",
    ),
    Event.NO_ROOM: Cell(
        End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN),
        "a full ledger refuses the append and all that waits behind it",
        "nothing was written; what was decided on top of it is undone with it",
    ),
    Event.PART_REFUSED: Cell(
        End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN),
        "a refused change is undone with all that waits behind it",
        "its submitter gets the refusal; the others are decided again without it",
    ),
    Event.UNKNOWN: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.UNKNOWN, Reopen.SOON, is_down=True),
        "an append that failed may be written",
        "only the ledger knows: the caller sends it again, and the replayed index answers (P1)",
    ),
    Event.FAILED: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.UNKNOWN, Reopen.SOON),
        "an unexpected error leaves the same doubt",
        "it proves nothing about the ledger, so claims do not pass unchecked by it",
    ),
    Event.FENCED: Cell(
        End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN, Reopen.LATER),
        "a fenced append wrote nothing",
        "the ledger refused it by the newer owner's epoch (P3)",
    ),
    Event.DAMAGED: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.UNKNOWN, Reopen.LATER),
        "an append that met damage may be written",
        "what is there must not be trusted before a person has looked",
    ),
    Event.ENDED: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.SOON),
        "an end beside appends leaves the append under way in doubt",
        "it may be written by now; what waits behind it never reaches this ledger",
    ),
    Event.FENCED_BESIDE: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.LATER),
        "an end beside appends leaves the append under way in doubt",
        "it may be written by now; what waits behind it never reaches this ledger",
    ),
    Event.DAMAGED_BESIDE: Cell(
        End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.LATER),
        "an end beside appends leaves the append under way in doubt",
        "it may be written by now; what waits behind it never reaches this ledger",
    ),
    Event.UNREACHED: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.SOON, is_down=True),
        "a ledger that cannot be opened is down",
        "it served before, or another gateway serves it: it will be there again",
    ),
    Event.SHORT: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.SOON),
        "want of descriptors, memory, threads or room passes by itself",
        "others give them back",
    ),
    Event.BROKEN: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON, Reopen.LATER),
        "what a person must mend is tried again each minute",
        "a setting, a right or a folder may be mended by then",
    ),
    Event.STOPPED: Cell(
        End(AppendOutcome.GOES_ON, AppendOutcome.GOES_ON),
        "what was taken before a stop is written and answered",
        "a stop loses nothing that was acknowledged or begun",
    ),
}

WHILE: dict[tuple[State, Condition], Cell[State]] = {
    **{
        (state, Condition.FOLLOWED): Cell(
            State.FOLLOWING, "a ledger of another owner is followed", "it is taken over without a replay from the start"
        )
        for state in (State.OPENING, State.LOST)
    },
    (State.SERVING, Condition.DRAINED): Cell(
        State.LEAVING,
        "an operator drains the gateway",
        "what is open is finished here, so that nothing is in doubt when the gateway stops",
    ),
    **{
        (state, Condition.NO_ROOM): Cell(
            State.FULL,
            "a full ledger takes only what ends something",
            "completes and releases free claims; room is kept for them",
        )
        for state in (State.SERVING, State.LEAVING)
    },
    **{
        (state, Condition.UNREACHABLE): Cell(
            State.AWAY,
            "a server that is away is no end",
            "nothing was written that would be lost; the ledger goes on when the server is there again",
        )
        for state in (State.SERVING, State.LEAVING, State.FULL)
    },
}

ROWS: dict[State, Cell[Row]] = {
    State.OPENING: Cell(
        Row(Callers.AGAIN, "RECOVERING"), "nothing is answered before the replay ends", "the index is not whole (P1)"
    ),
    State.FOLLOWING: Cell(
        Row(Callers.OWNER, "STANDBY"), "one owner answers", "a follower lags behind the owner's last append (P1)"
    ),
    State.SERVING: Cell(Row(Callers.TAKEN, "SERVING"), "it serves", "its index is its ledger"),
    State.FULL: Cell(
        Row(Callers.ENDING, "FULL"),
        "a full ledger refuses new work with LedgerFull",
        "what is known is answered, and what is open can end",
    ),
    State.AWAY: Cell(
        Row(Callers.TAKEN, "RECOVERING"),
        "the append decides",
        "it reaches the server, or refuses with nothing written; no probe has to guess",
    ),
    State.LEAVING: Cell(
        Row(Callers.ENDING, "SERVING"),
        "a drained gateway refuses new work with Stopping",
        "the probe is not ready whatever the state is, so that callers go elsewhere",
    ),
    State.LOST: Cell(
        Row(Callers.AGAIN, "RECOVERING"),
        "nothing is answered from a lost index",
        "the ledger may not have it (P1)",
    ),
    State.DOWN: Cell(Row(Callers.CAUSE, "DOWN"), "the caller gets the cause", "a person must act; waiting is no help"),
    State.SUPERSEDED: Cell(
        Row(Callers.CAUSE, "DOWN"), "the caller gets LedgerFenced", "another gateway answers for this namespace now"
    ),
    State.STOPPED: Cell(
        Row(Callers.CAUSE, "RECOVERING"),
        "the caller gets why it stopped",
        "another gateway may serve it",
    ),
}


def end_of(error: BaseException, *, beside: bool = False) -> Event:
    """Returns the event that an error is which ended a ledger: of an append, or found `beside` appends."""
    if isinstance(error, LedgerFenced):
        return Event.FENCED_BESIDE if beside else Event.FENCED
    if isinstance(error, Stop):
        return Event.DAMAGED_BESIDE if beside else Event.DAMAGED
    if beside:
        return Event.ENDED
    return Event.UNKNOWN if isinstance(error, LedgerDown | OSError) else Event.FAILED


def is_taken(state: State, *, begins: bool) -> bool:
    """Returns whether a namespace in this state takes a call: one that begins something, or any other."""
    callers = ROWS[state].effect.callers
    return callers is Callers.TAKEN or (callers is Callers.ENDING and not begins)


class Ending(NamedTuple):
    """Holds how a ledger ended: by which event, and the error that says why."""

    event: Event
    error: OncegateError

    def again(self) -> OncegateError:
        """Returns the error for one more caller: each has a traceback of its own."""
        return type(self.error)(self.error.detail, **self.error.extra)


class EndCell:
    """Holds the end of one opened ledger: written once, from any thread, and read by every part that serves it.

    ending: how the ledger ended; None: it goes on. A ledger that was closed in good order has ended by `STOPPED`.
    """

    ending: Ending | None = None

    def write(self, event: Event, error: OncegateError) -> Ending:
        """Notes an end; returns the one that counts, which is the first."""
        ending: Ending = vars(self).setdefault("ending", Ending(event, error))  # one step, whatever other threads do
        return ending

    def write_beside(self, error: OncegateError) -> Ending:
        """Notes, as `write`, an end that was found beside appends."""
        return self.write(end_of(error, beside=True), error)

    def check(self) -> None:
        """Raises why the ledger takes and answers nothing more, once it has ended."""
        if (ending := self.ending) is not None:
            raise ending.again()
