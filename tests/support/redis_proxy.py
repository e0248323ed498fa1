"""A proxy for a Redis server that parses commands and holds or loses them or their answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from deploy.ports import free_port
from oncegate.ledgers.redis.scripts import Script


class RedisProxy:
    """Listens on `port` of 127.0.0.1. A fault applies to the next command that runs the given script.

    hold(script): the command waits until `release`; its client's connection is closed.

    lose(script): the server never gets the command, and the client's connection is closed.

    lose_answer(script): the server executes the command, and the client's connection is closed instead of the answer.

    hold_answer(script): the server executes the command, and the answer waits until `release`, which closes the
    connection.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = free_port()
        self.held = asyncio.Event()
        self._released = asyncio.Event()
        self._due: dict[str, tuple[Script, int]] = {}
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # The fault of the next answer on each connection.
        self._losing: dict[asyncio.StreamWriter, str] = {}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def hold(self, script: Script) -> None:
        """Holds the next run of a script until `release`; sets `held` when it arrives."""
        self._begin("hold", script, 0)

    def hold_answer(self, script: Script) -> None:
        """Holds the answer to the next run of a script; sets `held` when it arrives."""
        self._begin("hold answer", script, 0)

    def lose(self, script: Script, *, after: int = 0) -> None:
        """Closes the client's connection instead of forwarding the run of a script after `after` more."""
        self._begin("lose", script, after)

    def lose_answer(self, script: Script, *, after: int = 0) -> None:
        """Closes the client's connection instead of answering the run of a script after `after` more."""
        self._begin("lose answer", script, after)

    def _begin(self, fault: str, script: Script, after: int) -> None:
        self._due[fault] = (script, after)
        self.held.clear()
        self._released.clear()

    def release(self) -> None:
        """Releases the command or answer that is held."""
        self._released.set()

    @property
    def is_due(self) -> bool:
        """Returns whether a fault has not occurred yet."""
        return bool(self._due)

    def forget(self) -> None:
        """Cancels the faults that have not occurred."""
        self._due.clear()

    def cut(self) -> None:
        for client in list(self._clients):
            client.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client's connection until either side closes it."""
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.close()
            return
        self._clients.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        answering = asyncio.create_task(self._answers(up_reader, writer))
        try:
            while command := await _command(reader):
                if not await self._pass(command, writer, up_writer):
                    break
        finally:
            self._clients.discard(writer)
            writer.close()
            up_writer.close()
            await asyncio.wait({answering})
            self._tasks.discard(task)

    async def close(self) -> None:
        """Closes every client's connection and returns once all have ended."""
        self.cut()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _pass(self, command: bytes, writer: asyncio.StreamWriter, up_writer: asyncio.StreamWriter) -> bool:
        """Forwards one command. Returns False if the client's connection is to be closed."""
        if self._is_due("lose", command):
            return False
        if self._is_due("hold", command):
            writer.close()
            self.held.set()
            await self._released.wait()
        for fault in ("lose answer", "hold answer"):
            if self._is_due(fault, command):
                # Clients wait for each answer before they send more, so the fault applies to the next answer.
                self._losing[writer] = fault
        up_writer.write(command)
        with suppress(ConnectionError):
            await up_writer.drain()
        return True

    async def _answers(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await up_reader.read(1 << 16):
                if (fault := self._losing.pop(writer, None)) is not None:
                    if fault == "hold answer":
                        self.held.set()
                        await self._released.wait()
                    break
                writer.write(data)
        writer.close()

    def _is_due(self, fault: str, command: bytes) -> bool:
        script, after = self._due.get(fault, (None, 0))
        if script is None or script.sha1.encode() not in command[:200]:
            return False
        if after:
            self._due[fault] = (script, after - 1)
            return False
        del self._due[fault]
        return True


async def _command(reader: asyncio.StreamReader) -> bytes:
    """Returns the next whole command as it was sent, or b"" if the connection has ended."""
    try:
        data = bytearray(await reader.readuntil(b"\r\n"))
        for _ in range(int(data[1:])):
            head = await reader.readuntil(b"\r\n")
            data += head + await reader.readexactly(int(head[1:]) + 2)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    return bytes(data)


@asynccontextmanager
async def proxied(server_port: int) -> AsyncIterator[RedisProxy]:
    """Runs a proxy in front of a server."""
    proxy = RedisProxy(server_port)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", proxy.port, limit=1 << 26)
    try:
        yield proxy
    finally:
        proxy.release()
        listening.close()
        await proxy.close()
