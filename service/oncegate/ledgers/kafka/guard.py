"""Guards transactions that go through aiokafka: each is committed, or not written, or said to be in doubt.

aiokafka alone commits a transaction of which a batch was refused, and sends EndTxn again on the same epoch when its
answer is lost, by which brokers before KIP-890's clients show records that nobody committed. So a guard is one producer
under one transactional id for as long as every transaction ends well. After any other end it is closed, with nothing
flushed, and its owner starts the next one, under an id of its own.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from aiokafka.producer import sender as aiokafka_sender

from oncegate.ledgers.kafka.watch import DEFAULT_DEADLINES, Deadlines, Watch

# aiokafka waits 20 ms where the markers of the last transaction are still being written, ten times what they take.
aiokafka_sender.BACKOFF_OVERRIDE = 0.001
# What is on its way at most, of all partitions together, beside the batch that is handed over next.
IN_FLIGHT_BYTES = 16 << 20
# For how long a producer may write nothing: brokers forget its transactional id after days (seven, if nothing is set).
IDLE_S = 3_600.0
# What a producer that is closed may take to let go of its sockets.
CLOSE_S = 2.0
# What a task of aiokafka's may take to end by itself: after an error it pauses for 0.1 s.
TASK_S = 0.5
_PORT_HINT = "if they are up, check that security_protocol is the port's"


class Partition(NamedTuple):
    """Names a partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Carries records for one partition: `encoded` is what `AIOKafkaProducer.send_batch` takes."""

    partition: Partition
    encoded: Any


Batches = Sequence[Batch] | AsyncIterable[Batch]
Then = Callable[[list[int]], Sequence[Batch]]


class NotWritten(Exception):
    """Nothing of the transaction is ever visible; `culprits`: the partitions that refused it or did not answer."""

    def __init__(self, why: str, culprits: Sequence[Partition] = ()) -> None:
        super().__init__(why)
        self.culprits = tuple(culprits)


class Fenced(NotWritten):
    """Nothing was written, and nothing will be: a newer producer has this transactional id."""


class Refused(NotWritten):
    """Nothing was written, and nothing will be before an operator does what the text says.

    A right is missing, or brokers and client do not trust one another. `culprits`: where a topic's right is missing.
    """


class Throttled(NotWritten):
    """Nothing was written: a quota made the brokers too slow. A later try may pass; the text says what mends it."""


class RecordTooLarge(NotWritten):
    """Nothing was written: a partition does not take so much at once. The text says which limit; others take theirs."""


class NotStarted(KafkaError):  # type: ignore[misc]
    """The brokers refuse this producer until an operator does what the text says.

    It says nothing of a transaction before: one in doubt is so still.
    """


class InDoubt(Exception):
    """Unknown whether the transaction was committed: a start under the same id decides it, reading then tells it."""


class Guard:
    """Commits transactions of batches under one transactional id, one at a time, until one of them ends badly.

    `settings`: what `AIOKafkaProducer` takes of connections and security. Use `start` first and `close` last.
    `in_flight_bytes`: what is sent and not answered, at most; one batch may be larger.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        transactional_id: str,
        deadlines: Deadlines = DEFAULT_DEADLINES,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
    ) -> None:
        if not __debug__:
            raise RuntimeError("aiokafka keeps its transactions in order by assert: run Python without -O")
        self.transactional_id = transactional_id
        self._deadlines = deadlines
        self._in_flight_bytes = in_flight_bytes
        self._producer = AIOKafkaProducer(
            transactional_id=transactional_id, transaction_timeout_ms=deadlines.transaction_ms, acks="all", **settings
        )
        self._watch = Watch(settings)
        self._tell_watch()
        # Until it has started, and after a bad end.
        self.closed = True
        self._turn = asyncio.Lock()
        self._ends_sent = 0
        self._used_s = 0.0

    async def start(self) -> None:
        """Fences every producer before this one of the same id, whose open transaction is decided by that.

        A start that returns does not prove that this is the newest producer: a commit does.

        Raises, and is closed then:
            NotStarted: the brokers refuse it: a password, a certificate or a right is missing; the text says which.
            KafkaError, OSError, TimeoutError: they cannot be reached, or fail.
        """
        until = asyncio.get_running_loop().time() + self._deadlines.start_ms / 1000
        try:
            with self._watch.connecting():
                async with self._watch.until(until):
                    await self._producer.start()
        except BaseException as error:
            await self.close()
            if (refusal := self._watch.refusal(error)) is not None:
                raise NotStarted(str(refusal)) from error
            if isinstance(error, KafkaConnectionError) and self._watch.has_reached:
                raise KafkaConnectionError(f"brokers hang up before they answer: {_PORT_HINT}") from error
            raise
        self._end_once()
        self._used_s = asyncio.get_running_loop().time()
        self.closed = False

    @property
    def is_worn(self) -> bool:
        """Whether the next transaction needs another producer: it was closed, has lost a broker, or was idle for long.

        A broker that was started again may have forgotten the last transaction's markers, and an abort of the next one
        would then take the last one along.
        """
        is_forgotten = asyncio.get_running_loop().time() > self._used_s + IDLE_S
        return self.closed or self._watch.has_been_cut or is_forgotten

    async def commit(self, batches: Batches, then: Then = lambda _: ()) -> list[int]:
        """Writes the batches as one transaction; the offset of the first record of each, −1 where it was not told.

        Batches that come one after the other are taken as those before them are answered, so that they need not be in
        memory together; what their iterator raises ends the transaction as NotWritten does, and is raised as it is.
        `then` is told the offsets of `batches` and returns more, which are written behind them in the same transaction;
        a NotWritten that it raises ends the transaction as such. It goes on to its end when the caller is cancelled.

        Raises:
            NotWritten, Fenced, Refused, Throttled: definite: nothing of it is ever visible once the next guard has
                started.
            InDoubt: unknown. After each of these this guard is closed.
            RuntimeError: it was closed before; nothing was sent.
        """
        return await _uncancelled(self._commit(batches, then))

    async def close(self) -> None:
        """Drops the producer's connections, with nothing flushed; an open transaction is left to the next start."""
        self.closed = True
        await dropped(self._producer)

    async def _commit(self, batches: Batches, then: Then) -> list[int]:
        async with self._turn:
            if self.closed:
                raise RuntimeError(f"the producer {self.transactional_id} was closed: start another one")
            try:
                offsets = await self._write(batches, then)
                await self._end()
                self._used_s = asyncio.get_running_loop().time()
            except BaseException:
                await self.close()
                raise
            return offsets

    async def _write(self, batches: Batches, then: Then) -> list[int]:
        self._ends_sent = 0
        self._watch.begin()
        last = asyncio.get_running_loop().time() + self._deadlines.sending_ms / 1000
        offsets = await self._send(batches, last, begin=True)
        return offsets + await self._send(then(offsets), last)

    async def _send(self, batches: Batches, last: float, *, begin: bool = False) -> list[int]:
        """Each batch's own outcome: a commit would go through without it."""
        send_s = self._deadlines.send_ms / 1000
        sending = _Sending(self._in_flight_bytes, lambda: self._watch.goes_on(send_s, last))
        try:
            async with self._watch.until(min(asyncio.get_running_loop().time() + send_s, last)):
                if begin:
                    await self._producer.begin_transaction()
                async for batch in each_of(batches):
                    await sending.room_for(batch)
                    topic, number = batch.partition
                    sending.add(batch, await self._producer.send_batch(batch.encoded, topic, partition=number))
                return await sending.offsets()
        except ProducerFenced as error:
            raise Fenced(f"a newer producer has {self.transactional_id}") from error
        except (KafkaError, OSError, TimeoutError, AssertionError) as error:
            raise self._not_written(error, sending) from error

    def _not_written(self, error: Exception, sending: "_Sending") -> NotWritten:
        if (refusal := self._watch.refusal(error)) is not None:
            return Refused(f"not written: {refusal}", sending.partitions(refusal.topics))
        if self._watch.is_lost:
            return NotWritten("not written: a connection was cut before the transaction began")
        if isinstance(error, MessageSizeTooLargeError):
            return sending.too_large()
        if isinstance(error, TimeoutError) and self._watch.is_throttled:
            return Throttled(f"not written in {self._deadlines.send_ms} ms: {self._watch.quota()}")
        if isinstance(error, TimeoutError) and sending.answered_bytes:
            return NotWritten(f"not written: {sending.progress(self._deadlines)}", sending.culprits())
        return NotWritten(f"not written: {error!r}", sending.culprits())

    async def _end(self) -> None:
        until = asyncio.get_running_loop().time() + self._deadlines.commit_ms / 1000
        try:
            async with self._watch.until(until):
                await self._producer.commit_transaction()
        except BaseException as error:
            if self._ends_sent <= 1 and isinstance(error, ProducerFenced):
                raise Fenced(f"a newer producer has {self.transactional_id}") from error
            if self._ends_sent <= 1 and isinstance(error, TransactionalIdAuthorizationFailed):
                named = TransactionalIdAuthorizationFailed(self.transactional_id)
                raise Refused(f"not written: {self._watch.refusal(named)}") from error
            why = self._watch.refusal(error) or repr(error)
            raise InDoubt(f"unknown whether it was committed: {why}") from error

    def _tell_watch(self) -> None:
        """Lets the watch know what aiokafka is told and does not hand on."""
        client, transaction = self._producer.client, self._producer._txn_manager
        send, error_transaction = client.send, transaction.error_transaction

        async def sent(*request: Any, **group: Any) -> Any:
            self._watch.require()
            answer = await send(*request, **group)
            self._watch.answered(answer)
            return answer

        def refused(error: Exception) -> None:
            error_transaction(error)
            self._watch.refused(error)

        client.send, transaction.error_transaction = sent, refused

    def _end_once(self) -> None:
        """Keeps aiokafka from sending a second EndTxn in one transaction, whatever became of the first one's answer."""
        sender = self._producer._sender
        send_end = sender._do_txn_commit

        async def once(committed: object) -> None:
            self._ends_sent += 1
            if self._ends_sent > 1:
                raise KafkaError("the answer to EndTxn is lost, and it is not sent again")
            await send_end(committed)

        sender._do_txn_commit = once


