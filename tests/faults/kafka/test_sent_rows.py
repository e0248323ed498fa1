"""Rows that a ledger sends to users' topics in the transaction of its frame, with faults."""

import asyncio
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from oncegate.core.errors import LedgerDamaged, LedgerFull, NotFound, TooLarge
from oncegate.ports import AppendRefused, RowTopics
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_proxy import END_TXN, KafkaProxy
from tests.support.kafka_sends import range_of, sent, table_of
from tests.support.kafka_topics import configure

pytestmark = pytest.mark.slow


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


async def test_rows_whose_commit_is_not_answered_are_there_once(
    prefix: Prefix, proxy: KafkaProxy, broker: Broker
) -> None:
    partition, staged, direct = broker.topic(), range_of("a", "b"), range_of("c")
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"staged"], [staged])
        proxy.lose_answer(END_TXN)
        await opened.ledger.append(
            [b"committed"], [sent(partition.topic, staged), direct, sent(partition.topic, direct)]
        )
        assert await entries(opened.ledger) == [b"staged", b"committed"]
    assert broker.committed(partition) == [b"a", b"b", b"c"]


async def test_rows_whose_commit_never_came_are_not_there_and_may_be_sent_again(
    prefix: Prefix, proxy: KafkaProxy, broker: Broker
) -> None:
    partition, staged = broker.topic(), range_of("a", "b")
    async with prefix.opened(proxied=True) as opened:
        await opened.ledger.append([b"staged"], [staged])
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"committed"], [sent(partition.topic, staged)])
        proxy.release()
        await opened.ledger.append([b"again"], [sent(partition.topic, staged)])
    assert broker.committed(partition) == [b"a", b"b"]


async def test_a_stage_that_was_deleted_is_damage_and_no_row_is_seen(prefix: Prefix, broker: Broker) -> None:
    partition, whole, gone = broker.topic(), range_of("a", "b"), range_of("c")
    async with prefix.opened() as opened:
        await opened.ledger.append([b"staged"], [gone])
        await opened.ledger.append([b"staged"], [whole])
        cut = TopicPartition(f"{prefix.name}.default.stages", 0, broker.low(f"{prefix.name}.default.stages") + 1)
        broker.admin.delete_records([cut])[cut].result(WAIT_S)
        with pytest.raises(LedgerDamaged, match=r"put topic .* back from a copy"):
            await opened.ledger.append([b"committed"], [sent(partition.topic, whole, gone)])
    async with prefix.opened() as opened:
        await opened.ledger.append([b"the next owner"], [])
        assert broker.committed(partition) == []


async def test_a_topic_that_is_not_there_refuses_its_rows_and_no_others(prefix: Prefix, broker: Broker) -> None:
    there, staged, other = broker.topic(), range_of("a"), range_of("b")
    async with prefix.opened() as opened:
        await opened.ledger.append([b"staged"], [staged])
        with pytest.raises(AppendRefused, match="no Kafka topic 'nowhere'") as refused:
            await opened.ledger.append([b"committed"], [sent("nowhere", staged)])
        assert isinstance(refused.value.refusal, NotFound)
        await opened.ledger.append([b"another"], [other, sent(there.topic, other)])
        # The waiting range is still there, for the right topic. The refusal, which a caller may still hold, holds
        # nothing that reading needs.
        async with asyncio.timeout(WAIT_S):
            await opened.ledger.append([b"committed"], [sent(there.topic, staged)])
        assert refused.value.__cause__ is not None
    assert broker.committed(there) == [b"b", b"a"]


async def test_rows_that_a_topic_takes_no_more_are_named_in_their_group_and_the_others_are_taken(
    prefix: Prefix, broker: Broker
) -> None:
    small, there = broker.topic(), broker.topic()
    large, other = range_of("x" * 10_000), range_of("b")
    async with prefix.opened() as opened:
        topics = row_topics_of(opened)
        await topics.check(small.topic, table_of("x").schema, table_of("x").to_batches())
        configure(broker, small.topic, "max.message.bytes", "2000")
        group = [other, sent(there.topic, other), large, sent(small.topic, large)]
        with pytest.raises(AppendRefused, match=rf"raise max\.message\.bytes of topic {small.topic}") as refused:
            await opened.ledger.append([b"another", b"refused"], group)
        assert isinstance(refused.value.refusal, TooLarge)
        assert refused.value.first_output == 3
        # The topic is asked about again, and no further transaction uses it.
        with pytest.raises(TooLarge, match=r"max\.message\.bytes=2000"):
            await topics.check(small.topic, table_of("x").schema, table_of("x").to_batches())
        await topics.check(there.topic, table_of("x").schema, table_of("x").to_batches())
        await opened.ledger.append([b"another"], group[:2])
        assert await entries(opened.ledger) == [b"another"]
    assert (broker.committed(small), broker.committed(there)) == ([], [b"b"])


def row_topics_of(opened: Any) -> RowTopics:
    assert opened.topics.rows is not None
    return opened.topics.rows
