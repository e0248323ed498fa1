"""The acceptor: all waiting connections at once, as far as there is room."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from oncegate.transports.http.server import acceptor as acceptors
from oncegate.transports.http.server.acceptor import Acceptor
from tests.support.memory_gateway import run_ready_tasks, wait_until

COUNT, FULL, SHED = 40, b"there is no room", b"the wait is too long"


class Made(asyncio.Protocol):
    """Counts the connections that are made, and keeps the bytes read before."""

    count = 0
    begun: ClassVar[list[bytes]] = []

    def __init__(self, begun: bytes) -> None:
        self.begun.append(begun)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).count += 1
        self.transport = transport

    def eof_received(self) -> None:
        self.transport.close()


@asynccontextmanager
async def accepting(
    has_room: Callable[[int], bool] = lambda _: True,
    asked: bytes = b"",
    sock: socket.socket | None = None,
    shed: Callable[[bytes], bytes | None] | None = None,
) -> AsyncIterator[list[socket.socket]]:
    """Yields `COUNT` connections that wait before the acceptor accepts the first. `shed`: the check of them."""
    Made.count = 0
    Made.begun.clear()
    with socket.socket() if sock is None else sock as listener:
        listener.bind(("127.0.0.1", 0))
        check = shed or (lambda _: SHED)
        acceptor = Acceptor(listener, COUNT, Made, has_room, lambda: FULL, lambda: shed is not None, check)
        callers = [socket.create_connection(listener.getsockname(), timeout=20) for _ in range(COUNT)]
        for caller in callers:
            caller.sendall(asked)
        try:
            yield callers
        finally:
            acceptor.close()
            acceptor.close()
            assert not acceptor.is_open
            for caller in callers:
                caller.close()
            await acceptor.wait_closed()


async def test_all_connections_that_wait_are_accepted_in_one_turn_of_the_loop() -> None:
    async with accepting():
        await run_ready_tasks(6)  # one turn to accept them, and the turns to make them
        assert Made.count == COUNT


async def test_connections_without_room_are_answered_whole_and_none_is_reset() -> None:
    async with accepting(lambda making: Made.count + making < 10, b"asked " * 10_000) as callers:
        await wait_until(lambda: Made.count == 10)
        await run_ready_tasks()
        assert Made.count == 10
        for caller in callers[10:]:
            assert (caller.recv(100), caller.recv(100)) == (FULL, b"")


class Failing(socket.socket):
    """A socket whose system is out of descriptors, at first."""

    failures = 1

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_after_an_error_of_the_system_connections_are_accepted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptors, "PAUSE_S", 0.01)
    async with accepting(sock=Failing()):
        await wait_until(lambda: Made.count == COUNT)


class Endless(socket.socket):
    """An accepted connection that sends as fast as it is read."""

    reads = 0

    def recv(self, size_bytes: int, flags: int = 0) -> bytes:
        Endless.reads += 1
        assert Endless.reads < 1_000 * COUNT, "it is read for as long as it sends"
        return bytes(1)


class Flooded(socket.socket):
    """A listening socket of such connections."""

    def accept(self) -> tuple[socket.socket, object]:
        accepted, address = super().accept()
        return Endless(fileno=accepted.detach()), address


async def test_a_connection_without_room_that_sends_without_end_is_answered_and_holds_up_no_other() -> None:
    Endless.reads = 0
    async with accepting(lambda _: False, sock=Flooded()) as callers:
        await run_ready_tasks()
        for caller in callers:
            assert (caller.recv(100), caller.recv(100)) == (FULL, b"")
    assert Endless.reads == COUNT * acceptors._READS


async def test_a_shed_connection_is_answered_whole_and_never_made() -> None:
    async with accepting(asked=b"a request", shed=lambda data: SHED if data == b"a request" else None) as callers:
        await run_ready_tasks()
        for caller in callers:
            assert (caller.recv(100), caller.recv(100)) == (SHED, b"")
    assert (Made.count, Made.begun) == (0, [])


async def test_bytes_read_from_a_connection_that_is_not_shed_are_given_to_its_protocol() -> None:
    async with accepting(asked=b"a request", shed=lambda _: None):
        await wait_until(lambda: Made.count == COUNT)
    assert Made.begun == [b"a request"] * COUNT


async def test_a_connection_that_has_sent_nothing_is_not_checked_but_made() -> None:
    async with accepting(shed=lambda _: SHED):
        await wait_until(lambda: Made.count == COUNT)
    assert Made.begun == [b""] * COUNT
