"""Segments grow and are swept alone and in place: the cost for a request, and unchanged answers."""

import errno
import mmap
import os
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from oncegate.core.errors import Overloaded
from oncegate.index.claims.store import Widths
from oncegate.index.table import arrays as memory
from oncegate.index.table import table
from oncegate.index.table.arrays import reserve
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Driver

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
SEGMENTS = Widths().segments


def claim_at_random(driver: Driver, rng: np.random.Generator, calls: range, ids: int) -> Iterator[int]:
    """Claims random ids. Yields the number of segments moved by each claim."""
    for call in calls:
        before = driver.index.store.table.moves
        driver.claim("a", call, rng.integers(0, 1 << 62, ids).tolist())
        yield driver.index.store.table.moves - before


def test_a_growing_table_moves_few_segments_at_any_request() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    driver, rng = Driver(), np.random.default_rng(SEED)
    list(claim_at_random(driver, rng, range(100), 1_000))
    moved = list(claim_at_random(driver, rng, range(100, 300), 1_000))
    assert sum(moved) > SEGMENTS, "each segment has moved"
    assert max(moved) <= SEGMENTS / 10


def test_at_any_size_an_id_costs_less_than_30_bytes_of_slots() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    driver, rng = Driver(), np.random.default_rng(SEED)
    for _ in claim_at_random(driver, rng, range(200), 1_000):
        if driver.index.ids > 20_000:
            assert 16 * driver.index.store.table.capacity < 30 * driver.index.ids


def test_a_big_batch_moves_each_segment_once_to_its_size() -> None:
    index = ClaimIndex(Widths(capacity=2))
    index.table.make_room(100_000)
    assert index.store.table.moves == SEGMENTS
    assert 100_000 / table.LOAD_AFTER_MOVE < index.store.table.capacity < 1.6 * 100_000 / table.LOAD_AFTER_MOVE


def test_dead_slots_are_swept_where_room_is_needed_and_nowhere_else() -> None:
    driver = Driver(Widths(capacity=4_096, segments=4))
    driver.release(driver.claim("a", 1, range(0, 8_000, 4)).claim)
    driver.now_ms += 3 * LEASE_MS
    slots = driver.index.store.table.slots
    (crowded,) = np.flatnonzero(slots.used)
    capacity = slots.capacity[crowded]
    driver.claim("b", 1, range(2, 2_002, 4))
    assert (driver.index.store.table.dead, slots.used[crowded]) == (2_000, 2_000), "another segment had to grow"
    driver.claim("b", 2, range(10_000, 18_000, 4))
    assert (driver.index.store.table.dead, slots.used[crowded]) == (0, 2_000)
    assert slots.capacity[crowded] == capacity, "there was room enough in the dead"


def test_ids_of_one_segment_have_room_whatever_the_others_have() -> None:
    driver = Driver(NARROW)
    assert set(driver.claim("a", 1, range(0, 4_000, 4)).words) == {"GRANTED"}
    assert set(driver.claim("b", 1, range(0, 4_000, 4)).words) == {"BUSY"}


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_segment_that_is_as_large_as_they_get_refuses_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    monkeypatch.setattr(table, "SLOTS_MAX", 512)
    driver = Driver(Widths(capacity=8, segments=4), compiled)
    driver.claim("a", 1, range(200))
    before = driver.index.contents()
    with pytest.raises(Overloaded):
        driver.claim("b", 1, range(1_000, 1_400))
    assert driver.index.contents() == before
    assert driver.claim("b", 2, [300]).words == ["GRANTED"]


def test_rows_are_free_again_without_a_sweep_once_nothing_holds_them() -> None:
    driver = Driver()
    for call in range(300):
        driver.release(driver.claim("a", call, [1, 2]).claim)
        driver.now_ms += 3 * LEASE_MS
    assert driver.index.store.rows.made <= 4
    assert driver.index.store.table.moves == 0


def test_reserved_arrays_are_zero_and_separate() -> None:
    arrays = reserve({"pairs": (np.uint64, 2), "bytes": (np.uint8, 1), "wide": (np.int64, 1)}, 5_000)
    assert {name: array.shape for name, array in arrays.items()} == {
        "pairs": (5_000, 2),
        "bytes": (5_000,),
        "wide": (5_000,),
    }
    for array in arrays.values():
        assert not array.any()
        array[:] = 7
    assert all((array == 7).all() for array in arrays.values())


def refusing(bytes_max: int, given: list[int]) -> type[mmap.mmap]:
    class Refusing(mmap.mmap):
        def __new__(cls, fileno: int, length: int, **more: int) -> "Refusing":
            if length > bytes_max:
                raise OSError(errno.ENOMEM, "Cannot allocate memory")
            given.append(length)
            return super().__new__(cls, fileno, length, **more)

    return Refusing


def test_where_address_space_is_short_the_index_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(memory.mmap, "mmap", refusing(1 << 28, given))
    driver = Driver()
    assert all(1 << 26 < length <= 1 << 28 for length in given)
    assert driver.claim("a", 1, range(100)).words == ["GRANTED"] * 100
    assert 1 << 19 < driver.index.store.rows.limit < 1 << 22


def test_address_space_of_a_dropped_index_is_free_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dropped index is part of a cycle. The address space has room for one index only."""
    arrays = {"ids": (np.uint64, 1)}
    maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    class OneMap(mmap.mmap):
        def __new__(cls, fileno: int, length: int, **more: int) -> "OneMap":
            if maps:
                raise OSError(errno.ENOMEM, "Cannot allocate memory")
            made = super().__new__(cls, fileno, length, **more)
            maps.add(made)
            return made

    monkeypatch.setattr(memory.mmap, "mmap", OneMap)
    dropped: list[object] = [reserve(arrays, 1 << 20)]
    dropped.append(dropped)
    del dropped
    assert len(maps) == 1
    assert len(reserve(arrays, 1 << 20)["ids"]) == 1 << 20


def test_exhausted_address_space_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.mmap, "mmap", refusing(1 << 10, []))
    with pytest.raises(MemoryError, match="address space"):
        ClaimIndex()
