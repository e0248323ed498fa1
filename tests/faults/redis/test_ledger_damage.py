"""Servers that lost acknowledged entries: flushed, emptied, set back, replaced by an incomplete replica."""

import shutil
from pathlib import Path

import msgspec
import pytest

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerDamaged, LedgerDown
from oncegate.ledgers.redis.ledgers import open_redis
from oncegate.ledgers.redis.namespaces import RedisNamespace
from oncegate.testing.ledger_places import BIG, outputs_of, publish, range_of, snapshot_of
from tests.support.redis_ledger import Prefix, entries
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import RedisServer


async def appended(prefix: Prefix, *bodies: bytes, at: RedisServer | RedisProxy | None = None) -> None:
    async with prefix.opened(at) as opened:
        for body in bodies:
            await opened.ledger.append([body], [])


async def is_damage(prefix: Prefix, says: str, at: RedisServer | RedisProxy | None = None) -> None:
    with pytest.raises(LedgerDamaged, match=says):
        async with prefix.opened(at):
            pass


async def test_a_flushed_server_is_detected_by_the_next_append_and_by_each_opening(
    prefix: Prefix, server: RedisServer
) -> None:
    """Row D3: the running owner notices; after it has gone, the witness does."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        server.run("FLUSHALL")
        for _ in range(2):
            with pytest.raises(LedgerDamaged, match="flushed"):
                await opened.ledger.append([b"b"], [])
    await is_damage(prefix, "has no ledgers, and")


async def test_a_flushed_server_is_detected_without_an_append(prefix: Prefix, server: RedisServer) -> None:
    async with prefix.opened() as opened:
        server.run("FLUSHALL")
        opened.require_owner()
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
        with pytest.raises(LedgerDamaged, match="flushed"):
            opened.require_owner()
        with pytest.raises(LedgerDamaged, match="flushed"):
            await opened.ledger.append([b"b"], [])


async def test_an_unavailable_server_is_detected_without_an_append(prefix: Prefix, server: RedisServer) -> None:
    async with prefix.opened() as opened:
        server.kill()
        try:
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
            away = opened.storage.away()
            assert away is not None
            assert "cannot be used now" in str(away)
            opened.require_owner()
        finally:
            server.start()
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
        with pytest.raises(LedgerDown, match="started anew"):
            opened.require_owner()


async def test_a_server_replaced_by_an_empty_one_is_detected(prefix: Prefix, server: RedisServer) -> None:
    """Row D3: a new connection returns none of the server's content before all of it was checked."""
    witness = str(prefix.witness)
    async with open_redis(prefix.place(), create=True, witness=witness) as ledgers:
        async with ledgers.open("default") as opened:
            await opened.ledger.append([b"a"], [])
            server.replace()
            with pytest.raises(LedgerDown, match="started anew"):
                await opened.ledger.append([b"b"], [])
        with pytest.raises(LedgerDamaged, match="flushed"):
            async with ledgers.open("default"):
                pass
    await is_damage(prefix, "has no ledgers, and")


async def test_a_list_that_others_made_on_an_emptied_server_is_refused_at_each_look(
    prefix: Prefix, server: RedisServer, tmp_path: Path
) -> None:
    async with open_redis(prefix.place(), create=True, witness=str(prefix.witness)) as ledgers:
        server.run("FLUSHALL")
        async with open_redis(prefix.place(), create=True, witness=str(tmp_path / "another")):
            pass
        for _ in range(3):
            with pytest.raises(LedgerDamaged, match="is not the list that this gateway knows"):
                await ledgers._list.refresh()


async def test_an_emptied_server_without_a_witness_is_taken_for_a_new_one(server: RedisServer, tmp_path: Path) -> None:
    """Row D3, an undetectable case: without a witness a start knows nothing; the ledger is reported as new and
    empty."""
    prefix = Prefix(server, None)
    await appended(prefix, b"a")
    server.run("FLUSHALL")
    async with prefix.opened() as opened:
        assert opened.ledger.mark.position == 0
        assert "NO WITNESS" in opened.storage.durability()


