"""The compiled kernels against the uncompiled ones, on random input with extreme widths, chains and rows."""

import os

import numpy as np
import pytest

from oncegate.core.claims import Action, Asker, ClaimState, IdState
from oncegate.index.table.arrays import (
    NO_COLD,
    NO_DIGESTS,
    NO_ROW,
    SAME_INDEX,
    TAKEN,
    Answers,
    Holders,
    Question,
    Rules,
    Slots,
)
from oncegate.index.table.kernels import COMPILED, PLAIN, Kernels
from oncegate.index.table.probe import find, row_at
from oncegate.index.table.rows import LIVE

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
ROWS = 12
# Without hints about the slots.
UNTOLD = np.empty((0, 2), np.uint64), np.empty(0, np.int64)


def random_holders(rng: np.random.Generator) -> Holders:
    return Holders(
        token=rng.integers(0, 3, (ROWS, 2), dtype=np.uint64),
        call=rng.integers(0, 3, ROWS, dtype=np.uint32),
        state=np.append(rng.integers(0, TAKEN + 1, ROWS - 1, dtype=np.uint8), np.uint8(ClaimState.UNKNOWN)),
        takeover=rng.integers(0, 2, ROWS, dtype=np.uint8),
        lease_until_ms=rng.integers(0, 10, ROWS),
        position=rng.integers(1, 1 << 40, ROWS),
        named=np.zeros(ROWS, np.int32),
        slots=np.zeros(ROWS, np.int32),
        pins=rng.integers(0, 2, ROWS, dtype=np.int32),
        remembered=rng.integers(0, 2, ROWS, dtype=np.uint8),
    )


def random_ids(rng: np.random.Generator, count: int) -> np.ndarray:
    """Returns ids with few tags and few places and high bits set, so that every comparison matters."""
    tags = rng.integers(0, 4, count, dtype=np.uint64) | np.uint64(0xFFFF_0000_0000_0000)
    places = rng.integers(0, 6, count, dtype=np.uint64) | np.uint64(0x8000_0000_FFFF_FF00)
    return np.ascontiguousarray(np.stack([tags, places], axis=1))


def empty_slots(capacity: int, segments: int = 2, keeping: bool = False) -> Slots:
    """Returns segments of `capacity` slots each, with room to grow to 256. `keeping`: with digests of payloads."""
    base, used, digests = np.arange(segments) * 256, np.zeros(segments, np.int64), np.zeros(256 * segments, np.uint32)
    words, capacities = np.zeros((256 * segments, 2), np.uint64), np.full(segments, capacity)
    return Slots(words, base, capacities, used, digests if keeping else NO_DIGESTS)


def some_digests(rng: np.random.Generator, slots: Slots, count: int) -> np.ndarray:
    """Returns a few distinct digests and zeros; an empty array if none are kept."""
    return rng.integers(0, 4, count, dtype=np.uint32) if len(slots.digests) else NO_DIGESTS


def move(kernels: Kernels, slots: Slots, segment: int, capacity: int, holders: Holders, sweeping: bool) -> list[int]:
    """Moves a segment. Returns the number of freed rows and of dropped slots, then the rows."""
    used = int(slots.used[segment])
    hand, freed, digests = np.zeros((used + 1, 2), np.uint64), *np.zeros((2, used + 1), np.uint32)
    free, dropped = kernels.move(slots, segment, capacity, holders, sweeping, hand, digests, freed)
    return [int(free), int(dropped), *freed[:free].tolist()]


def rows_by_id(slots: Slots) -> dict[tuple[int, int], int]:
    """Returns the row of each id, regardless of slots."""
    return {id_: row for id_, (row, _) in told_by_id(slots).items()}


def told_by_id(slots: Slots) -> dict[tuple[int, int], tuple[int, int]]:
    """Returns the row of each id, and the digest of its payload."""
    found = {}
    for base, capacity in zip(slots.base, slots.capacity, strict=True):
        for at, (tag, held) in enumerate(slots.words[base : base + capacity].tolist(), base):
            if held & 0xFFFF_FFFF:
                assert (tag, held >> 32) not in found, "an id has one slot"
                found[tag, held >> 32] = (held & 0xFFFF_FFFF) - 1, int(slots.digests[at]) if len(slots.digests) else 0
    return found


