"""Leases renewed during work: the schedule by hand, and the blocks of both clients."""

import json
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.protocol.calls.lease import WRITE_LEASES_MAX, claim_lease, renewals
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Pause, StepEnd, Tries, Try
from oncegate_spark.protocol.effort import Reply, WireFailure
from oncegate_spark.protocol.packed import Verdicts
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect
from tests.support.stub_gateway import Answer, Asked, StubGateway, problem
from tests.support.verdicts import DUPLICATE, GRANTED, packed

LEASE_MS = 9_000
RENEWED = json.dumps({"state": "OPEN", "settled": 1, "taken_over": 0, "lease_ms": LEASE_MS}).encode()


def claimed_at(began_ms: int) -> Claimed:
    return Claimed(["a"], Verdicts.read(packed([GRANTED], claim=True, lease_ms=LEASE_MS), 1), 0, began_ms)


def walk(clock: SteppedClock, claimed: Claimed, end: StepEnd) -> Iterator[tuple[str, int]]:
    """Yields the actions and their times, with every attempt ending in `end`."""
    tries = Tries("http://g", timeout_ms=60_000, mark=None, now_ms=clock.monotonic_ms, rng=Random(1))
    steps, answer = renewals(Calls(tries, "default"), claim_lease(claimed)), None
    try:
        while True:
            step = steps.send(answer)
            if isinstance(step, Pause):
                clock.sleep_ms(step.duration_ms)
                answer = None
            else:
                assert isinstance(step, Try)
                yield step.request.path.rsplit(":")[-1], clock.now_ms
                answer = end
    except StopIteration:
        pass


def test_a_claim_is_renewed_at_each_third_of_its_lease_counted_from_its_try() -> None:
    clock = SteppedClock()
    began_ms = clock.now_ms - 1_000
    done = list(walk(clock, claimed_at(began_ms), Reply(200, {}, RENEWED)))
    assert {verb for verb, _ in done} == {"renew"}
    assert [at_ms - began_ms for _, at_ms in done[:3]] == [3_000, 6_000, 9_000]


def test_a_lease_that_is_nearly_over_is_renewed_at_once() -> None:
    clock = SteppedClock()
    start_ms = clock.now_ms
    done = list(walk(clock, claimed_at(start_ms - LEASE_MS), Reply(200, {}, RENEWED)))
    assert done[0] == ("renew", start_ms)


def test_work_that_takes_ten_leases_is_stuck_and_no_longer_renewed(caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock()
    start_ms = clock.now_ms
    done = list(walk(clock, claimed_at(start_ms), Reply(200, {}, RENEWED)))
    assert done[-1][1] - start_ms == WRITE_LEASES_MAX * LEASE_MS - 3_000
    assert "no longer renewed" in caplog.text


@pytest.mark.parametrize(
    "end",
    [
        WireFailure("no answer in time", sent=True),
        Reply(409, {}, problem(409, "UNKNOWN_CLAIM", "stop").body),
    ],
)
def test_a_renewal_that_fails_is_reported_and_the_next_one_tried(
    end: StepEnd, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppedClock()
    start_ms = clock.now_ms
    done = list(walk(clock, claimed_at(start_ms), end))
    assert "could not be renewed" in caplog.text
    assert done[-1][1] - start_ms > 8 * LEASE_MS


def test_nothing_granted_is_nothing_to_renew() -> None:
    verdicts = Verdicts.read(packed([DUPLICATE]), 1)
    assert list(walk(SteppedClock(), Claimed(["a"], verdicts), None)) == []


class Renewing:
    """Grants with a lease of about half a second, and lets a test wait for the renewals."""

    def __init__(self) -> None:
        self.renewed = threading.Semaphore(0)
        self.others: list[str] = []

    def __call__(self, asked: Asked) -> Answer:
        verb = asked.path.rsplit(":", 1)[-1]
        if verb == "claim":
            return Answer(body=packed([GRANTED], claim=True, lease_ms=600))
        if verb == "renew":
            self.renewed.release()
        else:
            self.others.append(verb)
        return Answer(body=RENEWED)


def test_a_block_is_renewed_as_long_as_it_runs_and_no_longer(connect: Connect) -> None:
    script = Renewing()
    with StubGateway(otherwise=script) as stub, connect(stub.url) as gateway, gateway.attempt() as attempt:
        claimed = attempt.claim(["a"])
        with attempt.holding(claimed):
            for _ in range(2):
                assert script.renewed.acquire(timeout=30)
        renewals_then = sum(asked.path.endswith(":renew") for asked in stub.asked)
        attempt.complete(claimed)
        assert sum(asked.path.endswith(":renew") for asked in stub.asked) == renewals_then
    assert script.others == ["complete"]
    assert stub.connections == 2  # renewals have a connection of their own, so they never wait for a body


def failing(gateway: Any, script: Renewing) -> None:
    with gateway.attempt() as attempt, attempt.holding(attempt.claim(["a"])):
        assert script.renewed.acquire(timeout=30)
        raise ZeroDivisionError


def test_the_work_inside_may_fail_and_its_error_is_the_one_that_is_seen(connect: Connect) -> None:
    script = Renewing()
    with StubGateway(otherwise=script) as stub, connect(stub.url) as gateway:
        with pytest.raises(ZeroDivisionError) as raised:
            failing(gateway, script)
        assert "neither completed nor released" in raised.value.__notes__[0]
    assert not isinstance(raised.value, OncegateError)


def test_a_block_with_nothing_granted_asks_nothing(connect: Connect) -> None:
    with StubGateway(Answer(body=packed([DUPLICATE]))) as stub, connect(stub.url) as gateway:
        with gateway.attempt() as attempt, attempt.holding(attempt.claim(pa.array(["a"]))):
            pass
        assert len(stub.asked) == 1
