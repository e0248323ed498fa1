"""Dropped slots are empty at once, and every other id is found as before."""

import os

import numpy as np
import pytest

from oncegate.core.claims import ClaimState
from oncegate.index.table import delete
from oncegate.index.table.arrays import NO_DIGESTS, Holders, Slots
from oncegate.index.table.kernels import COMPILED, PLAIN, Kernels
from oncegate.index.table.probe import find, segment_of
from tests.support.index.holders import DONE, MASK, OPEN, RELEASED, TAKEN_ROW, some_holders

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
CAPACITY = 32
UNTOLD = np.empty((0, 2), np.uint64), np.empty(0, np.int64)
both = pytest.mark.parametrize(("kernels", "drop"), [(COMPILED, delete.COMPILED), (PLAIN, delete.PLAIN)])
Told = dict[tuple[int, int], tuple[int, int]]


def crowded(kernels: Kernels, rng: np.random.Generator) -> tuple[Slots, Holders, Told]:
    """Returns two nearly full segments whose chains begin at few positions, some at the end, so that many wrap
    around."""
    count = int(2 * CAPACITY * 0.8)
    places = rng.choice(np.array([0, 1, 2, 15, 29, 30, 31], np.uint64), count) << np.uint64(27)
    ids = np.stack([np.arange(count, dtype=np.uint64), places + np.arange(count, dtype=np.uint64)], axis=1)
    slots = Slots(
        np.zeros((2 * CAPACITY, 2), np.uint64),
        np.array([0, CAPACITY]),
        np.full(2, CAPACITY),
        np.zeros(2, np.int64),
        np.zeros(2 * CAPACITY, np.uint32),
    )
    holders, told = some_holders(), {}
    for row in (DONE, TAKEN_ROW, OPEN, RELEASED):
        mine, digests = ids[row::4], rng.integers(1, 9, len(ids[row::4]), dtype=np.uint32)
        told |= {(int(a), int(b)): (row, int(d)) for (a, b), d in zip(mine, digests, strict=True)}
        kernels.upsert(slots, holders, mine, MASK, row, np.zeros(len(mine), np.uint32), *UNTOLD, digests)
    return slots, holders, told


def found_ids(slots: Slots, told: Told) -> Told:
    """Returns the row and digest of those ids that are found."""
    found = {}
    for tag, place in told:
        segment = segment_of(np.uint64(tag), 2)
        slot = find(slots.words, slots.base[segment], slots.capacity[segment], np.uint64(tag), np.uint64(place))
        if slot >= 0:
            found[tag, place] = int(slots.words[slot, 1] & np.uint64(0xFFFF_FFFF)) - 1, int(slots.digests[slot])
    return found


@both
def test_dropped_ids_are_gone_and_every_other_id_is_found_with_its_row_and_digest(kernels, drop) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 40):
        rng = np.random.default_rng(seed)
        slots, holders, told = crowded(kernels, rng)
        chosen = [one for one in told if rng.random() < 0.5]
        scratch = np.empty(len(chosen), np.uint32), np.empty(len(chosen), np.uint32)
        count, *_ = drop(slots, holders, np.array(chosen, np.uint64).reshape(-1, 2), MASK, *scratch)
        gone = {one for one in chosen if told[one][0] in (DONE, TAKEN_ROW)}
        assert count == len(gone)
        assert found_ids(slots, told) == {one: what for one, what in told.items() if one not in gone}
        assert int(slots.used.sum()) == int((slots.words[:, 1] != 0).sum()) == len(told) - len(gone)
        left = np.bincount([row for one, (row, _) in told.items() if one not in gone], minlength=len(holders.slots))
        assert holders.slots.tolist() == left.tolist()


@both
def test_a_row_is_free_once_its_last_id_is_dropped_unless_something_holds_it_still(kernels, drop) -> None:
    slots, holders, told = crowded(kernels, np.random.default_rng(SEED))
    slots = slots._replace(digests=NO_DIGESTS)
    holders.pins[TAKEN_ROW] = 1
    freed, named = np.empty(len(told), np.uint32), np.empty(len(told), np.uint32)
    _, free, claimed = drop(slots, holders, np.array(list(told), np.uint64), MASK, freed, named)
    assert (freed[:free].tolist(), claimed) == ([DONE], 0)
    slots, holders, told = crowded(kernels, np.random.default_rng(SEED))
    holders.remembered[DONE] = 1
    _, free, claimed = drop(slots, holders, np.array(list(told), np.uint64), MASK, freed, named)
    assert (freed[:free].tolist(), set(named[:claimed].tolist())) == ([TAKEN_ROW], {DONE})
    assert holders.state[RELEASED] == ClaimState.RELEASED
