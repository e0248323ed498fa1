"""A real gateway for the client's tests, with a namespace for each test. `connect` runs a test with both clients."""

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
    """Yields a constructor of clients of each kind in turn."""
    with connecting(request.param) as made:
        yield made
