"""Ledgers on Kafka that another process owns are followed: read on, never fenced, judged as they are taken over."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull, Recovering
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.ledgers.kafka.namespaces import NamespaceList
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate.ledgers.standby import election
from oncegate.ledgers.standby.holders import Beat
from oncegate.ports import Followed, Ledger, OpenLedger
from oncegate.testing.ledger_places import BIG, chunk_of, outputs_of, publish, range_of, snapshot_of
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_topics import make, put, remove
from tests.support.standing_by import WAIT_S, Standby, standby_of, until

pytestmark = pytest.mark.slow
# More than a collection takes turns with.
APPENDS = 20
# A busy machine leaves a holder no word for longer than a beat takes; and it beats for twice as long.
TAKEOVER_MS = 5_000
BEATS = 12


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    """A silence tells nothing in here: an owner that closes says so."""
    return Prefix(broker, "bare_key=yes&takeover_ms=600000")


def standing_by(prefix: Prefix) -> AbstractAsyncContextManager[Standby]:
    return standby_of(open_kafka(prefix.place()))


async def kept_up(ledger: Ledger) -> None:
    """Returns once what a collection has replaced is deleted."""
    assert isinstance(ledger, KafkaLedger)
    await ledger.keep_up()


async def test_a_standby_reads_on_and_fences_nobody(prefix: Prefix) -> None:
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
        assert await entries(owner.ledger) == [b"a", b"b", b"c"]


async def test_who_stands_by_makes_and_deletes_no_namespace(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        async with open_kafka(prefix.place()) as ledgers, ledgers.follow("default"):
            with pytest.raises(Recovering, match="owns the ledgers; nothing was written"):
                await ledgers.create("mail")
            with pytest.raises(Recovering, match="owns the ledgers; nothing was written"):
                await ledgers.delete("default")


async def test_an_owner_that_closes_is_followed_at_once_with_all_that_it_wrote(prefix: Prefix) -> None:
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
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]
        with pytest.raises(LedgerFenced):
            owner.require_owner()
    finally:
        await following.__aexit__(None, None, None)


async def test_of_two_standbys_one_takes_over_and_the_other_goes_on(prefix: Prefix) -> None:
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
    # The gateway that had won is gone with its last namespace.
    assert await entries((await other.opened()).ledger) == [b"a", b"b"]
    await followings[1 - won].__aexit__(None, None, None)


class Contender:
    """A gateway that stands by, takes over, writes for as long as it owns the ledger, and stands by again."""

    def __init__(self, prefix: Prefix) -> None:
        self._prefix = prefix
        self.taken_over = self.written = 0
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with open_kafka(self._prefix.place()) as ledgers:
            while True:
                with suppress(LedgerFenced, LedgerDown, LedgerFull):
                    async with ledgers.follow("default") as followed:
                        await self._own(followed)

    async def _own(self, followed: Followed) -> None:
        async with aclosing(followed.batches) as batches:
            async for _ in batches:
                pass
        opened, self.taken_over = followed.opened(), self.taken_over + 1
        while True:
            await opened.ledger.append([b"again"], [])
            self.written += 1


async def test_two_standbys_do_not_take_the_ledger_from_each_other_in_turns(broker: Broker) -> None:
    """One has it for several times as long as a standby waits for who is silent; the other one sees it beat."""
    prefix = Prefix(broker, f"bare_key=yes&takeover_ms={TAKEOVER_MS}")
    listed = NamespaceList({"bootstrap_servers": broker.cluster.bootstrap}, prefix.name, Deadlines())
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        contenders = [Contender(prefix) for _ in range(2)]
    try:
        async with asyncio.timeout(WAIT_S):
            while max(beat.number for beat in [Beat(), *(await listed.refresh()).beats.values()]) < BEATS:
                assert sum(one.taken_over for one in contenders) <= 1, "the one takes it from the other"
                assert not any(one.task.done() for one in contenders)
        taken_over, written = zip(*[(one.taken_over, one.written) for one in contenders], strict=True)
        assert (sorted(taken_over), listed.listed.holder.term) == ([0, 1], 2)
        assert min(written) == 0 < max(written)
    finally:
        for one in contenders:
            one.task.cancel()
        await asyncio.wait([one.task for one in contenders])
        await listed.close()


async def test_of_two_gateways_that_start_at_once_the_first_takes_nothing_back(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each opens one namespace after the other; the first is followed before it has looked who owns them."""
    monkeypatch.setattr(election, "LOOK_S", 2 * WAIT_S)
    async with open_kafka(prefix.place(), create=True) as first, open_kafka(prefix.place()) as second:
        await first.create("mail")
        async with first.open("default") as older, second.open("default") as newer:
            for namespace in ("mail", "default"):
                with pytest.raises(LedgerFenced, match="owns the ledgers now; nothing was written"):
                    async with first.open(namespace):
                        pass
            async with second.open("mail") as mail:
                await mail.ledger.append([b"a"], [])
            await newer.ledger.append([b"b"], [])
            with pytest.raises(LedgerFenced):
                await older.ledger.append([b"by the older"], [])
            assert await entries(newer.ledger) == [b"b"]