class _Sending:
    """What of a transaction is on its way: a future for each batch, and the bytes of those without an answer."""

    def __init__(self, bytes_max: int, goes_on: Callable[[], None]) -> None:
        self._bytes_max = bytes_max
        self._goes_on = goes_on
        self.answered_bytes = 0
        self._sent: list[tuple[Partition, asyncio.Future[Any]]] = []
        self._sizes: list[int] = []
        self._unanswered: dict[asyncio.Future[Any], int] = {}
        self._next: Partition | None = None

    async def room_for(self, batch: Batch) -> None:
        """Waits until it fits beside what is unanswered; raises what a batch before was refused with."""
        self._next = batch.partition
        while self._unanswered and sum(self._unanswered.values()) + batch.encoded.size() > self._bytes_max:
            answered, _ = await asyncio.wait(self._unanswered, return_when=asyncio.FIRST_COMPLETED)
            for future in answered:
                del self._unanswered[future]
                future.result()

    def add(self, batch: Batch, future: "asyncio.Future[Any]") -> None:
        """Takes a batch that was handed over."""
        self._sent.append((batch.partition, future))
        self._sizes.append(batch.encoded.size())
        self._unanswered[future] = batch.encoded.size()
        self._next = None
        future.add_done_callback(lambda done: self._answered(done, batch.encoded.size()))

    def _answered(self, future: "asyncio.Future[Any]", size_bytes: int) -> None:
        if not _failed(future):
            self.answered_bytes += size_bytes
            self._goes_on()

    def progress(self, deadlines: Deadlines) -> str:
        """Says how far it came, and what lets a transaction take longer."""
        return (
            f"after {self.answered_bytes} bytes no batch was answered within send_ms={deadlines.send_ms}, or not all "
            f"within {deadlines.sending_ms} ms (transaction_ms - commit_ms): raise them, or write smaller batches"
        )

    async def offsets(self) -> list[int]:
        """Waits for all answers; the first offset of each batch."""
        return [told.offset for told in await asyncio.gather(*(future for _, future in self._sent))]

    def partitions(self, topics: Collection[str]) -> list[Partition]:
        """The partitions of these topics that were handed over, or were to be next."""
        all_of_them = [*(partition for partition, _ in self._sent), *([] if self._next is None else [self._next])]
        return [partition for partition in dict.fromkeys(all_of_them) if partition.topic in topics]

    def too_large(self) -> RecordTooLarge:
        """Says which batch was refused for its size, and by what; those without an answer have refused nothing."""
        answers = zip(self._sent, self._sizes, strict=True)
        refused = [(partition, size) for (partition, future), size in answers if _is_too_large(future)]
        (topic, number), size_bytes = refused[0]
        why = (
            f"not written: a batch of {size_bytes} bytes is more than {topic}-{number} takes: raise "
            f"max.message.bytes of topic {topic} (without one message.max.bytes of the brokers counts), or write "
            "smaller records; what is written without it is taken"
        )
        return RecordTooLarge(why, list(dict.fromkeys(partition for partition, _ in refused)))

    def culprits(self) -> list[Partition]:
        """The partitions that refused a batch or did not answer; else the one whose batch was not handed over."""
        failed = [partition for partition, future in self._sent if _failed(future)]
        return list(dict.fromkeys(failed)) or ([] if self._next is None else [self._next])


