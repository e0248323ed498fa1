"""The topic of lanes: created with the others or at the next opening, detected if it is missing, read to its end."""

from typing import Any

import pytest
from msgspec.structs import replace

from oncegate.core.errors import LedgerDamaged, LedgerFull
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.testing.ledger_places import replayed
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_ledger import Prefix

pytestmark = pytest.mark.slow


def deleted(broker: Broker, topic: str) -> None:
    broker.admin.delete_topics([topic])[topic].result(WAIT_S)


async def test_a_namespace_from_before_there_were_lanes_gets_their_topic_at_its_next_opening(broker: Broker) -> None:
    prefix = Prefix(broker)
    topic = f"{prefix.name}.default.direct"
    async with open_kafka(prefix.place(), create=True) as ledgers:
        listed = ledgers._list
        await listed.change(lambda known: [("n/default", replace(known.namespaces["default"], direct=False))])
    deleted(broker, topic)
    async with prefix.opened() as opened:
        assert opened.topics.direct is not None
        assert len(broker.admin.list_topics(topic, WAIT_S).topics[topic].partitions) == opened.topics.direct.partitions
        assert await opened.topics.direct.read(3, 0) == []
        assert await replayed(opened.ledger) is not None
    deleted(broker, topic)
    with pytest.raises(LedgerDamaged, match=f"{topic} of namespace default are missing"):
        async with prefix.opened():
            pass


async def test_a_namespace_may_be_called_as_anothers_topic_of_lanes(broker: Broker) -> None:
    prefix = Prefix(broker)
    async with prefix.ledgers(create=True) as ledgers:
        for name in ("orders.direct", "orders"):
            await ledgers.create(name)
        async with ledgers.open("orders") as opened:
            assert opened.topics.direct is not None
            assert opened.topics.direct.place(1, 0).topic == f"{prefix.name}.orders.direct"


async def test_missing_records_or_a_recreated_topic_are_damage_and_a_closed_ledger_reads_nothing(
    broker: Broker,
) -> None:
    prefix = Prefix(broker)
    async with prefix.opened() as opened:
        assert opened.topics.direct is not None
        with pytest.raises(LedgerDamaged, match="has offsets 0 to 0, and those from 5 on"):
            await opened.topics.direct.read(1, 5)
        place = opened.topics.direct.place(7, 3)
        assert place.transactional_id == f"{prefix.name}.default/1/direct/7"
        for number in range(3):
            broker_write(broker, place.topic, str(number).encode())
        assert [value for _, value in await opened.topics.direct.read(0, 0)] == [b"0", b"1", b"2"]
        await opened.topics.direct.trim({0: 2})
        assert await opened.topics.direct.read(0, 2) == [(2, b"2")]
        with pytest.raises(LedgerDamaged, match="has offsets 2 to 3, and those from 1 on"):
            await opened.topics.direct.read(0, 1)
    with pytest.raises(LedgerFull):
        await opened.topics.direct.read(0, 2)


async def test_a_reading_that_comes_while_the_ledger_is_closed_is_refused(broker: Broker) -> None:
    """A read would open a connection that nothing closes."""
    refused: list[LedgerFull] = []
    async with Prefix(broker).opened() as opened:
        direct: Any = opened.topics.direct
        assert await direct.read(0, 0) == []
        (reader,) = direct._readers.values()
        stop = reader.stop

        async def stopping() -> None:
            with pytest.raises(LedgerFull) as raised:
                await direct.read(1, 0)
            refused.append(raised.value)
            await stop()

        reader.stop = stopping
    assert len(refused) == 1


def broker_write(broker: Broker, topic: str, value: bytes) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap, "log_level": 0})
    producer.produce(topic, value, partition=0)
    producer.flush(WAIT_S)
