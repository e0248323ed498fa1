"""The mixed load: its shares of new, recent and old ids, and that its ids are reproducible."""

import numpy as np

from bench.load.bodies import numbered, of_numbers
from bench.load.mixed import RECENT_IDS, STREAM, Mixed, fill


def test_ids_are_those_of_their_numbers() -> None:
    numbers = np.array([0, 1, 77, 1 << 35], np.uint64)
    ids = np.empty((4, 2), np.uint64)
    fill(np.uint64(3), numbers, ids)
    assert ids.tolist() == of_numbers(3, numbers).tolist()


def test_a_request_is_new_ids_then_recent_then_old_ones() -> None:
    load, settled = Mixed(1_000, 1), 3 * RECENT_IDS
    load.made = settled + 5
    request = load.request(settled, 100)
    assert (int(request.new.sum()), load.made) == (900, settled + 905)
    assert request.ids[:900].tolist() == numbered(STREAM, settled + 5, 900).tolist()
    recent = {tuple(one) for one in numbered(STREAM, settled - RECENT_IDS, RECENT_IDS).tolist()}
    assert all(tuple(one) in recent for one in request.ids[900:980].tolist())
    old = {tuple(one) for one in numbered(STREAM, 0, 100).tolist()}
    assert all(tuple(one) in old for one in request.ids[980:].tolist())
