"""Connections of the asyncio client, against a raw server: an abandoned or unsolicited answer is never used later."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncegate_spark.aio.clock import AsyncSystemClock
from oncegate_spark.aio.pool import Pool
from oncegate_spark.credentials import Credentials
from oncegate_spark.protocol.calls.steps import Try
from oncegate_spark.protocol.effort import Request, WireFailure

Serve = Callable[["Server", asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
WAIT_S = 30


class Server:
    """Serves each connection by `serve`; counts them in `opened` and `ended`."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.opened, self.ended = 0, asyncio.Semaphore(0)
        self.extra = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            await self._serve(self, reader, writer)
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.ended.release()


@asynccontextmanager
async def pool_of(serve: Serve, connections_max: int = 2) -> AsyncIterator[tuple[Pool, Server]]:
    server = Server(serve)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = Pool(f"http://127.0.0.1:{port}", Credentials(), AsyncSystemClock(), connections_max)
    async with listening:
        yield pool, server
        await pool.close()


def get_request(path: str, timeout_ms: int = WAIT_S * 1_000) -> Try:
    return Try(Request("GET", path, "asking", "whether it was asked"), timeout_ms, timeout_ms)


async def head(reader: asyncio.StreamReader) -> bytes:
    """Reads a request and returns its path."""
    return (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def says_nothing(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head(reader)


async def test_the_connection_of_a_request_that_is_given_up_is_closed_and_its_place_is_free() -> None:
    async with pool_of(says_nothing, 1) as (pool, server):
        for opened in (1, 2):
            with pytest.raises(WireFailure) as raised:
                await pool.exchange(get_request("/slow", 50))
            assert raised.value.sent
            async with asyncio.timeout(WAIT_S):
                await server.ended.acquire()
            assert server.opened == opened


async def test_the_connection_of_a_request_that_is_cancelled_is_closed_and_its_place_is_free() -> None:
    async with pool_of(says_nothing, 1) as (pool, server):
        for opened in (1, 2):
            asking = asyncio.create_task(pool.exchange(get_request("/slow")))
            async with asyncio.timeout(WAIT_S):
                while server.opened < opened:
                    await asyncio.wait([asking], timeout=0.01)
                asking.cancel()
                await asyncio.wait([asking])
                await server.ended.acquire()


async def says_more(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with the path, then sends an unsolicited answer."""
    writer.write(answer(await head(reader)))
    await server.extra.wait()
    writer.write(answer(b"late"))


async def test_an_unsolicited_answer_ends_its_connection_and_answers_no_later_request() -> None:
    failed = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    async with pool_of(says_more) as (pool, server):
        assert (await pool.exchange(get_request("/first"))).body == b"/first"
        server.extra.set()
        async with asyncio.timeout(WAIT_S):
            await server.ended.acquire()
        assert (await pool.exchange(get_request("/second"))).body == b"/second"
        assert (server.opened, failed) == (2, [])


async def says_goodbye(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(await head(reader)).replace(b"\r\n", b"\r\nconnection: close\r\n", 1))


async def test_a_connection_whose_last_answer_closes_it_is_not_reused() -> None:
    async with pool_of(says_goodbye) as (pool, server):
        for opened, path in enumerate(("/first", "/second"), 1):
            assert (await pool.exchange(get_request(path))).body == path.encode()
            assert server.opened == opened
            async with asyncio.timeout(WAIT_S):
                await server.ended.acquire()


async def answers_all(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        path = await head(reader)
        await server.extra.wait()
        writer.write(answer(path))


async def test_a_connection_that_comes_back_after_the_pool_was_closed_is_closed() -> None:
    async with pool_of(answers_all) as (pool, server):
        asking = asyncio.create_task(pool.exchange(get_request("/under-way")))
        async with asyncio.timeout(WAIT_S):
            while not server.opened:
                await asyncio.wait([asking], timeout=0.01)
            await pool.close()
            server.extra.set()
            assert (await asking).body == b"/under-way"
            await server.ended.acquire()
