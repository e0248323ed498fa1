"""Features of the asyncio client alone: concurrent and cancelled calls, against a scripted gateway."""

import asyncio
import gc
import http.client
import io
import itertools
import json
import threading
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import AsyncGateway, Outcome
from oncegate_spark.aio.pool import HEAD_BYTES_MAX, Reading
from oncegate_spark.errors import NotCompleted, Unreachable
from tests.support.stub_gateway import Answer, Asked, StubGateway, in_chunks
from tests.support.verdicts import DUPLICATE, GRANTED, packed


class Gate:
    """Blocks every request until it is opened, and counts the blocked ones."""

    def __init__(self, *, answer: Answer | None = None) -> None:
        self.open = threading.Event()
        self.held = 0
        self.held_max = 0
        self._lock = threading.Lock()
        self._answer = answer or Answer()
        self._arrived = threading.Condition(self._lock)

    def __call__(self, asked: Asked) -> Answer:
        with self._arrived:
            self.held += 1
            self.held_max = max(self.held, self.held_max)
            self._arrived.notify_all()
        assert self.open.wait(30)
        with self._arrived:
            self.held -= 1
        return self._answer

    async def until_held(self, count: int) -> None:
        def wait() -> None:
            with self._arrived:
                assert self._arrived.wait_for(lambda: self.held >= count, 30)

        await asyncio.to_thread(wait)


async def test_calls_go_side_by_side_up_to_the_limit_and_the_rest_wait_their_turn() -> None:
    gate = Gate()
    with StubGateway(otherwise=gate) as stub:
        async with AsyncGateway(stub.url, connections_max=3) as gateway:
            calls = [asyncio.create_task(gateway.describe()) for _ in range(10)]
            await gate.until_held(3)
            gate.open.set()
            await asyncio.gather(*calls)
        assert (gate.held_max, stub.connections, len(stub.asked)) == (3, 3, 10)


async def test_a_call_that_finds_no_free_connection_in_time_was_never_sent() -> None:
    gate = Gate()
    with StubGateway(otherwise=gate) as stub:
        async with AsyncGateway(stub.url, connections_max=1) as gateway:
            first = asyncio.create_task(gateway.describe())
            await gate.until_held(1)
            with pytest.raises(Unreachable, match="all 1 connections were in use; nothing was written") as raised:
                await gateway.settle("c", "complete", 200)
            assert raised.value.outcome is Outcome.NOT_WRITTEN
            gate.open.set()
            await first
        assert len(stub.asked) == 1


async def test_a_cancelled_call_leaves_no_half_read_answer_to_the_next_one() -> None:
    """The late answer to the first call must not become that of the next one."""
    go = threading.Event()
    late = Answer(body=b'{"answer": "of the cancelled call"}', held=go)
    with StubGateway(late, Answer(body=b'{"answer": "mine"}')) as stub:
        async with AsyncGateway(stub.url, connections_max=1) as gateway:
            call = asyncio.create_task(gateway.describe())
            while not stub.asked:
                await asyncio.to_thread(threading.Event().wait, 0.001)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            go.set()
            assert await gateway.describe() == {"answer": "mine"}
        assert stub.connections == 2


async def test_a_cancelled_call_gives_its_place_to_the_next_one() -> None:
    gate = Gate()
    with StubGateway(otherwise=gate) as stub:
        async with AsyncGateway(stub.url, connections_max=2) as gateway:
            calls = [asyncio.create_task(gateway.describe()) for _ in range(4)]
            await gate.until_held(2)
            for call in calls:
                call.cancel()
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends)
            gate.open.set()
            assert await gateway.describe() == {}
        assert len(stub.asked) == 3


async def test_a_claim_whose_complete_was_cancelled_counts_as_open() -> None:
    go = threading.Event()

    def script(asked: Asked) -> Answer:
        return Answer(held=go) if asked.path.endswith(":complete") else Answer(body=packed([GRANTED], claim=True))

    async def left(gateway: AsyncGateway) -> None:
        async with gateway.attempt() as attempt:
            claimed = await attempt.claim(["a"])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await attempt.complete(claimed)

    with StubGateway(otherwise=script) as stub:
        async with AsyncGateway(stub.url) as gateway:
            with pytest.raises(NotCompleted, match="unknown: whether they are written"):
                await left(gateway)
            go.set()


async def test_calls_of_one_attempt_made_side_by_side_have_numbers_of_their_own() -> None:
    with StubGateway(otherwise=lambda asked: Answer(body=packed([DUPLICATE]))) as stub:
        async with AsyncGateway(stub.url) as gateway, gateway.attempt() as attempt:
            await asyncio.gather(*(attempt.claim([str(n)]) for n in range(20)))
        assert sorted(int(asked.headers["oncegate-call"]) for asked in stub.asked) == list(range(20))


