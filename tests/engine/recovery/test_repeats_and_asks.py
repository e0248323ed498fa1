"""Repeated requests of clients and drivers, and answers that require durability."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncegate.core.claims import Verb
from oncegate.core.entries.kinds import Name
from oncegate.core.errors import BatchConflict, SecondWrite
from oncegate.core.verdicts import Verdict
from oncegate.engine.requests import AbortRequest, CommitResult
from tests.support.simulated_world import LEASE_MS, World

A, B = b"a" * 16, b"b" * 16
NAME = Name("query", "0", "topic")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, seed=1)
    yield world
    world.close()


def test_a_late_repeat_of_a_claim_that_was_taken_over_is_busy(world: World) -> None:
    """Decided by the present state, never read from a cache: B may be writing."""
    world.claim(A, 0, ["x"])
    world.clock.advance(LEASE_MS)
    assert world.claim(B, 0, ["x"])[1] == [Verdict.GRANTED]
    assert world.claim(A, 0, ["x"]) == (None, [Verdict.BUSY])


def test_a_late_repeat_is_not_granted_what_its_claim_no_longer_holds(world: World) -> None:
    """B took it over and released it: A's claim must not own it again."""
    world.claim(A, 0, ["x"])
    world.clock.advance(LEASE_MS)
    taken, _ = world.claim(B, 0, ["x"])
    assert taken is not None
    world.settle(Verb.RELEASE, taken)
    assert world.claim(A, 0, ["x"]) == (None, [Verdict.BUSY])


def test_a_repeat_after_a_kill_is_granted_what_its_claim_holds(world: World) -> None:
    claim, _ = world.claim(A, 0, ["x", "y"])
    world.kill(torn_bytes=100)
    assert world.claim(A, 0, ["x", "y"]) == (claim, [Verdict.GRANTED, Verdict.GRANTED])


def test_a_second_write_is_known_as_one_after_the_gateway_was_killed(world: World) -> None:
    """The first request of the run was answered DUPLICATE; the request is in the ledger, not only in memory."""
    digest = b"d" * 32
    world.commit(NAME, "run 1", b"1" * 16, [world.stage(NAME, "run:1", ["r"])], digest)
    again = world.commit(NAME, "run 2", b"2" * 16, [world.stage(NAME, "run:2", ["r"])], digest)
    assert isinstance(again, CommitResult)
    assert again.outcome == "DUPLICATE"
    world.kill(torn_bytes=0)
    second = world.commit(NAME, "run 2", b"3" * 16, [world.stage(NAME, "run:2", ["r"])], digest)
    assert isinstance(second, SecondWrite)
    assert "write_id" in second.detail


@pytest.mark.parametrize(("rows", "expected"), [(["r", "s"], CommitResult), (["r", "t"], BatchConflict)])
def test_a_replay_whose_input_is_unknown_is_compared_by_its_rows(
    world: World, rows: list[str], expected: type[object]
) -> None:
    """The tasks of a replay keep sending; the gateway stores nothing but still returns the fingerprint."""
    world.commit(NAME, "run 1", b"1" * 16, [world.stage(NAME, "run:1", ["r", "s"])], None)
    winners = [world.stage(NAME, "run:2", [row]) for row in rows]
    assert isinstance(world.commit(NAME, "run 2", b"2" * 16, winners, None), expected)
    assert world.read("topic") == ["r", "s"]


def test_an_abort_removes_the_stages_of_its_tokens_and_no_others(world: World) -> None:
    """A zombie driver aborts its own tasks; its successor's stages have the same name."""
    old, new = world.stage(NAME, "run:1", ["old"]), world.stage(NAME, "run:2", ["new"])
    namespace = world.gateway.namespace("default")
    answer = world.runner.run(namespace.batches.abort(AbortRequest(NAME, (old.token,)), world.deadline))
    assert (answer.committed, answer.removed) == (False, 1)
    assert isinstance(world.commit(NAME, "2", b"2" * 16, [new], None), CommitResult)
    assert world.read("topic") == ["new"]


def test_an_abort_after_the_commit_changes_nothing(world: World) -> None:
    """Spark aborts with every message when its commit() raised, even if the commit had happened."""
    winner = world.stage(NAME, "run:1", ["row"])
    world.commit(NAME, "1", b"1" * 16, [winner], None)
    answer = world.runner.run(
        world.gateway.namespace("default").batches.abort(AbortRequest(NAME, (winner.token,)), world.deadline)
    )
    assert (answer.committed, answer.removed) == (True, 0)
    assert world.read("topic") == ["row"]
