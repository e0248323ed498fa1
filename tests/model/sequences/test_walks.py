"""Walks with drivers, attempts and twins over lanes of a source, with the shipped use cases, tables and index."""

from collections import Counter

import pytest

from tests.model.kit.outcome import SEED, WALKS, walk_all
from tests.model.sequences.walks import SETUPS
from tests.model.sequences.world import World


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_the_properties_hold_whatever_happens_to_messages_drivers_and_ledger(name: str) -> None:
    outcome = walk_all(SETUPS[name], WALKS // 4)
    assert not outcome.broken, outcome.explain()


def test_a_walk_is_made_by_its_seed_alone() -> None:
    traces = []
    for _ in range(2):
        world = World(SETUPS["ids, scope = retry, late"], SEED)
        world.run()
        traces.append(world.trace)
    assert traces[0] == traces[1]


def met(name: str, walks: int, *events: str) -> Counter[str]:
    """Counts events in walks, before one attempt acts alone."""
    found: Counter[str] = Counter()
    for seed in range(walks):
        world = World(SETUPS[name], seed)
        world.run()
        text = "\n".join(world.trace[: world.trace.index("-- from here on one acts alone")])
        found.update({event: text.count(event) for event in events})
        found["takeovers"] += world.gateway.takeovers
    return found


def test_walks_meet_all_that_the_model_is_about() -> None:
    of_a_query = ("commits batch", "finds batch", "AckResult", "crash and replay", "collected", "the append is refused")
    of_everybody = ("late: ", "[delayed]", "dies", "believed dead", "its attempts live on", "green", "Fenced")
    of_claims = ("STALE", "DUPLICATE", "Verb.RELEASE", "Verb.RENEW", "takeovers")
    events = (*of_a_query, *of_everybody, *of_claims)
    sequences = met("sequences", 25, *events, "ProducerBusy")
    ids = met("ids, scope = retry", 25, *events, "BUSY", "UnknownClaim")
    for found in (sequences, ids):
        assert not [event for event, count in found.items() if count == 0]
    eager = met("sequences, acked while they run", 10, "NotDone", "STALE")
    assert all(eager.values())
    ending = "', holder_gone=False, verb='')] has cleared"
    of_a_person = (f"it is written{ending}", f"nobody writes it{ending}", "LeaseLive")
    for name in ("sequences, cleared", "sequences, cleared and acked while they run", "ids, scope = retry, cleared"):
        assert all(met(name, 25, *of_a_person).values())
    assert all(met("sequences without gaps", 15, "-> Gap", "reads Gap").values())
