"""Asks for the ids of topics, once for all who ask meanwhile: a topic that is made again has another one.

An answer that was asked for before a request came says nothing about it: the topic may have been made again since.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

Ask = Callable[[Collection[str]], Awaitable[Mapping[str, bytes]]]


class Identities:
    """Answers each request by a question that was begun after it came; those that come meanwhile share the next one."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._one = asyncio.Lock()
        self._next: asyncio.Future[Mapping[str, bytes]] | None = None
        self._wanted: set[str] = set()

    async def of(self, topics: Collection[str]) -> Mapping[str, bytes]:
        """Returns the id of each of these topics that is there, 16 bytes, as it is now. Raises what asking raises."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._asked())
        self._wanted.update(topics)
        found = await asyncio.shield(self._next)
        return {topic: found[topic] for topic in topics if topic in found}

    async def _asked(self) -> Mapping[str, bytes]:
        async with self._one:
            wanted, self._wanted, self._next = self._wanted, set(), None
            return await self._ask(wanted)
