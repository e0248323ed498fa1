"""The life of a namespace as tables: every cell, and all walks over them."""

from itertools import product

import pytest

from oncegate.core.errors import (
    KeyMismatch,
    LedgerBehind,
    LedgerBusy,
    LedgerDamaged,
    LedgerDown,
    LedgerFenced,
    LedgerFull,
)
from oncegate.core.lifecycle import (
    AFTER,
    BESIDE_APPENDS,
    BY_APPENDS,
    ENDS,
    OPENS,
    ROWS,
    SERVES,
    WHILE,
    AppendOutcome,
    Callers,
    Condition,
    EndCell,
    Event,
    Reopen,
    State,
    end_of,
    is_taken,
)

# The cells by hand: O opening, F following, S serving, f full, a away, l leaving, L lost, D down, X superseded, .
# stopped.
LETTERS = dict(zip("OFSfalLDX.", State, strict=True))
NEXT = {
    # from:                 O F S f a l L D X .
    Event.OPENED: "         S S S f a l S S S .",
    Event.STANDS_BY: "      O O S f a l O O O .",
    Event.WRITTEN: "        O F S f a l L D X .",
    Event.NO_ROOM: "        O F S f a l L D X .",
    Event.PART_REFUSED: "   O F S f a l L D X .",
    Event.UNKNOWN: "        O F L L L L L D X .",
    Event.FAILED: "         O F L L L L L D X .",
    Event.FENCED: "         X X X X X X X D X .",
    Event.DAMAGED: "        O F D D D D L D X .",
    Event.ENDED: "          O F L L L L L D X .",
    Event.FENCED_BESIDE: "  O F X X X X L D X .",
    Event.DAMAGED_BESIDE: " O F D D D D L D X .",
    Event.UNREACHED: "      O F S f a l L D X .",
    Event.SHORT: "          O F S f a l L D X .",
    Event.BROKEN: "         D D S f a l D D D .",
    Event.STOPPED: "        . . . . . . . . . .",
}
G, W, N, U = AppendOutcome.GOES_ON, AppendOutcome.DURABLE, AppendOutcome.NOT_WRITTEN, AppendOutcome.UNKNOWN
# In flight, waiting, when the ledger is reopened, whether the ledger is known to be down.
CALLERS_GET = {
    Event.OPENED: (G, G, Reopen.NO, False),
    Event.STANDS_BY: (G, G, Reopen.SOON, False),
    Event.WRITTEN: (W, G, Reopen.NO, False),
    Event.NO_ROOM: (N, N, Reopen.NO, False),
    Event.PART_REFUSED: (N, N, Reopen.NO, False),
    Event.UNKNOWN: (U, U, Reopen.SOON, True),
    Event.FAILED: (U, U, Reopen.SOON, False),
    Event.FENCED: (N, N, Reopen.LATER, False),
    Event.DAMAGED: (U, U, Reopen.LATER, False),
    Event.ENDED: (U, N, Reopen.SOON, False),
    Event.FENCED_BESIDE: (U, N, Reopen.LATER, False),
    Event.DAMAGED_BESIDE: (U, N, Reopen.LATER, False),
    Event.UNREACHED: (G, G, Reopen.SOON, True),
    Event.SHORT: (G, G, Reopen.SOON, False),
    Event.BROKEN: (G, G, Reopen.LATER, False),
    Event.STOPPED: (G, G, Reopen.NO, False),
}
ENDED = (State.LOST, State.DOWN, State.SUPERSEDED)


@pytest.mark.parametrize(("event", "state"), list(product(Event, State)), ids=lambda one: one.name)
def test_each_event_leads_from_each_state_to_the_one_written_here(event: Event, state: State) -> None:
    assert AFTER[state, event].effect is LETTERS[NEXT[event].split()[state]]


