"""Removes rules of the ledger on Kafka from the shipped code one at a time, and checks what breaks in the walks."""

from itertools import product

import pytest

from tests.model.kafka.clients import replace_clients
from tests.model.kafka.gateways import meet
from tests.model.kafka.rules import ENGINE, RULES, leave_out
from tests.model.kafka.standbys import Choices
from tests.model.kafka.walks import SETUPS
from tests.model.kafka.world import ALONE_STEPS, World
from tests.model.kit.outcome import breaks
from tests.model.kit.replies import Broken

# More steps than an opening and a first append take.
MOMENTS = 32


@pytest.fixture(autouse=True)
def modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_clients(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_without_a_rule_a_walk_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, RULES[name])
    assert breaks(RULES[name].setup) in RULES[name].breaks


@pytest.mark.slow
def test_every_pair_of_moments_at_which_two_gateways_take_turns_keeps_the_invariants() -> None:
    """Tries every pair of steps: the first gateway sleeps after one number of steps, the second after another."""
    for first_steps, second_steps in product(range(MOMENTS), range(MOMENTS)):
        met(first_steps, second_steps)


def meet_everywhere() -> None:
    for first_steps in range(MOMENTS):
        met(first_steps, ALONE_STEPS)


def met(first_steps: int, second_steps: int) -> None:
    world = World(SETUPS["owners, without faults"], 1)
    world.run_as(lambda world: meet(world, first_steps, second_steps))


def test_a_pair_of_moments_breaks_where_the_list_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, RULES["the list is read again after the start"])
    with pytest.raises(Broken, match="CHAIN"):
        meet_everywhere()


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINE)
def test_without_a_rule_of_the_engine_a_walk_breaks(name: str) -> None:
    setup, broken = ENGINE[name]
    assert breaks(setup) == broken


@pytest.mark.slow
def test_gateways_that_supersede_a_live_owner_never_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateways fence each other again and again; the walk notices after a number of steps."""
    leave_out(monkeypatch, RULES["an owner that beats is not superseded"])
    monkeypatch.setattr(Choices, "_require_silence", lambda *_: None)
    assert breaks(SETUPS["standbys"]) == "CALM"
