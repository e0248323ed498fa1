"""Streams entries to a ledger that reads them while they are still being made."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable


class EntryStream:
    """Hands entries from whoever makes them to one reader, on one event loop, each of them once.

    `async for` gives the entries in order and lets go of each; it is gone through once. `error`: what it ended with.
    """

    def __init__(self) -> None:
        self._unread: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self.error: Exception | None = None

    def give(self, entries: Iterable[bytes]) -> None:
        """Appends entries to the stream; the reader gets them in this order."""
        self._unread.extend(entries)
        self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        """Ends the stream; the reader gets what was given, then `error`, if there is one, is raised to it."""
        self._ended, self.error = True, error
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self._ended:
                break
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise self.error
