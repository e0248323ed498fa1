"""Determines the outcome of each transaction: committed, not written, or in doubt.

A transaction with a refused batch must not be committed. An EndTxn whose answer is lost must not be sent again in the
same epoch: brokers before KIP-890 would then show records that were never committed. A guard therefore uses one
producer under one transactional id only while every transaction succeeds. After any failure it is closed without
flushing, and its owner starts the next guard under another id.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)

from oncegate.clock import now_s
from oncegate.ledgers.kafka.transactions.ends import Fenced, InDoubt, NotStarted, NotWritten, Refused, Throttled
from oncegate.ledgers.kafka.transactions.producer import Producer
from oncegate.ledgers.kafka.transactions.sending import Batch, Batches, Sending, each_of
from oncegate.ledgers.kafka.watch import DEFAULT_DEADLINES, Deadlines, Watch
from oncegate.ledgers.uncancelled import uncancelled

# Maximum of unanswered bytes, over all partitions.
IN_FLIGHT_BYTES = 16 << 20
# Maximum idle time of a producer; brokers forget its transactional id after days (seven by default).
IDLE_S = 3_600.0
_PORT_HINT = "if they are up, check that security_protocol is the port's"

Then = Callable[[list[int]], Sequence[Batch]]


class Guard:
    """Commits transactions under one transactional id, one at a time, until one fails.

    `settings`: aiokafka's arguments for connections and security. Call `start` first and `close` last.
    `in_flight_bytes`: maximum of unanswered bytes; a single batch may be larger.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        transactional_id: str,
        deadlines: Deadlines = DEFAULT_DEADLINES,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
    ) -> None:
        self.transactional_id = transactional_id
        self._deadlines = deadlines
        self._in_flight_bytes = in_flight_bytes
        self._watch = Watch(settings)
        self._producer = Producer(self._watch, settings, transactional_id, deadlines.transaction_ms)
        # True before `start` and after a failure.
        self.closed = True
        self._turn = asyncio.Lock()
        self._used_s = 0.0

    async def start(self) -> None:
        """Fences every earlier producer of the same id, which ends its open transaction.

        Only a commit proves that this is the newest producer.

        Raises, and closes the guard:
            NotStarted: the brokers refuse it; the text names the missing right, password or certificate.
            KafkaError, OSError, TimeoutError: the brokers cannot be reached, or failed.
        """
        until = now_s() + self._deadlines.start_ms / 1000
        try:
            async with self._watch.until(until):
                await self._producer.start()
        except BaseException as error:
            await self.close()
            if (refusal := self._watch.refusal(error)) is not None:
                raise NotStarted(str(refusal)) from error
            if isinstance(error, KafkaConnectionError) and self._watch.has_reached:
                raise KafkaConnectionError(f"brokers hang up before they answer: {_PORT_HINT}") from error
            raise
        self._used_s = now_s()
        self.closed = False

    @property
    def is_worn(self) -> bool:
        """True if the next transaction needs a new producer: it was closed, lost a broker, or was idle for `IDLE_S`.

        A restarted broker may have forgotten the last transaction's markers. An abort of the next one would then undo
        both.
        """
        is_forgotten = now_s() > self._used_s + IDLE_S
        return self.closed or self._watch.has_been_cut or is_forgotten

    async def commit(self, batches: Batches, then: Then = lambda _: ()) -> list[int]:
        """Writes the batches as one transaction. Cancelling the caller does not stop it.

        Args:
            batches: an iterator is consumed as batches are answered, so they need not be in memory together. Its
                errors end the transaction as NotWritten does, and are raised unchanged.
            then: receives the offsets of `batches`; returns batches written after them in the same transaction. Its
                NotWritten ends the transaction.

        Returns the first offset of each batch; −1 if the broker did not return it.

        Raises, and closes the guard:
            NotWritten, Fenced, Refused, Throttled: nothing becomes visible, once the next guard has started.
            InDoubt: effect unknown.
            RuntimeError: the guard was already closed; nothing was sent.
        """
        return await uncancelled(self._commit(batches, then))

    async def close(self) -> None:
        """Closes the producer's connections without flushing; the next start ends an open transaction."""
        self.closed = True
        await self._producer.drop()

    async def _commit(self, batches: Batches, then: Then) -> list[int]:
        async with self._turn:
            if self.closed:
                raise RuntimeError(f"the producer {self.transactional_id} was closed: start another one")
            try:
                offsets = await self._write(batches, then)
                await self._end()
                self._used_s = now_s()
            except BaseException:
                await self.close()
                raise
            return offsets

    async def _write(self, batches: Batches, then: Then) -> list[int]:
        self._watch.begin()
        last = now_s() + self._deadlines.sending_ms / 1000
        offsets = await self._send(batches, last)
        return offsets + await self._send(then(offsets), last)

    async def _send(self, batches: Batches, last: float) -> list[int]:
        """Sends the batches and waits for the answer to each: a commit would succeed even if a batch was refused."""
        send_s = self._deadlines.send_ms / 1000
        sending = Sending(self._in_flight_bytes, lambda: self._watch.goes_on(send_s, last))
        try:
            async with self._watch.until(min(now_s() + send_s, last)):
                async for batch in each_of(batches):
                    await sending.room_for(batch)
                    sending.add(batch, await self._producer.send(batch))
                return await sending.offsets()
        except ProducerFenced as error:
            raise Fenced(f"a newer producer has {self.transactional_id}") from error
        except (KafkaError, OSError, TimeoutError) as error:
            raise self._not_written(error, sending) from error

    def _not_written(self, error: Exception, sending: Sending) -> NotWritten:
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
        until = now_s() + self._deadlines.commit_ms / 1000
        try:
            async with self._watch.until(until):
                await self._producer.end()
        except BaseException as error:
            if isinstance(error, ProducerFenced):
                raise Fenced(f"a newer producer has {self.transactional_id}") from error
            if isinstance(error, TransactionalIdAuthorizationFailed):
                named = TransactionalIdAuthorizationFailed(self.transactional_id)
                raise Refused(f"not written: {self._watch.refusal(named)}") from error
            why = self._watch.refusal(error) or repr(error)
            raise InDoubt(f"unknown whether it was committed: {why}") from error
