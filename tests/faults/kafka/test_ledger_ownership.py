"""Appends of a ledger on Kafka whose outcome is lost or late, brokers that go away, and successive owners."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress

import pytest
from aiokafka.errors import KafkaConnectionError

from oncegate.core.errors import LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.frames import End
from oncegate.ledgers.kafka.namespaces import KafkaListed, NamespaceTopic
from oncegate.ledgers.kafka.shard.blobs import PART_BYTES
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate.ledgers.server import election
from oncegate.ledgers.server.namespaces import Decide
from oncegate.testing.ledger_places import BIG, chunk_of, outputs_of, publish, range_of, snapshot_of
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_proxy import DELETE_RECORDS, END_TXN, INIT_PRODUCER_ID, PRODUCE, KafkaProxy

pytestmark = pytest.mark.slow


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


async def test_an_append_whose_answer_is_lost_is_found_written(prefix: Prefix, proxy: KafkaProxy) -> None:
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        proxy.lose_answer(END_TXN)
        mark = await opened.ledger.append([b"b"], [range_of(2, 4), publish(0, 1, 2)])
        assert (mark.position, await entries(opened.ledger)) == (2, [b"a", b"b"])
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [
            chunk_of(0, range_of(1, 3)),
            chunk_of(3, range_of(2, 4)),
        ]
        await opened.ledger.append([b"c"], [])
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]


async def test_an_append_that_the_broker_never_ended_is_refused_and_stays_unwritten(
    prefix: Prefix, proxy: KafkaProxy
) -> None:
    async with prefix.opened(proxied=True) as opened:
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"a"], [range_of(1, 3)])
        proxy.release()
        await opened.ledger.append([b"b"], [range_of(1, 3), publish(0, 1)])
        await opened.ledger.append([b"c"], [])
        assert await entries(opened.ledger) == [b"b", b"c"]
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"b", b"c"]


async def test_a_collection_whose_answer_is_lost_is_found_written(prefix: Prefix, proxy: KafkaProxy) -> None:
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        await opened.ledger.append([b"b"], [])
        # The first end is that of the snapshot, the second that of the catalog; the third of the frame that names them.
        proxy.lose_answer(END_TXN, after=2)
        await opened.ledger.compact(1, snapshot_of(b"state"))
        assert await entries(opened.ledger) == [b"state", b"b"]
        await opened.ledger.append([b"c"], [publish(0, 1)])
    async with prefix.opened() as opened:
        assert opened.history.compacted == 1
        assert await entries(opened.ledger) == [b"state", b"b", b"c"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]


async def test_of_two_gateways_that_open_at_once_one_owns_the_ledger(prefix: Prefix) -> None:
    async def owned(name: bytes, go_on: asyncio.Event, done: list[bytes]) -> None:
        try:
            async with prefix.opened() as opened:
                await opened.ledger.append([name], [])
                done.append(name)
                await go_on.wait()
                await opened.ledger.append([name + b" again"], [])
                done.append(name + b" again")
        except (LedgerFenced, LedgerFull, LedgerDown):
            go_on.set()

    async with prefix.opened() as opened:
        await opened.ledger.append([b"before"], [])
    go_on, done = asyncio.Event(), list[bytes]()
    tasks = [asyncio.create_task(owned(name, go_on, done)) for name in (b"one", b"two")]
    await asyncio.wait(tasks, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    go_on.set()
    await asyncio.gather(*tasks)
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"before", *done]
    assert len({name.split()[0] for name in done if name.endswith(b"again")}) == 1


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


async def test_an_owner_in_doubt_that_was_followed_leaves_its_successor_alone(
    prefix: Prefix, proxy: KafkaProxy
) -> None:
    async with prefix.opened(proxied=True) as older:
        await older.ledger.append([b"by the older"], [])
        proxy.hold(END_TXN, cut=True)
        appending = asyncio.create_task(older.ledger.append([b"in doubt"], []))
        await proxy.held.wait()
        # The older owner asks for the outcome, and its request arrives after its successor's.
        proxy.hold(INIT_PRODUCER_ID)
        async with prefix.opened() as newer:
            await newer.ledger.append([b"by the newer"], [])
            proxy.release()
            with pytest.raises((LedgerFenced, LedgerDown)):
                await appending
            await newer.ledger.append([b"and on"], [])
            assert await entries(newer.ledger) == [b"by the older", b"by the newer", b"and on"]


@pytest.mark.parametrize("before_its_own", [1, 0], ids=["as it ends the one before", "as it starts its own"])
async def test_a_gateway_that_slept_between_its_number_and_its_producer_owns_nothing(
    prefix: Prefix, proxy: KafkaProxy, before_its_own: int
) -> None:
    """The list that it read before it started its own producer does not show later owners."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
    # The list's producer is started first, twice if the topics are new; then the one of the previous generation.
    sleeping = asyncio.create_task(opened_and_appended(prefix))
    proxy.hold(INIT_PRODUCER_ID, after=2 - before_its_own)
    await proxy.held.wait()
    async with prefix.opened() as newer:
        await newer.ledger.append([b"b"], [])
        proxy.release()
        with pytest.raises((LedgerFenced, LedgerFull, LedgerDown)):
            await sleeping
        await newer.ledger.append([b"c"], [])
        assert await entries(newer.ledger) == [b"a", b"b", b"c"]


