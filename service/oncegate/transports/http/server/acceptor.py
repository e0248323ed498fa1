"""Accepts connections: in one turn of the loop all that wait, so that requests wait where their wait is known."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

# In one turn, at most: each takes some 40 µs, and what is open already is to go on.
ACCEPTED_PER_TURN = 256
# How long nothing is accepted where there is no descriptor.
PAUSE_S = 0.05
# How much is read of a connection without room: more than its socket buffers hold.
_READ_BYTES, _READS = 256 << 10, 32
# A connection without TLS is made within two turns of the loop.
_MADE_S = 0.5


class Acceptor:
    """Accepts on a listening socket.

    uvloop's own server (0.23) accepts one connection in each turn of the loop. Under load all others wait in the
    system's queue, where their requests cannot be refused; beyond `backlog` the system drops them, and clients try to
    connect again after 1, 2, 4 and more seconds.

    has_room: returns whether one more connection may be made; its argument counts those accepted and not yet made.
    full: returns what one without room is answered before it is closed; without TLS.
    protocol: makes one, of the bytes that were read of its connection already.
    is_shedding: returns whether connections are checked before they are made; those with TLS never are.
    shed: returns what one is answered that sent these bytes; None: it is to be made.
    tls: what `connect_accepted_socket` takes.
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
                logging.getLogger("uvicorn.error").error("no connection can be accepted for now: %s", error)
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
        except OSError:  # it is gone already, or its handshake failed or took too long
            accepted.close()

    def _turn_away(self, accepted: socket.socket) -> None:
        """Answers and closes a connection. Its bytes are read first, so that closing does not reset it. A peer that
        sends as fast as it is read is reset, so that it does not block the loop."""
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
        """Returns whether the socket accepts connections."""
        return self._sock.fileno() >= 0

    def close(self) -> None:
        """Accepts nothing more, and closes the socket. Idempotent."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self.is_open:
            self._loop.remove_reader(self._sock)
            self._sock.close()

    async def wait_closed(self) -> None:
        """Returns once every connection that was accepted is made; handshakes that have not ended are given up."""
        if self._making:
            _, late = await asyncio.wait(set(self._making), timeout=_MADE_S)
            for making in late:
                making.cancel()
