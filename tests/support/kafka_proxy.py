"""Stands between clients and a Kafka broker and knows the frames: counts requests, holds one, or loses its answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

# API keys of the Kafka protocol.
PRODUCE, INIT_PRODUCER_ID, END_TXN, SASL_AUTHENTICATE = 0, 22, 26, 36
_SIZE_BYTES = 4


class KafkaProxy:
    """`seen` counts requests by API key. What `hold` or `lose_answer` names happens to the next such request, or to
    the one behind `after` more.

    hold(api): it waits here until `release`; with `cut` the client's connection is closed, the broker's stays.
    lose_answer(api): the broker gets it, and the client's connection is closed in place of the answer.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self.seen: Counter[int] = Counter()
        self.held = asyncio.Event()
        self._released = asyncio.Event()
        # By API key, how many requests are passed on first.
        self._hold: dict[int, int] = {}
        self._lose: dict[int, int] = {}
        self._cut = False
        self._clients: set[asyncio.StreamWriter] = set()

    def hold(self, api: int, *, cut: bool = False, after: int = 0) -> None:
        """Keeps the next request of this kind until `release`; `held` is set once it is here."""
        self._hold, self._cut = {api: after}, cut
        self.held.clear()
        self._released.clear()

    def release(self) -> None:
        """Lets go of what is held."""
        self._released.set()

    def lose_answer(self, api: int, *, after: int = 0) -> None:
        """Closes the client's connection in place of the answer to the next request of this kind."""
        self._lose = {api: after}

    def cut(self) -> None:
        """Closes every client's connection, as a broker does that restarts."""
        for client in self._clients:
            client.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries one client's connection until either side closes it."""
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
        lost: set[bytes] = set()
        self._clients.add(writer)
        answering = asyncio.create_task(self._answers(up_reader, writer, lost))
        try:
            while frame := await _frame(reader):
                await self._request(frame, writer, up_writer, lost)
        finally:
            self._clients.discard(writer)
            writer.close()
            up_writer.close()
            # A test that ends cancels what still waits here.
            with suppress(asyncio.CancelledError):
                await asyncio.wait({answering})

    async def _request(
        self, frame: bytes, writer: asyncio.StreamWriter, up_writer: asyncio.StreamWriter, lost: set[bytes]
    ) -> None:
        api, correlation = int.from_bytes(frame[:2], "big"), frame[4:8]
        self.seen[api] += 1
        if _is_due(self._lose, api):
            lost.add(correlation)
        if _is_due(self._hold, api):
            if self._cut:
                writer.close()
            self.held.set()
            await self._released.wait()
        up_writer.write(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
        await up_writer.drain()

    async def _answers(self, up_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: set[bytes]) -> None:
        while frame := await _frame(up_reader):
            if frame[:4] in lost:
                break
            writer.write(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
        writer.close()


def _is_due(waiting: dict[int, int], api: int) -> bool:
    """Whether this request is the one that was named; it is forgotten then."""
    if api not in waiting:
        return False
    waiting[api] -= 1
    if waiting[api] >= 0:
        return False
    del waiting[api]
    return True


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """The next whole frame; empty where the connection has ended."""
    try:
        size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def proxied(port: int, broker_port: int) -> AsyncIterator[KafkaProxy]:
    """A proxy that listens on `port` of 127.0.0.1 for the broker at `broker_port`."""
    proxy = KafkaProxy(broker_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", port)
    try:
        yield proxy
    finally:
        proxy.release()
        server.close()
