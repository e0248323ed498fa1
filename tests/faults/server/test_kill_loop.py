"""kill -9 of the running server, repeatedly under load: nothing acknowledged is lost, and nothing is duplicated."""

import http.client
import json
import os
import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate.testing.oracle import judge
from oncegate_spark.sync.gateway import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.writers import ClaimWriter, Journal, StageDriver

KILLS = int(os.environ.get("ONCEGATE_KILLS", "20"))
SEED = int(os.environ.get("ONCEGATE_SEED", "20261121"))


def get(port: int, path: str, accept: str) -> tuple[bytes, dict[str, str]]:
    """Reads without the writers' client."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Accept": accept})
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    connection.close()
    return body, {name.lower(): value for name, value in response.getheaders()}


def topic_rows(port: int, topic: str) -> list[tuple[bytes, bytes]]:
    rows: list[tuple[bytes, bytes]] = []
    offset = 0
    while True:
        path = f"/v1/namespaces/default/topics/{topic}/partitions/0/records?offset={offset}&max_rows=10000"
        body, headers = get(port, path, "application/vnd.apache.arrow.stream")
        table = pa.ipc.open_stream(body).read_all()
        rows += [(r["id"].encode(), r["content"].encode()) for r in table.to_pylist()]
        offset = int(headers["oncegate-next-offset"])
        if offset >= int(headers["oncegate-high-offset"]):
            return rows


def kill_often(server: GatewayProcess, journal: Journal, writers: list[threading.Thread], rng: random.Random) -> None:
    """Kills the server at random moments, each after some newly acknowledged work."""
    for _ in range(KILLS):
        seen, wanted, end = journal.done, rng.randint(2, 20), time.monotonic() + 60
        while journal.done < seen + wanted and time.monotonic() < end and all(w.is_alive() for w in writers):
            time.sleep(0.002)
        time.sleep(rng.random() * 0.02)
        server.kill()
        server.start()


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(120 + KILLS * 40)
def test_no_kill_loses_or_doubles_anything_acknowledged(tmp_path: Path) -> None:
    """O1, O2 and O3 of the oracle, for claims into the writers' own sink and for staged batches."""
    print(f"ONCEGATE_SEED={SEED} ONCEGATE_KILLS={KILLS}")
    rng, stop, journal, staged = random.Random(SEED), threading.Event(), Journal(), Journal()
    with GatewayProcess(tmp_path) as server, ExitStack() as clients:
        gateways = [clients.enter_context(Gateway(server.url, timeout_ms=120_000)) for _ in range(4)]
        writers: list[ClaimWriter | StageDriver] = [
            ClaimWriter(gateways[n], journal, stop, f"writer{n}", SEED + n) for n in range(3)
        ]
        writers.append(StageDriver(gateways[3], staged, stop, SEED))
        for writer in writers:
            writer.start()
        kill_often(server, journal, list(writers), rng)
        stop.set()
        for writer in writers:
            writer.join(180)
            assert not writer.is_alive(), f"{writer.name} hangs"
            assert writer.failure is None, repr(writer.failure)
        counters = json.loads(get(server.port, "/v1/namespaces/default", "application/json")[0])["counters"]
        published = topic_rows(server.port, "staged")
    assert server.starts == KILLS + 1
    report = judge(journal.attempts, journal.sink).check(copies_allowed=counters["takeovers"])
    assert report.records > KILLS
    judge(staged.attempts, published).check()
    assert len(published) > KILLS
