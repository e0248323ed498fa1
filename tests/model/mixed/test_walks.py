"""Walks with claimers, producers and jobs over the same ids, with the shipped use cases and upkeep."""

from dataclasses import replace

import pytest

from tests.model.kit.outcome import SEED, WALKS, walk_all
from tests.model.mixed.walks import SETUPS
from tests.model.mixed.world import World


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_the_properties_hold_whatever_happens_to_messages_ledger_and_clocks(name: str) -> None:
    outcome = walk_all(SETUPS[name], WALKS // 4 if SETUPS[name].horizon_ms else WALKS // 2)
    assert not outcome.broken, outcome.explain()


def test_the_properties_hold_with_kernels_that_were_never_compiled() -> None:
    outcome = walk_all(replace(SETUPS["mixed, narrow"], compiled=False), WALKS // 10)
    assert not outcome.broken, outcome.explain()


def test_a_walk_is_made_by_its_seed_alone() -> None:
    traces = []
    for _ in range(2):
        world = World(SETUPS["retiring, clocks set"], SEED)
        world.run()
        traces.append(world.trace)
    assert traces[0] == traces[1]


def walked(name: str, walks: int) -> list[World]:
    worlds = [World(SETUPS[name], seed) for seed in range(walks)]
    for world in worlds:
        world.run()
    return worlds


def test_walks_meet_all_that_the_model_is_about() -> None:
    worlds = walked("mixed, late", 80)
    assert sum(world.truth.retries_told for world in worlds) > 10, "retries of produces that get their offsets"
    told = "\n".join(line for world in worlds for line in world.trace)
    for event in ("GRANTED+TAKEOVER", "DUPLICATE+OWN", "SAME+OF_CALL", "BUSY", "RELEASE", "RENEW", "1 taken over"):
        assert event in told, event
    for event in ("claim#", "produce#", "take#", "runs again", "late: ", "[delayed]", "sweep", "green", "dies"):
        assert event in told, event
    assert "CONFLICT" in told
    for event in ("crash and replay", "collected", "the append is refused", "UnknownClaim"):
        assert event in told, event


def test_ids_retire_within_walks_and_are_rightly_granted_again() -> None:
    worlds = walked("retiring, clocks set", 30)
    assert sum(world.truth.again.total() for world in worlds) > 10
    told = [line for world in worlds for line in world.trace[: world.trace.index("-- from here on one acts alone")]]
    assert "a bucket retires" in told
    assert any("the wall clock is set by -" in line for line in told)
    assert any("the wall clock is set by 3600000" in line for line in told)
