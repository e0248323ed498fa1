"""examples/jdbc.py against a real PostgreSQL and a real gateway: killed at the critical point, rerun, each row once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from examples import jdbc
from oncegate_spark import NamedBatch
from tests.support.gateway_process import GatewayProcess
from tests.support.postgres_server import PostgresServer

pytestmark = [pytest.mark.spark, pytest.mark.server]
ROOT = Path(__file__).parents[2]
EXAMPLE = (str(ROOT / "examples/jdbc.py"),)
KILLED = ("-m", "tests.spark.jobs.killed_jdbc")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def run(program: tuple[str, ...], gateway: GatewayProcess, postgres: PostgresServer) -> tuple[int, str]:
    given = ("--url", gateway.url, "--dsn", postgres.dsn, "--folder", str(gateway.folder / "orders"))
    env = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(
        [sys.executable, *program, *given], cwd=ROOT, env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode, done.stdout


def test_killed_between_the_transaction_and_the_gateways_commit_each_row_is_there_once(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with GatewayProcess(tmp_path) as gateway:
        assert run(KILLED, gateway, postgres)[0] == -signal.SIGKILL
        batches = [[(row["order"],) for row in file] for file in jdbc.FILES]
        assert postgres.rows('SELECT "order" FROM orders ORDER BY 1') in batches  # whichever file Spark took first
        _, shown = run(EXAMPLE, gateway, postgres)
    assert "orders-to-table@orders/0: was in the table already" in shown
    assert "orders-to-table@orders/1: written" in shown
    assert postgres.rows('SELECT "order" FROM orders ORDER BY 1') == [("a-1",), ("a-2",), ("a-3",)]


def test_an_attempt_with_an_older_fence_writes_nothing(postgres: PostgresServer) -> None:
    def attempt(number: int, fence: int) -> bool:
        with psycopg.connect(postgres.dsn) as database:
            database.execute(jdbc.TABLES)
            return jdbc.entered(database, NamedBatch(f"j@s/{number}", "OPEN", fence, "j@s", number))

    assert attempt(0, 2)
    with pytest.raises(jdbc.Fenced):
        attempt(1, 1)
    assert postgres.rows("SELECT number, fence FROM written WHERE job = 'j@s'") == [(0, 2)]
    assert not attempt(0, 3)
    assert attempt(1, 4)
