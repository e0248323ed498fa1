"""The model of free ids with the real tables and the real index: walks, and a sequence that walks rarely reach."""

from dataclasses import replace

import pytest

from oncegate.core.claims import Verb
from oncegate.index.claims.by_name import ClaimRecord, ClaimRegistry
from tests.model.claims.stories import late_copy_meets_a_released_id
from tests.model.claims.walks import SETUPS
from tests.model.claims.world import Setup, World
from tests.model.kit.attempt import Request
from tests.model.kit.outcome import SEED, WALKS, walk_all
from tests.model.kit.replies import ClaimReply


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_the_properties_hold_whatever_happens_to_the_messages(name: str) -> None:
    outcome = walk_all(SETUPS[name], WALKS)
    assert not outcome.broken, outcome.explain()


def test_the_properties_hold_with_kernels_that_were_never_compiled() -> None:
    outcome = walk_all(replace(SETUPS["narrow"], compiled=False), WALKS // 10)
    assert not outcome.broken, outcome.explain()


def test_a_walk_is_made_by_its_seed_alone() -> None:
    traces = []
    for _ in range(2):
        world = World(SETUPS["narrow"], SEED)
        world.run()
        traces.append(world.trace)
    assert traces[0] == traces[1]


def test_walks_meet_all_that_the_model_is_about() -> None:
    """A model that never crashes, takes over or repeats would always pass."""
    told = "\n".join(line for seed in range(60) for line in traced(SETUPS["late"], seed))
    for event in ("TAKEOVER", "DUPLICATE+OWN", "SAME+OF_CALL", "BUSY", "RELEASE", "RENEW", "late:", "sweep"):
        assert event in told, event
    for event in ("crash and replay", "reply lost", "delayed", "LedgerFull", "1 taken over", "UnknownClaim", "green"):
        assert event in told, event


def traced(setup: Setup, seed: int) -> list[str]:
    world = World(setup, seed)
    world.run()
    return world.trace


def test_starved_walks_forget_claims_before_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten, forget = [], ClaimRegistry._forget

    def noted(known: ClaimRegistry, claim: bytes, record: ClaimRecord) -> None:
        forgotten.append(claim)
        forget(known, claim, record)

    monkeypatch.setattr(ClaimRegistry, "_forget", noted)
    monkeypatch.setattr(ClaimRegistry, "forget_old", lambda known, now_ms: None)
    for seed in range(20):
        traced(SETUPS["starved"], seed)
    assert forgotten


def test_a_late_copy_of_a_claim_does_not_add_to_what_its_completion_marks_done() -> None:
    late_copy_meets_a_released_id()


def test_requests_are_distinguished_by_their_call() -> None:
    world = World(replace(SETUPS["default"], full=0.0), SEED)
    token = world.attempts["A"].token
    first = world.handle(Request("A", token, None, 1, (0, 1), 1_000))
    assert isinstance(first, ClaimReply)
    assert first.claim is not None
    again = world.handle(Request("A", token, None, 1, (0, 1), 1_000))
    assert again == first
    assert str(world.handle(Request("A", token, Verb.RENEW, claim=first.claim))) == "2 settled, 0 taken over"
