"""Batches in flight while leaders change and answers arrive: each is written once, in order."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, OperationNotAttempted, TransactionalIdAuthorizationFailed
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest

from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import record_batches
from oncegate.ledgers.kafka.transactions import producer as producers
from oncegate.ledgers.kafka.transactions.producer import Producer
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Watch
from tests.support.memory_gateway import run_ready_tasks, wait_until

ONE, OTHER = Partition("rows", 0), Partition("rows", 1)


class Brokers:
    """Replaces a client: the test answers requests and chooses the leader."""

    def __init__(self, *_: object) -> None:
        self.leader = 1
        # Node, partitions and the answer of each produce request.
        self.asked: list[tuple[int, list[int], asyncio.Future[Any]]] = []
        self.adding = asyncio.Event()
        self.adding.set()
        self.added = 0
        # The error of each added partition.
        self.add_code = 0

    async def bootstrap(self) -> None: ...

    async def drop(self) -> None: ...

    async def force_metadata_update(self) -> None: ...

    async def partitions_of(self, _: str) -> set[int]:
        return {0, 1}

    def leader_of(self, _: Partition) -> int:
        return self.leader

    async def coordinator_lookup(self, *_: object) -> int:
        return 1

    async def ready(self, *_: object, **__: object) -> bool:
        return True

    async def send(self, node: int, request: Any, **_: object) -> Any:
        if isinstance(request, AddPartitionsToTxnRequest):
            self.added += 1
            await self.adding.wait()
            topics = request.prepare({24: (0, 0)}).get_item("topics")
            return SimpleNamespace(errors=[(topic, [(one, self.add_code) for one in ones]) for topic, ones in topics])
        if not isinstance(request, ProduceRequest):
            return SimpleNamespace(error_code=0, producer_id=7, producer_epoch=0)
        ((_topic, parts),) = request.prepare({0: (7, 7)}).get_item("topics")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append((node, [number for number, _ in parts], answer))
        return await answer

    def answer(self, request: int, offset: int, code: int = 0) -> None:
        _, numbers, answer = self.asked[request]
        answer.set_result(SimpleNamespace(topics=[("rows", [(number, code, offset, -1, 0) for number in numbers])]))


def batch(partition: Partition) -> Batch:
    (encoded,) = record_batches([(None, b"row")])
    return Batch(partition, encoded)


async def started(monkeypatch: pytest.MonkeyPatch, transactional_id: str | None) -> tuple[Producer, Brokers]:
    brokers = Brokers()
    monkeypatch.setattr(producers, "Client", lambda *_: brokers)
    producer = Producer(Watch({}), {}, transactional_id)
    await producer.start()
    return producer, brokers


async def test_a_batch_on_its_way_is_not_sent_to_the_next_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    producer, brokers = await started(monkeypatch, None)
    first, second = await producer.send(batch(ONE)), await producer.send(batch(ONE))
    await wait_until(lambda: len(brokers.asked) == 1)
    brokers.leader = 2
    other = await producer.send(batch(OTHER))
    await wait_until(lambda: len(brokers.asked) == 2)
    assert [(node, numbers) for node, numbers, _ in brokers.asked] == [(1, [0]), (2, [1])]
    brokers.answer(1, 5)
    brokers.answer(0, 3)
    await wait_until(lambda: len(brokers.asked) == 3)
    brokers.answer(2, 4)
    assert [await first, await second, await other] == [3, 4, 5]
    await producer.drop()


async def test_a_batch_that_is_answered_while_another_partition_is_added_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer, brokers = await started(monkeypatch, "id")
    first = await producer.send(batch(ONE))
    await wait_until(lambda: len(brokers.asked) == 1)
    brokers.adding.clear()
    other = await producer.send(batch(OTHER))
    await wait_until(lambda: brokers.added == 2)
    brokers.answer(0, 3)
    assert await first == 3
    brokers.adding.set()
    await wait_until(lambda: len(brokers.asked) == 2)
    assert brokers.asked[1][1] == [1]
    brokers.answer(1, 9)
    assert await other == 9
    await producer.drop()


async def test_a_partition_that_is_being_added_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    producer, brokers = await started(monkeypatch, "id")
    first, second = await producer.send(batch(ONE)), await producer.send(batch(ONE))
    await wait_until(lambda: len(brokers.asked) == 1)
    brokers.adding.clear()
    other = await producer.send(batch(OTHER))
    await wait_until(lambda: brokers.added == 2)
    brokers.answer(0, 3)
    await run_ready_tasks()
    assert [numbers for _, numbers, _ in brokers.asked] == [[0], [0]]
    brokers.answer(1, 4)
    assert [await first, await second] == [3, 4]
    brokers.adding.set()
    await wait_until(lambda: len(brokers.asked) == 3)
    brokers.answer(2, 9)
    assert await other == 9
    await producer.drop()


async def test_a_partition_that_the_coordinator_did_not_add_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    producer, brokers = await started(monkeypatch, "id")
    brokers.add_code = OperationNotAttempted.errno
    refused = await producer.send(batch(ONE))
    await wait_until(lambda: refused.done() or brokers.asked)
    assert brokers.asked == []
    with pytest.raises(OperationNotAttempted):
        await refused
    await producer.drop()


async def test_a_leader_that_refuses_the_transactional_id_is_reported_with_the_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer, brokers = await started(monkeypatch, "shard-7")
    refused = await producer.send(batch(ONE))
    await wait_until(lambda: brokers.asked)
    brokers.answer(0, -1, TransactionalIdAuthorizationFailed.errno)
    with pytest.raises(TransactionalIdAuthorizationFailed) as raised:
        await refused
    assert raised.value.args == ("shard-7",)
    await producer.drop()


@pytest.mark.parametrize("transactional_id", [None, "id"])
async def test_an_unexpected_error_fails_what_is_queued_and_what_comes_later(
    monkeypatch: pytest.MonkeyPatch, transactional_id: str | None
) -> None:
    producer, brokers = await started(monkeypatch, transactional_id)

    async def send(*_: object, **__: object) -> None:
        raise NotImplementedError("this version of the request is gone")

    monkeypatch.setattr(brokers, "send", send)
    first, other = await producer.send(batch(ONE)), await producer.send(batch(OTHER))
    for failed in (first, other):
        with pytest.raises(KafkaError, match="this version of the request is gone"):
            await asyncio.wait_for(failed, 20)
    with pytest.raises(KafkaError, match="this version of the request is gone"):
        await producer.send(batch(ONE))
    await producer.drop()


async def test_a_producer_that_was_dropped_takes_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    producer, brokers = await started(monkeypatch, "id")
    queued = await producer.send(batch(ONE))
    await wait_until(lambda: brokers.asked)
    await producer.drop()
    for failed in (queued, producer.send(batch(ONE))):
        with pytest.raises(KafkaConnectionError, match="closed"):
            await failed
    assert len(brokers.asked) == 1
