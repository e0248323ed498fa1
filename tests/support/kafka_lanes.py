"""Lanes on a test broker: a gateway over it, rows with sequences, and the rows that readers see."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from oncegate.ledgers.kafka.partition import Partition
from oncegate_spark import Gateway
from oncegate_spark.direct import DirectRow, DirectWriter
from oncegate_spark.direct.transaction import LaneTransaction, lane_record
from oncegate_spark.protocol.answers import OpenedLane
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_proxy import KafkaProxy, proxied

# The client's transaction timeout; short, so that transactions of dead clients end soon.
TRANSACTION_MS = 10_000


def ledger_url(broker: Broker, prefix: str, *, proxy: bool = False) -> str:
    bootstrap = broker.proxied_bootstrap if proxy else broker.cluster.bootstrap
    return f"kafka://{bootstrap}/{prefix}?replication=1&min_insync=1&bare_key=yes&send_ms=3000&commit_ms=3000"


@contextmanager
def serving(broker: Broker, folder: Path, prefix: str, *, proxy: bool = False) -> Iterator[GatewayProcess]:
    """Runs a gateway with its own folder."""
    folder.mkdir(exist_ok=True)
    with GatewayProcess(folder, ledger=ledger_url(broker, prefix, proxy=proxy)) as gateway:
        yield gateway


def rows(*sequences: int) -> list[DirectRow]:
    """Returns rows whose value is their sequence."""
    return [DirectRow(one, str(one).encode()) for one in sequences]


def writer(gateway: Gateway, topic: str, producer: str = "p", bootstrap: str | None = None) -> DirectWriter:
    """Returns a writer. Through a proxy (`bootstrap`), its Kafka calls time out soon."""
    config = {"topic.metadata.refresh.interval.ms": 1_000}
    config |= {} if bootstrap is None else {"bootstrap.servers": bootstrap}
    return DirectWriter(gateway, topic, producer, config=config, timeout_ms=9_000, transaction_ms=TRANSACTION_MS)


def transaction(gateway: Gateway, topic: str) -> LaneTransaction:
    """Returns a transaction of producer "p"'s lane that the gateway has not entered."""
    lane = gateway.open_lane(topic, "p")
    return LaneTransaction(gateway, (topic, "p"), lane, timeout_ms=9_000, transaction_ms=TRANSACTION_MS)


def written(broker: Broker, topic: str) -> list[int]:
    """Returns the sorted values that a read-committed consumer reads."""
    return sorted(int(value) for value in broker.committed(Partition(topic, 0)))


def open_record(broker: Broker, lane: OpenedLane, *spans: tuple[int, int], count: int = 1) -> Producer:
    """Writes records of a lane in a transaction that stays open until the test commits or aborts it."""
    settings = {
        "bootstrap.servers": broker.cluster.bootstrap,
        "transactional.id": lane.transactional_id,
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for number in range(count):
        shifted = [(first + number, last + number) for first, last in spans]
        producer.produce(lane.topic, lane_record(lane.ledger, lane.lane, shifted), partition=lane.partition)
    producer.flush(WAIT_S)
    return producer


@contextmanager
def proxy_beside(broker: Broker) -> Iterator["ProxyBeside"]:
    """Runs the broker's proxy on its own loop, for tests that block."""
    beside = ProxyBeside(broker)
    thread = threading.Thread(target=beside.run, daemon=True)
    thread.start()
    assert beside.ready.wait(WAIT_S)
    try:
        yield beside
    finally:
        beside.loop.call_soon_threadsafe(beside.over.set)
        thread.join(WAIT_S)


class ProxyBeside:
    """Forwards a test's calls to the proxy's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop
        self.over: asyncio.Event
        self.proxy: KafkaProxy

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        async with proxied(self._broker.proxy_port, self._broker.behind) as self.proxy:
            self.ready.set()
            await self.over.wait()

    def do(self, name: str, *arguments: int) -> None:
        """Calls a method of the proxy on its loop."""
        self.loop.call_soon_threadsafe(getattr(self.proxy, name), *arguments)

    def wait_until_held(self) -> None:
        """Returns once the proxy holds the request that `hold` named."""
        asyncio.run_coroutine_threadsafe(self.proxy.held.wait(), self.loop).result(WAIT_S)
