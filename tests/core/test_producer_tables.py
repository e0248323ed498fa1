"""The tables about producers, drivers and sequences: complete, with rule and reason, and safe cell by cell."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import pytest

from oncegate.core.acks import (
    ACK_BATCH,
    ACK_NUMBER,
    RESOLVE,
    BatchEffect,
    BatchNumber,
    BatchOrder,
    BatchState,
    Leftover,
    LeftoverOutcome,
    Resolution,
)
from oncegate.core.claims import LeaseExpiry
from oncegate.core.producers import (
    ACK,
    ASKERS,
    DRIVER,
    GAP,
    LEFT_BEHIND,
    NO_ACTION,
    PRODUCER,
    REGISTER_DRIVER,
    REGISTER_PRODUCER,
    SEQUENCE,
    SEQUENCE_MAX,
    AckEffect,
    Entrance,
    Gaps,
    Look,
    ProducerAction,
    ProducerAsker,
    Registrant,
    Registration,
    SequenceState,
    Standing,
    actions,
    sequence_table,
)

# A driver has no lease, so its registrations never meet a live one.
WHOLE: dict[str, tuple[Mapping[Any, Any], set[Any]]] = {
    "producer": (PRODUCER, set(Standing)),
    "driver": (DRIVER, set(Standing)),
    "register producer": (REGISTER_PRODUCER, set(Registrant)),
    "register driver": (REGISTER_DRIVER, set(Registrant) - {Registrant.OTHER_LIVE}),
    "sequence": (SEQUENCE, {(state, asker) for state in SequenceState for asker in ASKERS[state]}),
    "gap": (GAP, {(gaps, named) for gaps in Gaps for named in (False, True)}),
    "ack": (ACK, set(SequenceState)),
    "ack number": (ACK_NUMBER, set(BatchOrder)),
    "ack batch": (ACK_BATCH, set(BatchState)),
    "resolve": (RESOLVE, {(leftover, finding) for leftover in Leftover for finding in LeftoverOutcome}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_no_cell_is_empty_and_each_has_its_rule_and_reason(name: str) -> None:
    table, cells = WHOLE[name]
    assert set(table) == cells
    assert all(cell.rule and cell.reason for cell in table.values())


@pytest.mark.parametrize(
    ("tables", "effects"),
    [
        ((PRODUCER, DRIVER), Entrance),
        ((REGISTER_PRODUCER, REGISTER_DRIVER), Registration),
        ((ACK,), AckEffect),
        ((ACK_NUMBER,), BatchNumber),
        ((ACK_BATCH,), BatchEffect),
        ((RESOLVE,), Resolution),
        ((GAP,), Look),
    ],
    ids=["entrance", "registration", "ack", "ack number", "ack batch", "resolve", "gap"],
)
def test_every_effect_is_decided_somewhere(tables: tuple[Mapping[Any, Any], ...], effects: type[IntEnum]) -> None:
    assert {cell.effect for table in tables for cell in table.values()} == set(effects)


def test_every_action_on_a_sequence_is_decided_somewhere() -> None:
    assert {cell.effect for expiry in LeaseExpiry for cell in sequence_table(expiry).values()} == set(ProducerAction)


@pytest.mark.parametrize("expiry", LeaseExpiry)
def test_leftovers_change_no_other_cell_and_have_a_rule_and_reason(expiry: LeaseExpiry) -> None:
    changed = LEFT_BEHIND[expiry]
    assert set(changed) == (set() if expiry is LeaseExpiry.TAKEOVER else {(SequenceState.CLAIMED, ProducerAsker.NEWER)})
    assert all(cell.rule and cell.reason for cell in changed.values())


def test_the_table_as_bytes_is_that_table_and_what_cannot_be_is_no_action() -> None:
    compiled = actions(SEQUENCE)
    for state in SequenceState:
        for asker in ProducerAsker:
            told = compiled[state * len(ProducerAsker) + asker]
            assert told == (SEQUENCE[state, asker].effect if asker in ASKERS[state] else NO_ACTION)


def test_an_empty_cell_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SEQUENCE, (SequenceState.DONE, ProducerAsker.NEWER))
    with pytest.raises(KeyError):
        actions(SEQUENCE)


def test_only_the_last_registered_producer_continues() -> None:
    for table in (PRODUCER, DRIVER):
        assert {standing for standing, cell in table.items() if cell.effect is Entrance.GO_ON} == {Standing.OWN}


def test_two_tokens_never_share_an_epoch() -> None:
    for table in (REGISTER_PRODUCER, REGISTER_DRIVER):
        again = {who for who, cell in table.items() if cell.effect is Registration.SAME_EPOCH}
        assert again == {Registrant.SAME}


_DONE = {SequenceState.DONE, SequenceState.DONE_OTHER}


def test_nothing_that_was_acked_or_is_done_is_granted_to_anybody() -> None:
    granting = {ProducerAction.GRANT, ProducerAction.GRANT_AGAIN, ProducerAction.TAKE_OVER}
    for (state, _), cell in SEQUENCE.items():
        assert state not in (SequenceState.STALE, *_DONE) or cell.effect not in granting


def test_a_repeat_is_granted_only_what_its_call_holds() -> None:
    for (_, asker), cell in SEQUENCE.items():
        assert asker not in (ProducerAsker.SAME_CALL, ProducerAsker.REPEAT) or cell.effect not in (
            ProducerAction.GRANT,
            ProducerAction.TAKE_OVER,
        )


def test_only_what_is_done_is_forgotten_by_an_ack() -> None:
    claimed_once = {SequenceState.FREE, SequenceState.CLAIMED}
    assert {state for state, cell in ACK.items() if cell.effect is AckEffect.REFUSE_NOT_DONE} == claimed_once
    assert {state for state, cell in ACK.items() if cell.effect is AckEffect.COVER} == _DONE


def test_no_batch_with_possibly_unwritten_rows_is_forgotten() -> None:
    assert {state for state, cell in ACK_BATCH.items() if cell.effect is BatchEffect.FORGET} == {BatchState.SETTLED}


def test_the_highest_sequence_has_a_successor_of_64_bits() -> None:
    assert SEQUENCE_MAX + 1 == (1 << 64) - 1
