"""Ids that left the table are answered as if they had not: no answer changes by sealing, merging or starting again."""

import os
import random

import pytest

from tests.index.twins import TwinWalk

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_no_answer_tells_whether_old_ids_were_sealed(compiled: bool) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    sealed = merges = 0
    for seed in range(SEED, SEED + (12 if compiled else 2)):
        walk = TwinWalk(random.Random(seed), compiled)
        events = (walk.seal, walk.seal, walk.seal_all, walk.merge, walk.restart, walk.load)
        for _ in range(150):
            walk.step()
            if walk.rng.random() < 0.6:
                walk.rng.choices(events, (8, 8, 2, 2, 1, 1))[0]()
            walk.look()
        sealed, merges = sealed + walk.sealed_ids, merges + walk.merges
    assert sealed > 20, "or nothing is shown"
    assert merges > 2
