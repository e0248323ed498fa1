"""Transactions of a guard on a real broker: refused batches, lost answers, newer producers, cancelled callers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer, __version__
from aiokafka.errors import KafkaError

from deploy.ports import free_port
from oncegate.ledgers.kafka.client import Client, Session
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import Field, Records, encode, record_batches
from oncegate.ledgers.kafka.transactions.ends import Fenced, InDoubt, NotStarted, NotWritten
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Deadlines, Watch
from tests.support.kafka_broker import Broker
from tests.support.kafka_proxy import END_TXN, KafkaProxy
from tests.support.memory_gateway import wait_until

pytestmark = pytest.mark.slow
# The largest batch that the topic "small" accepts, and a larger one.
SMALL_BYTES = 2_000
LARGE = b"x" * 3 * SMALL_BYTES
LONG = Deadlines(start_ms=30_000, send_ms=3_000, commit_ms=10_000, transaction_ms=90_000)
QUICK = Deadlines(start_ms=30_000, send_ms=3_000, commit_ms=3_000, transaction_ms=20_000)

_names = count()


def new_id() -> str:
    return f"shard-{next(_names)}"


@asynccontextmanager
async def started(bootstrap: str, transactional_id: str, deadlines: Deadlines = QUICK) -> AsyncIterator[Guard]:
    guard = Guard({"bootstrap_servers": bootstrap}, transactional_id, deadlines)
    await guard.start()
    try:
        yield guard
    finally:
        await guard.close()


def batch(partition: Partition, *values: bytes) -> Batch:
    (encoded,) = record_batches([(None, value) for value in values])
    return Batch(partition, encoded)


async def test_committed_records_are_read_at_the_returned_offsets(broker: Broker) -> None:
    flights, delays = broker.topic(), broker.topic()
    async with started(broker.cluster.bootstrap, new_id()) as guard:
        assert await guard.commit([batch(flights, b"a", b"b"), batch(delays, b"c")]) == [0, 0]
        # The marker of the first transaction has an offset of its own.
        assert await guard.commit([batch(flights, b"d")]) == [3]
    assert (broker.committed(flights), broker.committed(delays)) == ([b"a", b"b", b"d"], [b"c"])


async def test_records_by_columns_are_read_with_keys_headers_and_times(broker: Broker) -> None:
    flights = broker.topic()
    data = np.frombuffer(b"JFKdeparted", np.uint8)
    one, none = np.ones(1, np.int64), np.full(1, -1, np.int64)
    key, value = Field(data, 0 * one, 3 * one), Field(data, 3 * one, 8 * one)
    headers = [("from", key), ("to", Field(data, 0 * one, none))]
    (encoded,) = encode(Records(1_795_000_000_000 * one, key, value, headers))
    async with started(broker.cluster.bootstrap, new_id()) as guard:
        await guard.commit([Batch(flights, encoded)])
    (message,) = broker.messages(flights)
    assert (message.key(), message.value(), message.timestamp()[1]) == (b"JFK", b"departed", 1_795_000_000_000)
    assert message.headers() == [("from", b"JFK"), ("to", None)]


async def test_a_transaction_of_which_one_batch_is_refused_is_not_written_at_all(broker: Broker) -> None:
    flights, small = broker.topic(), broker.topic(**{"max.message.bytes": str(SMALL_BYTES)})
    async with started(broker.cluster.bootstrap, new_id()) as guard:
        with pytest.raises(NotWritten) as refused:
            await guard.commit([batch(flights, b"a"), batch(small, LARGE)])
        assert refused.value.culprits == (small,)
        assert guard.closed
        with pytest.raises(RuntimeError, match="start another"):
            await guard.commit([batch(flights, b"a")])
    async with started(broker.cluster.bootstrap, guard.transactional_id) as next_one:
        await next_one.commit([batch(flights, b"b")])
    assert (broker.committed(flights), broker.committed(small)) == ([b"b"], [])


async def test_aiokafka_alone_commits_the_rest_of_what_was_refused(broker: Broker) -> None:
    """The reason for the guard. If this test fails, aiokafka has fixed it."""
    flights, small = broker.topic(), broker.topic(**{"max.message.bytes": str(SMALL_BYTES)})
    async with AIOKafkaProducer(bootstrap_servers=broker.cluster.bootstrap, transactional_id=new_id()) as producer:
        await producer.begin_transaction()
        await producer.send(flights.topic, b"a")
        refused = await producer.send(small.topic, LARGE)
        await producer.commit_transaction()
        assert isinstance(refused.exception(), KafkaError)
    assert (broker.committed(flights), broker.committed(small)) == ([b"a"], [])


async def test_a_commit_whose_answer_is_lost_is_in_doubt_and_sent_once(broker: Broker, proxy: KafkaProxy) -> None:
    flights = broker.topic()
    async with started(broker.proxied_bootstrap, new_id()) as guard:
        proxy.lose_answer(END_TXN)
        with pytest.raises(InDoubt):
            await guard.commit([batch(flights, b"a")])
    assert proxy.seen[END_TXN] == 1
    async with started(broker.cluster.bootstrap, guard.transactional_id):
        assert broker.committed(flights) == [b"a"], "the broker had it: the next start finds it decided"


async def test_aiokafka_alone_sends_a_commit_again_whose_answer_is_lost(broker: Broker, proxy: KafkaProxy) -> None:
    flights = broker.topic()
    async with AIOKafkaProducer(bootstrap_servers=broker.proxied_bootstrap, transactional_id=new_id()) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(flights.topic, b"a")
        proxy.lose_answer(END_TXN)
        await producer.commit_transaction()
    assert proxy.seen[END_TXN] >= 2


async def test_a_commit_that_comes_late_commits_nothing_of_its_successor(broker: Broker, proxy: KafkaProxy) -> None:
    flights = broker.topic()
    async with started(broker.proxied_bootstrap, new_id()) as guard:
        proxy.hold(END_TXN, cut=True)
        with pytest.raises(InDoubt):
            await guard.commit([batch(flights, b"a")])
    async with started(broker.cluster.bootstrap, guard.transactional_id) as successor:
        assert broker.committed(flights) == [], "aborted by the start"
        await successor.commit([batch(flights, b"b")])
        proxy.release()
        await successor.commit([batch(flights, b"c")])
    assert broker.committed(flights) == [b"b", b"c"]


async def test_a_newer_producer_of_the_same_id_fences_an_older_one(broker: Broker) -> None:
    flights, transactional_id = broker.topic(), new_id()
    async with started(broker.cluster.bootstrap, transactional_id) as older:
        await older.commit([batch(flights, b"a")])
        async with started(broker.cluster.bootstrap, transactional_id) as newer:
            with pytest.raises(Fenced):
                await older.commit([batch(flights, b"b")])
            await newer.commit([batch(flights, b"c")])
    assert broker.committed(flights) == [b"a", b"c"]


async def test_a_commit_continues_when_its_caller_disconnects(broker: Broker, proxy: KafkaProxy) -> None:
    flights = broker.topic()
    async with started(broker.proxied_bootstrap, new_id(), Deadlines()) as guard:
        proxy.hold(END_TXN)
        caller = asyncio.create_task(guard.commit([batch(flights, b"a")]))
        await proxy.held.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        proxy.release()
        await guard.commit([batch(flights, b"b")])
    assert broker.committed(flights) == [b"a", b"b"]


async def test_a_transaction_is_sent_for_as_long_as_its_batches_are_answered(broker: Broker) -> None:
    flights = broker.topic()
    values = [b"a", b"b", b"c"]
    async with started(broker.cluster.bootstrap, new_id(), LONG) as guard:
        await guard.commit(apart(flights, values, LONG.send_ms * 2 / 3))
    assert broker.committed(flights) == values


async def test_a_transaction_ends_before_the_broker_aborts_it_and_names_the_deciding_timeouts(broker: Broker) -> None:
    flights = broker.topic()
    short = replace(LONG, send_ms=1_500, transaction_ms=LONG.commit_ms + 2_000)
    async with started(broker.cluster.bootstrap, new_id(), short) as guard:
        with pytest.raises(NotWritten, match=r"within 2000 ms \(transaction_ms - commit_ms\): raise them"):
            await guard.commit(apart(flights, [b"a"] * 1_000, 200))
    assert broker.committed(flights) == []


async def apart(partition: Partition, values: Sequence[bytes], pause_ms: float) -> AsyncIterator[Batch]:
    """Yields a batch of each value, with a pause before it."""
    loop = asyncio.get_running_loop()
    for value in values:
        begins_s = loop.time() + pause_ms / 1_000
        await wait_until(lambda begins_s=begins_s: loop.time() >= begins_s)
        yield batch(partition, value)


async def test_a_broker_that_stops_answering_ends_a_commit_in_its_time(broker: Broker) -> None:
    flights = broker.topic()
    async with started(broker.cluster.bootstrap, new_id()) as guard:
        broker.cluster.pause_node(1)
        try:
            with pytest.raises(NotWritten) as refused:
                await guard.commit([batch(flights, b"a")])
        finally:
            broker.cluster.resume_node(1)
        assert refused.value.culprits == (flights,)
    async with started(broker.cluster.bootstrap, guard.transactional_id):
        assert broker.committed(flights) == []


async def test_brokers_that_are_not_there_end_a_start_in_its_time() -> None:
    nobody = free_port()
    guard = Guard({"bootstrap_servers": f"127.0.0.1:{nobody}"}, "shard", QUICK)
    with pytest.raises((KafkaError, OSError, TimeoutError)):
        await guard.start()
    assert guard.closed


async def test_a_transaction_longer_than_brokers_let_one_take_is_refused_in_words(broker: Broker) -> None:
    guard = Guard({"bootstrap_servers": broker.cluster.bootstrap}, new_id(), replace(LONG, transaction_ms=900_001))
    with pytest.raises(NotStarted, match=r"lower transaction_ms, or raise their transaction\.max\.timeout\.ms"):
        await guard.start()


def test_the_broker_never_aborts_what_is_still_waited_for() -> None:
    with pytest.raises(ValueError, match="longer than send_ms and commit_ms"):
        Deadlines(send_ms=20_000, commit_ms=10_000, transaction_ms=30_000)


async def test_aiokafka_is_the_one_whose_inside_the_client_knows() -> None:
    settings = {"bootstrap_servers": "localhost:9092"}
    client, session = Client(settings, Watch(settings)), Session("localhost", 9092)
    assert __version__ == "0.14.0"
    assert (client._conns, client._sync_task, session._writer, session._versions) == ({}, None, None, {})
    assert (len(session._requests), session._next_correlation_id()) == (0, 1)
    assert all(map(callable, (client._md_synchronizer, client._wait_on_metadata, client._on_connection_closed)))
