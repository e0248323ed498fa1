"""Exactly once through two jobs with every fault on the way: one job reads the topic that the other writes."""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo import processes
from oncegate_spark import Gateway
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.gateway_process import GatewayProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

FILES, ROWS = 5, 60
WAIT_S = 200  # enough for a busy machine


class Network:
    """Loses the reply to some requests of each kind, delivers some twice, and drops some."""

    RULES: ClassVar = {1: Fault.LOSE_REPLY, 3: Fault.DOUBLE, 5: Fault.LOSE_REQUEST}

    def __init__(self) -> None:
        self.count: Counter[str | None] = Counter()

    def __call__(self, kind: str | None) -> Fault:
        self.count[kind] += 1
        return self.RULES.get((self.count[kind] - 1) % 8, Fault.PASS)


@contextmanager
def driver(url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the program with the two jobs on the same checkpoints, and afterwards kills the rest of it, the JVM
    first."""
    process = processes.start("tests.spark.jobs.chain", url, str(folder), log=folder / "driver.log")
    jvm = folder / "jvm"
    try:
        yield process
    finally:
        processes.kill_all(process, int(jvm.read_text()) if jvm.exists() else None)


def wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    """Waits until the fault has struck; fails at once if the driver ends instead."""
    end = time.monotonic() + WAIT_S
    while not file.exists():
        assert process.poll() is None, (file.parents[1] / "driver.log").read_text(errors="replace")[-6000:]
        assert time.monotonic() < end, f"{file.name} never came"
        time.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("in", "faults"):
        (tmp_path / name).mkdir()
    for number in range(FILES):
        numbers = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table({"id": [f"id-{n}" for n in numbers], "n": pa.array(numbers, pa.int64())})
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    return tmp_path


def published(gateway: Gateway, topic: str) -> Counter[int]:
    table = gateway.read(topic)
    assert table is not None
    return Counter(table.column("n").to_pylist())


def test_a_chain_of_two_jobs_writes_each_row_once_whatever_fails(folder: Path) -> None:
    faults, network = folder / "faults", Network()
    with GatewayProcess(folder) as gateway, FaultyProxy(gateway.port, network) as proxy, Gateway(gateway.url) as client:
        client.create_topic("a", partitions=2, schema=pa.schema([("id", pa.string()), ("n", pa.int64())]))
        url = f"http://127.0.0.1:{proxy.port}"
        with driver(url, folder) as process:
            wait_for(faults / "gateway-to-kill", process)
            gateway.kill()
            (faults / "gateway-is-dead").touch()
            gateway.start()
            wait_for(faults / "driver-to-kill", process)
        with driver(url, folder) as process:
            assert process.wait(WAIT_S) == 0, (folder / "driver.log").read_text(errors="replace")[-6000:]
        assert published(client, "a") == dict.fromkeys(range(FILES * ROWS), 1)
        assert published(client, "b") == dict.fromkeys(range(0, FILES * ROWS * 10, 10), 1)
        assert client.describe()["counters"]["duplicate_commits"] >= 2
    assert {file.name for file in faults.iterdir()} >= {"task-raised", "worker-died"}
    for kind in ("stage", "commit", None):
        assert {fault for seen, fault in proxy.seen if seen == kind} == set(Network.RULES.values()) | {Fault.PASS}
