"""Storage for the ledgers under test."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path

from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.ledgers.log import open_log
from oncegate.ledgers.memory import MemoryLedgers
from oncegate.ledgers.redis.ledgers import open_redis
from oncegate.ports import Ledgers, OpenLedger, RunFolders
from oncegate.runs import LocalRunFolders, MemoryRunFolders
from oncegate.testing import LedgersUnderTest
from oncegate.testing.ledger_places import MakePlace
from tests.support.crash_disk import Crashes, RecordingDisk, materialize
from tests.support.leaving import copy_as_left
from tests.support.redis_server import RedisServer

_prefixes = count()


class MemoryPlace:
    """Memory that outlives its owners; a crash loses nothing that it promises to keep."""

    def __init__(self) -> None:
        self._ledgers = MemoryLedgers()
        self._runs = MemoryRunFolders()

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        return nullcontext(self._ledgers)

    def runs(self) -> RunFolders:
        return self._runs

    def crash(self) -> None:
        pass


@asynccontextmanager
async def memory_place() -> AsyncIterator[LedgersUnderTest]:
    yield MemoryPlace()


class LogPlace:
    """Folders, a new one after each crash. A copy taken while the owner runs equals the state after a kill -9."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._life = 0

    def _here(self) -> Path:
        return self._folder / str(self._life)

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        return open_log(str(self._here() / "data"), create=self._life == 0)

    def runs(self) -> RunFolders:
        return LocalRunFolders(self._here() / "data")

    def crash(self) -> None:
        before = self._here()
        self._life += 1
        copy_as_left(before, self._here())


class PowerPlace:
    """Folders as in `LogPlace`, but a crash keeps only synced data: a missing sync of a file or folder is detected."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begin(0)

    def _begin(self, life: int) -> None:
        self._life = life
        self._root = self._folder / str(life)
        self._root.mkdir(exist_ok=True)
        self._disk = RecordingDisk(self._root)

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        return open_log(str(self._root / "data"), create=self._life == 0, disk=self._disk)

    def runs(self) -> RunFolders:
        return LocalRunFolders(self._root / "data", self._disk)

    def crash(self) -> None:
        crashes = Crashes(self._root)
        for op in self._disk.ops:
            crashes.step(op)
        before = self._root
        materialize(crashes.durable(), before, self._folder / str(self._life + 1))
        self._begin(self._life + 1)


@asynccontextmanager
async def power_place() -> AsyncIterator[LedgersUnderTest]:
    with tempfile.TemporaryDirectory() as folder:
        yield PowerPlace(Path(folder))


@asynccontextmanager
async def log_place() -> AsyncIterator[LedgersUnderTest]:
    with tempfile.TemporaryDirectory() as folder:
        yield LogPlace(Path(folder))


class KafkaPlace:
    """Topics below their own prefix. No data is on this machine, so that a crash loses nothing."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._where = f"//{bootstrap}/{prefix}?replication=1&min_insync=1&bare_key=yes"
        self._runs = MemoryRunFolders()

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        return open_kafka(self._where, create=True)

    def runs(self) -> RunFolders:
        return self._runs

    def crash(self) -> None:
        pass


def kafka_places(bootstrap: str) -> MakePlace:
    """Returns a function that creates places on a broker."""

    @asynccontextmanager
    async def make() -> AsyncIterator[LedgersUnderTest]:
        yield KafkaPlace(bootstrap, f"test-{next(_prefixes)}")

    return make


class RedisPlace:
    """Keys below their own prefix; a crash kills the server, and the gateway's witness survives."""

    def __init__(self, server: RedisServer, prefix: str, witness: Path) -> None:
        self._server = server
        self._where = f"//{server.address}/{prefix}?bare_key=yes"
        self._witness = str(witness)
        self._runs = MemoryRunFolders()

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        return open_redis(self._where, create=True, witness=self._witness)

    def runs(self) -> RunFolders:
        return self._runs

    def crash(self) -> None:
        self._server.restart()


def redis_places(server: RedisServer) -> MakePlace:
    """Returns a function that creates places on a Redis server."""

    @asynccontextmanager
    async def make() -> AsyncIterator[LedgersUnderTest]:
        with tempfile.TemporaryDirectory() as folder:
            yield RedisPlace(server, f"test-{next(_prefixes)}", Path(folder))

    return make


class _WithoutOutputs:
    """The ledgers of another place, whose rows cannot be read back."""

    def __init__(self, good: LedgersUnderTest) -> None:
        self._good = good
        self.crash, self.runs = good.crash, good.runs

    @asynccontextmanager
    async def ledgers(self) -> AsyncIterator[Ledgers]:
        async with self._good.ledgers() as good:
            yield _LedgersWithoutOutputs(good)


class _LedgersWithoutOutputs:
    def __init__(self, good: Ledgers) -> None:
        self._good = good
        self.names, self.create, self.delete = good.names, good.create, good.delete

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        async with self._good.open(namespace) as opened:
            yield replace(opened, outputs=None)


def without_outputs(make_place: MakePlace) -> MakePlace:
    """Returns a function that creates places whose ledgers declare that they hold no rows."""

    @asynccontextmanager
    async def make() -> AsyncIterator[LedgersUnderTest]:
        async with make_place() as place:
            yield _WithoutOutputs(place)

    return make
