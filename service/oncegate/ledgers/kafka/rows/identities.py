"""Asks for the ids of topics, once for all who ask meanwhile: a topic that is made again has another one.

An answer that was asked for before a request came says nothing about it: the topic may have been made again since.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from oncegate.ledgers.uncancelled import look_at_the_error

Ask = Callable[[Collection[str]], Coroutine[Any, Any, Mapping[str, bytes]]]


class Identities:
    """Answers each request by a question that was begun after it came; those that come meanwhile share the next one."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._one = asyncio.Lock()
        self._next: asyncio.Task[Mapping[str, bytes]] | None = None
        self._wanted: set[str] = set()

    async def of(self, topics: Collection[str]) -> Mapping[str, bytes]:
        """Returns the id of each of these topics that is there, 16 bytes, as it is now. Raises what asking raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._asked())
            self._next.add_done_callback(look_at_the_error)
        self._wanted.update(topics)
        topic_ids = await asyncio.shield(self._next)
        return {topic: topic_ids[topic] for topic in topics if topic in topic_ids}

    async def _asked(self) -> Mapping[str, bytes]:
        async with self._one:
            wanted, self._wanted, self._next = self._wanted, set(), None
            return await self._ask(wanted)
