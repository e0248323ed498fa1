"""Stands between gateways and a Redis server and knows the commands: holds or loses them, or their answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from deploy.ports import free_port
from oncegate.ledgers.redis.scripts import Script


class RedisProxy:
    """Listens on `port` of 127.0.0.1. What a fault names happens to the next command that runs the script.

    hold(script): it waits here until `release`, though its client is cut.
    lose(script): the server never gets it, and the client's connection is closed.
    lose_answer(script): the server does it, and the client's connection is closed in place of the answer.
    hold_answer(script): the server does it, and the answer waits here until `release`, which closes the connection.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = free_port()
        self.held = asyncio.Event()
        self._released = asyncio.Event()
        self._due: dict[str, tuple[Script, int]] = {}
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # Whose next answer is lost or held.
        self._losing: dict[asyncio.StreamWriter, str] = {}

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    def hold(self, script: Script) -> None:
        """Keeps the next run of a script until `release`; `held` is set once it is here."""
        self._begin("hold", script, 0)

    def hold_answer(self, script: Script) -> None:
        """Keeps the answer to the next run of a script; `held` is set once it is here."""
        self._begin("hold answer", script, 0)

    def lose(self, script: Script, *, after: int = 0) -> None:
        """Closes the client's connection in place of passing on the run behind `after` more of a script."""
        self._begin("lose", script, after)

    def lose_answer(self, script: Script, *, after: int = 0) -> None:
        """Closes the client's connection in place of the answer to the run behind `after` more of a script."""
        self._begin("lose answer", script, after)

    def _begin(self, fault: str, script: Script, after: int) -> None:
        self._due[fault] = (script, after)
        self.held.clear()
        self._released.clear()

    def release(self) -> None:
        """Lets go of what is held."""
        self._released.set()

    @property
    def is_due(self) -> bool:
        """Returns whether a fault has not occurred yet."""
        return bool(self._due)

    def forget(self) -> None:
        """Forgets the faults that nothing has met."""
        self._due.clear()

    def cut(self) -> None:
        """Closes every client's connection."""
        for client in list(self._clients):
            client.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries one client's connection until either side closes it."""
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
        """Closes every client's connection, and returns once all are gone."""
        self.cut()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _pass(self, command: bytes, writer: asyncio.StreamWriter, up_writer: asyncio.StreamWriter) -> bool:
        """Passes one command on; whether there is a client left to hear."""
        if self._is_due("lose", command):
            return False
        if self._is_due("hold", command):
            writer.close()
            self.held.set()
            await self._released.wait()
        for fault in ("lose answer", "hold answer"):
            if self._is_due(fault, command):
                # Clients wait for each answer before they send more: it is the next that comes.
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
    """The next whole command, as it was sent; empty where the connection has ended."""
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
    """A proxy in front of a server."""
    proxy = RedisProxy(server_port)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", proxy.port, limit=1 << 26)
    try:
        yield proxy
    finally:
        proxy.release()
        listening.close()
        await proxy.close()
