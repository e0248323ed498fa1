"""Walks of lanes: each row is written once despite fencing, sleeps, deaths, losses and delays; a missing rule breaks
it."""

from collections import Counter

import pytest

from oncegate.core.cells import Cell
from oncegate.core.direct import ASK, TRIM, EntryState, QuestionOutcome, ReadProgress, RecordState, Trimming
from tests.model.direct.world import Setup, World
from tests.model.kit.outcome import SEED, WALKS, breaks, walk_all

SETUPS = {
    "lanes": Setup(),
    "lanes, sleepers": Setup(sleeping=0.08, dying=0.0, starting=0.05),
    "lanes, faults": Setup(losing=0.7, dying=0.03, starting=0.08),
    "lanes, trims unnoticed": Setup(sleeping=0.08, dying=0.0, starting=0.05, noticing=False),
}
FIRST = 15


@pytest.mark.parametrize("name", SETUPS)
def test_the_first_walks_keep_each_row_once(name: str) -> None:
    outcome = walk_all(SETUPS[name], FIRST)
    assert not outcome.broken, outcome.explain()


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_each_row_is_there_once_whatever_happens(name: str) -> None:
    outcome = walk_all(SETUPS[name], WALKS // 2)
    assert not outcome.broken, outcome.explain()


def test_a_walk_is_made_by_its_seed_alone() -> None:
    traces = []
    for _ in range(2):
        world = World(SETUPS["lanes, faults"], SEED)
        world.run()
        traces.append(world.trace)
    assert traces[0] == traces[1]


def test_walks_meet_all_that_the_model_is_about() -> None:
    events = ("sleeps", "wakes", "dies", "fences", "trims", "waits for an open transaction", "LedgerFenced")
    events += ("commit: lost", "commit: late", "a late commit", "is told [0")
    found: Counter[str] = Counter()
    for setup in SETUPS.values():
        for seed in range(1, 9):
            world = setup.world(seed)
            world.run()
            text = "\n".join(world.trace)
            found.update({event: text.count(event) for event in events})
    assert not [event for event in events if not found[event]]


NOT_THERE = Cell(QuestionOutcome.NOT_THERE, "left out", "by a test")
TRIM_NOW = Cell(Trimming.TRIM, "left out", "by a test")


@pytest.mark.parametrize("reading", [ReadProgress.BEFORE, ReadProgress.READ])
def test_a_row_is_written_twice_if_its_absence_is_reported_too_early(
    monkeypatch: pytest.MonkeyPatch, reading: ReadProgress
) -> None:
    """Without the commit, a reader cannot notice that its successor has trimmed the records."""
    monkeypatch.setitem(ASK, (RecordState.ABSENT, reading), NOT_THERE)
    assert breaks(SETUPS["lanes, trims unnoticed"]) == "TWICE"


def test_records_that_are_trimmed_before_their_entry_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRIM, EntryState.QUEUED, TRIM_NOW)
    assert breaks(SETUPS["lanes, faults"]) in {"TRIMMED", "DAMAGED", "TWICE"}


def test_who_asks_before_he_starts_writes_twice() -> None:
    assert breaks(Setup(starts_first=False)) == "TWICE"


def test_a_reader_up_to_the_stable_end_misses_records_after_another_lanes_open_transaction() -> None:
    assert breaks(Setup(to_the_end=False)) == "TWICE"