async def test_keys_that_were_deleted_one_by_one_are_damage(prefix: Prefix, server: RedisServer) -> None:
    await appended(prefix, b"a", b"b")
    server.run("DEL", prefix.key("head"))
    await is_damage(prefix, "is gone")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("XTRIM", "frames", "MAXLEN", 0), "is empty, and was not"),
        (("XTRIM", "frames", "MAXLEN", 1), "lacks its first frames"),
        (("XDEL", "frames", "2-0"), "does not follow"),
        (("XDEL", "frames", "3-0"), "ends at frame 2"),
        (("HSET", "head", "serial", 2), "ends at frame 2"),
        (("XADD", "frames", "9-0", "f", "x"), "no frame begins there"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
async def test_a_ledger_that_others_have_changed_never_serves(
    server: RedisServer, tmp_path: Path, command: tuple[str | int, ...], says: str
) -> None:
    """With and without a witness. Without one, the first gateway that looks may become the witness."""
    for prefix in (Prefix(server, tmp_path / "witness"), Prefix(server, None)):
        await appended(prefix, b"a", b"b")
        verb, what, *rest = command
        server.run(verb, prefix.key(str(what)), *rest)
        if prefix.witness is None and command[1] == "head":
            says = "ends at frame 3"
        await is_damage(prefix, says)


async def set_back(prefix: Prefix, server: RedisServer, tmp_path: Path) -> None:
    """Appends a, then b, and restores the server's state before b."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        # A copy of its files while it runs: everything written before.
        shutil.copytree(server.folder, tmp_path / "before")
        await opened.ledger.append([b"b"], [])
    put_back(server, tmp_path / "before")


def put_back(server: RedisServer, files: Path) -> None:
    """Kills a server, and starts it again over a copy of its files."""
    server.kill()
    shutil.rmtree(server.folder)
    shutil.copytree(files, server.folder)
    server.start()


async def test_a_server_that_lost_its_last_appends_is_detected_by_the_witness(
    prefix: Prefix, server: RedisServer, tmp_path: Path
) -> None:
    """Row D5: as after a power failure with appendfsync everysec, an old RDB file, or a restored backup."""
    await set_back(prefix, server, tmp_path)
    await is_damage(prefix, "its witness saw")
    await is_damage(prefix, "its witness saw")


@pytest.mark.parametrize("last", ["opening", "collection"])
async def test_a_server_that_lost_a_frame_without_an_append_is_seen_by_the_witness(
    prefix: Prefix, server: RedisServer, tmp_path: Path, last: str
) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        shutil.copytree(server.folder, tmp_path / "before")
        if last == "collection":
            await opened.ledger.compact(1, snapshot_of(b"state"))
    if last == "opening":
        await appended(prefix)
    put_back(server, tmp_path / "before")
    await is_damage(prefix, "its witness saw")


async def test_a_server_that_was_set_back_keeps_its_head_and_its_frames_as_they_are(
    prefix: Prefix, server: RedisServer, tmp_path: Path
) -> None:
    await set_back(prefix, server, tmp_path)
    before = server.run("HGETALL", prefix.key("head")), server.run("XLEN", prefix.key("frames"))
    await is_damage(prefix, "its witness saw")
    assert (server.run("HGETALL", prefix.key("head")), server.run("XLEN", prefix.key("frames"))) == before


async def test_a_ledger_whose_listed_key_is_another_is_refused_and_no_frame_is_written(
    prefix: Prefix, server: RedisServer
) -> None:
    await appended(prefix, b"a")
    listed, field = f"{{{prefix.name}}}:namespaces", "n/default"
    namespace = msgspec.json.decode(server.run("HGET", listed, field), type=RedisNamespace)
    other = msgspec.structs.replace(namespace, key=namespace.key[:-1] + bytes([namespace.key[-1] ^ 1]))
    server.run("HSET", listed, field, msgspec.json.encode(other))
    before = server.run("XLEN", prefix.key("frames"))
    with pytest.raises(KeyMismatch, match="another key than the list"):
        async with prefix.opened():
            pass
    assert server.run("XLEN", prefix.key("frames")) == before


async def test_a_server_that_lost_its_last_appends_is_detected_by_their_writer(
    server: RedisServer, tmp_path: Path
) -> None:
    """Row D5: also without a file, while the gateway runs."""
    prefix = Prefix(server, None)
    async with open_redis(prefix.place(), create=True) as ledgers:
        async with ledgers.open("default") as opened:
            await opened.ledger.append([b"a"], [])
        server.kill()
        shutil.copytree(server.folder, tmp_path / "before")
        server.start()
        async with ledgers.open("default") as opened:
            await opened.ledger.append([b"b"], [])
            put_back(server, tmp_path / "before")
            with pytest.raises(LedgerDown, match="started anew"):
                await opened.ledger.append([b"c"], [])
        with pytest.raises(LedgerDamaged, match="its witness saw"):
            async with ledgers.open("default"):
                pass


async def test_a_server_that_lost_its_last_appends_serves_if_there_is_no_evidence(
    server: RedisServer, tmp_path: Path
) -> None:
    """Row D5, an undetectable case: no witness, and a gateway that was not running. Clients' ledger positions may
    reveal it."""
    prefix = Prefix(server, None)
    await set_back(prefix, server, tmp_path)
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a"]


async def test_a_restart_without_losses_is_read_again_and_continues(prefix: Prefix, server: RedisServer) -> None:
    async with open_redis(prefix.place(), create=True, witness=str(prefix.witness)) as ledgers:
        async with ledgers.open("default") as opened:
            await opened.ledger.append([b"a"], [])
            server.restart()
            with pytest.raises(LedgerDown, match="read anew"):
                await opened.ledger.append([b"b"], [])
        async with ledgers.open("default") as opened:
            await opened.ledger.append([b"c"], [])
            assert await entries(opened.ledger) == [b"a", b"c"]


async def test_rows_that_are_not_those_written_are_damage(prefix: Prefix, server: RedisServer) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3), publish(0, 1)])
        (outcome,) = server.run("XRANGE", prefix.key("rows"), "-", "+")
        server.run("XDEL", prefix.key("rows"), outcome[0])
        with pytest.raises(LedgerDamaged, match="not the"):
            await outputs_of(opened).fetch("t", 0, 0, 9, BIG)


async def test_a_witness_of_another_ledger_is_refused(prefix: Prefix, server: RedisServer) -> None:
    await appended(prefix, b"a")
    assert prefix.witness is not None
    (seen,) = prefix.witness.iterdir()
    other = Prefix(server, prefix.witness)
    await appended(other, b"a")
    shutil.copy(seen, prefix.witness / seen.name.replace(prefix.name, other.name))
    await is_damage(other, "saw ledger")


async def test_a_ledger_under_another_master_key_is_refused(server: RedisServer, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode().ljust(32, b"-"))
    prefix = Prefix(server, None, f"master_key={tmp_path / 'one'}")
    await appended(prefix, b"a")
    with pytest.raises(KeyMismatch):
        async with prefix.opened(options=f"master_key={tmp_path / 'two'}"):
            pass
    options = f"master_key={tmp_path / 'two'}&old_master_key={tmp_path / 'one'}"
    async with prefix.opened(options=options) as opened:
        key = opened.key
    async with prefix.opened(options=f"master_key={tmp_path / 'two'}") as opened:
        assert opened.key == key


async def test_a_gateway_reports_whether_it_keeps_a_witness(server: RedisServer) -> None:
    for place, witness in ((f"//{server.address}/w?bare_key=yes", None), (Prefix(server, None).place(), "/tmp/w")):
        with pytest.raises(BadRequest, match="--witness"):
            async with open_redis(place, create=True, witness=witness):
                pass
