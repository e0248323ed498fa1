"""examples/spark_quickstart.py, run by the commands in its docstring, against a real gateway and a real Spark."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.otlp_receiver import Receiver, otlp_over_http

pytestmark = [pytest.mark.spark, pytest.mark.server]
PROGRAM = Path(__file__).parents[2] / "examples/spark_quickstart.py"


ROUNDS = 2
JOB, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with otlp_over_http() as made:
        yield made


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> list[str]:
    """Returns the output of each run, as part of a trace that the environment names; the gateway records the
    trace too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in receiver.environ.items():
            patch.setenv(name, value)
        with GatewayProcess(tmp_path_factory.mktemp("gateway")) as gateway:
            return [run(gateway) for _ in range(ROUNDS)]


def run(gateway: GatewayProcess) -> str:
    command = [sys.executable, str(PROGRAM), "--url", gateway.url]
    # A JVM that lives for seconds gains nothing from the second compiler.
    java = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    env = {**os.environ, **java, "TRACEPARENT": f"00-{JOB}-{CALLER}-01"}
    done = subprocess.run(command, cwd=gateway.folder, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_rows_delivered_twice_are_written_once_however_often_it_is_run(shown: list[str]) -> None:
    for one in shown:
        assert "4 rows delivered, 3 rows in the topic" in one
        assert [one.count(order) for order in ("a-1", "a-2", "a-3")] == [1, 1, 1]


def test_a_task_is_a_span_of_the_jobs_trace_and_each_write_of_it_is_below_that_span(
    shown: list[str], receiver: Receiver
) -> None:
    spans = receiver.of(JOB)
    tasks = {span.span_id: span for span in spans if span.name == "write a partition"}
    assert len(tasks) >= ROUNDS
    assert {(task.parent_id, task.service) for task in tasks.values()} == {(CALLER, "oncegate-spark")}
    assert {task.attributes["spark.batch"] for task in tasks.values()} == {"0", "1"}
    writes = [span for span in spans if span.name.endswith("/records:produce")]
    assert {span.parent_id for span in writes} <= tasks.keys()
    assert len(writes) >= ROUNDS
    others = [span for span in spans if span.service == "oncegate" and span.parent_id == CALLER]
    assert others, "the program's own requests are below the span in TRACEPARENT"
