"""Entries on their way to a ledger that takes them while they are still being made."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable


class EntryStream:
    """To be gone through once, on the loop where it is filled. What was taken is not held any more."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None

    def give(self, entries: Iterable[bytes]) -> None:
        """Some more."""
        self._waiting.extend(entries)
        self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        """There are no more; `error` is raised to whoever takes them, after what was given."""
        self._ended, self._error = True, error
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._ended:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
