"""Appends of a ledger on Redis whose answer is lost or that arrive late, and successive owners."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerDown, LedgerFenced, LedgerFull
from oncegate.core.lifecycle import ENDS, AppendOutcome
from oncegate.ledgers.disk import Disk, locked_folder
from oncegate.ledgers.frames import End
from oncegate.ledgers.redis import witnesses
from oncegate.ledgers.redis.connection import Link
from oncegate.ledgers.redis.scripts import APPEND, OWN, PIECE
from oncegate.ledgers.redis.shard import writer
from oncegate.ledgers.redis.shard.head import Head, RedisPlace
from oncegate.ledgers.redis.witnesses import Witness
from oncegate.ports import DropRanges, OpenLedger
from oncegate.testing.ledger_places import BIG, chunk_of, outputs_of, publish, range_of, snapshot_of
from tests.support.memory_gateway import wait_until
from tests.support.redis_ledger import Prefix, entries
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import RedisServer


async def test_an_append_whose_answer_is_lost_is_found_written(prefix: Prefix, proxy: RedisProxy) -> None:
    """Row D7: the append was executed, and is reported as such, with its rows."""
    async with prefix.opened(proxy) as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        proxy.lose_answer(APPEND)
        mark = await opened.ledger.append([b"b"], [range_of(2, 4), publish(0, 1, 2)])
        assert (mark.position, await entries(opened.ledger)) == (2, [b"a", b"b"])
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [
            chunk_of(0, range_of(1, 3)),
            chunk_of(3, range_of(2, 4)),
        ]
        await opened.ledger.append([b"c"], [])
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]


async def test_an_append_that_never_arrived_is_sent_again_and_written_once(prefix: Prefix, proxy: RedisProxy) -> None:
    async with prefix.opened(proxy) as opened:
        proxy.lose(APPEND)
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        await opened.ledger.append([b"b"], [publish(0, 1)])
        assert await entries(opened.ledger) == [b"a", b"b"]


async def test_an_append_that_is_lost_twice_is_refused_and_the_next_one_succeeds(
    prefix: Prefix, proxy: RedisProxy
) -> None:
    async with prefix.opened(proxy) as opened:
        proxy.lose(APPEND)
        first = asyncio.ensure_future(opened.ledger.append([b"a"], []))
        while not first.done():
            proxy.lose(APPEND)
            await asyncio.wait([first], timeout=0.001)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await first
        proxy.forget()
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [b"b"]


async def test_an_owner_takes_one_fence_for_each_connection(
    prefix: Prefix, server: RedisServer, proxy: RedisProxy
) -> None:
    async with prefix.opened(proxy) as opened:
        fences = [server.run("HGET", prefix.key("head"), "fence")]
        for body in (b"a", b"b", b"c"):
            if body == b"c":
                proxy.lose_answer(APPEND)
            await opened.ledger.append([body], [])
            fences.append(server.run("HGET", prefix.key("head"), "fence"))
    assert [int(fence) - int(fences[0]) for fence in fences] == [0, 0, 0, 1]


async def test_a_late_copy_of_an_append_is_never_written(prefix: Prefix, proxy: RedisProxy) -> None:
    """The server reads it after the append that replaced it: a connection's fence ends with the connection."""
    async with prefix.opened(proxy) as opened:
        proxy.hold(APPEND)
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        assert proxy.held.is_set()
        proxy.release()
        await opened.ledger.append([b"b"], [publish(0, 1)])
        assert await entries(opened.ledger) == [b"a", b"b"]
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b"]


async def test_a_late_copy_of_an_append_that_was_refused_is_never_written(prefix: Prefix, proxy: RedisProxy) -> None:
    """The copy would still fit after the last frame: only the fence rejects it."""
    async with prefix.opened(proxy) as opened:
        proxy.hold(APPEND)
        proxy.lose(APPEND, after=1)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"a"], [])
        proxy.release()
        await proxy.close()  # until the server has read it
        assert await entries(opened.ledger) == []
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [b"b"]


async def test_an_append_is_in_doubt_while_its_server_is_away_and_known_once_it_is_back(
    prefix: Prefix, proxy: RedisProxy, server: RedisServer
) -> None:
    async with prefix.opened(proxy) as opened:
        await opened.ledger.append([b"a"], [])
        proxy.hold_answer(APPEND)
        appending = asyncio.create_task(opened.ledger.append([b"b"], []))
        await proxy.held.wait()
        server.kill()
        proxy.release()
        with pytest.raises(LedgerDown, match="unknown whether it was written"):
            await appending
        with pytest.raises(LedgerDown):
            await opened.ledger.append([b"c"], [])
        server.start()
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b"]


