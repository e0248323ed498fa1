"""A namespace whose keys on a real server are damaged or of another type: the others are served."""

from pathlib import Path

import pytest

from oncegate.core.errors import LedgerDown, LedgerFull, OncegateError
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.recovery.owner import RETRY_MS
from oncegate.ledgers.redis.ledgers import RedisLedgers, open_redis
from oncegate.ledgers.redis.scripts import MAKE
from oncegate.runs import MemoryRunFolders
from oncegate.testing import FakeClock
from oncegate.transports import health
from tests.support.memory_gateway import Events
from tests.support.redis_ledger import Prefix
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import RedisServer
from tests.support.standing_by import wait_until

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
        await wait_until(lambda: gateway.readiness()["default"] == "SERVING")
        if not standby:
            assert gateway.readiness()["bad"] == "DOWN"
        answer = health.ready(gateway)
        assert (answer.ok, "namespace bad is " in answer.detail) == (True, True), answer
        with pytest.raises(OncegateError):
            gateway.namespace("bad")
        assert await gateway.create("new")
        server.run("DEL", name)
        server.run("RENAME", f"{name}-aside", name)

        def serves() -> bool:
            clock.advance(RETRY_MS)
            return gateway.readiness() == {"bad": "SERVING", "default": "SERVING", "new": "SERVING"}

        await wait_until(serves)


async def test_a_master_key_that_is_not_one_namespaces_refuses_that_one(server: RedisServer, tmp_path: Path) -> None:
    """Namespaces that were wrapped with two keys: a gateway with one of them serves those that it can unwrap."""
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


async def test_a_namespace_whose_keys_could_not_be_made_is_made_at_the_next_try(
    prefix: Prefix, proxy: RedisProxy
) -> None:
    """If it were listed as created without its keys, it would be damaged permanently."""
    async with open_redis(prefix.place(proxy), create=True, witness=str(prefix.witness)) as ledgers:
        proxy.lose(MAKE)
        with pytest.raises(LedgerDown):
            await ledgers.create("new")
        assert not proxy.is_due
        async with ledgers.open("new") as opened:
            await opened.ledger.append([b"a"], [])


async def test_a_deletion_that_is_refused_leaves_the_witness_by_which_a_set_back_is_seen(
    prefix: Prefix, server: RedisServer, tmp_path: Path
) -> None:
    async with open_redis(prefix.place(), create=True, witness=str(tmp_path)) as ledgers:
        await ledgers.create("kept")
        async with ledgers.open("kept") as opened:
            await opened.ledger.append([b"a"], [])
        (file,) = tmp_path.glob(f"{prefix.name}.kept.*")
        seen = file.read_bytes()
        server.kill()
        try:
            with pytest.raises(LedgerFull):
                await ledgers.delete("kept")
        finally:
            server.start()
        assert file.read_bytes() == seen
        await ledgers.delete("kept")
        assert not file.exists()
