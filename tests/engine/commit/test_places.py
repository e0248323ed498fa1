"""Where the ids of an entry lie among its rows: by its order, exactly, and nothing where it does not say."""

import random
from typing import Any

import numpy as np
import pytest

from oncegate.core.entries.kinds import Produced
from oncegate.engine.commit.places import offsets_in
from tests.support.index.driver import fingerprints, name


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


def test_what_is_not_in_the_entry_has_no_place() -> None:
    assert offsets_in(entry([5, 6], [], []), fingerprints([6, 7, 2_000])).tolist() == [101, -1, -1]


def test_an_entry_that_does_not_say_its_order_gives_no_place() -> None:
    assert offsets_in(entry([5, 6], [7], []), fingerprints([5, 6, 7])).tolist() == [-1, -1, -1]