async def test_a_collection_by_the_owner_changes_nothing_for_who_has_read_it(prefix: Prefix) -> None:
    numbers = range(2, 2 + APPENDS)
    bodies = [b"%d" % number for number in numbers]
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [range_of(1, 2), publish(0, 1)])
        following = standing_by(prefix)
        standby = await following.__aenter__()
        await standby.has_read(b"a")
        # The frame that names the snapshot repeats what changes while the catalog is written.
        compacting = asyncio.create_task(owner.ledger.compact(1, snapshot_of(b"state")))
        for number, body in zip(numbers, bodies, strict=True):
            await owner.ledger.append([body], [range_of(number, 2), publish(2 * (number - 1), number)])
        await compacting
        await owner.ledger.append([b"z"], [])
        await standby.has_read(b"a", *bodies, b"z")
        assert standby.followed.compacted() == 1
        await kept_up(owner.ledger)
    opened = await standby.opened()
    assert opened.compacted == 1
    assert await entries(opened.ledger) == [b"state", *bodies, b"z"]
    expected = [chunk_of(2 * (number - 1), range_of(number, 2)) for number in (1, *numbers)]
    assert await outputs_of(opened).fetch("t", 0, 0, 999, BIG) == expected
    await following.__aexit__(None, None, None)


async def test_a_standby_that_is_trimmed_from_under_begins_again(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        async with open_kafka(prefix.place()) as ledgers:
            async with ledgers.follow("default") as followed:
                assert [bytes(one.body) for one in await anext(followed.batches)] == [b"a"]
                # It looks no further until it is asked again.
                for body in (b"b", b"c"):
                    await owner.ledger.append([body], [])
                await owner.ledger.compact(3, snapshot_of(b"state"))
                await kept_up(owner.ledger)
                with pytest.raises(LedgerDown, match="followed anew"):
                    await anext(followed.batches)
            async with ledgers.follow("default") as followed:
                assert [bytes(one.body) for one in await anext(followed.batches)] == [b"state"]
                await followed.batches.aclose()
        owner.require_owner()


async def test_who_was_not_chosen_takes_no_generation(prefix: Prefix) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        async with open_kafka(prefix.place()) as ledgers, ledgers.follow("default"):
            with pytest.raises(LedgerFenced, match="owns the ledgers now; nothing was written"):
                async with ledgers.open("default"):
                    pass
        await owner.ledger.append([b"b"], [])


@asynccontextmanager
async def waiting(prefix: Prefix) -> AsyncIterator[tuple[Followed, OpenLedger, AsyncExitStack]]:
    """A standby that has read `a` and looks no further until it is asked; the owner, and what closes it."""
    async with open_kafka(prefix.place(), create=True) as ledgers, AsyncExitStack() as stack:
        owner = await stack.enter_async_context(prefix.opened())
        await owner.ledger.append([b"a"], [])
        async with ledgers.follow("default") as followed:
            assert [bytes(one.body) for one in await anext(followed.batches)] == [b"a"]
            yield followed, owner, stack
            await followed.batches.aclose()


async def test_what_came_after_the_last_look_is_given_too(prefix: Prefix) -> None:
    async with waiting(prefix) as (followed, owner, going):
        await owner.ledger.append([b"b", b"c"], [range_of(1, 3)])
        await owner.ledger.append([b"d"], [publish(0, 1)])
        await going.aclose()
        await until(lambda: not followed.standing())
        assert [bytes(one.body) async for batch in followed.batches for one in batch] == [b"b", b"c", b"d"]
        opened = followed.opened()
        assert opened.ledger.mark.position == 4
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]


async def test_a_standby_holds_the_ledger_against_its_witness(prefix: Prefix, broker: Broker) -> None:
    async with waiting(prefix) as (followed, _, going):
        ahead = {"serial": 99, "position": 98, "chain": base64.b64encode(bytes(16)).decode()}
        put(broker, f"{prefix.name}.namespaces", f"w/{prefix.name}.default/1/7", ahead)
        await going.aclose()
        await until(lambda: not followed.standing())
        with pytest.raises(LedgerDamaged, match="its witness saw frame 99"):
            await anext(followed.batches)


async def test_a_transaction_that_its_owner_left_open_holds_nobody_up(prefix: Prefix, broker: Broker) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [])
        dying = AIOKafkaProducer(
            bootstrap_servers=broker.cluster.bootstrap, transactional_id=f"{prefix.name}.default/1/{owner.epoch}"
        )
        await dying.start()
        await dying.begin_transaction()
        await dying.send_and_wait(prefix.frames, b"never committed", partition=0)
        async with standing_by(prefix) as standby:
            await standby.has_read(b"a")
            assert not standby.task.done()
    async with standing_by(prefix) as standby:
        opened = await standby.opened()
        assert await entries(opened.ledger) == [b"a"]
    with suppress(KafkaError):
        await dying.stop()


async def test_what_a_standby_has_read_does_not_vouch_for_a_topic_that_lost_it(prefix: Prefix, broker: Broker) -> None:
    async with waiting(prefix) as (followed, _, going):
        remove(broker, prefix.frames)
        make(broker, prefix.frames)
        await going.aclose()
        await until(lambda: not followed.standing())
        with pytest.raises(LedgerDamaged, match="was made anew"):
            await anext(followed.batches)