@pytest.mark.parametrize("event", Event, ids=lambda one: one.name)
def test_each_event_gives_callers_the_outcome_written_here(event: Event) -> None:
    assert ENDS[event].effect == CALLERS_GET[event]


def test_each_state_has_a_row_for_new_callers_and_probes() -> None:
    assert {state: (cell.effect.callers, cell.effect.shown) for state, cell in ROWS.items()} == {
        State.OPENING: (Callers.AGAIN, "RECOVERING"),
        State.FOLLOWING: (Callers.OWNER, "STANDBY"),
        State.SERVING: (Callers.TAKEN, "SERVING"),
        State.FULL: (Callers.ENDING, "FULL"),
        State.AWAY: (Callers.TAKEN, "RECOVERING"),
        State.LEAVING: (Callers.ENDING, "SERVING"),
        State.LOST: (Callers.AGAIN, "RECOVERING"),
        State.DOWN: (Callers.CAUSE, "DOWN"),
        State.SUPERSEDED: (Callers.CAUSE, "DOWN"),
        State.STOPPED: (Callers.CAUSE, "RECOVERING"),
    }


def test_conditions_refine_the_state_that_is_opening_or_serving_and_no_other() -> None:
    assert {key: cell.effect for key, cell in WHILE.items()} == {
        (State.OPENING, Condition.FOLLOWED): State.FOLLOWING,
        (State.LOST, Condition.FOLLOWED): State.FOLLOWING,
        (State.SERVING, Condition.DRAINED): State.LEAVING,
        (State.SERVING, Condition.NO_ROOM): State.FULL,
        (State.LEAVING, Condition.NO_ROOM): State.FULL,
        (State.SERVING, Condition.UNREACHABLE): State.AWAY,
        (State.LEAVING, Condition.UNREACHABLE): State.AWAY,
        (State.FULL, Condition.UNREACHABLE): State.AWAY,
    }


def _reachable(starts: set[State], events: set[Event]) -> set[State]:
    """Returns every state that these events and any conditions lead to."""
    seen, left = set(starts), list(starts)
    while left:
        state = left.pop()
        nexts = {AFTER[state, event].effect for event in events}
        nexts |= {cell.effect for (of, _), cell in WHILE.items() if of is state}
        left += nexts - seen
        seen |= nexts
    return seen


def test_every_state_is_reached_from_the_first_one() -> None:
    assert _reachable({State.OPENING}, set(Event)) == set(State)


def test_no_event_and_no_condition_leads_out_of_stopped_and_a_stop_ends_every_state() -> None:
    assert _reachable({State.STOPPED}, set(Event)) == {State.STOPPED}
    assert {AFTER[state, Event.STOPPED].effect for state in State} == {State.STOPPED}


@pytest.mark.parametrize("state", ENDED, ids=lambda one: one.name)
def test_an_ended_ledger_serves_again_only_after_a_new_opening(state: State) -> None:
    assert not _reachable({state}, set(Event) - {Event.OPENED}) & set(SERVES)
    assert AFTER[state, Event.OPENED].effect is State.SERVING


@pytest.mark.parametrize(("first", "later"), list(product((*BY_APPENDS, *BESIDE_APPENDS), repeat=2)))
def test_of_two_ends_of_one_ledger_the_first_counts(first: Event, later: Event) -> None:
    state = AFTER[State.SERVING, first].effect
    # The same event reports a newer owner to an opening; an append ends only once (`GroupCommit.end`).
    after = state if later is Event.FENCED else AFTER[state, later].effect
    assert after is state


def test_an_unknown_outcome_is_never_reported_as_refused_or_done() -> None:
    """Covers every event after which an append may have been written: its callers get UNKNOWN in every state."""
    doubtful = {Event.UNKNOWN, Event.FAILED, Event.DAMAGED, *BESIDE_APPENDS}
    assert {event for event in Event if ENDS[event].effect.in_flight is AppendOutcome.UNKNOWN} == doubtful
    for event in doubtful:
        assert ENDS[event].effect.waiting in (AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN)
        assert {AFTER[state, event].effect for state in SERVES} <= {State.LOST, State.DOWN, State.SUPERSEDED}
    assert {event for event in Event if ENDS[event].effect.in_flight is AppendOutcome.DURABLE} == {Event.WRITTEN}


