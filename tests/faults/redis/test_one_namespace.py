"""One namespace's keys on a real server that are damaged or of another type: the others are served."""

from pathlib import Path

import pytest

from oncegate.core.errors import OncegateError
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.recovery.owner import RETRY_MS
from oncegate.ledgers.redis.ledgers import RedisLedgers, open_redis
from oncegate.runs import MemoryRunFolders
from oncegate.testing import FakeClock
from oncegate.transports import health
from tests.support.held import Events
from tests.support.redis_ledger import Prefix
from tests.support.redis_server import RedisServer
from tests.support.standing_by import until

pytestmark = pytest.mark.slow


async def served(ledgers: RedisLedgers, clock: FakeClock) -> None:
    async with open_gateway(ledgers, MemoryRunFolders(), clock, Events()):
        pass


def stands_by_no_more(gateway: Gateway) -> bool:
    return not {"STANDBY", "RECOVERING"} & set(gateway.readiness().values())


@pytest.mark.parametrize("standby", [False, True], ids=["owner", "standby"])
@pytest.mark.parametrize("key", ["head", "frames"])
@pytest.mark.parametrize("damage", ["gone", "of another type"])
async def test_keys_that_are_put_back_are_served_again_without_a_restart(
    prefix: Prefix, server: RedisServer, damage: str, key: str, standby: bool
) -> None:
    clock, name = FakeClock(), f"{{{prefix.name}/bad/1}}:{key}"
    witness = str(prefix.witness)
    async with open_redis(prefix.place(), create=True, witness=witness) as ledgers:
        await ledgers.create("bad")
        await served(ledgers, clock)
    server.run("RENAME", name, f"{name}-aside")
    if damage == "of another type":
        server.run("SET", name, "somebody else's")
    async with (
        open_redis(prefix.place(), witness=witness) as ledgers,
        open_gateway(ledgers, MemoryRunFolders(), clock, Events(), standby=standby) as gateway,
    ):
        await until(lambda: gateway.readiness()["default"] == "SERVING")
        if not standby:
            assert gateway.readiness()["bad"] == "DOWN"
        answer = health.ready(gateway)
        assert (answer.ok, "namespace bad is " in answer.detail) == (True, True), answer
        with pytest.raises(OncegateError):
            gateway.shard("bad")
        assert await gateway.create("new")
        server.run("DEL", name)
        server.run("RENAME", f"{name}-aside", name)

        def serves() -> bool:
            clock.advance(RETRY_MS)
            return gateway.readiness() == {"bad": "SERVING", "default": "SERVING", "new": "SERVING"}

        await until(serves)


async def test_a_master_key_that_is_not_one_namespaces_refuses_that_one(server: RedisServer, tmp_path: Path) -> None:
    """Namespaces that were wrapped by two keys: who has one of them serves what it can unwrap."""
    files = [tmp_path / name for name in ("first", "second")]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * 32)
    prefix, clock, witness = Prefix(server, tmp_path / "w", f"master_key={files[0]}"), FakeClock(), str(tmp_path / "w")
    async with open_redis(prefix.place(), create=True, witness=witness) as ledgers:
        await served(ledgers, clock)
    async with open_redis(prefix.place(options=f"master_key={files[1]}"), witness=witness) as ledgers:
        await ledgers.create("other")
        async with open_gateway(ledgers, MemoryRunFolders(), clock, Events()) as gateway:
            assert gateway.readiness() == {"default": "DOWN", "other": "SERVING"}
            assert gateway.reason("default").startswith("KEY_MISMATCH: ")
            assert health.ready(gateway).ok
