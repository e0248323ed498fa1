"""Removes rows of the commit table one at a time, and checks which walks fail and what breaks.

The walks cannot detect four rows. Without "the same commit again" the repeat falls through to DUPLICATE, which reports
other counts and loses nothing. "input unknown, rows dropped" needs a thousand names. No job of the walks skips a
number, and no batch reports its reads beside its entry. tests/core removes every row and changes every outcome, these
four too.
"""

import os

import pytest

from oncegate.core import batches
from oncegate.core.batches import COMMIT, CommitRow
from tests.model.batches.knobs import HOLDING
from tests.model.batches.world import walk

SEED = os.environ.get("ONCEGATE_MODEL_SEED", "3")
WALKS_MAX = 4000

# Row: the walks that need it, and the promises of which one breaks first. ERROR: the shipped code raises.
CAUGHT = {
    "the previous batch was committed with other input": ("stream, restored often", {"TWICE", "DROP"}),
    "new, a stage is missing": ("stream, not deterministic", {"DROP", "ERROR"}),
    "new, every winner is staged": ("df.write", {"WEDGE"}),
    "this run has asked for this name before": ("two equal writes", {"DROP"}),
    "same input": ("stream, not deterministic", {"WEDGE"}),
    "other input": ("stream, first wins, restored", {"DROP"}),
    "input unknown, same rows": ("stream, mixed", {"WEDGE"}),
    "input unknown, other rows, first wins": ("stream, first wins, unknown", {"WEDGE"}),
    "input unknown, other rows": ("df.write, not deterministic", {"ERROR"}),
}
ONLY_BY_STORIES = {
    "the same commit again",
    "input unknown, rows dropped",
    "new, a higher version is committed",
    "other entry, same files and offsets",
}


def breaks(name: str, promises: set[str]) -> None:
    knobs = next(knobs for knobs in HOLDING if knobs.name == name)
    for number in range(WALKS_MAX):
        _, broken = walk(knobs, f"{SEED}/{number}")
        if broken is not None:
            print(f"walk {SEED}/{number}: {broken}")
            assert broken.property in promises
            return
    pytest.fail(f"{WALKS_MAX} walks of {name!r} saw nothing")


def at(name: str) -> int:
    return next(place for place, row in enumerate(COMMIT) if row.name == name)


def test_every_row_is_on_one_of_the_lists() -> None:
    assert set(CAUGHT) | ONLY_BY_STORIES == {row.name for row in COMMIT}


@pytest.mark.slow
@pytest.mark.parametrize("row", CAUGHT)
def test_walks_miss_a_row_that_is_left_out(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "COMMIT", COMMIT[: at(row)] + COMMIT[at(row) + 1 :])
    breaks(*CAUGHT[row])


@pytest.mark.slow
def test_walks_with_writeIds_miss_the_look_at_the_batch_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "COMMIT", COMMIT[1:])
    breaks("two writes, writeIds, restored often", {"TWICE", "DROP"})


@pytest.mark.slow
def test_walks_miss_the_look_at_the_batch_before_when_it_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "COMMIT", (*COMMIT[1:], COMMIT[0]))
    breaks("stream, restored often", {"TWICE", "DROP"})


@pytest.mark.parametrize("name", ["stream, restored often", "two equal writes"], ids=str)
def test_walks_miss_conflicts_that_are_answered_with_duplicate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(row: CommitRow) -> CommitRow:
        wrong = row.outcome in {batches.CommitOutcome.BATCH_CONFLICT, batches.CommitOutcome.SECOND_WRITE}
        return CommitRow(row.name, row.when, batches.CommitOutcome.DUPLICATE, row.reason) if wrong else row

    monkeypatch.setattr(batches, "COMMIT", tuple(lenient(row) if row.name != COMMIT[0].name else row for row in COMMIT))
    breaks(name, {"DROP"})
