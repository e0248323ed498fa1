"""Walks with owners that meet faults, sleep, die and are followed, over the shipped ledger on Kafka."""

from collections import Counter

import pytest

from tests.model.kafka.clients import replace_clients
from tests.model.kafka.walks import SETUPS
from tests.model.kafka.world import World
from tests.model.kit.outcome import SEED, WALKS, walk_all


@pytest.fixture(autouse=True)
def modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_clients(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_the_invariants_hold_whoever_sleeps_dies_or_is_lost(name: str) -> None:
    outcome = walk_all(SETUPS[name], WALKS // 4)
    assert not outcome.broken, outcome.explain()


def test_a_walk_is_made_by_its_seed_alone() -> None:
    traces = []
    for _ in range(2):
        world = World(SETUPS["owners, faults"], SEED)
        world.run()
        traces.append(world.trace)
    assert traces[0] == traces[1]


def test_walks_meet_all_that_the_model_is_about() -> None:
    found: Counter[str] = Counter()
    events = ("acknowledged", "is refused", "collects", "opens anew", "LedgerFenced", "a late commit", "shortens")
    events += ("sleeps", "wakes", "dies", "[late]", "[lost]", "[unanswered]", "standby reads", "probe")
    for name in SETUPS:
        for seed in range(10):
            world = SETUPS[name].world(seed)
            world.run()
            text = "\n".join(world.trace)
            found.update({event: text.count(event) for event in events})
    assert not [event for event in events if not found[event]]
