"""The commit table: every row is reached by a scenario, and is needed."""

from dataclasses import replace
from functools import cache

import pytest

from oncegate.core import batches
from oncegate.core.batches import COMMIT, CommitOutcome, CommitRow, Facts, decide
from tests.core.commit_scenarios import SCENARIOS


@cache
def facts_of(story: str) -> Facts:
    """Returns the index's facts, without the table."""
    return SCENARIOS[story].facts()


def wrong() -> set[str]:
    """Returns the scenarios that the present table decides wrongly."""
    found = set()
    for story, scenario in SCENARIOS.items():
        right = next(row for row in COMMIT if row.name == scenario.row)
        try:
            ends = decide(facts_of(story)).outcome is right.outcome
        except StopIteration:
            ends = False
        if not ends:
            found.add(story)
    return found


@pytest.mark.parametrize("story", SCENARIOS)
def test_a_commit_is_decided_by_the_row_that_its_story_asks_for(story: str) -> None:
    assert decide(facts_of(story)).name == SCENARIOS[story].row


@pytest.mark.parametrize("row", COMMIT, ids=lambda row: row.name)
def test_every_row_is_reached_and_has_a_reason(row: CommitRow) -> None:
    assert any(scenario.row == row.name for scenario in SCENARIOS.values())
    assert row.reason


def test_names_of_rows_are_unique_and_every_outcome_is_given() -> None:
    assert len({row.name for row in COMMIT}) == len(COMMIT)
    assert {row.outcome for row in COMMIT} == set(CommitOutcome)


@pytest.mark.parametrize("at", range(len(COMMIT)), ids=[row.name for row in COMMIT])
def test_no_row_can_be_left_out(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "COMMIT", COMMIT[:at] + COMMIT[at + 1 :])
    assert wrong()


@pytest.mark.parametrize("outcome", CommitOutcome, ids=lambda outcome: outcome.name)
@pytest.mark.parametrize("at", range(len(COMMIT)), ids=[row.name for row in COMMIT])
def test_no_row_can_end_otherwise(at: int, outcome: CommitOutcome, monkeypatch: pytest.MonkeyPatch) -> None:
    altered = replace(COMMIT[at], outcome=outcome)
    monkeypatch.setattr(batches, "COMMIT", (*COMMIT[:at], altered, *COMMIT[at + 1 :]))
    assert bool(wrong()) is (outcome is not COMMIT[at].outcome)


def test_the_batch_before_must_be_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried last it would never be reached: the rows above decide every case that is not committed."""
    monkeypatch.setattr(batches, "COMMIT", (*COMMIT[1:], COMMIT[0]))
    assert "a zombie committed the batch before with other input" in wrong()
