"""Removes rules one at a time, and checks what breaks in the walks.

    R9   complete is not ack: only the driver acks, once the commit log has the batch
    R10  rows are forgotten only below a watermark, which passes only completed rows
    R11  a task succeeds when every row of it is done; busy and fenced are no success

Cells of the tables that the walks cannot miss are covered by tests/index and tests/engine, like all others.
"""

from dataclasses import replace
from typing import Any

import pytest

from oncegate.core import acks
from oncegate.core import producers as sequences
from oncegate.core.acks import Leftover, LeftoverOutcome, Resolution
from oncegate.core.entries.kinds import Entry
from oncegate.core.entries.producers import Acked
from oncegate.core.producers import (
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
)
from oncegate.index.producers import snapshot
from oncegate.index.producers.apply import apply
from oncegate.index.producers.intervals import Intervals
from oncegate.index.producers.store import ProducerStore
from tests.model.kit.outcome import Outcome, breaks, walk
from tests.model.sequences.walks import SETUPS


def cell(monkeypatch: pytest.MonkeyPatch, table: Any, key: Any, **changed: Any) -> None:
    monkeypatch.setitem(table, key, replace(table[key], **changed, rule="wrong", reason="wrong"))


IDS, LATE, EAGER = SETUPS["ids, scope = retry"], SETUPS["sequences, late"], SETUPS["sequences, acked while they run"]


def test_without_r9_executors_ack_at_the_end_of_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is over for its other tasks, which must then drop unwritten rows."""
    cell(monkeypatch, sequences.DRIVER, Standing.OTHER_TOKEN, effect=Entrance.GO_ON)
    assert breaks(replace(IDS, wrong=frozenset({"executors ack"}))) == "LOSS"


def test_an_executor_that_acks_does_no_harm_while_acks_are_the_drivers() -> None:
    outcome = Outcome()
    assert all(walk(replace(IDS, wrong=frozenset({"executors ack"})), seed, outcome) for seed in range(1, 15)), outcome


def test_without_r9_the_driver_acks_before_the_commit_log() -> None:
    assert breaks(replace(IDS, wrong=frozenset({"acks early"}))) == "LOSS"


def test_without_r10_the_watermark_moves_over_what_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (SequenceState.CLAIMED, SequenceState.FREE):
        cell(monkeypatch, sequences.ACK, state, effect=AckEffect.COVER)
    assert breaks(EAGER) == "LOSS"


def test_without_r10_the_watermark_moves_beyond_what_was_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    cell(monkeypatch, sequences.ACK, SequenceState.ABSENT, effect=AckEffect.PASS_OVER)
    assert breaks(EAGER) == "LOSS"


def test_without_r10_what_was_acked_is_forgotten_without_a_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acked rows are treated as if they had never existed."""

    def forget(store: ProducerStore, position: int, entry: Entry, now_ms: int = 0) -> Any:
        undo = apply(store, position, entry, now_ms)
        for producer in store.producers.values() if isinstance(entry, Acked) else ():
            if not len(producer.intervals):
                producer.watermark, producer.claimed_to, producer.intervals = None, None, Intervals.empty()
        return undo

    monkeypatch.setattr(snapshot, "apply", forget)
    assert breaks(EAGER) in ("STALE", "P1", "P5")


