"""Servers that are full, paused, busy, read-only, evicting, or replaced by a replica."""

import signal
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from deploy.ports import free_port
from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFull
from oncegate.ledgers.redis.ledgers import open_redis
from oncegate.ledgers.redis.scripts import DROP, TRIM, Script
from oncegate.ports import DropRanges
from oncegate.testing.ledger_places import publish, range_of, snapshot_of
from tests.support.redis_ledger import Prefix, entries
from tests.support.redis_proxy import RedisProxy, proxied
from tests.support.redis_server import RedisServer

# Timeouts of tests whose server does not answer.
IMPATIENT = "bare_key=yes&reply_ms=500&wait_ms=200"


async def test_a_full_server_refuses_appends_and_takes_them_again_by_itself(
    prefix: Prefix, server: RedisServer
) -> None:
    """Row D4: nothing is written, the owner continues, and the free space is reported."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        server.run("CONFIG", "SET", "maxmemory", 1)
        try:
            for _ in range(2):
                with pytest.raises(LedgerFull, match="nothing was written"):
                    await opened.ledger.append([b"b"], [range_of(2, 3), publish(0, 1)])
            with pytest.raises(LedgerFull):
                await opened.ledger.compact(1, snapshot_of(b"state"))
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
            assert opened.storage.free_bytes() == (0, 1)
        finally:
            server.run("CONFIG", "SET", "maxmemory", 0)
        await opened.ledger.append([b"b"], [range_of(2, 3), publish(0, 1)])
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
        assert opened.storage.free_bytes() == (1, 1)
        assert await entries(opened.ledger) == [b"a", b"b"]


@pytest.mark.parametrize("script", [TRIM, DROP], ids=["frames and states", "rows"])
async def test_what_nothing_needs_is_deleted_after_a_deletion_that_failed(
    prefix: Prefix, proxy: RedisProxy, server: RedisServer, script: Script
) -> None:
    async with prefix.opened(proxy) as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        proxy.lose(script)
        await opened.ledger.compact(1, snapshot_of(b"state"))
        await opened.ledger.append([b"b"], [DropRanges((range_of(1, 3).range_id,))])
        for _ in range(2):
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
        assert not proxy.is_due, "a deletion failed"
        assert [server.run("XLEN", prefix.key(what)) for what in ("frames", "rows")] == [2, 0]
        assert await entries(opened.ledger) == [b"state", b"b"]


async def test_a_server_that_evicts_is_refused_before_anything_is_written(server: RedisServer) -> None:
    """Row D4: ids that Redis forgets by itself would look new."""
    server.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        prefix = Prefix(server, None)
        with pytest.raises(LedgerDown, match="maxmemory-policy is allkeys-lru"):
            async with prefix.opened():
                pass
        assert not server.run("KEYS", f"*{prefix.name}*")
    finally:
        server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_server_that_begins_to_evict_takes_nothing_more(prefix: Prefix, server: RedisServer) -> None:
    async with prefix.opened() as opened:
        server.run("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        try:
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
            with pytest.raises(LedgerDown, match="maxmemory-policy is volatile-ttl"):
                await opened.ledger.append([b"a"], [])
        finally:
            server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_server_without_the_replicas_that_it_wants_refuses_appends(prefix: Prefix, server: RedisServer) -> None:
    """Row D2: a primary in the minority of a partitioned network stops, if its operator has configured that."""
    async with prefix.opened() as opened:
        server.run("CONFIG", "SET", "min-replicas-to-write", 1)
        try:
            with pytest.raises(LedgerFull, match="nothing was written"):
                await opened.ledger.append([b"a"], [])
        finally:
            server.run("CONFIG", "SET", "min-replicas-to-write", 0)
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [b"b"]


async def test_two_primaries_are_two_histories_until_one_is_cut_off(server: RedisServer, replica: RedisServer) -> None:
    """Row D2, not prevented: a failover that leaves the old primary writable has two owners, who both append."""
    prefix = Prefix(server, None)
    async with prefix.opened() as first:
        await first.ledger.append([b"a"], [])
        server.followed_by(replica)
        replica.run("REPLICAOF", "NO", "ONE")
        async with prefix.opened(replica) as second:
            await first.ledger.append([b"b of the old"], [])
            await second.ledger.append([b"b of the new"], [])
            assert await entries(first.ledger) == [b"a", b"b of the old"]
            assert await entries(second.ledger) == [b"a", b"b of the new"]
            server.run("CONFIG", "SET", "min-replicas-to-write", 1)
            try:
                with pytest.raises(LedgerFull, match="nothing was written"):
                    await first.ledger.append([b"c"], [])
            finally:
                server.run("CONFIG", "SET", "min-replicas-to-write", 0)
            await second.ledger.append([b"c"], [])


async def test_a_part_of_a_cluster_holds_no_ledger(tmp_path: Path) -> None:
    """Row D6: it is refused before any command to which it could answer MOVED or ASK."""
    # Redis uses its port plus 10,000 for the cluster's, and does not start if that is not a valid port.
    with RedisServer(tmp_path, cluster_enabled="yes", cluster_port=str(free_port())) as server:
        with pytest.raises(LedgerDown, match="part of a cluster"):
            async with Prefix(server, None).opened():
                pass
        assert server.run("DBSIZE") == 0


async def test_a_server_that_does_not_answer_leaves_an_append_in_doubt_and_reads_it_once_at_most(
    prefix: Prefix, server: RedisServer
) -> None:
    """Row D6: paused by SIGSTOP, it reads the sent commands when it continues."""
    async with prefix.opened(options=IMPATIENT) as opened:
        await opened.ledger.append([b"a"], [])
        server.signal(signal.SIGSTOP)
        try:
            with pytest.raises(LedgerDown, match="unknown whether it was written"):
                await opened.ledger.append([b"in doubt"], [])
        finally:
            server.signal(signal.SIGCONT)
    async with prefix.opened() as opened:
        found = await entries(opened.ledger)
        assert found in ([b"a"], [b"a", b"in doubt"])
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [*found, b"b"]


def answers(server: RedisServer) -> bool:
    try:
        server.run("PING")
    except ResponseError:
        return False
    return True


async def test_a_server_that_runs_a_script_without_end_is_waited_for(prefix: Prefix, server: RedisServer) -> None:
    """Row D6: it reports that before it executes anything else, so that nothing was written."""
    server.run("CONFIG", "SET", "busy-reply-threshold", 1)
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        with server.client() as client:
            connection = client.connection_pool.get_connection()
            connection.send_command("EVAL", "while true do end", 0)
            try:
                while answers(server):
                    pass
                with pytest.raises(LedgerFull, match="nothing was written"):
                    await opened.ledger.append([b"b"], [])
            finally:
                server.run("SCRIPT", "KILL")
                while not answers(server):  # the script ends a moment later
                    pass
                client.connection_pool.release(connection)
                client.connection_pool.disconnect()
        await opened.ledger.append([b"c"], [])
        assert await entries(opened.ledger) == [b"a", b"c"]


async def test_the_clock_of_the_server_decides_nothing(prefix: Prefix, server: RedisServer) -> None:
    """Row D8: snapshots are named by its clock, and stay in order even if it was years ahead; owners are not."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        server.run("XADD", prefix.key("states"), "9000000000000-0", "f", "of a clock that was ahead")
        await opened.ledger.compact(1, snapshot_of(b"one"))
        await opened.ledger.append([b"b"], [])
        await opened.ledger.compact(2, snapshot_of(b"two"))
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
        assert await entries(opened.ledger) == [b"two"]
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"two"]


