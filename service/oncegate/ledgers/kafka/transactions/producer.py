"""Writes record batches with Kafka's own requests, with or without transactions.

Replaces aiokafka's producer, which commits a transaction despite a refused batch, sends EndTxn again in the same epoch
if its answer is lost, and cannot be closed without flushing.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NotCoordinatorError,
    OperationNotAttempted,
    ProducerFenced,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from oncegate.clock import sleep_s
from oncegate.ledgers.kafka.client import NO_LEADER, Client
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Watch

# Retry delay while a leader or coordinator is being elected.
_BACKOFF_S = 0.1
# Retry delay while the last transaction's markers are being written, which takes some milliseconds.
_MARKERS_S = 0.001
# Timeout of a broker for replicating a batch.
_REPLICAS_MS = 30_000
_AGAIN = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ConcurrentTransactions,
    NotCoordinatorError,
    UnknownTopicOrPartitionError,
)


class Producer:
    """Writes batches in order within each partition, with at most one request in flight to each broker.

    `watch`: receives connections and answers. `settings`: aiokafka's arguments for connections and security. With a
    `transactional_id`, batches belong to a transaction. Retriable errors are retried forever: the caller sets the
    timeout. Call `start` first and `drop` last.
    """

    def __init__(
        self, watch: Watch, settings: Mapping[str, Any], transactional_id: str | None = None, transaction_ms: int = 0
    ) -> None:
        self._client = Client(settings, watch)
        self._id = transactional_id
        self._transaction_ms = transaction_ms
        self._coordinator: int | None = None
        self._producer_id = self._epoch = -1
        self._sequences: dict[Partition, int] = {}
        # Partitions added to the transaction at the coordinator.
        self._added: set[Partition] = set()
        self._queues: dict[Partition, deque[tuple[bytearray, asyncio.Future[int]]]] = {}
        # Brokers with a request in flight, and the partitions whose first batch is in it.
        self._busy: set[int] = set()
        self._sent: set[Partition] = set()
        self._is_adding = False
        # The error that `send` raises from now on.
        self._stopped: KafkaError | None = None
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connects, then fences every earlier producer of the same id and ends its transaction. Raises KafkaError."""
        await self._client.bootstrap()
        if self._id is not None:
            answer = await self._ask_coordinator(
                InitProducerIdRequest(self._id, self._transaction_ms), lambda answer: [answer.error_code]
            )
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._spawn(self._pump())

    async def partitions_of(self, topic: str) -> set[int]:
        """Returns the partition numbers of a topic. Raises KafkaError: the topic does not exist or is hidden."""
        return await self._client.partitions_of(topic)

    async def send(self, batch: Batch) -> "asyncio.Future[int]":
        """Queues a batch; the future resolves to its first offset, or −1 if the broker did not return it.

        Raises KafkaError: the topic does not exist or is hidden, or the producer was dropped or has failed. Nothing
        was sent.
        """
        partition, count = batch.partition, batch.encoded.record_count()
        await self._client.partitions_of(partition.topic)
        if self._stopped is not None:
            raise self._stopped
        sequence = -1
        if self._id is not None:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = sequence + count
        data = batch.encoded.of_producer(self._producer_id, self._epoch, sequence)
        future = asyncio.get_running_loop().create_future()
        self._queues.setdefault(partition, deque()).append((data, future))
        self._wake.set()
        return future

    async def end(self) -> None:
        """Commits the transaction with one EndTxn, without retries; sends nothing if the transaction is empty.

        Raises ProducerFenced, TransactionalIdAuthorizationFailed: not committed. Effect unknown when another
        KafkaError is raised.
        """
        if self._added:
            self._added.clear()
            request = EndTxnRequest(self._id, self._producer_id, self._epoch, True)
            node = await self._found_coordinator()
            answer = await self._client.send(node, request, group=ConnectionGroup.COORDINATION)
            self._require(for_code(answer.error_code))

    async def drop(self) -> None:
        """Closes connections and tasks without flushing; the outcome of unanswered batches is unknown."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._stop(KafkaConnectionError("the producer was closed"))
        await self._client.drop()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        """Stops the producer if a task failed unexpectedly."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._stop(KafkaError(repr(error)))

    def _stop(self, why: KafkaError) -> None:
        """Fails all queued and later batches."""
        self._stopped = self._stopped or why
        for queue in self._queues.values():
            self._fail(queue, why)

    async def _pump(self) -> None:
        """Sends the first queued batch of each partition to each leader that has no request in flight."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            queued = [partition for partition, queue in self._queues.items() if queue]
            ready = [one for one in queued if self._id is None or one in self._added]
            if len(ready) < len(queued) and not self._is_adding:
                self._is_adding = True
                self._spawn(self._add([one for one in queued if one not in self._added]))
            by_node: dict[int, list[Partition]] = {}
            # A batch in flight to a former leader is not sent to the new one.
            for partition in [one for one in ready if one not in self._sent]:
                by_node.setdefault(self._client.leader_of(partition), []).append(partition)
            for node, partitions in by_node.items():
                if node not in self._busy:
                    self._busy.add(node)
                    self._sent.update(partitions)
                    self._spawn(self._produce(node, partitions))

    async def _add(self, partitions: list[Partition]) -> None:
        """Adds partitions to the transaction, while batches for already added partitions are sent."""
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        request = AddPartitionsToTxnRequest(self._id, self._producer_id, self._epoch, list(topics.items()))
        try:
            answer = await self._ask_coordinator(request, _codes_of, _BACKOFF_S if self._added else _MARKERS_S)
            refused = {topic for topic, errors in answer.errors for _, code in errors if _is_refused(code)}
            if refused:
                raise TopicAuthorizationFailedError(refused)
            if OperationNotAttempted.errno in (code for _, errors in answer.errors for _, code in errors):
                raise OperationNotAttempted
            self._added.update(partitions)
        except KafkaError as error:
            for partition in partitions:
                self._fail(self._queues[partition], error)
        self._is_adding = False
        self._wake.set()

    async def _ask_coordinator(self, request: Any, codes_of: Any, markers_s: float = _BACKOFF_S) -> Any:
        """Retries a request to the coordinator until it succeeds; returns the answer.

        `markers_s`: retry delay while the markers of an earlier transaction are being written.
        """
        while True:
            try:
                node = await self._found_coordinator()
                answer = await self._client.send(node, request, group=ConnectionGroup.COORDINATION)
            except KafkaError as error:
                if not error.retriable:
                    raise
                kinds: list[type[KafkaError]] = [type(error)]
            else:
                kinds = [kind for code in codes_of(answer) if (kind := for_code(code)) in _AGAIN]
                if not kinds:
                    for code in codes_of(answer):
                        self._require(for_code(code))
                    return answer
            if ConcurrentTransactions in kinds:
                await sleep_s(markers_s)
                continue
            self._coordinator = None
            await self._client.force_metadata_update()
            await sleep_s(_BACKOFF_S)

    async def _found_coordinator(self) -> int:
        while self._coordinator is None:
            try:
                node = await self._client.coordinator_lookup(CoordinationType.TRANSACTION, self._id)
                if await self._client.ready(node, group=ConnectionGroup.COORDINATION):
                    self._coordinator = node
                    break
            except TransactionalIdAuthorizationFailed as error:
                raise TransactionalIdAuthorizationFailed(self._id) from error
            except (CoordinatorNotAvailableError, NodeNotReadyError, RequestTimedOutError):
                await self._client.force_metadata_update()
            await sleep_s(_BACKOFF_S)
        return self._coordinator

    def _require(self, kind: type[KafkaError]) -> None:
        if kind.errno:
            raise self._error(kind)

    def _error(self, kind: type[KafkaError], *named: str) -> KafkaError:
        """Returns the error for an error code; an invalid epoch means that a newer producer has the id."""
        if kind is InvalidProducerEpoch:
            return ProducerFenced()
        return kind(self._id) if kind is TransactionalIdAuthorizationFailed else kind(*named)

    async def _produce(self, node: int, partitions: list[Partition]) -> None:
        """Sends the first batch of each partition to its leader; batches to be retried stay queued."""
        topics: dict[str, list[tuple[int, bytearray]]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append((number, self._queues[Partition(topic, number)][0][0]))
        is_late = node == NO_LEADER
        try:
            if is_late:
                raise LeaderNotAvailableError
            answer = await self._client.send(node, ProduceRequest(self._id, -1, _REPLICAS_MS, list(topics.items())))
            for topic, answered in answer.topics:
                for number, code, offset, *_ in answered:
                    is_late |= not self._answered(Partition(topic, number), for_code(code), offset)
        except KafkaError as error:
            is_late = error.retriable
            for partition in [] if is_late else partitions:
                self._fail(self._queues[partition], error)
        if is_late:
            await sleep_s(_BACKOFF_S)
            await self._client.force_metadata_update()
        self._busy.discard(node)
        self._sent.difference_update(partitions)
        self._wake.set()

    def _answered(self, partition: Partition, kind: type[KafkaError], offset: int) -> bool:
        """Handles the answer for a batch; returns False if it must be sent again."""
        if not self._queues[partition]:
            return True  # the whole queue has failed meanwhile
        if kind is not DuplicateSequenceNumber and kind.errno:
            if kind.retriable:
                return False
            self._fail(self._queues[partition], self._error(kind, partition.topic))
            return True
        # For a duplicate, the broker already has the batch, and may return −1 as its offset.
        _, future = self._queues[partition].popleft()
        if not future.done():
            future.set_result(offset)
        return True

    def _fail(self, queue: deque[tuple[bytearray, asyncio.Future[int]]], error: KafkaError) -> None:
        """Fails all batches of a queue: after a gap in the sequence, brokers would refuse the rest."""
        while queue:
            _, future = queue.popleft()
            if not future.done():
                future.set_exception(error)
                future.exception()


def _codes_of(answer: Any) -> list[int]:
    """Returns the partitions' error codes except those that `_add` handles: unauthorized, and not attempted."""
    codes = [code for _, errors in answer.errors for _, code in errors]
    return [code for code in codes if not _is_refused(code) and code != OperationNotAttempted.errno]


def _is_refused(code: int) -> bool:
    return bool(code == TopicAuthorizationFailedError.errno)
