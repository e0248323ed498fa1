"""A list of records as bytes behaves like a list: appended at the end, dropped at the front, undone newest first."""

import random
import struct
from collections.abc import Callable

import pytest

from oncegate import packed
from oncegate.packed import BLOCK_RECORDS, PackedList
from tests.support.ledger_tools import SEED

LAYOUT = "<QQ"


@pytest.mark.parametrize("walk", range(100))
def test_a_packed_list_is_a_list_whatever_is_added_dropped_and_taken_back(walk: int, monkeypatch) -> None:
    monkeypatch.setattr(packed, "BLOCK_RECORDS", 4)
    rng, made = random.Random(SEED + walk), PackedList(LAYOUT)
    expected: list[tuple[int, int]] = []
    undos: list[tuple[Callable[[], None], list[tuple[int, int]]]] = []
    for number in range(60):
        kind, before = rng.random(), list(expected)
        if kind < 0.6:
            made.append(2 * number, walk)
            expected.append((2 * number, walk))
            undos.append((made.pop, before))
        elif kind < 0.75:
            dropped = made.drop(count := rng.randint(0, len(expected)))
            del expected[:count]
            undos.append((lambda dropped=dropped: made.put_back(dropped), before))
        elif undos:
            undo, expected = undos.pop()
            undo()
        assert list(made) == expected == [made[place] for place in range(len(made))], SEED + walk
        value = rng.randint(0, 2 * number + 2)
        assert made.not_above(value) == sum(first <= value for first, _ in expected), SEED + walk
        assert PackedList(LAYOUT, b"".join(made.frozen())) == made


def test_frozen_data_stays_unchanged() -> None:
    made = PackedList(LAYOUT)
    for number in range(BLOCK_RECORDS + 3):
        made.append(number, 0)
    frozen = made.frozen()
    made.drop(BLOCK_RECORDS)
    made.append(10**6, 0)
    assert [first for first, _ in struct.iter_unpack(LAYOUT, b"".join(frozen))] == list(range(BLOCK_RECORDS + 3))


def test_bytes_that_are_no_whole_records_are_refused() -> None:
    with pytest.raises(ValueError, match="17 bytes are not whole records of 16 bytes"):
        PackedList(LAYOUT, bytes(17))
