"""An unreachable gateway is logged at once and then rarely. No test waits: clocks are manual."""

import logging

import pytest

from deploy.ports import free_port
from oncegate_spark.errors import Unreachable
from oncegate_spark.protocol.effort import Reply, WireFailure
from oncegate_spark.protocol.outage import SAY_EACH_MS, Outage
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect

REFUSED = WireFailure("ConnectionRefusedError: refused", sent=False)


def test_a_call_to_a_gateway_that_is_down_warns_at_once_and_then_each_half_minute(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppedClock()
    url = f"http://127.0.0.1:{free_port()}"
    caplog.set_level(logging.WARNING, "oncegate_spark")
    with connect(url, clock=clock) as gateway, pytest.raises(Unreachable):
        gateway.take("job", ["a"])
    said = [record.getMessage() for record in caplog.records if record.name == "oncegate_spark"]
    assert len(said) == 4, "in 120 seconds"
    assert said[0].startswith(f"no connection to {url} for 0 s (ConnectionRefusedError")
    assert said[0].endswith("this call retries for 120 s more")
    assert len(clock.slept_ms) > 20, "each of these waits followed a try that was refused"


def test_a_call_that_gives_up_at_once_reports_that_it_does_not_retry(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(f"http://127.0.0.1:{free_port()}", on_down="fail") as gateway, pytest.raises(Unreachable):
        gateway.take("job", ["a"])
    assert caplog.records[0].getMessage().endswith("this call retries for 0 s more")


def said_at(caplog: pytest.LogCaptureFixture, *ends: tuple[int, Reply | WireFailure]) -> list[int]:
    """Returns the times at which a line was logged."""
    outage, said = Outage("http://g"), []
    for now_ms, end in ends:
        caplog.clear()
        outage.note(end, now_ms, 60_000)
        said += [now_ms] * len(caplog.records)
    return said


def test_the_next_outage_is_reported_at_once_again(caplog: pytest.LogCaptureFixture) -> None:
    answered = Reply(200, {}, b"")
    ends = [(0, REFUSED), (10, REFUSED), (20, answered), (30, REFUSED), (29 + SAY_EACH_MS, REFUSED)]
    assert said_at(caplog, *ends, (30 + SAY_EACH_MS, REFUSED)) == [0, 30, 30 + SAY_EACH_MS]


def test_a_connection_that_was_made_and_lost_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    assert said_at(caplog, (0, WireFailure("no answer in time", sent=True))) == []
    assert said_at(caplog, (0, WireFailure("no TLS", sent=False, fix="write http://"))) == [], "raised at once"


def test_unchecked_grants_are_reported_at_once_and_then_each_half_minute_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage("http://g")
    for count, now_ms in ((0, 0), (2, 5), (3, 6), (4, 4 + SAY_EACH_MS), (1, 5 + SAY_EACH_MS), (0, 5 + 2 * SAY_EACH_MS)):
        outage.note_unchecked(count, now_ms)
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[2] for line in said] == [f" {count} ids granted unchecked" for count in (2, 8)]