def one_run(kernels: Kernels, seed: int) -> list[object]:
    """Inserts, looks up, undoes and moves at random. Returns all results."""
    rng = np.random.default_rng(seed)
    mask = np.uint64(0xFFFF if rng.random() < 0.5 else 0xFFFF_FFFF_FFFF_FFFF)
    slots, holders, out = empty_slots(64, keeping=bool(seed % 2)), random_holders(rng), []
    undone: list[tuple[np.ndarray, int, np.ndarray, np.ndarray]] = []
    for _ in range(12):
        ids = np.unique(random_ids(rng, int(rng.integers(0, 12))), axis=0)
        row, previous = int(rng.integers(ROWS)), np.zeros(len(ids), np.uint32)
        digests = some_digests(rng, slots, len(ids))
        out.append(tuple(map(int, kernels.upsert(slots, holders, ids, mask, row, previous, *UNTOLD, digests))))
        undone.append((ids, row, previous, digests))
        if rng.random() < 0.3:
            ids, row, previous, digests = undone.pop()
            out.append(int(kernels.restore(slots, holders, ids, mask, row, previous, digests)))
        if rng.random() < 0.2:
            segment = int(rng.integers(2))
            out.append(int(kernels.staying(slots, segment, holders)))
            capacity = int(slots.capacity[segment] + rng.integers(0, 40))
            out.append(move(kernels, slots, segment, capacity, holders, bool(rng.integers(2))))
            undone = []
        out.append(one_question(kernels, rng, slots, holders, mask))
    out += retired_and_saved(kernels, rng, slots, holders)
    return [*out, told_by_id(slots), *(array.tolist() for array in (*slots, *holders))]


def retired_and_saved(kernels: Kernels, rng: np.random.Generator, slots: Slots, holders: Holders) -> list[object]:
    """Runs the loops over rows and whole segments."""
    numbers, given = rng.permutation(ROWS).astype(np.uint32), np.zeros((200, 2), np.uint64)
    digests = np.zeros(200, np.uint32)
    numbers[rng.random(ROWS) < 0.3] = NO_ROW
    counts = [int(kernels.gather(slots, segment, numbers, given, digests)) for segment in range(2)]
    wall_ms, rows = rng.integers(0, 10, ROWS), rng.integers(0, ROWS, 20, dtype=np.uint32)
    due, states, positions = np.zeros(20, np.uint32), np.zeros(20, np.uint8), np.zeros(20, np.int64)
    found = [int(n) for n in kernels.retire(holders, wall_ms, rows, 5, 77, due, states, positions)]
    freed = np.zeros(20, np.uint32)
    found.append(int(kernels.unpin(holders, due[: found[0]], freed)))
    out = [counts, found, *(array.tolist() for array in (given, digests, due, states, positions, freed))]
    wanted, copied = rng.integers(0, 2, ROWS + 1, dtype=np.uint8), np.zeros((200, 2), np.uint64)
    wanted[0] = 0
    for segment in range(2):
        count = int(kernels.gather_of(slots, segment, holders, wanted, copied))
        out += [count, copied[:count].tolist()]
    return [*out, freed.tolist()]


def one_question(
    kernels: Kernels, rng: np.random.Generator, slots: Slots, holders: Holders, mask: np.uint64
) -> list[object]:
    ids = random_ids(rng, int(rng.integers(0, 20)))
    n = len(ids)
    rules = Rules(
        rng.integers(0, len(Action), len(IdState) * len(Asker), dtype=np.uint8),
        rng.integers(1, 5, len(Action), dtype=np.uint8),
    )
    digests = rng.integers(0, 4, n, dtype=np.uint32) if rng.random() < 0.5 else NO_DIGESTS
    token = rng.integers(0, 3, 2, dtype=np.uint64)
    known, now_ms = bool(rng.integers(2)), int(rng.integers(0, 10))
    question = Question(token[0], token[1], int(rng.integers(0, 3)), known, now_ms, mask, digests)
    answers = Answers(*(np.zeros(n, kind) for kind in (np.uint8, np.uint8, np.uint32, np.uint8)))
    before = [array.copy() for array in (*slots, *holders)]
    cold = rng.integers(-1, ROWS, n, dtype=np.int32) if rng.random() < 0.5 else NO_COLD
    granted, places = np.zeros((n, 2), np.uint64), np.zeros(n, np.int64)
    decision = kernels.decide(slots, holders, rules, question, ids, answers, cold, granted, places)
    for array, old in zip((*slots, *holders), before, strict=True):
        np.testing.assert_array_equal(array, old, "deciding changes nothing")
    return [*map(int, decision), *(array.tolist() for array in (*answers, granted, places))]


