"""One real gateway for the client's tests; each test has a namespace of its own. `connect` walks both clients."""

import itertools
from collections.abc import Iterator

import pytest

from oncegate_spark import Gateway
from tests.support.clients import Connect, connecting
from tests.support.gateway_process import GatewayProcess

COUNT = itertools.count()


@pytest.fixture(scope="session")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def gateway(gateway_process: GatewayProcess) -> Iterator[Gateway]:
    with Gateway(gateway_process.url, f"client-{next(COUNT)}", timeout_ms=20_000) as client:
        client.create_namespace()
        yield client


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients, of one kind after the other: what a test says holds for both."""
    with connecting(request.param) as made:
        yield made
