"""A redis-server for each test module, and a proxy in front of it with which tests hold and lose commands."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.redis_ledger import Prefix
from tests.support.redis_proxy import RedisProxy, proxied
from tests.support.redis_server import RedisServer
from tests.support.turned import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    # Written before each answer, so a kill loses nothing. `always` is slow here, and `everysec` delays writes.
    with RedisServer(tmp_path_factory.mktemp("redis"), appendfsync="no") as server:
        yield server


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[RedisProxy]:
    async with proxied(server.port) as proxy:
        yield proxy


@pytest.fixture
def prefix(server: RedisServer, tmp_path: Path) -> Prefix:
    return Prefix(server, tmp_path / "witness")


@pytest.fixture
def replica(server: RedisServer, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, appendfsync="everysec", replicaof=f"127.0.0.1 {server.port}") as replica:
        yield replica