@pytest.mark.parametrize("part", range(4))
def test_compiled_and_plain_kernels_do_the_same(part: int) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED + 12 * part, SEED + 12 * (part + 1)):
        assert one_run(COMPILED, seed) == one_run(PLAIN, seed), f"seed {seed}"


def what_was_found(slots: Slots, ids: np.ndarray, mask: np.uint64) -> np.ndarray:
    """Returns the hints of `decide` about the slots of ids."""
    found = []
    for tag, place in ids:
        segment = int(tag) & 1
        base, capacity = slots.base[segment], slots.capacity[segment]
        found.append(find(slots.words, base, capacity, tag & mask, place & np.uint64(0xFFFF_FFFF)))
    return np.array(found, np.int64)


both_kernels = pytest.mark.parametrize("kernels", [COMPILED, PLAIN], ids=["compiled", "plain"])


@both_kernels
def test_taking_back_gives_every_slot_to_the_row_it_named(kernels: Kernels) -> None:
    rng = np.random.default_rng(SEED)
    mask, slots, holders = np.uint64(0xFFFF), empty_slots(64, keeping=True), random_holders(rng)
    first, second = np.unique(random_ids(rng, 20), axis=0), np.unique(random_ids(rng, 20), axis=0)
    digests = some_digests(rng, slots, len(first))
    kernels.upsert(slots, holders, first, mask, 1, np.zeros(len(first), np.uint32), *UNTOLD, digests)
    before, counted = told_by_id(slots), holders.slots.copy()
    previous, digests = np.zeros(len(second), np.uint32), some_digests(rng, slots, len(second))
    new, _ = kernels.upsert(slots, holders, second, mask, 2, previous, *UNTOLD, digests)
    assert told_by_id(slots) != before
    assert kernels.restore(slots, holders, second, mask, 2, previous, digests) == new
    after = told_by_id(slots)
    assert {key: after[key] for key in before} == before
    assert {row for key, (row, _) in after.items() if key not in before} <= {2}
    assert holders.slots[2] == new
    np.testing.assert_array_equal(holders.slots[[0, 1, 3]], counted[[0, 1, 3]])


@both_kernels
def test_moving_leaves_out_the_dead_but_for_those_that_may_come_back(kernels: Kernels) -> None:
    rng = np.random.default_rng(SEED)
    slots, holders = empty_slots(64), random_holders(rng)
    holders.state[:4], holders.pins[:4] = ClaimState.RELEASED, (0, 1, 0, 0)
    holders.state[2], holders.remembered[:4] = ClaimState.DONE, (0, 0, 0, 1)
    for row in range(4):
        ids = np.array([[2 * row, 60 + row], [2 * row + 10, 60 + row]], np.uint64)
        kernels.upsert(slots, holders, ids, np.uint64(0xFFFF), row, np.zeros(2, np.uint32), *UNTOLD, NO_DIGESTS)
    assert kernels.staying(slots, 0, holders) == 4
    assert move(kernels, slots, 0, 64, holders, sweeping=False) == [0, 0]
    assert move(kernels, slots, 0, 64, holders, sweeping=True) == [1, 4, 0], "row 3 can still be asked for"
    assert sorted(rows_by_id(slots).values()) == [1, 1, 2, 2]
    assert (holders.slots[:4].tolist(), slots.used.tolist()) == ([0, 2, 2, 0], [4, 0])


