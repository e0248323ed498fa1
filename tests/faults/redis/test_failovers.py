"""A replica replaces the server while a gateway owns the ledgers and another stands by: which of them notices a
loss."""

import signal
from collections.abc import Callable

import pytest

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.redis.ledgers import RedisLedgers, open_redis
from oncegate.ports import OpenLedger
from tests.support.redis_ledger import Prefix, entries
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import RedisServer
from tests.support.standing_by import Standby

# Without a takeover by silence, and with no witness except the entries that a standby has read.
OPTIONS = "bare_key=yes&takeover_ms=600000"


async def followed_to(ledgers: RedisLedgers, bodies: list[bytes], fail_over: Callable[[], None]) -> None:
    """Follows the ledger through these entries until the server is replaced."""
    async with ledgers.follow("default") as followed:
        standby = Standby(followed)
        await standby.has_read(*bodies)
        fail_over()
        with pytest.raises(LedgerDown, match="followed anew"):
            await standby.opened()


def promotion(proxy: RedisProxy, replica: RedisServer) -> Callable[[], None]:
    """Returns a function that promotes the replica for clients of the proxy."""

    def promoted() -> None:
        proxy.server_port = replica.port
        proxy.cut()

    return promoted


async def appended_to_both_and_to_the_server_alone(
    owner: OpenLedger, server: RedisServer, replica: RedisServer, *alone: bytes
) -> None:
    """Appends `a` to both, and the rest only to the server."""
    await owner.ledger.append([b"a"], [])
    server.followed_by(replica)
    replica.run("REPLICAOF", "NO", "ONE")
    for body in alone:
        await owner.ledger.append([body], [])


async def test_a_standby_knows_what_a_failover_lost_though_its_owner_is_gone(
    server: RedisServer, replica: RedisServer, proxy: RedisProxy
) -> None:
    """Row D1: it has read entries that the replica lacks, and it is the only gateway left that knows."""
    prefix = Prefix(proxy, None, OPTIONS)
    async with open_redis(prefix.place(), create=True) as ledgers:
        async with prefix.opened() as owner:
            await appended_to_both_and_to_the_server_alone(owner, server, replica, b"b", b"c")
            await followed_to(ledgers, [b"a", b"b", b"c"], promotion(proxy, replica))
        async with ledgers.follow("default") as followed:
            with pytest.raises(LedgerDamaged, match="its witness saw frame 3"):
                await Standby(followed).opened()


async def test_a_standby_detects_lost_entries_though_another_history_has_continued(
    server: RedisServer, replica: RedisServer, proxy: RedisProxy
) -> None:
    """Row D1: a gateway without that knowledge has appended in place of the lost entries."""
    prefix = Prefix(proxy, None, OPTIONS)
    async with open_redis(prefix.place(), create=True) as ledgers:
        async with prefix.opened() as owner:
            await appended_to_both_and_to_the_server_alone(owner, server, replica, b"b", b"c")
            await followed_to(ledgers, [b"a", b"b", b"c"], promotion(proxy, replica))
        async with prefix.opened() as unknowing:
            for body in (b"b of another", b"c of another", b"d of another"):
                await unknowing.ledger.append([body], [])
        async with ledgers.follow("default") as followed:
            with pytest.raises(LedgerDamaged, match="another history"):
                await Standby(followed).opened()


async def test_the_last_append_that_a_standby_has_read_proves_nothing(
    server: RedisServer, replica: RedisServer, proxy: RedisProxy
) -> None:
    """Row D1, an undetectable loss: it may not have been acknowledged, and no other append follows it."""
    prefix = Prefix(proxy, None, OPTIONS)
    async with open_redis(prefix.place(), create=True) as ledgers:
        async with prefix.opened() as owner:
            await appended_to_both_and_to_the_server_alone(owner, server, replica, b"b")
            await followed_to(ledgers, [b"a", b"b"], promotion(proxy, replica))
        async with ledgers.follow("default") as followed:
            assert await entries((await Standby(followed).opened()).ledger) == [b"a"]


async def test_with_wait_replicas_a_standby_takes_over_all_that_was_acknowledged_from_the_replica(
    server: RedisServer, replica: RedisServer, proxy: RedisProxy
) -> None:
    """Row D1: owner and primary die, with an append in doubt that the standby has read and the replica has not."""
    prefix = Prefix(proxy, None, OPTIONS)
    server.followed_by(replica)

    def fail_over() -> None:
        server.kill()
        replica.signal(signal.SIGCONT)
        replica.run("REPLICAOF", "NO", "ONE")
        promotion(proxy, replica)()

    try:
        # Without wait_replicas: once it owns the ledger there is no replica left.
        async with open_redis(prefix.place(), create=True) as ledgers:
            async with prefix.opened(options=f"{OPTIONS}&wait_replicas=1&wait_ms=2000") as owner:
                acknowledged = [b"a", b"b"]
                for body in acknowledged:
                    await owner.ledger.append([body], [])
                replica.signal(signal.SIGSTOP)
                with pytest.raises(LedgerDown, match="unknown whether it was written"):
                    await owner.ledger.append([b"in doubt"], [])
                await followed_to(ledgers, [*acknowledged, b"in doubt"], fail_over)
            async with ledgers.follow("default") as followed:
                opened = await Standby(followed).opened()
                found = await entries(opened.ledger)
                # A stopped replica may have it in its socket, and reads it before it is promoted.
                assert found in (acknowledged, [*acknowledged, b"in doubt"])
    finally:
        server.start()
