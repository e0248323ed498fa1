"""Hands batches of entries from the event loop, where a ledger is read, to the thread that applies them."""

import asyncio
from collections.abc import AsyncIterable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue

from oncegate.ports import Replayed

Batch = Sequence[Replayed]
# Besides the one that is applied: the ledger fetches the next meanwhile.
BATCHES_WAITING = 2


class BatchQueue:
    """Carries the batches of one replay: `fill` runs on the loop, one other thread iterates. Made on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(BATCHES_WAITING)
        self._waiting: SimpleQueue[Batch | BaseException | None] = SimpleQueue()

    async def fill(self, batches: AsyncIterable[Batch]) -> None:
        """Puts all batches in, as room comes. What `batches` raises, cancelling too, is raised to who iterates."""
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
        """Ends the iteration, wherever it waits: also where a reading hangs that hears of no cancelling."""
        self._waiting.put(asyncio.CancelledError())

    def __iter__(self) -> Iterator[Batch]:
        while (batch := self._waiting.get()) is not None:
            if isinstance(batch, BaseException):
                raise batch
            with suppress(RuntimeError):  # the loop ended; then `fill` has put its error in
                self._loop.call_soon_threadsafe(self._room.release)
            yield batch