async def opened_and_appended(prefix: Prefix) -> None:
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"by the sleeper"], [])


@pytest.fixture
def collected() -> Iterator[None]:
    """Only the garbage collector closes a connection that aiokafka was opening when its broker died."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("collected")
async def test_a_gateway_that_is_overtaken_while_it_takes_its_number_does_not_take_the_others(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway reads the list after its own change, and finds the change of its successor."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
    change, others = NamespaceTopic.change, []
    async with AsyncExitStack() as stack:

        async def overtaken(listed: NamespaceTopic, decide: Decide[KafkaListed]) -> None:
            await change(listed, decide)
            monkeypatch.setattr(NamespaceTopic, "change", change)
            others.append(await stack.enter_async_context(prefix.opened()))
            await listed.refresh()

        monkeypatch.setattr(NamespaceTopic, "change", overtaken)
        with pytest.raises(LedgerFenced):
            async with prefix.opened():
                pass
        await others[0].ledger.append([b"b"], [])
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b"]


async def test_an_append_in_doubt_after_a_frame_of_several_records_is_decided(
    prefix: Prefix, proxy: KafkaProxy
) -> None:
    """Two of them fit in one batch."""
    large = bytes(PART_BYTES + 10_000)
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([large], [])
        proxy.lose_answer(END_TXN)
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [large, b"b"]


async def test_records_replaced_and_deleted_by_a_newer_owner_are_no_damage(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the missing records reveal the newer owner: no check of ownership runs in the meantime."""
    monkeypatch.setattr(election, "LOOK_S", 600.0)
    async with prefix.opened() as first:
        await first.ledger.append([b"a"], [])
        async with prefix.opened() as second:
            await second.ledger.append([b"b"], [])
            await second.ledger.compact(2, snapshot_of(b"state"))
            await second.ledger.keep_up()  # type: ignore[attr-defined]
            with pytest.raises(LedgerFenced):
                await entries(first.ledger)
            await second.ledger.append([b"c"], [])


async def test_a_mark_stays_what_it_was_once_the_frame_that_gave_it_was_deleted(prefix: Prefix) -> None:
    async with prefix.opened() as opened:
        mark = await opened.ledger.append([b"a"], [])
        await opened.ledger.compact(1, snapshot_of(b"state"))
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
    async with prefix.opened() as again:
        assert again.ledger.mark == mark
        assert (await again.ledger.append([b"b"], [])).position == 2
    async with prefix.opened() as again:
        assert await entries(again.ledger) == [b"state", b"b"]