async def test_a_compaction_in_doubt_leaves_no_append_in_doubt_that_waits(
    prefix: Prefix, proxy: RedisProxy, server: RedisServer
) -> None:
    """Appends wait for its frame: they were not begun, so none of them is written."""
    async with prefix.opened(proxy) as opened:
        await opened.ledger.append([b"a"], [])
        proxy.hold_answer(APPEND)
        compacting = asyncio.create_task(opened.ledger.compact(1, snapshot_of(b"state")))
        await proxy.held.wait()
        server.kill()
        proxy.release()
        with pytest.raises(LedgerDown, match="unknown whether it was written"):
            await compacting
        assert opened.end.ending is not None
        assert ENDS[opened.end.ending.event].effect.waiting is AppendOutcome.NOT_WRITTEN
        server.start()


async def test_a_connection_that_the_server_closed_costs_no_append(prefix: Prefix, server: RedisServer) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
        server.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await opened.ledger.append([b"b"], [])
        server.run("SCRIPT", "FLUSH")
        await opened.ledger.append([b"c"], [])
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]


async def test_a_collection_whose_answer_is_lost_is_found_written(prefix: Prefix, proxy: RedisProxy) -> None:
    async with prefix.opened(proxy) as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        await opened.ledger.append([b"b"], [])
        proxy.lose_answer(APPEND)
        await opened.ledger.compact(1, snapshot_of(b"state"))
        assert await entries(opened.ledger) == [b"state", b"b"]
        await opened.ledger.append([b"c"], [publish(0, 1)])
    async with prefix.opened() as opened:
        assert opened.history.compacted == 1
        assert await entries(opened.ledger) == [b"state", b"b", b"c"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]


async def test_a_snapshot_whose_piece_is_lost_replaces_nothing(prefix: Prefix, proxy: RedisProxy) -> None:
    async with prefix.opened(proxy) as opened:
        await opened.ledger.append([b"a"], [])
        proxy.lose_answer(PIECE)
        with pytest.raises(LedgerFull):
            await opened.ledger.compact(1, snapshot_of(b"state"))
        await opened.ledger.append([b"b"], [])
        await opened.ledger.compact(1, snapshot_of(b"state"))
        assert await entries(opened.ledger) == [b"state", b"b"]


async def test_an_owner_that_was_followed_writes_nothing_and_leaves_its_successor_alone(prefix: Prefix) -> None:
    async with prefix.opened() as older:
        await older.ledger.append([b"by the older"], [])
        async with prefix.opened() as newer:
            await newer.ledger.append([b"by the newer"], [])
            for _ in range(2):
                with pytest.raises(LedgerFenced):
                    await older.ledger.append([b"by a zombie"], [])
            with pytest.raises(LedgerFenced):
                older.require_owner()
            await newer.ledger.append([b"and on"], [])
            assert await entries(newer.ledger) == [b"by the older", b"by the newer", b"and on"]


async def test_an_owner_that_was_followed_learns_it_without_writing(prefix: Prefix) -> None:
    async with prefix.opened() as older, prefix.opened() as newer:
        await older.ledger.keep_up()  # type: ignore[attr-defined]
        with pytest.raises(LedgerFenced):
            older.require_owner()
        await newer.ledger.keep_up()  # type: ignore[attr-defined]
        newer.require_owner()


