"""A request's digest distinguishes it from another request of the same call."""

import os
import random

import numpy as np

from oncegate.hashing.payloads import _KEPT, digest_of_ids

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))


def ids_of(rng: random.Random, count: int) -> np.ndarray:
    return np.frombuffer(bytearray(rng.randbytes(16 * count)), np.uint64).reshape(-1, 2)


def test_another_order_another_id_one_more_and_one_twice_come_to_another_digest() -> None:
    print(f"ONCEGATE_SEED={SEED}")
    rng = random.Random(SEED)
    for count in (1, 2, 3, 64, 1_000):
        ids = ids_of(rng, count)
        others = [ids[:-1], np.concatenate([ids, ids[:1]]), ids_of(rng, count)]
        others += [ids[::-1]] if count > 1 else []
        others += [np.concatenate([ids[[0, 1, 1, 0]]]), ids[[1, 0, 0, 1]]] if count > 1 else []
        found = [digest_of_ids(ids), *(digest_of_ids(other) for other in others)]
        assert len(set(found)) == len(found)
        assert all(len(digest) == 16 for digest in found)
        assert digest_of_ids(ids.copy()) == found[0]


def test_the_digest_is_the_same_in_every_process_and_for_every_number_of_ids() -> None:
    # A repeat may come after a restart.
    assert digest_of_ids(np.array([[1, 2], [3, 4]], np.uint64)).hex() == "8eff496079838a2d3233217d1dca237e"
    assert digest_of_ids(np.empty((0, 2), np.uint64)) == bytes(16)
    ids = np.zeros((_KEPT + 2, 2), np.uint64)
    ids[:2] = [[1, 2], [3, 4]]
    assert digest_of_ids(ids) == digest_of_ids(ids[:2])