def test_what_only_waits_is_never_in_more_doubt_than_what_is_in_flight() -> None:
    for event in Event:
        told = ENDS[event].effect
        assert told.waiting is not AppendOutcome.UNKNOWN or told.in_flight is AppendOutcome.UNKNOWN
        assert told.waiting is not AppendOutcome.DURABLE, "only an append's own end makes anything durable"


def test_every_end_is_opened_again_but_a_stop() -> None:
    for state, event in product(SERVES, Event):
        after, reopen = AFTER[state, event].effect, ENDS[event].effect.reopen
        if after in ENDED:
            assert reopen is (Reopen.SOON if after is State.LOST else Reopen.LATER)
    for state, event in product(OPENS, (Event.UNREACHED, Event.SHORT, Event.BROKEN, Event.FENCED)):
        assert AFTER[state, event].effect in OPENS
        assert ENDS[event].effect.reopen is not Reopen.NO


def test_claims_pass_unchecked_only_where_the_ledger_itself_is_known_to_be_down() -> None:
    assert {event for event in Event if ENDS[event].effect.is_down} == {Event.UNKNOWN, Event.UNREACHED}
    assert {state for state in State if ROWS[state].effect.callers is Callers.AGAIN} == {State.OPENING, State.LOST}


@pytest.mark.parametrize(
    ("error", "by_append", "beside"),
    [
        (LedgerDown("unknown"), Event.UNKNOWN, Event.ENDED),
        (OSError(5, "Input/output error"), Event.UNKNOWN, Event.ENDED),
        (ZeroDivisionError("a bug"), Event.FAILED, Event.ENDED),
        (LedgerFull("never an end: a bug where it comes as one"), Event.FAILED, Event.ENDED),
        (LedgerFenced("another gateway owns it"), Event.FENCED, Event.FENCED_BESIDE),
        (LedgerDamaged("a byte is not what it was"), Event.DAMAGED, Event.DAMAGED_BESIDE),
        (LedgerBehind("set back"), Event.DAMAGED, Event.DAMAGED_BESIDE),
        (KeyMismatch("another key"), Event.DAMAGED, Event.DAMAGED_BESIDE),
        (LedgerBusy("owned by 4711"), Event.DAMAGED, Event.DAMAGED_BESIDE),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one.name,
)
def test_an_error_is_one_event_by_its_kind(error: Exception, by_append: Event, beside: Event) -> None:
    assert (end_of(error), end_of(error, beside=True)) == (by_append, beside)


def test_every_cell_has_a_rule_and_a_reason() -> None:
    for table in (AFTER, ENDS, WHILE, ROWS):
        assert all(cell.rule and cell.reason for cell in table.values())


def test_the_first_end_that_is_written_counts_for_every_reader() -> None:
    end = EndCell()
    assert end.ending is None
    end.check()
    first = LedgerFenced("another gateway owns it; nothing was written")
    assert end.write_beside(first) == (Event.FENCED_BESIDE, first)
    assert end.write(Event.UNKNOWN, LedgerDown("a later one")) == (Event.FENCED_BESIDE, first) == end.ending
    for _ in range(2):
        with pytest.raises(LedgerFenced, match="another gateway owns it") as raised:
            end.check()
        assert raised.value is not first, "each caller has a traceback of its own"


def test_a_namespace_that_serves_takes_calls_and_a_leaving_or_full_one_begins_nothing() -> None:
    assert {state for state in State if is_taken(state, begins=False)} == set(SERVES)
    assert {state for state in State if is_taken(state, begins=True)} == {State.SERVING, State.AWAY}
