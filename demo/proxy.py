"""A proxy between Spark and the gateway that forwards every request and drops selected responses.

HTTP/1.1 on 127.0.0.1 by h11, with one upstream connection per client connection. Bodies are buffered whole; the
gateway's limit bounds them. A trap strikes once: it forwards the first request of its kind after its batch has begun,
waits for the whole response and passes on none of it. The gateway has then acted, durably, and its caller cannot know.
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
    """Returns the verb of a request target, if it names a writing call: `claim` for `…/ids:claim`."""
    match = _VERB.search(PurePosixPath(target.split("?", 1)[0]).name)
    return match[1] if match else None


@dataclass(frozen=True)
class Message:
    """A whole request or response: its h11 head and its body."""

    head: Any
    body: bytes

    def name(self) -> str:
        """Returns the identity of a request, which its retries share: target, token, call and body."""
        marks = {n: v for n, v in self.head.headers if n in (b"oncegate-token", b"oncegate-call")}
        parts = (self.head.method, self.head.target, *sorted(marks.items()), self.body)
        return hashlib.sha256(b"\0".join(b"\0".join(p) if isinstance(p, tuple) else p for p in parts)).hexdigest()[:16]


@dataclass
class Trap:
    """A trap that drops one response.

    ready: returns whether its batch has begun.
    struck: called with the request's name once the response is held back; the connection is closed when it returns.
    """

    kind: str
    ready: Callable[[], bool]
    struck: Callable[[str], None]
    repeated: Callable[[str], None]
    request: str | None = None
    _open: bool = field(default=True, repr=False)

    def catches(self, message: Message) -> bool:
        """Returns whether it catches this request; true at most once."""
        caught = self._open and kind_of(message.head.target.decode()) == self.kind and self.ready()
        self._open = self._open and not caught
        return caught

    def let_go(self) -> None:
        """Opens the trap again: the response was not a 2xx, so nothing would be lost."""
        self._open = True

    def sees(self, name: str) -> None:
        """Reports a later request if it is a retry of the caught one."""
        if self.request == name:
            self.repeated(name)


class Proxy:
    """The proxy, a context manager; runs in a thread with its own event loop and listens on `port`."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port  # may be changed after the gateway has been restarted
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
        """Sets a trap. Thread-safe."""
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
        """Serves a connection, and references its task: after a disconnect asyncio's streams do so only weakly."""
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
            pass  # either side disconnected; the close below informs the other
        finally:
            for peer in (client, gateway):
                if peer is not None:
                    peer.writer.close()

    async def _exchange(self, client: "_Peer", gateway: "_Peer") -> bool:
        """Forwards one request and its response; returns false if the connection must be closed."""
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
    """A side of a connection, which sends and receives whole messages."""

    http: h11.Connection
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def dial(cls, port: int) -> "_Peer":
        return cls(h11.Connection(h11.CLIENT), *await asyncio.open_connection(_HOST, port))

    async def receive(self) -> Message:
        """Returns the next whole message. Raises EOFError if the peer disconnected."""
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
        """Prepares the connection for the next message; returns false if one side wants it closed."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        return True
