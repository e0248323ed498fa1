"""Properties of every ledger that a standby can follow: it is read continuously, never fenced, and taken over whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import pytest

from oncegate.core.errors import LedgerDown, LedgerFenced, Recovering
from oncegate.ports import Followed, OpenLedger
from oncegate.testing.ledger_places import BIG, chunk_of, outputs_of, publish, range_of, replayed, snapshot_of
from tests.support.standing_by import Standby, standby_of, wait_until

# More than a compaction processes between two appends.
APPENDS = 20


class Prefix(Protocol):
    """A location whose ledgers several gateways of a test open; their silence does not reveal a dead owner."""

    def opened(self) -> AbstractAsyncContextManager[OpenLedger]: ...

    def ledgers(self, *, create: bool = False) -> AbstractAsyncContextManager[Any]: ...


def standing_by(prefix: Prefix) -> AbstractAsyncContextManager[Standby]:
    return standby_of(prefix.ledgers())


async def entries(opened: OpenLedger) -> list[bytes]:
    return [bytes(one.body) for one in await replayed(opened.ledger)]


@asynccontextmanager
async def waiting(prefix: Prefix) -> AsyncIterator[tuple[Followed, OpenLedger, AsyncExitStack]]:
    """Yields a standby that has read `a` and reads no further by itself, the owner, and the stack that closes the
    owner."""
    async with prefix.ledgers(create=True) as ledgers, AsyncExitStack() as stack:
        owner = await stack.enter_async_context(prefix.opened())
        await owner.ledger.append([b"a"], [])
        async with ledgers.follow("default") as followed:
            assert [bytes(one.body) for one in await anext(followed.batches)] == [b"a"]
            yield followed, owner, stack
            await followed.batches.aclose()


async def a_standby_follows_the_owner_without_fencing_it(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        async with standing_by(prefix) as standby:
            await standby.has_read(b"a")
            await owner.ledger.append([b"b"], [])
            await standby.has_read(b"a", b"b")
            owner.require_owner()
            with pytest.raises(RuntimeError, match="not owned"):
                standby.followed.opened()
            assert "owns the ledgers" in standby.followed.standing()
            assert "read to position 2" in standby.followed.standing()
        await owner.ledger.append([b"c"], [])
        assert await entries(owner) == [b"a", b"b", b"c"]


async def a_standby_creates_and_deletes_no_namespace(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        async with prefix.ledgers() as ledgers, ledgers.follow("default"):
            with pytest.raises(Recovering, match="owns the ledgers; nothing was written"):
                await ledgers.create("mail")
            with pytest.raises(Recovering, match="owns the ledgers; nothing was written"):
                await ledgers.delete("default")
        assert owner.ledger.mark.position == 1


async def a_standby_takes_over_from_an_owner_that_closes_with_all_its_entries(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [range_of(1, 3)])
        await owner.ledger.append([b"b"], [publish(0, 1)])
        following = standing_by(prefix)
        standby = await following.__aenter__()
        await standby.has_read(b"a", b"b")
        assert standby.followed.outputs is not None
        assert await standby.followed.outputs.fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]
    try:
        opened = await standby.opened()
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]
        assert (await opened.ledger.append([b"c"], [])).position == 3
        assert await entries(opened) == [b"a", b"b", b"c"]
        with pytest.raises(LedgerFenced):
            owner.require_owner()
    finally:
        await following.__aexit__(None, None, None)


async def one_of_two_standbys_takes_over_and_the_other_keeps_following(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        followings = [standing_by(prefix) for _ in range(2)]
        standbys = [await one.__aenter__() for one in followings]
        for one in standbys:
            await one.has_read(b"a")
    first, _ = await asyncio.wait([one.task for one in standbys], return_when=asyncio.FIRST_COMPLETED)
    won = [one.task in first for one in standbys].index(True)
    opened, other = await standbys[won].opened(), standbys[1 - won]
    await opened.ledger.append([b"b"], [])
    await other.has_read(b"a", b"b")
    assert not other.task.done()
    await followings[won].__aexit__(None, None, None)
    # The gateway that had won closed with its last namespace.
    assert await entries(await other.opened()) == [b"a", b"b"]
    await followings[1 - won].__aexit__(None, None, None)


async def a_compaction_by_the_owner_changes_nothing_for_a_standby_that_has_read_it(prefix: Prefix) -> None:
    numbers = range(2, 2 + APPENDS)
    bodies = [b"%d" % number for number in numbers]
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [range_of(1, 2), publish(0, 1)])
        following = standing_by(prefix)
        standby = await following.__aenter__()
        await standby.has_read(b"a")
        # The frame that names the snapshot repeats the changes made while the catalog is written.
        compacting = asyncio.create_task(owner.ledger.compact(1, snapshot_of(b"state")))
        for number, body in zip(numbers, bodies, strict=True):
            await owner.ledger.append([body], [range_of(number, 2), publish(2 * (number - 1), number)])
        await compacting
        await owner.ledger.append([b"z"], [])
        await standby.has_read(b"a", *bodies, b"z")
        assert standby.followed.compacted() == 1
        await owner.ledger.keep_up()  # type: ignore[attr-defined]
    opened = await standby.opened()
    assert opened.history.compacted == 1
    assert await entries(opened) == [b"state", *bodies, b"z"]
    expected = [chunk_of(2 * (number - 1), range_of(number, 2)) for number in (1, *numbers)]
    assert await outputs_of(opened).fetch("t", 0, 0, 999, BIG) == expected
    await following.__aexit__(None, None, None)


async def entries_after_the_last_read_are_replayed_at_takeover(prefix: Prefix) -> None:
    async with waiting(prefix) as (followed, owner, going):
        await owner.ledger.append([b"b", b"c"], [range_of(1, 3)])
        await owner.ledger.append([b"d"], [publish(0, 1)])
        await going.aclose()
        await wait_until(lambda: not followed.standing())
        assert [bytes(one.body) async for batch in followed.batches for one in batch] == [b"b", b"c", b"d"]
        opened = followed.opened()
        assert opened.ledger.mark.position == 4
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]


async def a_frame_after_the_last_read_is_replayed_at_takeover(prefix: Prefix) -> None:
    async with waiting(prefix) as (followed, owner, going):
        await owner.ledger.append([b"b"], [])
        await going.aclose()
        await wait_until(lambda: not followed.standing())
        assert [bytes(one.body) async for batch in followed.batches for one in batch] == [b"b"]
        assert followed.opened().ledger.mark.position == 2


async def nothing_is_replayed_at_takeover_if_everything_was_read(prefix: Prefix) -> None:
    async with waiting(prefix) as (followed, _, going):
        await going.aclose()
        await wait_until(lambda: not followed.standing())
        assert [batch async for batch in followed.batches] == []
        assert followed.opened().ledger.mark.position == 1


async def a_standby_whose_unread_entries_were_trimmed_starts_again(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        async with prefix.ledgers() as ledgers:
            async with ledgers.follow("default") as followed:
                assert [bytes(one.body) for one in await anext(followed.batches)] == [b"a"]
                # The standby reads no further until it is asked again.
                for body in (b"b", b"c"):
                    await owner.ledger.append([body], [])
                await owner.ledger.compact(3, snapshot_of(b"state"))
                await owner.ledger.keep_up()  # type: ignore[attr-defined]
                with pytest.raises(LedgerDown, match="followed anew"):
                    await anext(followed.batches)
            async with ledgers.follow("default") as followed:
                assert [bytes(one.body) for one in await anext(followed.batches)] == [b"state"]
                await followed.batches.aclose()
        owner.require_owner()


async def a_gateway_that_was_not_elected_owns_nothing(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        async with prefix.ledgers() as ledgers, ledgers.follow("default"):
            with pytest.raises(LedgerFenced, match="owns the ledgers now; nothing was written"):
                async with ledgers.open("default"):
                    pass
        await owner.ledger.append([b"b"], [])


CHECKS = (
    a_standby_follows_the_owner_without_fencing_it,
    a_standby_creates_and_deletes_no_namespace,
    a_standby_takes_over_from_an_owner_that_closes_with_all_its_entries,
    one_of_two_standbys_takes_over_and_the_other_keeps_following,
    a_compaction_by_the_owner_changes_nothing_for_a_standby_that_has_read_it,
    entries_after_the_last_read_are_replayed_at_takeover,
    a_frame_after_the_last_read_is_replayed_at_takeover,
    nothing_is_replayed_at_takeover_if_everything_was_read,
    a_standby_whose_unread_entries_were_trimmed_starts_again,
    a_gateway_that_was_not_elected_owns_nothing,
)
