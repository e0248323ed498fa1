"""examples/spark_quickstart.py, run as its first lines say, against a real gateway and a real Spark."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess

pytestmark = [pytest.mark.spark, pytest.mark.server]
PROGRAM = Path(__file__).parents[2] / "examples/spark_quickstart.py"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as process:
        yield process


def run(gateway: GatewayProcess) -> str:
    command = [sys.executable, str(PROGRAM), "--url", gateway.url]
    # A JVM that lives for seconds has no use for the second compiler.
    env = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(command, cwd=gateway.folder, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_what_is_delivered_twice_is_written_once_however_often_it_is_run(gateway: GatewayProcess) -> None:
    for _ in range(2):
        shown = run(gateway)
        assert "4 rows delivered, 3 rows in the topic" in shown
        assert [shown.count(order) for order in ("a-1", "a-2", "a-3")] == [1, 1, 1]
