"""The tables about records that clients write themselves: complete, with rule and reason, and safe cell by cell."""

from collections.abc import Mapping
from enum import IntEnum
from itertools import product
from typing import Any

import pytest

from oncegate.core.direct import (
    ACK,
    ASK,
    ENTER,
    TRIM,
    Acking,
    Content,
    Cover,
    Entering,
    EntryState,
    QuestionOutcome,
    ReadProgress,
    RecordState,
    Trimming,
)

WHOLE: dict[str, tuple[Mapping[Any, Any], set[Any], type[IntEnum]]] = {
    "ask": (ASK, set(product(RecordState, ReadProgress)), QuestionOutcome),
    "enter": (ENTER, set(Content), Entering),
    "trim": (TRIM, set(EntryState), Trimming),
}


@pytest.mark.parametrize("name", WHOLE)
def test_no_cell_is_empty_each_has_its_rule_and_reason_and_every_effect_is_decided(name: str) -> None:
    table, cells, effects = WHOLE[name]
    assert set(table) == cells
    assert all(cell.rule and cell.reason for cell in table.values())
    assert {cell.effect for cell in table.values()} == set(effects)


def test_only_proven_absence_is_reported_as_absent() -> None:
    assert {cell for cell, found in ASK.items() if found.effect is QuestionOutcome.NOT_THERE} == {
        (RecordState.ABSENT, ReadProgress.PROVEN)
    }


def test_only_permanently_entered_sequences_are_reported_as_duplicates() -> None:
    told = {cell for cell, found in ASK.items() if found.effect is QuestionOutcome.DUPLICATE}
    assert told == set(product([RecordState.ENTERED], ReadProgress))


def test_only_what_is_proven_to_be_entered_is_trimmed() -> None:
    assert {state for state, cell in TRIM.items() if cell.effect is Trimming.TRIM} == {EntryState.PROVEN}


def test_what_cannot_be_read_is_never_passed_over() -> None:
    assert {content for content, cell in ENTER.items() if cell.effect is Entering.REFUSE} == {Content.FOREIGN}


def test_nothing_is_acked_that_was_not_read_or_not_written() -> None:
    assert set(ACK) == {(cover, reading) for cover in Cover for reading in ReadProgress}
    for (cover, reading), cell in ACK.items():
        if cell.effect is Acking.ENTER:
            assert (cover, reading is ReadProgress.BEFORE) == (Cover.OPEN, False)
    assert all(
        ACK[Cover.BEYOND, reading].effect is Acking.REFUSE for reading in (ReadProgress.READ, ReadProgress.PROVEN)
    )
