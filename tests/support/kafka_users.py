"""Gateways that write rows into users' topics: their ledger URL and their clients."""

from collections.abc import Iterator
from contextlib import contextmanager

from oncegate_spark import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker


def url(broker: Broker, prefix: str) -> str:
    options = "replication=1&min_insync=1&bare_key=yes&send_ms=5000&commit_ms=5000"
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?{options}"


@contextmanager
def client_of(gateway: GatewayProcess) -> Iterator[Gateway]:
    with Gateway(gateway.url, timeout_ms=60_000) as client:
        yield client
