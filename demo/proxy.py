"""A proxy between Spark and the gateway that can lose answers: whole requests go through, chosen answers do not.

HTTP/1.1 on 127.0.0.1 by h11, one upstream connection per client connection, bodies held whole (the gateway's limit
bounds them). A trap strikes once: the first request of its kind, once its batch has begun, is forwarded whole, its
answer is awaited whole and not a byte of it passed on. So the gateway has acted, durably, and its caller cannot know.
"""

import asyncio
import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import h11

_HOST = "127.0.0.1"
_CHUNK_BYTES = 1 << 18
_VERB = re.compile(r":(claim|take|renew|complete|release|produce|stage|commit|abort|ask)$")


def kind_of(target: str) -> str | None:
    """Tells which of the gateway's writing calls a request target names: `…/ids:claim` → `claim`."""
    match = _VERB.search(PurePosixPath(target.split("?", 1)[0]).name)
    return match[1] if match else None


@dataclass(frozen=True)
class Message:
    """A whole request or response: its h11 head and its body."""

    head: Any
    body: bytes

    def name(self) -> str:
        """What makes a repeat the same request: target, token, call and body."""
        marks = {n: v for n, v in self.head.headers if n in (b"oncegate-token", b"oncegate-call")}
        parts = (self.head.method, self.head.target, *sorted(marks.items()), self.body)
        return hashlib.sha256(b"\0".join(b"\0".join(p) if isinstance(p, tuple) else p for p in parts)).hexdigest()[:16]


@dataclass
class Trap:
    """One lost answer. `ready` says whether the batch it is meant for has begun; `struck` is called with the request's
    name once the answer is held back, and its connection is closed when that returns."""

    kind: str
    ready: Callable[[], bool]
    struck: Callable[[str], None]
    repeated: Callable[[str], None]
    request: str | None = None
    _open: bool = field(default=True, repr=False)

    def catches(self, message: Message) -> bool:
        """True at most once."""
        caught = self._open and kind_of(message.head.target.decode()) == self.kind and self.ready()
        self._open = self._open and not caught
        return caught

    def let_go(self) -> None:
        """The answer was no 2xx: nothing was lost, so wait for the next."""
        self._open = True

    def sees(self, name: str) -> None:
        """Tells of each later request that is the caught one again."""
        if self.request == name:
            self.repeated(name)


class Proxy:
    """Runs in a thread with an event loop of its own; `port` is the one it listens on. Use as a context manager."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port  # may be set anew when the gateway came back
        self.port = 0
        self._traps: list[Trap] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._connections: set[asyncio.Task[None] | None] = set()

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def arm(self, trap: Trap) -> None:
        """Sets a trap; from any thread."""
        self._loop.call_soon_threadsafe(self._traps.append, trap)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, _HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Held on to: once its client has hung up, asyncio's streams refer to the task that waits here only weakly."""
        task = asyncio.current_task()
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        finally:
            self._connections.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Peer(h11.Connection(h11.SERVER), reader, writer)
        gateway: _Peer | None = None
        try:
            gateway = await _Peer.dial(self.upstream_port)
            while await self._exchange(client, gateway):
                pass
        except (OSError, EOFError, h11.ProtocolError):
            pass  # whichever side broke off, the other learns it by the close below
        finally:
            for peer in (client, gateway):
                if peer is not None:
                    peer.writer.close()

    async def _exchange(self, client: "_Peer", gateway: "_Peer") -> bool:
        """One request and its answer; False when the connection is to be closed."""
        request = await client.receive()
        name = request.name()
        for trap in self._traps:
            trap.sees(name)
        caught = next((trap for trap in self._traps if trap.catches(request)), None)
        await gateway.send(request)
        answer = await gateway.receive()
        if caught and 200 <= answer.head.status_code < 300:
            caught.request = name
            await self._loop.run_in_executor(None, caught.struck, name)
            return False
        if caught:
            caught.let_go()
        await client.send(answer)
        return client.next() and gateway.next()


@dataclass
class _Peer:
    """One side of a connection: whole messages in and out."""

    http: h11.Connection
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def dial(cls, port: int) -> "_Peer":
        return cls(h11.Connection(h11.CLIENT), *await asyncio.open_connection(_HOST, port))

    async def receive(self) -> Message:
        """The next whole message. Raises EOFError when the peer hung up."""
        head, body = None, bytearray()
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                if self.http.they_are_waiting_for_100_continue:
                    self.writer.write(self.http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                self.http.receive_data(await self.reader.read(_CHUNK_BYTES))
            elif isinstance(event, (h11.Request, h11.Response)):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return Message(head, bytes(body))
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError

    async def send(self, message: Message) -> None:
        for event in (message.head, h11.Data(data=message.body), h11.EndOfMessage()):
            self.writer.write(self.http.send(event) or b"")
        await self.writer.drain()

    def next(self) -> bool:
        """Makes ready for another message on this connection; False when one side wants it closed."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        return True