async def test_a_replica_holds_no_ledger(prefix: Prefix, server: RedisServer, replica: RedisServer) -> None:
    """Row D9: its answers may be stale."""
    async with prefix.opened():
        pass
    server.followed_by(replica)
    with pytest.raises(LedgerDown, match="is a replica of"):
        async with prefix.opened(replica):
            pass


async def test_an_owner_whose_server_becomes_a_replica_writes_nothing_more(
    prefix: Prefix, server: RedisServer, replica: RedisServer
) -> None:
    """Row D9: the error precedes the command; once the server is a primary again, the ledger continues."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        server.run("REPLICAOF", "127.0.0.1", replica.port)
        try:
            for _ in range(2):
                with pytest.raises(LedgerFull, match="nothing was written"):
                    await opened.ledger.append([b"b"], [])
        finally:
            server.run("REPLICAOF", "NO", "ONE")
        await opened.ledger.append([b"c"], [])
        assert await entries(opened.ledger) == [b"a", b"c"]


async def failed_over(prefix: Prefix, proxy: RedisProxy, server: RedisServer, replica: RedisServer) -> None:
    """Appends a, which the replica has, and b, which it lacks; then promotes the replica."""
    async with open_redis(prefix.place(proxy), create=True, witness=witness_of(prefix)) as ledgers:
        async with ledgers.open("default") as opened:
            await opened.ledger.append([b"a"], [])
            server.followed_by(replica)
            replica.run("REPLICAOF", "NO", "ONE")
            await opened.ledger.append([b"b"], [])
            proxy.server_port = replica.port
            proxy.cut()
            with pytest.raises((LedgerDown, LedgerDamaged)):
                await opened.ledger.append([b"c"], [])
        with pytest.raises(LedgerDamaged, match="its witness saw"):
            async with ledgers.open("default"):
                pass


def witness_of(prefix: Prefix) -> str | None:
    return None if prefix.witness is None else str(prefix.witness)


async def test_a_failover_that_lost_appends_is_reported_and_nothing_serves(
    prefix: Prefix, server: RedisServer, replica: RedisServer
) -> None:
    """Row D1: a replica whose link had stalled is promoted. The writer of the lost entries notices, later the
    witness."""
    async with proxied(server.port) as proxy:
        await failed_over(prefix, proxy, server, replica)
        with pytest.raises(LedgerDamaged, match="its witness saw"):
            async with prefix.opened(proxy):
                pass


async def test_a_failover_that_lost_appends_is_not_seen_by_a_gateway_that_was_not_there(
    server: RedisServer, replica: RedisServer
) -> None:
    """Row D1, an undetectable case: no witness, and a process that has not seen the lost entries."""
    prefix = Prefix(server, None)
    async with proxied(server.port) as proxy:
        await failed_over(prefix, proxy, server, replica)
        async with prefix.opened(proxy) as opened:
            assert await entries(opened.ledger) == [b"a"]


async def test_with_wait_replicas_nothing_is_acknowledged_that_a_failover_could_lose(
    prefix: Prefix, server: RedisServer, replica: RedisServer
) -> None:
    """Row D1: entries that no replica has are in doubt, and reported neither as written nor as refused."""
    options = "bare_key=yes&wait_replicas=1&wait_ms=4000"
    async with proxied(server.port) as proxy:
        server.followed_by(replica)
        async with prefix.opened(proxy, options) as opened:
            await opened.ledger.append([b"a"], [])
            assert "1 of 1 replicas have it" in opened.storage.durability()
            replica.run("REPLICAOF", "NO", "ONE")
            with pytest.raises(LedgerDown, match="unknown whether it was written"):
                await opened.ledger.append([b"b"], [])
        proxy.server_port = replica.port
        async with prefix.opened(proxy) as opened:
            assert await entries(opened.ledger) == [b"a"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"appendfsync": "always"}, "durable, appendfsync always"),
        ({"appendfsync": "everysec"}, "NOT DURABLE when the power fails: appendfsync everysec"),
        ({"appendonly": "no"}, "NOT DURABLE: appendonly no"),
    ],
)
async def test_the_durability_of_an_append_is_reported_as_the_server_has_it(
    tmp_path: Path, options: dict[str, str], says: str
) -> None:
    with RedisServer(tmp_path, **options) as server:
        async with Prefix(server, tmp_path / "witness").opened() as opened:
            assert opened.storage.durability().startswith(says)
            assert "NO WITNESS" not in opened.storage.durability()