async def each_of(batches: Batches) -> AsyncIterator[Batch]:
    """Yields the batches in their order, whether they are all there or come one after the other."""
    if isinstance(batches, AsyncIterable):
        async for batch in batches:
            yield batch
    else:
        for batch in batches:
            yield batch


async def dropped(producer: AIOKafkaProducer) -> None:
    """Drops a producer's connections and tasks, with nothing flushed; what waits for it is not answered."""
    producer._closed = True  # nothing public closes without a flush
    for connection in list(producer.client._conns.values()):
        connection.close()
    sending = producer._sender.sender_task
    if sending is not None:
        await _end(sending)
    transaction = producer._txn_manager.wait_for_transaction_end()
    if transaction is not None:
        _failed(transaction)
    # What a fenced producer leaves in its queue, whose errors are asked for by nobody.
    for batches in producer._message_accumulator._batches.values():
        for batch in batches:
            _failed(batch._drain_waiter)
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await producer.client.close()


async def _end(sending: "asyncio.Task[None]") -> None:
    """Ends aiokafka's task: cancelled once it waits for its own tasks, of which one may wait for ever."""
    for _ in range(2):
        sending.cancel()
        await asyncio.wait({sending}, timeout=TASK_S)
    _failed(sending)


def _failed(future: "asyncio.Future[Any]") -> bool:
    """Whether a batch was refused, or not answered; takes its error, so that nothing is logged of it."""
    return not future.done() or future.cancelled() or future.exception() is not None


def _is_too_large(future: "asyncio.Future[Any]") -> bool:
    """Whether a batch was answered, and refused for its size."""
    return future.done() and not future.cancelled() and isinstance(future.exception(), MessageSizeTooLargeError)


async def _uncancelled(work: Coroutine[Any, Any, list[int]]) -> list[int]:
    """Waits for `work`; a caller that is cancelled does not stop it, and what it raises then is taken."""
    task = asyncio.create_task(work)
    task.add_done_callback(_failed)
    return await asyncio.shield(task)
