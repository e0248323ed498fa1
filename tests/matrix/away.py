"""Keeps all brokers away from a gateway for minutes while clients retry: `python -m tests.matrix.away [--minutes 10]`.

Prints the answers to clients and the gateway's memory and descriptors each half minute. Exit status 1: memory or
descriptors grew with time, an answer was neither a refusal nor done, or the gateway did not recover by itself with all
its data.
"""

import argparse
import tempfile
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.matrix.world import wait_until
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_users import client_of, url

CLIENTS = 4
ROWS = 100
EACH_S = 30
# Between a refusal and the next request of the same client.
PAUSE_S = 0.1
# The codes allowed while brokers are away: nothing was written, or it is unknown whether anything was.
REFUSALS = {"LEDGER_FULL", "LEDGER_DOWN", "RECOVERING", "UNREACHABLE", "OVERLOADED", "TIMEOUT"}
GROWTH_MIB_MAX = 64
DESCRIPTORS_MAX = 64


class Asking(threading.Thread):
    """Writes new rows, one request after another; `answers` counts the answers, `done` lists the ids of the successful
    ones."""

    def __init__(self, gateway: GatewayProcess, topic: str, number: int) -> None:
        super().__init__(daemon=True)
        self._gateway, self._topic, self._number = gateway, topic, number
        self.answers: Counter[str] = Counter()
        self.done: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        for turn in count():
            if self.is_over.is_set():
                return
            ids = [f"{self._number}-{turn}-{row}" for row in range(ROWS)]
            try:
                with Gateway(self._gateway.url, timeout_ms=2_000) as client, client.attempt() as attempt:
                    attempt.produce(self._topic, rows_of(ids), id_col="key")
            except OncegateError as error:
                self.answers[error.code or type(error).__name__] += 1
                self.is_over.wait(PAUSE_S)
            else:
                self.answers["done"] += 1
                self.done += ids


def rows_of(ids: list[str]) -> pa.Table:
    return pa.table({"key": ids, "value": ids})


def memory_and_descriptors(pid: int) -> tuple[int, int]:
    """Returns the process's resident memory in MiB and its number of open descriptors."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = next(line for line in lines if line.startswith("VmRSS:"))
    return int(resident.split()[1]) >> 10, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def away(broker: Broker, gateway: GatewayProcess, topic: str, minutes: float) -> list[str]:
    """Returns a line for each thing that is wrong."""
    clients = [Asking(gateway, topic, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    wait_until("rows are written", lambda: all(client.done for client in clients))
    wrong, before = [], memory_and_descriptors(gateway.pid)
    print(f"{'s':>5} {'MiB':>6} {'open':>5}  answers")
    broker.cluster.kill_node(1)
    began = time.monotonic()
    written = sum(len(client.done) for client in clients)
    while (seconds := time.monotonic() - began) < minutes * 60:
        clients[0].is_over.wait(min(EACH_S, minutes * 60 - seconds))
        answers = sum((client.answers for client in clients), Counter[str]())
        now = memory_and_descriptors(gateway.pid)
        print(f"{time.monotonic() - began:5.0f} {now[0]:6} {now[1]:5}  {dict(answers)}", flush=True)
    if now[0] > before[0] + GROWTH_MIB_MAX or now[1] > before[1] + DESCRIPTORS_MAX:
        wrong.append(f"from {before[0]} MiB and {before[1]} descriptors to {now[0]} and {now[1]}")
    if others := set(answers) - REFUSALS - {"done"}:
        wrong.append(f"answers: {', '.join(sorted(others))}")
    broker.cluster.start_node(1)
    back = time.monotonic()
    wait_until("rows are written again", lambda: sum(len(client.done) for client in clients) > written + ROWS * CLIENTS)
    print(f"rows are written again {time.monotonic() - back:.1f} s after the broker answers")
    for client in clients:
        client.is_over.set()
        client.join()
    return wrong + _forgotten(broker, gateway, topic, [one for client in clients for one in client.done])


def _forgotten(broker: Broker, gateway: GatewayProcess, topic: str, done: list[str]) -> list[str]:
    read = Counter(broker.values(topic))
    with client_of(gateway) as client, client.attempt() as attempt:
        new = sum(
            int(attempt.produce(topic, rows_of(done[at : at + 10_000]), id_col="key").rows)
            for at in range(0, len(done), 10_000)
        )
    lost = sum(one.encode() not in read for one in done)
    doubled = sum(times > 1 for times in read.values())
    print(f"{len(done)} rows done; {lost} lost, {doubled} doubled, {new} new again")
    return [f"{lost} lost, {doubled} doubled, {new} new again"] if lost or doubled or new else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix.away")
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncegate-away-") as folder, one_broker(Path(folder) / "broker") as broker:
        topic = broker.topic(**{"max.message.bytes": "1048588"}).topic
        with GatewayProcess(Path(folder), ledger=url(broker, "away")) as gateway:
            wrong = away(broker, gateway, topic, arguments.minutes)
    print("\n".join(wrong) or "holds")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