@both_kernels
@pytest.mark.parametrize("sweeping", [False, True])
def test_a_segment_that_moved_has_every_id_where_it_is_looked_for(kernels: Kernels, sweeping: bool) -> None:
    """Crowded segments: nearly full, chains that wrap around, positions at either end."""
    print(f"ONCEGATE_SEED={SEED}")
    rng = np.random.default_rng(SEED)
    for _ in range(200):
        capacity = int(rng.integers(2, 24))
        slots, holders = empty_slots(capacity, segments=1, keeping=bool(rng.integers(2))), random_holders(rng)
        ids = rng.integers(0, 1 << 32, (int(rng.integers(1, capacity)), 2), dtype=np.uint64)
        ids[rng.random(len(ids)) < 0.5, 1] |= np.uint64(rng.choice([0, 0xFFFF_0000, 0xFFFF_FF00]))
        for id_ in ids:
            row = int(rng.integers(ROWS))
            digests = some_digests(rng, slots, 1)
            one, previous = id_.reshape(1, 2), np.zeros(1, np.uint32)
            kernels.upsert(slots, holders, one, np.uint64(1 << 32), row, previous, *UNTOLD, digests)
        expected = told_by_id(slots)
        if sweeping:
            goes = ~np.isin(holders.state, LIVE) & (holders.pins == 0)
            expected = {key: told for key, told in expected.items() if not goes[told[0]]}
        move(kernels, slots, 0, int(capacity + rng.integers(0, 30)), holders, sweeping)
        assert told_by_id(slots) == expected
        assert slots.used[0] == len(expected)
        for tag, place in expected:
            slot = find(slots.words, 0, slots.capacity[0], np.uint64(tag), np.uint64(place))
            assert slot >= 0
            assert row_at(slots.words, slot) == expected[tag, place][0]


@both_kernels
def test_hints_about_the_slots_change_nothing_but_the_time(kernels: Kernels) -> None:
    """Hints may share an empty slot, be outdated by later inserts, or belong to other ids."""
    print(f"ONCEGATE_SEED={SEED}")
    rng, mask = np.random.default_rng(SEED), np.uint64(0xFFFF)
    for _ in range(100):
        twins = [(empty_slots(64), random_holders(np.random.default_rng(7))) for _ in range(2)]
        for row in range(3):
            ids = np.unique(random_ids(rng, int(rng.integers(1, 12))), axis=0)
            asked = ids if rng.random() < 0.7 else np.roll(ids, 1, axis=0)
            said = asked, what_was_found(twins[0][0], asked, mask)
            results = []
            for (slots, holders), told in zip(twins, (said, UNTOLD), strict=True):
                previous = np.zeros(len(ids), np.uint32)
                counts = kernels.upsert(slots, holders, ids, mask, row, previous, *told, NO_DIGESTS)
                results.append([*map(int, counts), previous.tolist(), rows_by_id(slots)])
                results[-1] += [array.tolist() for array in (slots.used, *holders)]
            assert results[0] == results[1]


@both_kernels
@pytest.mark.parametrize("count", [0, 1, 2, 40, 300])
def test_repeats_are_found_at_every_position(kernels: Kernels, count: int) -> None:
    """Covers ids with few distinct places, so that many share a bit; random ids; and one repeated id."""
    print(f"ONCEGATE_SEED={SEED}")
    rng = np.random.default_rng(SEED)
    anywhere = rng.integers(0, 1 << 64, (count, 2), dtype=np.uint64)
    rules = Rules(np.zeros(len(IdState) * len(Asker), np.uint8), np.zeros(len(Action), np.uint8))
    for ids in (random_ids(rng, count), anywhere, np.ones((count, 2), np.uint64)):
        ids[count // 2 :] = ids[: count - count // 2].copy()
        answers = Answers(
            np.full(count, 77, np.uint8), *(np.zeros(count, kind) for kind in (np.uint8, np.uint32, np.uint8))
        )
        question = Question(np.uint64(1), np.uint64(2), 0, False, 0, np.uint64((1 << 64) - 1))
        granted, places = np.zeros((count, 2), np.uint64), np.zeros(count, np.int64)
        kernels.decide(empty_slots(8), random_holders(rng), rules, question, ids, answers, NO_COLD, granted, places)
        first: dict[tuple[int, int], int] = {}
        for i, (tag, place) in enumerate(ids.tolist()):
            j = first.setdefault((tag, place & 0xFFFF_FFFF), i)
            assert (answers.actions[i] == SAME_INDEX) == (j < i)
            assert j == i or answers.numbers[i] == j