async def test_an_append_beside_a_look_at_the_head_does_not_make_an_honest_server_one_that_was_set_back(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer about the head left the server before the append, and is read after it."""
    async with prefix.opened() as opened:
        read = writer.read_head

        async def late(link: Link, place: RedisPlace) -> Head:
            head = await read(link, place)
            await opened.ledger.append([b"meanwhile"], [])
            return head

        await opened.ledger.append([b"before"], [])
        with monkeypatch.context() as patched:
            patched.setattr(writer, "read_head", late)
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
        opened.require_owner()
        await opened.ledger.append([b"after"], [])
        assert await entries(opened.ledger) == [b"before", b"meanwhile", b"after"]


async def test_a_zombie_whose_connection_was_lost_does_not_take_the_ledger_back(
    prefix: Prefix, proxy: RedisProxy, server: RedisServer
) -> None:
    async with prefix.opened(proxy) as older, prefix.opened() as newer:
        await newer.ledger.append([b"by the newer"], [])
        proxy.cut()
        with pytest.raises(LedgerFenced):
            await older.ledger.append([b"by a zombie"], [])
        await newer.ledger.append([b"and on"], [])


async def test_a_zombie_whose_server_was_restarted_does_not_take_the_ledger_back(
    prefix: Prefix, server: RedisServer
) -> None:
    async with prefix.opened() as older:
        async with prefix.opened() as newer:
            await newer.ledger.append([b"by the newer"], [])
        server.restart()
        with pytest.raises(LedgerFenced):
            await older.ledger.append([b"by a zombie"], [])


@pytest.mark.parametrize("is_done", [True, False])
async def test_an_append_in_doubt_of_a_superseded_owner_is_reported_with_its_outcome(
    prefix: Prefix, proxy: RedisProxy, is_done: bool
) -> None:
    async with prefix.opened(proxy) as older:
        await older.ledger.append([b"a"], [])
        (proxy.hold_answer if is_done else proxy.hold)(APPEND)
        appending = asyncio.create_task(older.ledger.append([b"in doubt"], []))
        await proxy.held.wait()
        if is_done:
            async with prefix.opened() as newer:
                await newer.ledger.append([b"b"], [])
                proxy.release()
                assert (await appending).position == 2
                with pytest.raises(LedgerFenced):
                    await older.ledger.append([b"by a zombie"], [])
                assert await entries(newer.ledger) == [b"a", b"in doubt", b"b"]
        else:
            await appending
            async with prefix.opened() as newer:
                proxy.release()
                await newer.ledger.append([b"b"], [])
                assert await entries(newer.ledger) == [b"a", b"in doubt", b"b"]


@pytest.mark.parametrize(("replaced", "is_known"), [(1, True), (2, False)])
async def test_an_append_in_doubt_is_known_for_as_long_as_its_successor_keeps_the_frame(
    prefix: Prefix, proxy: RedisProxy, server: RedisServer, replaced: int, is_known: bool
) -> None:
    """Kept as the very first frame it is still known; replaced by a snapshot it is unknown, and not refused."""
    async with prefix.opened(proxy) as older:
        await older.ledger.append([b"a"], [])
        proxy.hold_answer(APPEND)
        appending = asyncio.create_task(older.ledger.append([b"in doubt"], []))
        await proxy.held.wait()
        in_doubt = server.run("XREVRANGE", prefix.key("frames"), "+", "-", "COUNT", "1")[0][0]
        async with prefix.opened() as newer:
            await newer.ledger.compact(replaced, snapshot_of(b"state"))
            await newer.ledger.keep_up()  # type: ignore[attr-defined]
            first = server.run("XRANGE", prefix.key("frames"), "-", "+", "COUNT", "1")[0][0]
            assert (first == in_doubt) is is_known
            proxy.release()
            if is_known:
                assert (await appending).position == 2
            else:
                with pytest.raises(LedgerDown, match="replaced since"):
                    await appending


async def test_a_newer_owner_found_by_upkeep_ends_a_ledger_after_the_append_under_way(
    prefix: Prefix, proxy: RedisProxy
) -> None:
    async with prefix.opened(proxy) as opened:
        proxy.hold_answer(APPEND)
        append = asyncio.ensure_future(opened.ledger.append([b"a"], []))
        await proxy.held.wait()
        async with prefix.opened() as newer:
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
            assert opened.end.ending is None
            proxy.release()
            assert (await append).position == 1
            await wait_until(lambda: opened.end.ending is not None)
            with pytest.raises(LedgerFenced, match="nothing was written"):
                await opened.ledger.append([b"b"], [])
            assert await entries(newer.ledger) == [b"a"]


async def test_an_opening_that_comes_late_owns_nothing(prefix: Prefix, proxy: RedisProxy) -> None:
    """A gateway that slept during its opening, so that another opening was executed first, fences no owner."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
    proxy.hold(OWN)
    with pytest.raises(LedgerDown):
        async with prefix.opened(proxy):
            pass
    async with prefix.opened() as newer:
        proxy.release()
        await newer.ledger.append([b"b"], [])
        await newer.ledger.append([b"c"], [])
        assert await entries(newer.ledger) == [b"a", b"b", b"c"]


async def test_all_that_an_owner_appended_until_it_was_fenced_is_read_by_its_successor(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames are read behind the fence: the last append before it is among them."""
    take = writer.take

    async def late(link: Link, place: RedisPlace, read: Head, holder: bytes) -> Head | None:
        monkeypatch.undo()
        await older.ledger.append([b"b"], [])
        return await take(link, place, read, holder)

    async with prefix.opened() as older:
        await older.ledger.append([b"a"], [])
        monkeypatch.setattr(writer, "take", late)
        async with prefix.opened() as newer:
            with pytest.raises(LedgerFenced):
                await older.ledger.append([b"c"], [])
            assert await entries(newer.ledger) == [b"a", b"b"]


async def test_an_opening_whose_answer_is_lost_is_made_again(prefix: Prefix, proxy: RedisProxy) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
    proxy.lose_answer(OWN)
    with pytest.raises(LedgerDown):
        async with prefix.opened(proxy):
            pass
    async with prefix.opened(proxy) as opened:
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [b"a", b"b"]


async def test_of_two_gateways_that_open_at_once_one_owns_the_ledger(prefix: Prefix) -> None:
    """The other is fenced while it opens, or by its first append."""
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(prefix.opened()) for _ in range(2)]
        found = await asyncio.gather(*opening, return_exceptions=True)
        assert all(isinstance(one, OpenLedger | LedgerFenced) for one in found), found
        *older, newer = sorted((one for one in found if isinstance(one, OpenLedger)), key=lambda one: one.history.epoch)
        for one in older:
            with pytest.raises(LedgerFenced):
                await one.ledger.append([b"by the older"], [])
        await newer.ledger.append([b"by the newer"], [])
        assert await entries(newer.ledger) == [b"by the newer"]


async def test_a_witness_stays_with_the_later_owner(tmp_path: Path) -> None:
    """Two gateways of one machine that open at once: the superseded one does not touch the file."""
    path, ledger, end = tmp_path / "p.default.1.witness", bytes(16), End(3, 7, bytes(16))
    older, newer, next_start = (Witness(Disk(), path, ledger) for _ in range(3))
    await newer.own(2, end)
    await older.own(1, End(2, 5, bytes(16)))
    await older.see(End(2, 6, bytes(16)))
    await newer.see(End(4, 9, bytes(16)))
    await next_start.begin()
    assert next_start.seen == End(4, 9, bytes(16))


async def test_a_witness_stays_with_the_later_owner_that_had_the_folder_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that waited for the folder reads the file after it has the lock."""
    path, ledger, end = tmp_path / "p.default.1.witness", bytes(16), End(3, 7, bytes(16))
    older, newer, next_start = (Witness(Disk(), path, ledger) for _ in range(3))

    @contextmanager
    def waited_for(folder: Path) -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(witnesses, "locked_folder", locked_folder)
            asyncio.run(newer.own(2, end))
        with locked_folder(folder):
            yield

    monkeypatch.setattr(witnesses, "locked_folder", waited_for)
    await older.own(1, End(2, 5, bytes(16)))
    await next_start.begin()
    assert next_start.seen == end


async def test_records_replaced_and_deleted_by_a_newer_owner_are_no_damage(prefix: Prefix) -> None:
    async with prefix.opened() as first:
        await first.ledger.append([b"a"], [])
        async with prefix.opened() as second:
            await second.ledger.append([b"b"], [])
            await second.ledger.compact(2, snapshot_of(b"state"))
            await second.ledger.keep_up()  # type: ignore[attr-defined]
            with pytest.raises(LedgerFenced):
                await entries(first.ledger)
            await second.ledger.append([b"c"], [])


async def test_rows_that_a_refused_append_was_to_drop_leave_the_server_later(
    prefix: Prefix, server: RedisServer
) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        await opened.ledger.append([b"b"], [DropRanges((range_of(1, 3).range_id,))])
        server.run("CONFIG", "SET", "maxmemory", 1)
        try:
            with pytest.raises(LedgerFull):
                await opened.ledger.append([b"c"], [])
        finally:
            server.run("CONFIG", "SET", "maxmemory", 0)
        await opened.ledger.append([b"d"], [])
        assert server.run("XLEN", prefix.key("rows")) == 0
        assert await entries(opened.ledger) == [b"a", b"b", b"d"]


async def test_replaced_or_dropped_keys_are_removed_from_the_server(prefix: Prefix, server: RedisServer) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3), range_of(2, 3)])
        await opened.ledger.append([b"b"], [publish(0, 1)])
        await opened.ledger.append([], [DropRanges((range_of(2, 3).range_id,))])
        await opened.ledger.compact(2, snapshot_of(b"one"))
        await opened.ledger.compact(2, snapshot_of(b"two"))
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
        assert server.run("XLEN", prefix.key("rows")) == 1
        assert server.run("XLEN", prefix.key("frames")) <= 2
        assert server.run("XLEN", prefix.key("states")) <= 4
        assert await entries(opened.ledger) == [b"two"]
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"two"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]
