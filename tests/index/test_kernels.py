"""The compiled kernels against their uncompiled selves, on random input; widths, chains and rows as nasty as can be."""

import os

import numpy as np
import pytest

from oncegate.core.decisions import Action, ClaimState
from oncegate.index.kernels import (
    COMPILED,
    NO_ROW,
    PLAIN,
    Answers,
    Holders,
    Kernels,
    Question,
    Rules,
    Slots,
)

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
ROWS = 12


def random_holders(rng: np.random.Generator) -> Holders:
    return Holders(
        token=rng.integers(0, 3, (ROWS, 2), dtype=np.uint64),
        call=rng.integers(0, 3, ROWS, dtype=np.uint32),
        state=rng.integers(0, len(ClaimState), ROWS, dtype=np.uint8),
        takeover=rng.integers(0, 2, ROWS, dtype=np.uint8),
        lease_until_ms=rng.integers(0, 10, ROWS),
        position=rng.integers(1, 1 << 40, ROWS),
        named=np.zeros(ROWS, np.int64),
        slots=np.zeros(ROWS, np.int64),
        pins=rng.integers(0, 2, ROWS),
    )


def random_ids(rng: np.random.Generator, count: int) -> np.ndarray:
    """Few tags and few places, high bits set, so that every comparison matters."""
    tags = rng.integers(0, 4, count, dtype=np.uint64) | np.uint64(0xFFFF_0000_0000_0000)
    places = rng.integers(0, 6, count, dtype=np.uint64) | np.uint64(0x8000_0000_FFFF_FF00)
    return np.ascontiguousarray(np.stack([tags, places], axis=1))


def empty_slots(capacity: int) -> Slots:
    return Slots(np.zeros(capacity, np.uint64), np.zeros(capacity, np.uint32), np.full(capacity, NO_ROW, np.uint32))


def one_run(kernels: Kernels, seed: int) -> list[object]:
    """Insert, ask, take back, move, all at random; everything that came out of it."""
    rng = np.random.default_rng(seed)
    mask = np.uint64(0xFFFF if rng.random() < 0.5 else 0xFFFF_FFFF_FFFF_FFFF)
    slots, holders, out = empty_slots(64), random_holders(rng), []
    undone: list[tuple[np.ndarray, int, np.ndarray]] = []
    for _ in range(12):
        ids = np.unique(random_ids(rng, int(rng.integers(0, 12))), axis=0)
        row, previous = int(rng.integers(ROWS)), np.zeros(len(ids), np.uint32)
        out.append(tuple(map(int, kernels.upsert(slots, holders, ids, mask, row, previous))))
        undone.append((ids, row, previous))
        if rng.random() < 0.3:
            ids, row, previous = undone.pop()
            out.append(int(kernels.restore(slots, holders, ids, mask, row, previous)))
        if rng.random() < 0.2:
            moved = empty_slots(int(rng.choice([64, 128])))
            out.append(tuple(map(int, kernels.move(slots, moved, holders))))
            slots, undone = moved, []
        out.append(one_question(kernels, rng, slots, holders, mask))
    return [*out, *(array.tolist() for array in (*slots, *holders))]


def one_question(
    kernels: Kernels, rng: np.random.Generator, slots: Slots, holders: Holders, mask: np.uint64
) -> list[object]:
    ids = random_ids(rng, int(rng.integers(0, 20)))
    n = len(ids)
    rules = Rules(rng.integers(0, len(Action), 16, dtype=np.uint8), rng.integers(1, 5, len(Action), dtype=np.uint8))
    token = rng.integers(0, 3, 2, dtype=np.uint64)
    known, now_ms = bool(rng.integers(2)), int(rng.integers(0, 10))
    question = Question(token[0], token[1], int(rng.integers(0, 3)), known, now_ms, mask)
    answers = Answers(np.zeros(n, np.uint8), np.zeros(n, np.uint8), np.zeros(n, np.uint32))
    before = [array.copy() for array in (*slots, *holders)]
    seen = np.full(1 << (2 * n).bit_length(), -1, np.int32)
    rests_on, again = kernels.decide(slots, holders, rules, question, ids, seen, answers)
    for array, old in zip((*slots, *holders), before, strict=True):
        np.testing.assert_array_equal(array, old, "deciding changes nothing")
    return [int(rests_on), bool(again), *(array.tolist() for array in answers)]


@pytest.mark.parametrize("part", range(4))
def test_compiled_and_plain_kernels_do_the_same(part: int) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED + 12 * part, SEED + 12 * (part + 1)):
        assert one_run(COMPILED, seed) == one_run(PLAIN, seed), f"seed {seed}"


@pytest.mark.parametrize("kernels", [COMPILED, PLAIN], ids=["compiled", "plain"])
def test_taking_back_gives_every_slot_to_the_row_it_named(kernels: Kernels) -> None:
    rng = np.random.default_rng(SEED)
    mask, slots, holders = np.uint64(0xFFFF), empty_slots(64), random_holders(rng)
    first, second = np.unique(random_ids(rng, 20), axis=0), np.unique(random_ids(rng, 20), axis=0)
    kernels.upsert(slots, holders, first, mask, 1, np.zeros(len(first), np.uint32))
    before, counted = slots.row.copy(), holders.slots.copy()
    previous = np.zeros(len(second), np.uint32)
    new, _ = kernels.upsert(slots, holders, second, mask, 2, previous)
    assert kernels.restore(slots, holders, second, mask, 2, previous) == new
    was_there = before != NO_ROW
    np.testing.assert_array_equal(slots.row[was_there], before[was_there])
    assert set(slots.row[~was_there].tolist()) <= {2, NO_ROW}
    assert holders.slots[2] == new
    np.testing.assert_array_equal(holders.slots[[0, 1, 3]], counted[[0, 1, 3]])


@pytest.mark.parametrize("kernels", [COMPILED, PLAIN], ids=["compiled", "plain"])
def test_moving_leaves_out_the_dead_but_for_those_that_may_come_back(kernels: Kernels) -> None:
    rng = np.random.default_rng(SEED)
    slots, holders = empty_slots(64), random_holders(rng)
    holders.state[:3], holders.pins[:3] = ClaimState.RELEASED, (0, 1, 0)
    holders.state[2] = ClaimState.DONE
    for row in range(3):
        ids = np.array([[row, 60 + row], [row + 10, 60 + row]], np.uint64)
        kernels.upsert(slots, holders, ids, np.uint64(0xFFFF), row, np.zeros(2, np.uint32))
    moved = empty_slots(64)
    assert tuple(map(int, kernels.move(slots, moved, holders))) == (4, 2)
    assert sorted(moved.row[moved.row != NO_ROW].tolist()) == [1, 1, 2, 2]
    assert holders.slots[:3].tolist() == [0, 2, 2]
