"""Random walks of named batches: the shipped tables, index and use cases against everything that can happen.

ONCEGATE_MODEL_SEED chooses other walks; ONCEGATE_MODEL_WALKS is the number of each kind.
"""

import os
from collections import Counter

import pytest

from tests.model.batches.knobs import HOLDING, RISKY, WRONG, Knobs
from tests.model.batches.world import walk

SEED = os.environ.get("ONCEGATE_MODEL_SEED", "3")
WALKS = int(os.environ.get("ONCEGATE_MODEL_WALKS", "100"))


@pytest.mark.slow
@pytest.mark.parametrize("knobs", HOLDING, ids=lambda knobs: knobs.name)
def test_every_promise_holds_whatever_happens(knobs: Knobs) -> None:
    for number in range(WALKS):
        seed = f"{SEED}/{number}"
        world, broken = walk(knobs, seed)
        assert broken is None, f"ONCEGATE_MODEL_SEED={SEED}, walk {seed}: {broken}\n{world.story()}"


@pytest.mark.parametrize("knobs", RISKY, ids=lambda knobs: knobs.name)
def test_without_a_digest_only_a_checkpoint_put_back_under_a_living_driver_doubles_or_drops(knobs: Knobs) -> None:
    broke: Counter[str] = Counter()
    for number in range(2 * WALKS):
        world, broken = walk(knobs, f"{SEED}/{number}")
        if broken is not None:
            broke[broken.property] += 1
            assert broken.property in knobs.accepted, f"walk {SEED}/{number}: {broken}\n{world.story()}"
    print(f"seed {SEED}, {knobs.name}: {dict(broke)} in {2 * WALKS} walks")


@pytest.mark.parametrize("knobs", WRONG, ids=lambda knobs: knobs.name)
def test_the_walks_see_what_the_rules_are_for(knobs: Knobs) -> None:
    found = (walk(knobs, f"{SEED}/{number}")[1] for number in range(3000))
    broken = next((broken for broken in found if broken is not None), None)
    print(f"seed {SEED}, {knobs.name}: {broken}")
    assert broken is not None
    assert broken.property in {"TWICE", "DROP"}
