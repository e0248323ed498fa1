"""The row offsets of an entry's ids follow exactly from its order; without an order they are unknown."""

import random
from typing import Any

import numpy as np
import pytest

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Produced
from oncegate.engine.commit import places as module
from oncegate.engine.commit.marks import Marks
from oncegate.engine.commit.places import Places, offsets_in
from oncegate.engine.deadline import Deadline
from oncegate.index.claims.firsts import Firsts, Unread
from oncegate.index.claims.results import Located
from oncegate.ports import Mark, Replayed, RowPlaces, RowRange
from oncegate.testing import FakeClock
from tests.support.index.driver import fingerprints, name


class Entries:
    """A ledger that has these entries, by their positions, and none before or between them."""

    def __init__(self, bodies: dict[int, bytes]) -> None:
        self._bodies = bodies

    async def replay(self, position: int) -> Any:
        for at in sorted(self._bodies):
            if at >= position:
                yield [Replayed(at, self._bodies[at], Mark(bytes(16), at, bytes(8)), None)]


def entry(fresh: list[int], taken: list[int], taken_at: list[int]) -> Produced:
    ids = fingerprints(fresh).tobytes(), fingerprints(taken).tobytes()
    rows = len(fresh) + len(taken)
    places: Any = np.array(taken_at, "<u4").tobytes()
    return Produced("t", 0, 100, rows, 9, name("c"), name("t"), 1, name("d"), 5, *ids, taken_at=places)


@pytest.mark.parametrize("seed", range(20))
def test_each_id_is_where_its_row_was(seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.sample(range(1, 1_000), rng.randrange(1, 60))
    taken_at = sorted(rng.sample(range(len(rows)), rng.randrange(len(rows) + 1)))
    taken, fresh = [rows[at] for at in taken_at], [row for at, row in enumerate(rows) if at not in taken_at]
    written = entry(fresh, taken, taken_at if fresh and taken else [])
    asked = rng.sample(rows, len(rows))
    assert offsets_in(written, fingerprints(asked)).tolist() == [100 + rows.index(one) for one in asked]


def test_a_row_missing_in_the_entry_has_no_row_offset() -> None:
    assert offsets_in(entry([5, 6], [], []), fingerprints([6, 7, 2_000])).tolist() == [101, -1, -1]


def test_ids_that_were_all_taken_are_where_their_rows_were() -> None:
    assert offsets_in(entry([], [5, 6], []), fingerprints([6, 5])).tolist() == [101, 100]


def test_an_id_behind_all_those_of_an_entry_has_no_place() -> None:
    last = np.full((1, 2), 2**64 - 1, np.uint64)
    assert offsets_in(entry([5, 6], [], []), last).tolist() == [-1]


async def test_an_entry_that_was_compacted_leaves_the_others_located() -> None:
    ledger: Any = Entries({2: encode(entry([5], [], []))})
    places = Places(ledger, Marks(bytes(16)))
    unread = [Unread(position, name("c"), np.array([at]), fingerprints([5])) for at, position in enumerate((1, 2))]
    located = await places.located(Firsts(Located.unknown(2), unread), Deadline(FakeClock()))
    assert located.offset.tolist() == [-1, 100]


def test_an_entry_without_an_order_gives_no_row_offset() -> None:
    assert offsets_in(entry([5, 6], [7], []), fingerprints([5, 6, 7])).tolist() == [-1, -1, -1]


def ranges_at(position: int) -> RowPlaces:
    return RowPlaces((RowRange("t", 0, position, 1), RowRange("t", 1, position, 1)))


class Read:
    """A ledger that records which entries are read."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    async def replay(self, position: int) -> Any:
        self.positions.append(position)
        yield [Replayed(position, b"", Mark(bytes(16), position, bytes(8)), ranges_at(position))]


@pytest.mark.parametrize("remembered", [4, 5])
async def test_the_oldest_ranges_are_forgotten_and_read_again_where_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    monkeypatch.setattr(module, "REMEMBERED", remembered)
    ledger: Any = Read()
    places = Places(ledger, Marks(bytes(16)), elsewhere=True)
    for position in (1, 2, 3):
        places.remember(position, ranges_at(position))
    for position, reads in ((3, []), (2, []), (1, [1])):
        assert await places.ranges([position], Deadline(FakeClock())) == ranges_at(position).ranges
        assert ledger.positions == reads


async def test_compacted_entries_are_not_read_and_the_first_one_after_them_is() -> None:
    ledger: Any = Read()
    places = Places(ledger, Marks(bytes(16), compacted=2), elsewhere=True)
    for position, ranges in ((1, ()), (2, ()), (3, ranges_at(3).ranges)):
        assert await places.ranges([position], Deadline(FakeClock())) == ranges
    assert ledger.positions == [3]


def test_so_much_is_remembered() -> None:
    assert module.REMEMBERED == 16_384, "a range takes some 200 bytes: 3 MB a namespace"
