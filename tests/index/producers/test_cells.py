"""Every cell of the table of sequences, one test each: reached alone, and compared with a handwritten copy."""

from collections.abc import Callable

import numpy as np
import pytest

from oncegate.core.claims import LeaseExpiry
from oncegate.core.errors import TokenReused
from oncegate.core.producers import ASKERS, SEQUENCE, ProducerAction, ProducerAsker, SequenceState
from oncegate.index.producers.decide import SequenceDecision
from oncegate.index.producers.store import ProducerStore
from tests.support.index.sequences import Lane, verdicts_of

# The requested sequence of every cell; calls 0 and 3 of the current epoch are already decided.
IT, MORE = 10, 11
CLAIMED, DONE, STALE, FREE = SequenceState.CLAIMED, SequenceState.DONE, SequenceState.STALE, SequenceState.FREE
OTHER = SequenceState.DONE_OTHER

EXPECTED: dict[tuple[SequenceState, ProducerAsker], str] = {
    (SequenceState.STALE, ProducerAsker.REPEAT): "STALE",
    (SequenceState.STALE, ProducerAsker.NEWER): "STALE",
    (SequenceState.ABSENT, ProducerAsker.REPEAT): "BUSY",
    (SequenceState.ABSENT, ProducerAsker.NEWER): "GRANTED",
    (SequenceState.SKIPPED, ProducerAsker.REPEAT): "REFUSED",
    (SequenceState.SKIPPED, ProducerAsker.NEWER): "REFUSED",
    (SequenceState.FREE, ProducerAsker.REPEAT): "BUSY",
    (SequenceState.FREE, ProducerAsker.NEWER): "GRANTED",
    (SequenceState.CLAIMED, ProducerAsker.SAME_CALL): "GRANTED",
    (SequenceState.CLAIMED, ProducerAsker.SAME_EPOCH): "SAME+OF_CALL",
    (SequenceState.CLAIMED, ProducerAsker.REPEAT): "BUSY",
    (SequenceState.CLAIMED, ProducerAsker.NEWER): "GRANTED+TAKEOVER",
    (SequenceState.DONE, ProducerAsker.SAME_EPOCH): "DUPLICATE+OWN",
    (SequenceState.DONE, ProducerAsker.REPEAT): "DUPLICATE",
    (SequenceState.DONE, ProducerAsker.NEWER): "DUPLICATE",
    (SequenceState.DONE_OTHER, ProducerAsker.SAME_EPOCH): "CONFLICT",
    (SequenceState.DONE_OTHER, ProducerAsker.REPEAT): "CONFLICT",
    (SequenceState.DONE_OTHER, ProducerAsker.NEWER): "CONFLICT",
    (SequenceState.GIVEN_UP, ProducerAsker.REPEAT): "BUSY",
    (SequenceState.GIVEN_UP, ProducerAsker.NEWER): "GRANTED",
}
each_cell = pytest.mark.parametrize("cell", list(SEQUENCE), ids=lambda cell: f"{cell[0].name}-{cell[1].name}")


def reach(cell: tuple[SequenceState, ProducerAsker]) -> tuple[Lane, Callable[[], SequenceDecision]]:
    """Returns a producer whose sequence IT is in the cell's state, and the request for IT alone by the cell's asker."""
    state, asker = cell
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1])
    lane.complete(0)
    own = asker in (ProducerAsker.SAME_CALL, ProducerAsker.SAME_EPOCH)
    payload = np.ones(1, np.uint32)
    if state in (CLAIMED, DONE, OTHER, STALE, FREE, SequenceState.GIVEN_UP):
        lane.claim(3, [IT], payload if state is OTHER else None)
        if state in (DONE, OTHER, STALE):
            lane.complete(3)
        if state is FREE:
            lane.release(3)
    if state is STALE:
        lane.ack(IT)
    if not own:
        lane.register(2)
    if state is SequenceState.GIVEN_UP:
        lane.resolve(IT, IT, is_done=False)
    if state is SequenceState.SKIPPED:
        lane.claim(3, [MORE])
    elif not own and asker is ProducerAsker.REPEAT:
        # Call 3 was granted nothing, so it has no entry; this process remembers that it was decided.
        lane.producer.quiet_call = 3
    call = {ProducerAsker.SAME_CALL: 3, ProducerAsker.REPEAT: 2}.get(asker, 4)
    return lane, lambda: lane.decide(call, [IT], digests=payload + np.uint32(1) if state is OTHER else None)


