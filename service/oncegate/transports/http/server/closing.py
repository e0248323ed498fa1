"""Ends the connections of a server that stops: answers are waited for as long as their callers take them."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from uvicorn.server import ServerState

# A caller that takes no byte of its answers for so long while the server stops has gone, or never will.
UNREAD_S = 3.0
_LOOK_S = 0.1


async def answered(state: ServerState, within_s: float, is_forced: Callable[[], bool]) -> tuple[int, int]:
    """Returns once every connection is closed and every request at its end; what is not is cut off then.

    Cut off is a connection whose caller reads nothing for `UNREAD_S`, and all there is when `within_s` have passed, or
    when it is forced. Returns how many connections and requests were.
    """
    loop, never = asyncio.get_running_loop(), asyncio.Event()
    begun_s, cut = loop.time(), 0
    unread: dict[object, tuple[int, float]] = {}
    while state.connections or state.tasks:
        now_s = loop.time()
        if is_forced() or now_s - begun_s >= within_s:
            return cut + _cut(state.connections), await _cancelled(state.tasks)
        unread = {one: _unread(one, unread.get(one), now_s) for one in state.connections}
        cut += _cut(
            [one for one, (size_bytes, since_s) in unread.items() if size_bytes and now_s - since_s >= UNREAD_S]
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(never.wait(), _LOOK_S)
    return cut, 0


def _unread(connection: object, known: tuple[int, float] | None, now_s: float) -> tuple[int, float]:
    """How many bytes wait to be read, and since when they are as many."""
    size_bytes: int = connection.transport.get_write_buffer_size()  # type: ignore[attr-defined]
    return known if known is not None and known[0] == size_bytes else (size_bytes, now_s)


def _cut(connections: Iterable[object]) -> int:
    cut = list(connections)
    for connection in cut:
        connection.transport.abort()  # type: ignore[attr-defined]
    return len(cut)


async def _cancelled(tasks: "set[asyncio.Task[None]]") -> int:
    """Ends what still works on an answer that nobody will get."""
    running = set(tasks)
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=1)
    return len(running)


def no_cancellation(record: logging.LogRecord) -> bool:
    """Passes over what the framework says of a request that was cancelled: the line of its shutdown tells it."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)
