"""examples/delta.py and iceberg.py on real tables: killed at the critical point, overtaken, rerun, each row once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from examples import delta, iceberg
from oncegate_spark import NamedBatch
from tests.support.gateway_process import GatewayProcess
from tests.support.killed_append import BATCH, ROWS

pytestmark = pytest.mark.server
ROOT = Path(__file__).parents[2]
both = pytest.mark.parametrize("example", [delta, iceberg], ids=["delta", "iceberg"])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as process:
        yield process


def killed(module: str, *given: str) -> None:
    env = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(
        [sys.executable, "-m", module, *given], cwd=ROOT, env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]


def attempt(number: int, fence: int) -> NamedBatch:
    return NamedBatch(f"j@s/{number}", "OPEN", fence, "j@s", number)


def rows(example: ModuleType) -> pa.Table:
    return pa.Table.from_pylist(ROWS, schema=example.SCHEMA)


def orders(example: ModuleType, folder: Path) -> list[str]:
    """Returns the orders that a new reader of the table finds."""
    table = example.open_table(folder)
    found = table.to_pyarrow_table() if example is delta else table.scan().to_arrow()
    return sorted(found.column("order").to_pylist())


@pytest.mark.spark
@both
def test_killed_between_the_tables_commit_and_the_gateways_each_row_is_there_once(
    spark: Any, gateway: GatewayProcess, example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = example.__name__.removeprefix("examples.")
    killed("tests.spark.jobs.killed_table", name, "--url", gateway.url, "--folder", str(tmp_path))
    batches = [sorted(row["order"] for row in file) for file in example.FILES]
    assert orders(example, tmp_path) in batches  # whichever file Spark took first
    example.run(spark, gateway.url, tmp_path)
    shown = capsys.readouterr().out
    assert f"orders-to-{name}@orders/0: was in the table already" in shown
    assert f"orders-to-{name}@orders/1: written" in shown
    assert orders(example, tmp_path) == ["a-1", "a-2", "a-3"]


@both
def test_killed_between_the_tables_commit_and_its_answer_the_next_attempt_finds_it(
    example: ModuleType, tmp_path: Path
) -> None:
    killed("tests.support.killed_append", example.__name__.removeprefix("examples."), str(tmp_path))
    assert orders(example, tmp_path) == ["a-1"]
    assert not example.write(rows(example), attempt(BATCH.number, 2), example.open_table(tmp_path))
    assert orders(example, tmp_path) == ["a-1"]


@both
def test_the_next_batch_of_the_same_attempt_is_appended(example: ModuleType, tmp_path: Path) -> None:
    table = example.open_table(tmp_path)
    for number in (0, 1):
        assert example.write(rows(example), attempt(number, 1), table)
    assert len(orders(example, tmp_path)) == 2 * len(ROWS)


@both
def test_an_attempt_with_an_older_fence_that_comes_late_writes_nothing(example: ModuleType, tmp_path: Path) -> None:
    table = example.open_table(tmp_path)
    assert example.write(rows(example), attempt(0, 2), table)
    for number in (0, 1):
        with pytest.raises(example.Fenced, match=f"{number}: attempt 2 has written, this is 1"):
            example.write(rows(example), attempt(number, 1), table)
    assert not example.write(rows(example), attempt(0, 3), table)
    assert example.write(rows(example), attempt(1, 4), table)
    assert orders(example, tmp_path) == ["a-1", "a-1"]


def overtaken(example: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, by: NamedBatch) -> Any:
    """Returns a table whose next writer is overtaken, once, between its check and its commit."""
    table, other, turns = example.open_table(folder), example.open_table(folder), iter([True])
    call, owner = ("write_deltalake", delta) if example is delta else ("append", type(table))
    append = getattr(owner, call)

    def late(*given: Any, **named: Any) -> Any:
        if next(turns, False):
            assert example.write(rows(example), by, other)
        return append(*given, **named)

    monkeypatch.setattr(owner, call, late)
    return table


def test_a_zombie_that_slept_between_its_look_and_its_commit_is_refused_by_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        delta.write(rows(delta), attempt(0, 1), overtaken(delta, tmp_path, monkeypatch, attempt(0, 2)))
    assert orders(delta, tmp_path) == ["a-1"]


def test_a_zombie_that_slept_between_its_look_and_its_snapshot_is_refused_by_iceberg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(iceberg.Fenced):
        iceberg.write(rows(iceberg), attempt(0, 1), overtaken(iceberg, tmp_path, monkeypatch, attempt(0, 2)))
    assert orders(iceberg, tmp_path) == ["a-1"]


@both
def test_another_job_that_appends_at_the_same_time_costs_a_look_and_no_row(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = NamedBatch("other@s/0", "OPEN", 7, "other@s", 0)
    assert example.write(rows(example), attempt(0, 1), overtaken(example, tmp_path, monkeypatch, other))
    assert orders(example, tmp_path) == ["a-1", "a-1"]


def test_a_table_of_iceberg_that_repeats_refused_appends_by_itself_is_not_written(tmp_path: Path) -> None:
    table = iceberg.open_table(tmp_path)
    with table.transaction() as change:
        change.remove_properties(iceberg.RETRIES)
    with pytest.raises(ValueError, match=r"set commit\.retry\.num-retries of"):
        iceberg.write(rows(iceberg), attempt(0, 1), table)
    assert orders(iceberg, tmp_path) == []