@each_cell
def test_a_sequence_is_answered_according_to_its_cell(cell: tuple[SequenceState, ProducerAsker]) -> None:
    _, ask = reach(cell)
    asked = ask()
    assert verdicts_of(asked) == [EXPECTED[cell]]
    assert asked.actions.tolist() == [SEQUENCE[cell].effect]
    assert asked.out_of_order == (IT if EXPECTED[cell] == "REFUSED" else None)
    told = asked.fresh.tolist(), asked.taken.tolist()
    fresh = EXPECTED[cell] == "GRANTED" and cell[1] is not ProducerAsker.SAME_CALL
    assert told == ([[IT, IT]] if fresh else [], [[IT, IT]] if EXPECTED[cell] == "GRANTED+TAKEOVER" else [])
    assert asked.numbers.tolist() == [3 if EXPECTED[cell] == "SAME+OF_CALL" else 0]


@pytest.mark.parametrize("expiry", [LeaseExpiry.HOLD, LeaseExpiry.FAIL])
@each_cell
def test_leftovers_of_an_older_epoch_are_not_granted_without_takeovers(
    cell: tuple[SequenceState, ProducerAsker], expiry: LeaseExpiry
) -> None:
    lane, ask = reach(cell)
    lane.store.let_expire(expiry)
    told = "BUSY" if expiry is LeaseExpiry.HOLD else "IN_DOUBT"
    expected = told if cell == (CLAIMED, ProducerAsker.NEWER) else EXPECTED[cell]
    asked = ask()
    assert verdicts_of(asked) == [expected]
    assert not len(asked.taken)


@each_cell
def test_a_test_of_a_cell_reaches_just_that_cell(cell: tuple[SequenceState, ProducerAsker]) -> None:
    lane, ask = reach(cell)
    only = [(state, asker) == cell for state in SequenceState for asker in ProducerAsker]
    for mine, others in (
        (ProducerAction.DUPLICATE, ProducerAction.BUSY),
        (ProducerAction.BUSY, ProducerAction.DUPLICATE),
    ):
        lane.store.rules = np.where(only, np.uint8(mine), np.uint8(others)).astype(np.uint8)
        assert ask().actions.tolist() == [mine]


def test_every_cell_is_expected_and_reached() -> None:
    assert set(EXPECTED) == set(SEQUENCE) == {(state, asker) for state in SequenceState for asker in ASKERS[state]}


def test_a_missing_cell_is_an_error_and_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for cell in list(SEQUENCE):
        with monkeypatch.context() as patch:
            patch.delitem(SEQUENCE, cell)
            with pytest.raises(KeyError):
                ProducerStore()


def test_a_table_that_is_changed_is_in_force_for_an_index_made_then(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SEQUENCE[SequenceState.DONE, ProducerAsker.NEWER]
    monkeypatch.setitem(SEQUENCE, (SequenceState.ABSENT, ProducerAsker.NEWER), other)
    lane = Lane(ProducerStore())
    lane.register(1)
    assert verdicts_of(lane.decide(0, [5])) == ["DUPLICATE"]


def test_a_call_asks_for_the_same_sequences_each_time() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 2])
    with pytest.raises(TokenReused, match="other sequences"):
        lane.decide(0, [1, 2, 3])
    assert verdicts_of(lane.decide(0, [1, 2])) == ["GRANTED", "GRANTED"]


def test_a_repeat_of_a_takeover_gets_the_same_answer_again() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1])
    lane.register(2)
    lane.claim(0, [1, 2])
    assert verdicts_of(lane.decide(0, [1, 2])) == ["GRANTED+TAKEOVER", "GRANTED"]
    assert lane.store.takeovers == 1


@pytest.mark.parametrize(
    ("prev", "gap"), [(None, False), (0, False), (4, False), (5, True), (6, True)], ids=lambda value: str(value)
)
def test_a_gap_is_measured_against_the_highest_claimed_sequence(prev: int | None, gap: bool) -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 4])
    lane.release(0)
    assert lane.decide(1, [7], prev).gap == gap


def test_where_nothing_was_claimed_everything_before_is_a_gap() -> None:
    lane = Lane()
    lane.register(1)
    assert lane.decide(0, [7], 0).gap
    assert not lane.decide(0, [7]).gap


def test_sequences_covered_by_an_acked_watermark_are_no_gap() -> None:
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 4])
    lane.complete(0)
    lane.ack(4)
    assert not lane.decide(1, [7], 4).gap


def test_sequences_skipped_by_a_request_are_out_of_order_later() -> None:
    """A gap within one request may be a row of another task or an unused offset: neither is known."""
    lane = Lane()
    lane.register(1)
    lane.claim(0, [1, 3])
    assert lane.decide(1, [2]).out_of_order == 2
    lane.complete(0)
    assert lane.decide(1, [2]).out_of_order == 2
    lane.ack(3)
    assert verdicts_of(lane.decide(1, [2])) == ["STALE"]
