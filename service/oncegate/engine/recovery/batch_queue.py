"""Passes batches of entries from the event loop, which reads the ledger, to the thread that applies them."""

import asyncio
from collections.abc import AsyncIterable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue

from oncegate.ports import Replayed

Batch = Sequence[Replayed]
# Limit of waiting batches, besides the one being applied: the ledger fetches ahead.
BATCHES_WAITING = 2


class BatchQueue:
    """A queue of a replay's batches: `fill` runs on the event loop, and one other thread iterates over the queue. Made
    on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(BATCHES_WAITING)
        self._waiting: SimpleQueue[Batch | BaseException | None] = SimpleQueue()

    async def fill(self, batches: AsyncIterable[Batch]) -> None:
        """Enqueues all batches, with backpressure. The iteration raises the errors of `batches`, and cancellation."""
        try:
            async for batch in batches:
                await self._room.acquire()
                self._waiting.put(batch)
        except BaseException as error:
            self._waiting.put(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self._waiting.put(None)

    def stop(self) -> None:
        """Ends the iteration at any point, even if a read hangs and ignores its cancellation."""
        self._waiting.put(asyncio.CancelledError())

    def __iter__(self) -> Iterator[Batch]:
        while (batch := self._waiting.get()) is not None:
            if isinstance(batch, BaseException):
                raise batch
            with suppress(RuntimeError):  # the event loop ended; then `fill` has enqueued its error
                self._loop.call_soon_threadsafe(self._room.release)
            yield batch
