"""Makes of aiokafka's producer one that sends each EndTxn once, tells what it is told, and can be dropped unflushed."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.producer import sender as aiokafka_sender

from oncegate.ledgers.kafka.watch import Watch

# aiokafka waits 20 ms where the markers of the last transaction are still being written, ten times what they take.
aiokafka_sender.BACKOFF_OVERRIDE = 0.001
# What a producer that is closed may take to let go of its sockets.
CLOSE_S = 2.0
# What a task of aiokafka's may take to end by itself: after an error it pauses for 0.1 s.
TASK_S = 0.5


class Producer(AIOKafkaProducer):  # type: ignore[misc]
    """Writes transactions as aiokafka's does; `ends_sent` counts the EndTxn that it was to send in the last one.

    `watch`: is told what brokers answer. `settings`: what `AIOKafkaProducer` takes of connections and security.
    """

    def __init__(self, watch: Watch, settings: Mapping[str, Any], transactional_id: str, transaction_ms: int) -> None:
        super().__init__(
            transactional_id=transactional_id, transaction_timeout_ms=transaction_ms, acks="all", **settings
        )
        self.ends_sent = 0
        self._tell(watch)
        self._end_once()

    async def begin_transaction(self) -> None:
        """Begins a transaction, of which no EndTxn is sent yet."""
        self.ends_sent = 0
        await super().begin_transaction()

    def _tell(self, watch: Watch) -> None:
        """Lets the watch know what aiokafka is told and does not hand on."""
        client, transaction = self.client, self._txn_manager
        send, error_transaction = client.send, transaction.error_transaction

        async def sent(*request: Any, **group: Any) -> Any:
            watch.require()
            answer = await send(*request, **group)
            watch.answered(answer)
            return answer

        def refused(error: Exception) -> None:
            error_transaction(error)
            watch.refused(error)

        client.send, transaction.error_transaction = sent, refused

    def _end_once(self) -> None:
        """Keeps aiokafka from sending a second EndTxn in one transaction, whatever became of the first one's answer."""
        sender = self._sender
        send_end = sender._do_txn_commit

        async def once(committed: object) -> None:
            self.ends_sent += 1
            if self.ends_sent > 1:
                raise KafkaError("the answer to EndTxn is lost, and it is not sent again")
            await send_end(committed)

        sender._do_txn_commit = once


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
        failed(transaction)
    # What a fenced producer leaves in its queue, whose errors are asked for by nobody.
    for batches in producer._message_accumulator._batches.values():
        for batch in batches:
            failed(batch._drain_waiter)
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await producer.client.close()


async def _end(sending: "asyncio.Task[None]") -> None:
    """Ends aiokafka's task: cancelled once it waits for its own tasks, of which one may wait for ever."""
    for _ in range(2):
        sending.cancel()
        await asyncio.wait({sending}, timeout=TASK_S)
    failed(sending)


def failed(future: "asyncio.Future[Any]") -> bool:
    """Tells whether it has an error, or no end yet; takes the error, so that nothing is logged of it."""
    return not future.done() or future.cancelled() or future.exception() is not None
