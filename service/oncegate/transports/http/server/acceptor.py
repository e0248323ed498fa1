"""Accepts all waiting connections in one turn of the event loop, so that requests queue where the gateway can measure
their wait."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

# The limit per turn keeps open connections responsive: each accept takes some 40 µs.
ACCEPTED_PER_TURN = 256
# Pause after a failed accept, e.g. without free file descriptors.
PAUSE_S = 0.05
# Bytes read from a refused connection, at most: more than its socket buffers hold.
_READ_BYTES, _READS = 256 << 10, 32
# Timeout at shutdown. Without TLS a connection is set up within two turns of the loop.
_MADE_S = 0.5


class Acceptor:
    """Accepts connections on a listening socket.

    uvloop's own server (0.23) accepts one connection per turn of the loop. Under load all others wait in the kernel's
    queue, where their requests cannot be refused. Beyond `backlog` the kernel drops them, and clients retry the
    connection after 1, 2, 4 and more seconds.

    Args:
        has_room: returns whether one more connection fits; its argument counts accepted connections not yet set up.
        full: returns the response to a connection that does not fit; not sent over TLS.
        protocol: makes the protocol of a connection from the bytes already read from it.
        is_shedding: returns whether connections are checked before they are set up; TLS connections never are.
        shed: returns the refusal of a request with these bytes; None: set up the connection.
        tls: keyword arguments of `connect_accepted_socket`.
    """

    def __init__(
        self,
        sock: socket.socket,
        backlog: int,
        protocol: Callable[[bytes], asyncio.Protocol],
        has_room: Callable[[int], bool],
        full: Callable[[], bytes],
        is_shedding: Callable[[], bool],
        shed: Callable[[bytes], bytes | None],
        per_turn: int = ACCEPTED_PER_TURN,
        tls: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._sock, self._protocol, self._has_room, self._full = sock, protocol, has_room, full
        self._is_shedding, self._shed = is_shedding, shed
        self._per_turn, self._tls = per_turn, tls
        self._loop = asyncio.get_running_loop()
        self._making: set[asyncio.Task[Any]] = set()
        self._pause: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        sock.listen(backlog)
        self._go_on()

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(self._per_turn):
            try:
                accepted, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logging.getLogger("uvicorn.error").error("cannot accept connections, retrying: %s", error)
                self._wait()
                return
            accepted.setblocking(False)
            if not self._has_room(len(self._making)):
                self._turn_away(accepted)
                continue
            begun = b""
            if not self._tls and self._is_shedding():
                with suppress(OSError):
                    begun = accepted.recv(_READ_BYTES)
                if begun and (refusal := self._shed(begun)) is not None:
                    with accepted, suppress(OSError):
                        accepted.send(refusal)
                    continue
            making = self._loop.create_task(self._made(accepted, begun))
            self._making.add(making)
            making.add_done_callback(self._making.discard)

    async def _made(self, accepted: socket.socket, begun: bytes) -> None:
        try:
            await self._loop.connect_accepted_socket(partial(self._protocol, begun), accepted, **self._tls)
        except OSError:  # the peer disconnected, or the handshake failed or timed out
            accepted.close()

    def _turn_away(self, accepted: socket.socket) -> None:
        """Sends the refusal and closes the connection.

        Reads the received bytes first, because closing a socket with unread bytes resets it. A peer that sends as fast
        as it is read is reset, so that it does not block the loop.
        """
        with accepted, suppress(OSError):
            if not self._tls:
                with suppress(BlockingIOError):
                    for _ in range(_READS):
                        if not accepted.recv(_READ_BYTES):
                            break
                accepted.send(self._full())

    def _wait(self) -> None:
        self._loop.remove_reader(self._sock)
        self._pause = self._loop.call_later(PAUSE_S, self._go_on)

    @property
    def is_open(self) -> bool:
        return self._sock.fileno() >= 0

    def close(self) -> None:
        """Stops accepting and closes the socket. Idempotent."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self.is_open:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    async def wait_closed(self) -> None:
        """Waits until all accepted connections are set up; cancels handshakes that take longer than `_MADE_S`."""
        if self._making:
            _, late = await asyncio.wait(set(self._making), timeout=_MADE_S)
            for making in late:
                making.cancel()