def test_a_gateway_belongs_to_one_event_loop() -> None:
    with StubGateway() as stub:
        gateway = AsyncGateway(stub.url)

        async def described() -> None:
            await gateway.describe()
            await gateway.close()

        asyncio.run(described())
        with pytest.raises(RuntimeError, match="create one per loop"):
            asyncio.run(described())


async def test_nothing_is_left_open_after_close_even_by_a_call_that_outlives_it() -> None:
    gate = Gate()
    with StubGateway(otherwise=gate) as stub:
        gateway = AsyncGateway(stub.url)
        call = asyncio.create_task(gateway.describe())
        await gate.until_held(1)
        await gateway.close()
        gate.open.set()
        await call
        assert gateway._pool._idle == []
    gc.collect()  # an open socket would warn, and a warning is an error


REPLIES: dict[str, bytes] = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
    "empty": b"HTTP/1.1 204 No Content\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + in_chunks(b"a\r\n\r\nb" * 3, 4),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("seed", range(5))
def test_a_reply_is_read_alike_however_its_bytes_come_in(name: str, seed: int) -> None:
    whole, rng = REPLIES[name], Random(seed)
    cuts = sorted(rng.choices(range(len(whole) + 1), k=6))
    reading = Reading("GET")
    fed = [reading.feed(whole[a:b]) for a, b in itertools.pairwise([0, *cuts, len(whole)]) if b > a]
    assert fed == [False] * (len(fed) - 1) + [True]
    assert reading.reply(7) == read_at_once(whole).reply(7)
    assert reading.reply(7).body == expected(whole)
    assert not reading.last


def read_at_once(whole: bytes) -> Reading:
    reading = Reading("GET")
    assert reading.feed(whole)
    return reading


def expected(whole: bytes) -> bytes:
    class Socket:
        def makefile(self, mode: str) -> io.BytesIO:
            return io.BytesIO(whole)

    sock: Any = Socket()
    response = http.client.HTTPResponse(sock, method="GET")
    response.begin()
    return response.read()


def test_a_reply_without_a_length_ends_with_its_connection() -> None:
    reading = Reading("GET")
    assert not reading.feed(b"HTTP/1.1 200 OK\r\n\r\nhel")
    assert not reading.feed(b"lo")
    assert reading.ended()
    assert reading.last
    assert reading.reply(0).body == b"hello"


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * (HEAD_BYTES_MAX + 1)])
def test_malformed_replies_are_never_accepted(data: bytes) -> None:
    with pytest.raises(http.client.HTTPException):
        Reading("GET").feed(data)


def test_bytes_after_a_reply_are_not_part_of_it() -> None:
    reading = Reading("GET")
    assert reading.feed(REPLIES["length"] + b"HTTP/1.1 500 Of another\r\n")
    assert reading.reply(0).body == b"hello"
    assert reading.last  # later answers cannot be assigned to requests


async def test_a_large_body_goes_both_ways() -> None:
    body = json.dumps({"text": "x" * 8_000_000}).encode()
    with StubGateway(Answer(body=body), Answer(body=b'{"rows": 0, "offsets": []}')) as stub:
        async with AsyncGateway(stub.url) as gateway:
            assert len((await gateway.describe())["text"]) == 8_000_000
            sent = pa.py_buffer(bytes(8_000_000)).to_pybytes()
            await gateway.produce("t", "ab" * 16, 0, sent)
        assert stub.asked[1].body == sent


async def test_a_renewal_does_not_wait_behind_what_the_client_is_sending() -> None:
    """The only connection is busy until two renewals have arrived."""
    renewed = threading.Event()
    renewals = itertools.count(1)

    def script(asked: Asked) -> Answer:
        if asked.path.endswith("ids:claim"):
            return Answer(body=packed([GRANTED], claim=True, lease_ms=600))
        if asked.path.endswith(":renew") and next(renewals) == 2:
            renewed.set()
        members = {"state": "OPEN", "settled": 1, "taken_over": 0, "lease_ms": 600}
        return Answer(body=json.dumps(members).encode(), held=None if asked.method == "POST" else renewed)

    with StubGateway(otherwise=script) as stub:
        async with AsyncGateway(stub.url, connections_max=1) as gateway, gateway.attempt() as attempt:
            claimed = await attempt.claim(["a"])
            async with attempt.holding(claimed):
                await gateway.describe()
            assert renewed.is_set()
            await attempt.complete(claimed)