def test_without_r10_what_was_acked_with_its_batch_is_granted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of an acked batch are forgotten, and its ack is not remembered."""

    def forget(store: ProducerStore, position: int, entry: Entry, now_ms: int = 0) -> Any:
        return apply(store, position, replace(entry, batches=0) if isinstance(entry, Acked) else entry, now_ms)

    monkeypatch.setattr(snapshot, "apply", forget)
    assert breaks(SETUPS["ids, scope = retry, late"]) in ("P5", "ACK")


@pytest.mark.parametrize("name", ["busy is success", "fenced is success"])
def test_without_r11_a_task_that_gives_way_is_green(name: str) -> None:
    assert breaks(replace(LATE, wrong=frozenset({name}))) == "LOSS"


def test_without_r11_an_id_that_is_busy_counts_as_done() -> None:
    """The row is unwritten, or its writer died before completing it: then the batch cannot be acked."""
    assert breaks(replace(IDS, wrong=frozenset({"busy is success"}))) in ("LOSS", "ACK")


# (table, cell, wrong action) -> what the first bad walk breaks.
WRONG_CELLS: dict[tuple[str, Any, Any], str] = {
    ("PRODUCER", Standing.BELOW, Entrance.GO_ON): "FENCE",
    ("REGISTER_PRODUCER", Registrant.SAME, Registration.NEXT_EPOCH): "P2",
    ("REGISTER_PRODUCER", Registrant.OTHER_LIVE, Registration.NEXT_EPOCH): "P2",
    ("REGISTER_PRODUCER", Registrant.OTHER_OVER, Registration.REFUSE_BUSY): "P6",
    ("REGISTER_PRODUCER", Registrant.OTHER_OVER, Registration.SAME_EPOCH): "EPOCH",
    ("REGISTER_DRIVER", Registrant.OTHER_OVER, Registration.REFUSE_FENCED): "P6",
    ("SEQUENCE", (SequenceState.STALE, ProducerAsker.NEWER), ProducerAction.DUPLICATE): "STALE",
    ("SEQUENCE", (SequenceState.STALE, ProducerAsker.NEWER), ProducerAction.GRANT): "STALE",
    ("SEQUENCE", (SequenceState.ABSENT, ProducerAsker.NEWER), ProducerAction.BUSY): "P6",
    ("SEQUENCE", (SequenceState.ABSENT, ProducerAsker.NEWER), ProducerAction.DUPLICATE): "LOSS",
    ("SEQUENCE", (SequenceState.FREE, ProducerAsker.NEWER), ProducerAction.BUSY): "P6",
    ("SEQUENCE", (SequenceState.FREE, ProducerAsker.NEWER), ProducerAction.DUPLICATE): "LOSS",
    ("SEQUENCE", (SequenceState.CLAIMED, ProducerAsker.SAME_CALL), ProducerAction.DUPLICATE): "LOSS",
    ("SEQUENCE", (SequenceState.CLAIMED, ProducerAsker.NEWER), ProducerAction.BUSY): "P6",
    ("SEQUENCE", (SequenceState.CLAIMED, ProducerAsker.NEWER), ProducerAction.GRANT): "P5",
    ("SEQUENCE", (SequenceState.CLAIMED, ProducerAsker.NEWER), ProducerAction.DUPLICATE): "LOSS",
    ("SEQUENCE", (SequenceState.DONE, ProducerAsker.NEWER), ProducerAction.GRANT): "P1",
    ("SEQUENCE", (SequenceState.DONE, ProducerAsker.NEWER), ProducerAction.BUSY): "P6",
    ("ACK", SequenceState.STALE, AckEffect.COVER): "P6",
}
# The same, with a person who clears leftovers, and in lanes without gaps.
WRONG_CLEARED: dict[tuple[str, Any, Any], str] = {
    ("RESOLVE", (Leftover.LIVE, LeftoverOutcome.DONE), Resolution.MARK_DONE): "LIVE",
    ("RESOLVE", (Leftover.LIVE, LeftoverOutcome.NOT_DONE), Resolution.GIVE_UP): "LIVE",
    ("RESOLVE", (Leftover.OVER, LeftoverOutcome.DONE), Resolution.NOTHING): "CLEARED",
    ("RESOLVE", (Leftover.OVER, LeftoverOutcome.NOT_DONE), Resolution.NOTHING): "CLEARED",
    ("RESOLVE", (Leftover.FREE, LeftoverOutcome.NOT_DONE), Resolution.NOTHING): "CLEARED",
    ("RESOLVE", (Leftover.OTHER, LeftoverOutcome.DONE), Resolution.MARK_DONE): "CLEARED",
    ("SEQUENCE", (SequenceState.GIVEN_UP, ProducerAsker.NEWER), ProducerAction.BUSY): "P6",
    ("SEQUENCE", (SequenceState.GIVEN_UP, ProducerAsker.NEWER), ProducerAction.DUPLICATE): "LOSS",
    ("ACK", SequenceState.GIVEN_UP, AckEffect.REFUSE_NOT_DONE): "ACK",
    ("GAP", (Gaps.REFUSE, False), Look.NOWHERE): "GAP",
}
TABLES: dict[str, Any] = {
    "PRODUCER": sequences.PRODUCER,
    "DRIVER": sequences.DRIVER,
    "REGISTER_PRODUCER": sequences.REGISTER_PRODUCER,
    "REGISTER_DRIVER": sequences.REGISTER_DRIVER,
    "SEQUENCE": sequences.SEQUENCE,
    "ACK": sequences.ACK,
    "GAP": sequences.GAP,
    "RESOLVE": acks.RESOLVE,
}
# Cells that walks of honest clients never reach: unregistered clients, invented epochs, late copies for abandoned rows,
# lanes that are split. Their own tests cover them, cell by cell.
ONLY_BY_CELLS: dict[str, set[Any]] = {
    "PRODUCER": {Standing.UNKNOWN, Standing.ABOVE, Standing.OTHER_TOKEN, Standing.OWN},
    "DRIVER": {Standing.UNKNOWN, Standing.ABOVE, Standing.BELOW, Standing.OTHER_TOKEN, Standing.OWN},
    "REGISTER_PRODUCER": {Registrant.FIRST, Registrant.PAST},
    "REGISTER_DRIVER": {Registrant.FIRST, Registrant.SAME, Registrant.PAST},
    "SEQUENCE": {
        *((state, ProducerAsker.REPEAT) for state in SequenceState),
        (SequenceState.SKIPPED, ProducerAsker.NEWER),
        (SequenceState.CLAIMED, ProducerAsker.SAME_EPOCH),
        (SequenceState.DONE, ProducerAsker.SAME_EPOCH),
        # The claims of the walks have no payloads.
        (SequenceState.DONE_OTHER, ProducerAsker.SAME_EPOCH),
        (SequenceState.DONE_OTHER, ProducerAsker.NEWER),
    },
    # Removed above, each with its own test; of an ack, only completed rows remain.
    "ACK": set(SequenceState) - {SequenceState.STALE, SequenceState.GIVEN_UP},
    # Lanes with gaps claim with and without the previous row, lanes without gaps never name it.
    "GAP": {(Gaps.ALLOW, False), (Gaps.ALLOW, True), (Gaps.REFUSE, True)},
    # No person of the model knows more than a lease does: GONE has its own tests.
    "RESOLVE": {
        (Leftover.FREE, LeftoverOutcome.DONE),
        (Leftover.OTHER, LeftoverOutcome.NOT_DONE),
        (Leftover.GONE, LeftoverOutcome.DONE),
        (Leftover.GONE, LeftoverOutcome.NOT_DONE),
    },
}


@pytest.mark.parametrize("change", WRONG_CELLS, ids=lambda change: f"{change[0]} {change[1]} {change[2].name}")
def test_walks_miss_a_cell_that_is_wrong(change: tuple[str, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name, key, wrong = change
    cell(monkeypatch, TABLES[name], key, effect=wrong)
    assert breaks(EAGER) == WRONG_CELLS[change]


@pytest.mark.parametrize("change", WRONG_CLEARED, ids=lambda change: f"{change[0]} {change[1]} {change[2].name}")
def test_walks_miss_a_cell_of_leftovers_or_gaps_that_is_wrong(
    change: tuple[str, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, key, wrong = change
    cell(monkeypatch, TABLES[name], key, effect=wrong)
    setup = SETUPS["sequences without gaps" if name == "GAP" else "sequences, cleared and acked while they run"]
    assert breaks(setup) == WRONG_CLEARED[change]


def test_every_cell_is_on_one_of_the_lists() -> None:
    for name, table in TABLES.items():
        missed = {key for known, key, _ in (*WRONG_CELLS, *WRONG_CLEARED) if known == name}
        assert not missed & ONLY_BY_CELLS[name]
        assert missed | ONLY_BY_CELLS[name] == set(table)
