"""Walks with owners that meet faults, sleep, die and are superseded, over the shipped ledger on Kafka."""

from collections import Counter

import pytest

from tests.model.kafka.clients import replace_clients
from tests.model.kafka.walks import SETUPS
from tests.model.kafka.world import World
from tests.model.kit.outcome import SEED, WALKS, walk_all

# Enough walks for each planted bug that they must catch (tests/mutants/kafka_models.py).
FIRST = 20
# Walks that found bugs:
#
# 1. If the upkeep ran between taking a generation and starting its producer, it recorded the earlier generations as
# ended. A commit whose marker was lost was then never healed, and the ledger could not be opened again.
#
# 2. A leader that had slept removed a beat of its successor, which the walk took for a beat of that one.
#
# 3. An owner that slept while it read back stages reported damage: a newer owner had deleted them.
#
# 4. A follower that had read no frame yet looked for the topic's low end again. The owner had compacted meanwhile, and
# the follower skipped frames that it had never read.
FOUND = [
    ("standbys, forgotten markers", 50),
    ("standbys, sleepers", 43),
    ("standbys, forgotten markers", 28),
    ("standbys", 47),
    ("standbys, sleepers", 22),
]


@pytest.fixture(autouse=True)
def modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_clients(monkeypatch)


@pytest.mark.parametrize("name", SETUPS)
def test_the_first_walks_keep_the_invariants(name: str) -> None:
    outcome = walk_all(SETUPS[name], FIRST)
    assert not outcome.broken, outcome.explain()


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_the_invariants_hold_despite_sleeps_deaths_and_losses(name: str) -> None:
    outcome = walk_all(SETUPS[name], WALKS // 4)
    assert not outcome.broken, outcome.explain()


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_walks_that_broke_once_keep_the_invariants(name: str, seed: int) -> None:
    SETUPS[name].world(seed).run()


@pytest.mark.parametrize("name", ["owners, faults", "senders, faults", "standbys, faults"])
def test_a_walk_is_made_by_its_seed_alone(name: str) -> None:
    traces = []
    for _ in range(2):
        world = World(SETUPS[name], SEED)
        world.run()
        traces.append(world.trace)
    assert traces[0] == traces[1]


def test_walks_meet_all_that_the_model_is_about() -> None:
    found: Counter[str] = Counter()
    events = ("acknowledged", "are refused", "collects", "opens anew", "LedgerFenced", "a late commit", "shortens")
    events += ("sleeps", "wakes", "dies", "[late]", "[lost]", "[unanswered]", "standby reads", "probe", "b'lease")
    events += (
        "b'stage",
        "b'send",
        "b'drop",
        "is not taken",
        "forgotten",
        "writes what was committed",
        "stands by again",
    )
    events += ("puts b/", "puts w/", "asks for users' topics", "writes u", "writes v", "has a leader again")
    for name in SETUPS:
        for seed in range(1, 9):
            world = SETUPS[name].world(seed)
            world.run()
            text = "\n".join(world.trace)
            found.update({event: text.count(event) for event in events})
            found["takeovers"] += world.choices is not None and world.choices.terms > 1
    events += ("takeovers",)
    assert not [event for event in events if not found[event]]
