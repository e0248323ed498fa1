"""Lanes over a proxy that loses, repeats and delays requests at random: twins, deaths, batches, a driver's acks."""

import os
import threading
from collections import Counter
from contextlib import closing
from random import Random

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import Stopped, Unavailable
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark.writers.claim_loop import ClaimProgress
from oncegate_spark.spark.writers.sequenced import Lanes, LaneSettler
from tests.support.faulty_proxy import FaultyProxy, bad
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.server
SEED = int(os.environ.get("ONCEGATE_TEST_SEED", "20261121"))
LANES, ROWS, CHUNK = ("events-0", "events-1", "events-2"), 24, 7


class Died(Exception):
    pass


class Task:
    """A lane of one batch: two attempts at a time, until one of them is green."""

    def __init__(self, proxy: FaultyProxy, namespace: str, lane: str, first: int, seed: str) -> None:
        self.proxy, self.namespace, self.lane, self.seed = proxy, namespace, lane, seed
        self.sequences = [n for n in range(first, first + ROWS) if n % 5]
        self.written: list[tuple[str, int]] = []
        self.is_green = threading.Event()

    def run(self, number: int) -> None:
        rng = Random(f"{self.seed}-{number}")
        while not self.is_green.is_set():
            try:
                self.attempt(rng)
                self.is_green.set()
            except (Died, Stopped, Unavailable):
                self.proxy.deliver_late()

    def attempt(self, rng: Random) -> None:
        def write(rows: pa.RecordBatch) -> None:
            if rng.random() < 0.07:
                raise Died
            self.written.extend((self.lane, n) for n in rows.column("at").to_pylist())
            if rng.random() < 0.07:
                raise Died

        with Gateway(f"http://127.0.0.1:{self.proxy.port}", self.namespace, timeout_ms=10_000) as gateway:
            lanes = Lanes(gateway, ("lane", "at"), "sink", "load", new_token(), lease_ms=1_000)
            with closing(LaneSettler(gateway, lanes, write, ClaimProgress())) as settler:
                for start in range(0, len(self.sequences), CHUNK):
                    some = self.sequences[start : start + CHUNK]
                    settler.settle(pa.RecordBatch.from_pydict({"lane": [self.lane] * len(some), "at": some}))


def batch(proxy: FaultyProxy, namespace: str, first: int, seed: str) -> list[tuple[str, int]]:
    """Writes every lane by two attempts at a time. Returns all written rows."""
    tasks = [Task(proxy, namespace, lane, first, f"{seed}-{lane}") for lane in LANES]
    threads = [threading.Thread(target=task.run, args=(number,)) for task in tasks for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(task.is_green.is_set() for task in tasks)
    return [row for task in tasks for row in task.written]


@pytest.mark.parametrize("walk", range(2))
def test_no_row_of_a_lane_is_lost_and_copies_are_takeovers_whatever_happens_to_requests_and_attempts(
    gateway_process: GatewayProcess, gateway: Gateway, walk: int
) -> None:
    print("ONCEGATE_TEST_SEED", SEED)
    rng = Random(SEED + walk)
    written: list[tuple[str, int]] = []
    with FaultyProxy(gateway_process.port, lambda kind: bad(rng)) as proxy:
        for number in range(3):
            first = number * ROWS
            written += batch(proxy, gateway.namespace, first, f"{SEED}-{walk}-{number}")
            with gateway.driver("load") as driver:  # a new one each time, as after a restart
                last = max(n for n in range(first, first + ROWS) if n % 5)
                upto = dict.fromkeys((f"{lane}@sink" for lane in LANES), last)
                assert driver.ack(upto, number).watermarks == upto
            proxy.deliver_late()
    counted = Counter(written)
    wanted = [(lane, n) for lane in LANES for n in range(3 * ROWS) if n % 5]
    assert set(counted) == set(wanted)
    assert sum(counted.values()) - len(wanted) <= gateway.describe()["counters"]["takeovers"]
    with gateway.producer(f"{LANES[0]}@sink", driver="load") as late:
        assert late.claim([n for n in range(3 * ROWS) if n % 5]).verdicts.stale == len(wanted) // len(LANES)
