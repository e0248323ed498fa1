"""Ends connections so that their last answers arrive, and those of a server that stops."""

import asyncio
import fcntl
import logging
import secrets
import sys
import termios
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus

from uvicorn.server import ServerState

from oncegate.clock import now_s, sleep_s
from oncegate.core.errors import OncegateError
from oncegate.transports.http import problems

# A caller that takes no byte of its answers from look to look, so many times, has gone or never will: three seconds.
# Looks and not time: who waits for this process's turn is not to blame.
UNREAD_LOOKS = 30
_LOOK_S = 0.1

# A caller that is refused before it has sent all of its request is read on for so long, and what it sends dropped: a
# socket that is closed with bytes in it is reset, and the reset may overtake the refusal (RFC 9112, 9.6).
LINGER_S = 5.0


class LastAnswer:
    """Stands in for a connection's transport in an exchange, which closes it after its last answer."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport, self.close = transport, close
        self.write = transport.write

    def __getattr__(self, name: str) -> object:
        """Gives the rest of the transport."""
        return getattr(self._transport, name)


def linger(transport: asyncio.Transport) -> asyncio.TimerHandle:
    """Sends nothing more on a connection, and closes it when its caller does, or after `LINGER_S`."""
    if transport.can_write_eof():
        transport.write_eof()
    return asyncio.get_running_loop().call_later(LINGER_S, transport.abort)


# Of each connection, the bytes that wait to be read, and how many looks have seen as many.
UnreadBytes = dict[object, tuple[int, int]]


async def answered(state: ServerState, within_s: float, is_forced: Callable[[], bool]) -> tuple[int, int]:
    """Returns once every connection is closed and every request at its end; what is not is cut off then.

    Cut off is a connection whose caller reads nothing for `UNREAD_LOOKS`, and all there is when `within_s` have passed,
    or when it is forced. Returns how many connections and requests were.
    """
    begun_s, cut = now_s(), 0
    unread: UnreadBytes = {}
    while state.connections or state.tasks:
        if is_forced() or now_s() - begun_s >= within_s:
            return cut + _cut(state.connections), await _cancelled(state.tasks)
        unread = looked_at(state, unread)
        cut += cut_off(unread, UNREAD_LOOKS)
        await sleep_s(_LOOK_S)
    return cut, 0


def looked_at(state: ServerState, before: UnreadBytes) -> UnreadBytes:
    """Looks at every connection: how many bytes wait to be read, and how many looks have seen as many."""
    return {one: _unread(one, before.get(one)) for one in state.connections}


def cut_off(unread: UnreadBytes, looks_max: int) -> int:
    """Cuts off each connection whose caller took no byte for so many looks; returns how many."""
    return _cut([one for one, (size_bytes, looks) in unread.items() if size_bytes and looks >= looks_max])


def _unread(connection: object, known: tuple[int, int] | None) -> tuple[int, int]:
    """Returns the bytes that wait to be read, and how many looks have found as many.

    The kernel's are among them: it takes more from this process only when a third of its buffer of up to 4 MiB is
    free, so that the process's own buffer alone would not change for a caller that reads slowly.
    """
    transport: asyncio.Transport = connection.transport  # type: ignore[attr-defined]
    size_bytes = transport.get_write_buffer_size()
    if size_bytes:
        with suppress(OSError):  # closed meanwhile, or a system without the question
            queued = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
            size_bytes += int.from_bytes(queued, sys.byteorder)
    return (size_bytes, known[1] + 1 if known is not None and known[0] == size_bytes else 1)


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


def refusal(error: OncegateError, trace_id: str | None = None) -> bytes:
    """Writes an answer that is the last of its connection."""
    body = problems.encode(error, trace_id or secrets.token_hex(16))
    status = HTTPStatus(problems.status_of(type(error)))
    after_ms = error.extra.get("retry_after_ms", error.retry_after_ms)
    after = f"retry-after: {-(-after_ms // 1_000)}\r\n" if isinstance(after_ms, int) else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {problems.PROBLEM}\r\n{after}"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