async def test_compacted_records_are_deleted_after_a_deletion_that_failed(
    prefix: Prefix, broker: Broker, proxy: KafkaProxy
) -> None:
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"a"], [])
        proxy.lose(DELETE_RECORDS)
        await opened.ledger.compact(1, snapshot_of(b"state"))
        for _ in range(2):
            await opened.ledger.keep_up()  # type: ignore[attr-defined]
        assert proxy.struck[DELETE_RECORDS] == 1
        assert broker.low(prefix.frames) > 0


async def test_unavailable_brokers_are_reported_and_written_to_again_when_they_are_back(
    prefix: Prefix, broker: Broker
) -> None:
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        # Read, so that its markers exist: a broker that dies before it writes them may forget them.
        assert await entries(opened.ledger) == [b"a"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == []
        broker.cluster.kill_node(1)
        try:
            for _ in range(2):
                with pytest.raises(LedgerFull, match="nothing was written"):
                    await opened.ledger.append([b"b"], [])
        finally:
            broker.cluster.start_node(1)
        await opened.ledger.append([b"c"], [publish(0, 1)])
        opened.require_owner()
        assert await entries(opened.ledger) == [b"a", b"c"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]


async def test_an_append_that_the_broker_does_not_take_in_time_is_refused(prefix: Prefix, proxy: KafkaProxy) -> None:
    async with prefix.opened(proxied=True) as opened:
        proxy.hold(PRODUCE)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"a"], [])
        proxy.release()
        await opened.ledger.append([b"b"], [])
        assert await entries(opened.ledger) == [b"b"]


async def test_an_append_that_is_sent_again_over_another_connection_is_written_once(
    prefix: Prefix, proxy: KafkaProxy
) -> None:
    async with prefix.opened(proxied=True) as opened:
        proxy.lose_answer(PRODUCE)
        await opened.ledger.append([b"a"], [range_of(1, 3)])
        proxy.lose_answer(PRODUCE, after=1)
        await opened.ledger.append([b"b"], [range_of(2, 3)])
        await opened.ledger.append([b"c"], [publish(0, 1)])
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a", b"b", b"c"]
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 3))]


async def test_a_late_copy_of_an_append_is_never_written(prefix: Prefix, proxy: KafkaProxy) -> None:
    """Brokers refuse it, and may then refuse the producer's next batch; that is reported, and the next append
    succeeds."""
    async with prefix.opened(proxied=True) as opened:
        proxy.hold(PRODUCE, cut=True)
        await opened.ledger.append([b"a"], [])
        proxy.release()
        taken = [b"a"]
        with suppress(LedgerFull):
            await opened.ledger.append([b"b"], [])
            taken.append(b"b")
        await opened.ledger.append([b"c"], [])
        assert await entries(opened.ledger) == [*taken, b"c"]


async def test_an_opening_that_ends_before_its_witness_is_written_leaves_the_older_one(
    prefix: Prefix, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without either, a truncated ledger would be taken for whole."""
    async with prefix.opened() as opened:
        await opened.ledger.append([b"a"], [])
    settings = {"bootstrap_servers": broker.cluster.bootstrap}

    async def witnesses() -> dict[int, End]:
        listed = NamespaceTopic(settings, prefix.name, Deadlines())
        (found,) = (await listed.refresh()).witnesses.values()
        await listed.close()
        return found

    before = await witnesses()

    async def lost(*_: object) -> None:
        raise KafkaConnectionError("its connection is cut")

    with monkeypatch.context() as patch:
        patch.setattr(NamespaceTopic, "witness", lost)
        with pytest.raises(LedgerDown):
            async with prefix.opened():
                pass
    assert await witnesses() == before
    async with prefix.opened() as opened:
        assert await entries(opened.ledger) == [b"a"]
    assert list(await witnesses()) > list(before)


async def test_first_writes_to_the_list_at_once_leave_no_connection_behind(prefix: Prefix, broker: Broker) -> None:
    async with prefix.opened():
        pass
    listed = NamespaceTopic({"bootstrap_servers": broker.cluster.bootstrap}, prefix.name, Deadlines())
    await asyncio.gather(*(listed.beat(gateway, None) for gateway in "abc"))
    await listed.close()
    # An unclosed producer issues a warning when it is collected, and that fails the test.
    gc.collect()
