"""Brokers that forget markers in users' topics: an owner and an opener write those of committed rows, and no others."""

import asyncio
from typing import Any

import pytest

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.kafka.rows import partitions
from oncegate.ledgers.server import ledgers
from oncegate.testing.ledger_places import snapshot_of
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_guards import started
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_log import forget_markers
from tests.support.kafka_proxy import END_TXN, KafkaProxy
from tests.support.kafka_sends import range_of, sent

pytestmark = [
    pytest.mark.slow,
    # Only the garbage collector closes a connection that aiokafka was opening when its broker died.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compiles the kernels as a gateway does before it serves: a transaction's deadline leaves no time for it."""
    partitions.warm_up()


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


def is_open(broker: Broker, topic: str) -> bool:
    return len(set(broker.ends(topic))) > 1


async def send(prefix: Prefix, topic: str, *values: str) -> None:
    async with prefix.opened() as opened:
        rows = range_of(*values)
        await opened.ledger.append([b"rows"], [rows, sent(topic, rows)])
        await completed(opened)


async def completed(opened: Any) -> None:
    """Appends once more: otherwise a coordinator still writing earlier markers would write them again after its
    restart."""
    await opened.ledger.append([b"more"], [])


async def test_an_opener_writes_them_in_every_topic_that_frames_name(prefix: Prefix, broker: Broker) -> None:
    first, second = broker.topic(), broker.topic()
    async with prefix.opened() as opened:
        for topic, values in ((first.topic, "ab"), (second.topic, "cd")):
            rows = range_of(*values)
            await opened.ledger.append([b"rows"], [rows, sent(topic, rows)])
        await completed(opened)
    forget_markers(broker, prefix.frames, first.topic, second.topic)
    async with prefix.opened() as opened:
        assert (broker.committed(first), broker.committed(second)) == ([b"a", b"b"], [b"c", b"d"])
        assert await entries(opened.ledger) == [b"rows", b"rows", b"more"]


async def test_an_owner_writes_them_without_an_append(prefix: Prefix, broker: Broker) -> None:
    partition, rows = broker.topic(), range_of("a")
    async with prefix.opened() as opened:
        await opened.ledger.append([b"rows"], [rows, sent(partition.topic, rows)])
        await completed(opened)
        await asyncio.to_thread(forget_markers, broker, partition.topic)
        async with asyncio.timeout(WAIT_S):
            while await asyncio.to_thread(is_open, broker, partition.topic):
                await opened.ledger.keep_up()
        assert broker.committed(partition) == [b"a"]
        more = range_of("b")
        await opened.ledger.append([b"more"], [more, sent(partition.topic, more)])
    assert broker.committed(partition) == [b"a", b"b"]


async def test_markers_left_open_by_one_opener_are_written_by_the_next(prefix: Prefix, broker: Broker) -> None:
    partition = broker.topic()
    await send(prefix, partition.topic, "a")
    forget_markers(broker, partition.topic)
    async with started(broker.settings(), f"{prefix.name}.default/1/1"):
        assert is_open(broker, partition.topic), "a start alone heals nothing"
    async with prefix.opened():
        assert broker.committed(partition) == [b"a"]


async def test_what_several_starts_have_hidden_is_named_and_stops_no_ledger(
    prefix: Prefix, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    partition = broker.topic()
    await send(prefix, partition.topic, "a")
    forget_markers(broker, partition.topic)
    for _ in range(2):
        async with started(broker.settings(), f"{prefix.name}.default/1/1"):
            pass
    async with prefix.opened() as opened:
        await opened.ledger.append([b"another"], [])
        assert is_open(broker, partition.topic)
    assert f"{partition.topic}-0, offset 0" in caplog.text
    assert "nothing proves whether it was committed" in caplog.text


async def test_rows_of_an_aborted_transaction_are_never_shown(
    prefix: Prefix, proxy: KafkaProxy, broker: Broker
) -> None:
    partition, kept, lost = broker.topic(), range_of("a"), range_of("b")
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"rows"], [kept, sent(partition.topic, kept)])
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"lost"], [lost, sent(partition.topic, lost)])
        proxy.release()
    forget_markers(broker, partition.topic)
    assert is_open(broker, partition.topic)
    for _ in range(2):
        async with prefix.opened() as opened:
            assert await entries(opened.ledger) == [b"rows"]
            assert broker.committed(partition) == [b"a"]
            assert not is_open(broker, partition.topic), "readers continue after them"


async def test_an_owner_gives_up_what_it_has_aborted_itself(
    prefix: Prefix, proxy: KafkaProxy, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No upkeep runs before the marker is lost.
    monkeypatch.setattr(ledgers, "KEEP_UP_S", 600.0)
    partition, kept, lost = broker.topic(), range_of("a"), range_of("b")
    async with prefix.opened(proxied=True) as opened:
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"lost"], [lost, sent(partition.topic, lost)])
        proxy.release()
        await asyncio.to_thread(forget_markers, broker, partition.topic)
        async with asyncio.timeout(WAIT_S):
            while await asyncio.to_thread(is_open, broker, partition.topic):
                await opened.ledger.keep_up()
        await opened.ledger.append([b"rows"], [kept, sent(partition.topic, kept)])
    assert broker.committed(partition) == [b"a"]


async def test_what_frames_may_have_named_that_were_deleted_is_never_given_up(
    prefix: Prefix, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    partition, rows = broker.topic(), range_of("a")
    async with prefix.opened() as opened:
        await opened.ledger.append([b"rows"], [rows, sent(partition.topic, rows)])
        await completed(opened)
        await opened.ledger.compact(opened.ledger.mark.position, snapshot_of(b"state"))
        await completed(opened)
    forget_markers(broker, partition.topic)
    for _ in range(2):
        async with started(broker.settings(), f"{prefix.name}.default/1/1"):
            pass
    async with prefix.opened():
        assert is_open(broker, partition.topic)
    assert "nothing proves whether it was committed" in caplog.text


async def test_a_later_commit_shows_no_rows_that_were_aborted_before_it(
    prefix: Prefix, proxy: KafkaProxy, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit ends all open records of its transactional id, so an aborted transaction's id is not used again."""
    # No upkeep drops the rows before that commit.
    monkeypatch.setattr(ledgers, "KEEP_UP_S", 600.0)
    partition, kept, lost, more = broker.topic(), range_of("a"), range_of("b"), range_of("c")
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"rows"], [kept, sent(partition.topic, kept)])
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"lost"], [lost, sent(partition.topic, lost)])
        proxy.release()
        await asyncio.to_thread(forget_markers, broker, partition.topic)
        await opened.ledger.append([b"more"], [more, sent(partition.topic, more)])
        assert broker.committed(partition) == [b"a"], "readers wait where the marker was"
        async with asyncio.timeout(WAIT_S):
            while await asyncio.to_thread(is_open, broker, partition.topic):
                await opened.ledger.keep_up()
        assert broker.committed(partition) == [b"a", b"c"]
        assert await entries(opened.ledger) == [b"rows", b"more"]


async def test_a_topic_that_was_deleted_is_forgotten(prefix: Prefix, broker: Broker) -> None:
    partition = broker.topic()
    await send(prefix, partition.topic, "a")
    broker.admin.delete_topics([partition.topic])[partition.topic].result(WAIT_S)
    async with prefix.opened() as opened:
        await opened.ledger.append([b"more"], [])
    assert partition.topic not in broker.admin.list_topics(timeout=WAIT_S).topics, "it was not recreated"
