"""Closes connections without losing their last response, and drains the connections of a server that stops."""

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

# A client that reads no byte during this many checks (three seconds) counts as gone. Checks are counted, not seconds,
# so that a pause of this process is not blamed on the client.
UNREAD_LOOKS = 30
_LOOK_S = 0.1

# How long the server keeps reading, and dropping, the rest of a refused request. Closing a socket with unread bytes
# resets it, and the reset may overtake the refusal (RFC 9112, 9.6).
LINGER_S = 5.0


class LastAnswer:
    """A connection's transport with a lingering `close`, so that the last response reaches the client."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport, self.close = transport, close
        self.write = transport.write

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


def linger(transport: asyncio.Transport) -> asyncio.TimerHandle:
    """Closes the sending side of a connection; aborts it after `LINGER_S` unless the client closes it earlier."""
    if transport.can_write_eof():
        transport.write_eof()
    return asyncio.get_running_loop().call_later(LINGER_S, transport.abort)


# By connection: the bytes its client has not read yet, and the number of checks that counted the same.
UnreadBytes = dict[object, tuple[int, int]]


async def answered(state: ServerState, within_s: float, is_forced: Callable[[], bool]) -> tuple[int, int]:
    """Waits until every connection is closed and every request has ended.

    Aborts a connection whose client reads nothing for `UNREAD_LOOKS` checks. Aborts everything left after `within_s`
    or once `is_forced` returns true.

    Returns:
        The numbers of aborted connections and of cancelled requests.
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
    """Counts the unread bytes of every connection and the checks since they last changed."""
    return {one: _unread(one, before.get(one)) for one in state.connections}


def cut_off(unread: UnreadBytes, looks_max: int) -> int:
    """Aborts connections whose clients read no byte during `looks_max` checks; returns the number aborted."""
    return _cut([one for one, (size_bytes, looks) in unread.items() if size_bytes and looks >= looks_max])


def _unread(connection: object, known: tuple[int, int] | None) -> tuple[int, int]:
    """Returns a connection's unread bytes, and the number of consecutive checks without a change.

    The kernel's buffer is included. The kernel accepts more bytes only once a third of its buffer of up to 4 MiB is
    free, so for a slow reader the process's own buffer alone would not change.
    """
    transport: asyncio.Transport = connection.transport  # type: ignore[attr-defined]
    size_bytes = transport.get_write_buffer_size()
    if size_bytes:
        with suppress(OSError):  # closed in the meantime, or a system without TIOCOUTQ
            queued = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
            size_bytes += int.from_bytes(queued, sys.byteorder)
    return (size_bytes, known[1] + 1 if known is not None and known[0] == size_bytes else 1)


def _cut(connections: Iterable[object]) -> int:
    cut = list(connections)
    for connection in cut:
        connection.transport.abort()  # type: ignore[attr-defined]
    return len(cut)


async def _cancelled(tasks: "set[asyncio.Task[None]]") -> int:
    """Cancels the requests whose clients were cut off; returns how many there were."""
    running = set(tasks)
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=1)
    return len(running)


def no_cancellation(record: logging.LogRecord) -> bool:
    """Filters out the framework's error for a cancelled request; the event `connections_cut` reports it already."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


def refusal(error: OncegateError, trace_id: str | None = None) -> bytes:
    """Encodes a refusal as a whole HTTP/1.1 response with `Connection: close`."""
    body = problems.encode(error, trace_id or secrets.token_hex(16))
    status = HTTPStatus(problems.status_of(type(error)))
    after_ms = error.extra.get("retry_after_ms", error.retry_after_ms)
    after = f"retry-after: {-(-after_ms // 1_000)}\r\n" if isinstance(after_ms, int) else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {problems.PROBLEM}\r\n{after}"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
