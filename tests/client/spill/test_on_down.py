"""Calls while a real gateway is down, by `on_down`, through both clients."""

import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from deploy.ports import free_port
from oncegate_spark import (
    BadOption,
    Gateway,
    Outcome,
    Refused,
    Spill,
    SpillFull,
    Stopped,
    TaskFailed,
    Unanswered,
    Unreachable,
)
from oncegate_spark.aio.spilling import RETRY_MS
from tests.support.client_clock import SteppedClock
from tests.support.clients import Connect, connecting
from tests.support.gateway_process import GatewayProcess
from tests.support.spark_writes import Write
from tests.support.stub_gateway import LOST, StubGateway, problem

pytestmark = pytest.mark.server


@pytest.fixture
def nobody() -> str:
    """The address of a gateway that is down."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def spill(tmp_path: Path) -> Iterator[Spill]:
    with Spill(tmp_path / "spill") as spill:
        yield spill


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": ids})


def uuid7(made_ms: int, rest: int = 0) -> str:
    """Returns a UUID of version 7 with this time (RFC 9562, 5.7)."""
    return str(uuid.UUID(int=made_ms << 80 | 7 << 76 | 2 << 62 | rest))


def topic(gateway: Gateway) -> list[str]:
    table = gateway.read("t")
    return [] if table is None else table.column("id").to_pylist()


def test_a_call_that_fails_at_once_waits_for_nothing(nobody: str, connect: Connect) -> None:
    clock = SteppedClock()
    with (
        connect(nobody, clock=clock, on_down="fail") as gateway,
        gateway.attempt() as attempt,
    ):
        for call in (lambda: attempt.claim(["a"]), lambda: gateway.take("job", ["a"]), lambda: gateway.describe()):
            with pytest.raises(Unreachable, match=r"on_down allows no further retries, after 1 tries") as raised:
                call()
            assert raised.value.outcome is Outcome.NOT_WRITTEN
    assert clock.slept_ms == []


def test_a_lost_reply_is_asked_for_once_more_before_a_gateway_counts_as_down(connect: Connect) -> None:
    """A connection that went stale while idle is no outage; two lost replies are one."""
    with StubGateway(LOST, LOST, LOST) as stub, connect(stub.url, on_down="fail") as gateway:
        with pytest.raises(Unanswered) as raised, gateway.attempt() as attempt:
            attempt.claim(["a"])
        assert raised.value.outcome is Outcome.UNKNOWN
        assert len(stub.asked) == 2


def test_a_gateway_that_is_killed_costs_what_it_is_set_to_and_what_waits_is_sent_in_order_before_later_rows(
    tmp_path: Path,
) -> None:
    for kind in ("sync", "async"):
        (tmp_path / kind).mkdir()
        with (
            GatewayProcess(tmp_path / kind) as process,
            connecting(kind) as connect,
            Spill(tmp_path / "spill") as spill,
        ):
            killed_and_back(process, connect, spill)


def killed_and_back(process: GatewayProcess, connect: Connect, spill: Spill) -> None:
    with (
        connect(process.url, on_down="spill", spill=spill) as gateway,
        gateway.attempt() as attempt,
    ):
        claimed = attempt.claim(["x"])
        assert attempt.produce("t", rows("a"), id_col="id").rows == 1
        process.kill()
        for ids in (("b", "c"), ("d",), ("b", "e")):
            written = attempt.produce("t", rows(*ids), id_col="id")
            assert (written.rows, written.spilled) == (0, len(ids)), "not said to be done"
        assert spill.waiting == 3
        process.spawn()
        attempt.complete(claimed)  # requests that settle begun work are repeated until the gateway is back
    with connect(process.url, on_down="spill", spill=spill) as gateway, gateway.attempt() as attempt:
        last = attempt.produce("t", rows("f"), id_col="id")
        assert (last.rows, last.spilled, spill.waiting) == (1, 0, 0)
        assert attempt.produce("t", rows("c", "e"), id_col="id").suppressed == 2
        assert attempt.claim(["x"]).dropped == ["x"]
        assert topic(gateway) == ["a", "b", "c", "d", "e", "f"]


def test_a_gateway_that_stays_down_is_asked_by_few_of_the_calls(connect: Connect, spill: Spill) -> None:
    """If the gateway hangs, each call would cost its timeout."""
    clock, down = SteppedClock(), problem(503, "RECOVERING", "retry")
    with (
        StubGateway(otherwise=lambda asked: down) as stub,
        connect(stub.url, on_down="spill", spill=spill, clock=clock) as gateway,
        gateway.attempt() as attempt,
    ):
        for n in range(9):
            assert attempt.produce("t", rows(f"{n}"), id_col="id").spilled == 1
            clock.now_ms += RETRY_MS // 4
        assert len(stub.asked) == 3
    assert clock.slept_ms == []
    assert spill.waiting == 9


def test_what_cannot_be_laid_down_fails_at_once(nobody: str, connect: Connect, spill: Spill) -> None:
    with connect(nobody, on_down="spill", spill=spill) as gateway, gateway.attempt() as attempt:
        with pytest.raises(Unreachable):
            attempt.claim(["a"])
        with pytest.raises(Unreachable):
            attempt.produce("t", rows("a"))
        with pytest.raises(Unreachable):
            attempt.produce("t", rows("a"), id_col="id", locate=True)
        with pytest.raises(Unreachable):
            gateway.attempt(scope=("job", 1)).produce("t", rows("a"), id_col="id")
    assert spill.waiting == 0


SPILLS_AND_DIES = """
    import os, signal, pyarrow as pa
    from oncegate_spark import Gateway, Spill
    spill = Spill({folder!r})
    gateway = Gateway({url!r}, {namespace!r}, on_down="spill", spill=spill)
    attempt = gateway.attempt()
    for id in "abc":
        assert attempt.produce("t", pa.table({{"id": [id]}}), id_col="id").spilled == 1
    print("spilled", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_loses_nothing_it_laid_down_and_another_sends_it(
    gateway: Gateway, nobody: str, connect: Connect, tmp_path: Path
) -> None:
    program = textwrap.dedent(SPILLS_AND_DIES).format(folder=str(tmp_path), url=nobody, namespace=gateway.namespace)
    dead = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert dead.stdout == "spilled\n", dead.stderr
    with Spill(tmp_path) as spill, connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back:
        drained = back.drain_spill()
        assert (drained.entries, drained.rows, drained.suppressed) == (3, 3, 0)
        assert back.drain_spill().entries == 0
    assert topic(gateway) == ["a", "b", "c"]


def test_rows_that_a_process_sent_and_died_before_it_removed_them_are_written_once(
    gateway: Gateway, nobody: str, connect: Connect, tmp_path: Path
) -> None:
    with Spill(tmp_path) as spill:
        with connect(nobody, gateway.namespace, on_down="spill", spill=spill) as away:
            assert away.attempt().produce("t", rows("a", "b"), id_col="id").spilled == 2
        (path,) = tmp_path.iterdir()
        data = path.read_bytes()
        with connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back:
            assert back.drain_spill().rows == 2
    path.write_bytes(data)
    with Spill(tmp_path) as spill, connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back:
        drained = back.drain_spill()
        assert (drained.rows, drained.suppressed) == (0, 2)
    assert topic(gateway) == ["a", "b"]


def test_rows_refused_by_the_gateway_block_later_ones_until_they_are_set_aside(
    gateway: Gateway, nobody: str, connect: Connect, spill: Spill, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.attempt().produce("t", rows("a"), id_col="id")
    with connect(nobody, gateway.namespace, on_down="spill", spill=spill) as away:
        away.attempt().produce("t", pa.table({"id": ["b"], "more": [1]}), id_col="id")
    with connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back:
        assert back.attempt().produce("t", rows("c"), id_col="id").spilled == 1
        assert "is stopped, and blocks later ones" in caplog.text
        with pytest.raises(Refused, match=r"entry 0 of .*set_aside\(0\).*SCHEMA") as raised:
            back.drain_spill()
        assert spill.waiting == 2
        spill.set_aside(raised.value.extra["spill_number"])
        assert back.drain_spill().rows == 1
    assert topic(gateway) == ["a", "c"]


def test_rows_that_are_stale_when_sent_are_kept_and_block_later_ones(
    gateway: Gateway, nobody: str, connect: Connect, spill: Spill, caplog: pytest.LogCaptureFixture
) -> None:
    """The age of the ids counts, so a short wait tests the same as hours."""
    horizon_ms = 3_600_000
    gateway.create_namespace(horizon_ms=horizon_ms, id_time="uuid7")
    now_ms = time.time_ns() // 1_000_000
    young, old = uuid7(now_ms), uuid7(now_ms - 2 * horizon_ms)
    with connect(nobody, gateway.namespace, on_down="spill", spill=spill) as away:
        away.attempt().produce("t", rows(young, old), id_col="id")
    before = [path.read_bytes() for path in spill.folder.iterdir()]
    with connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back:
        with pytest.raises(Stopped, match=r"set_aside\(0\): 1 of 2 rows for 't' are STALE.*; unknown: ") as raised:
            back.drain_spill()
        assert (raised.value.outcome, raised.value.code) == (Outcome.UNKNOWN, "SPILL_STALE")
        assert "1 of 2 rows for 't' are STALE" in caplog.text
        assert back.attempt().produce("t", rows(uuid7(now_ms, 1)), id_col="id").spilled == 1
        aside = spill.set_aside(raised.value.extra["spill_number"])
        drained = back.drain_spill()
        assert (drained.entries, drained.rows, drained.suppressed) == (1, 1, 0)
    assert [aside.read_bytes()] == before
    assert topic(gateway) == [young, uuid7(now_ms, 1)]


def test_a_full_folder_reports_the_unknown_outcome_of_a_request_whose_reply_was_lost(
    connect: Connect, tmp_path: Path
) -> None:
    with (
        Spill(tmp_path, bytes_max=1) as spill,
        StubGateway(LOST, LOST) as stub,
        connect(stub.url, on_down="spill", spill=spill) as gateway,
        pytest.raises(SpillFull) as raised,
    ):
        gateway.attempt().produce("t", rows("a"), id_col="id")
    assert raised.value.outcome is Outcome.UNKNOWN


def test_rows_of_another_namespace_are_not_sent(gateway: Gateway, nobody: str, connect: Connect, spill: Spill) -> None:
    with connect(nobody, "other", on_down="spill", spill=spill) as away:
        away.attempt().produce("t", rows("a"), id_col="id")
    with (
        connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back,
        pytest.raises(BadOption, match="rows for namespace 'other'"),
    ):
        back.drain_spill()
    assert spill.waiting == 1


def test_a_spark_task_fails_at_once_if_its_job_is_configured_so(gateway: Gateway, nobody: str) -> None:
    """Without it the task would hold its executor for timeoutMs, which is two minutes here."""
    write = Write(gateway, write="ids", idCol="id", onDown="fail")
    write.writer.options = replace(write.options, url=nobody)
    with pytest.raises(TaskFailed, match="on_down allows no further retries, after 1 tries"):
        write.task(1)


def test_on_down_is_one_of_three_and_only_spill_has_a_folder(connect: Connect, spill: Spill) -> None:
    for given in ({"on_down": "wait"}, {"on_down": "spill"}, {"on_down": "fail", "spill": spill}, {"spill": spill}):
        with pytest.raises(BadOption, match="on_down is"):
            connect("http://127.0.0.1:1", **given)


def test_a_gateway_without_a_folder_has_nothing_to_send(connect: Connect) -> None:
    with connect("http://127.0.0.1:1") as gateway:
        assert gateway.drain_spill().entries == 0
