"""The load's clients against a small server: all requests answered once, failures reported, a warm-up left out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bench.load.client import counted, late_s
from bench.load.kinds import packed_completed
from bench.load.wire import Run, drive

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello"
REQUEST = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nab"

Answer = Callable[[int], list[bytes]]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[int, list[int]]]:
    """Starts a server that reads requests of REQUEST's length and writes the pieces of an answer; yields its port and
    the counts read."""
    read: list[int] = []
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            while True:
                await reader.readexactly(len(REQUEST))
                read.append(len(read))
                for piece in answer(read[-1]):
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], read
        await asyncio.gather(*serving)


def nothing() -> None:
    return None


@pytest.mark.parametrize("pieces", [[ANSWER], [ANSWER[:20], ANSWER[20:]], [ANSWER[:-5], ANSWER[-5:]]])
@pytest.mark.parametrize("rate", [None, 10_000.0], ids=["closed", "open"])
async def test_each_request_is_sent_and_answered_once(pieces: list[bytes], rate: float | None) -> None:
    run = Run([REQUEST] * 50, rate=rate, seconds=60.0 if rate is None else 50 / 10_000)
    async with serving(lambda _: pieces) as (port, read):
        await drive(run, port, 4, nothing)
    assert len(read) == len(run.latencies_s) == len(run.ends_s) == 50
    assert {answer for _, answer in run.samples} <= {ANSWER, *([b"".join(pieces)])}


async def test_an_answer_of_known_length_needs_no_head() -> None:
    run = Run([REQUEST] * 10, answer_bytes=7, seconds=60.0)
    async with serving(lambda _: [b"+OK", b"\r\n$-"]) as (port, read):
        await drive(run, port, 2, nothing)
    assert len(read) == 10


async def test_an_answer_is_followed_by_a_second_request_and_both_are_one_entry() -> None:
    followed: list[bytes] = []

    def follow(answer: bytes) -> bytes:
        followed.append(answer)
        return REQUEST

    run = Run([REQUEST] * 10, follow=follow, seconds=60.0)
    async with serving(lambda _: [ANSWER[:-2], ANSWER[-2:]]) as (port, read):
        await drive(run, port, 2, nothing)
    assert (len(read), len(run.latencies_s), followed) == (20, 10, [ANSWER] * 10)
    assert {answer for _, answer in run.samples} == {ANSWER}


def test_an_open_loop_is_late_by_the_time_after_its_end() -> None:
    assert late_s(Run([b""], rate=10.0, seconds=2.0, begin_s=5.0, ends_s=[6.0, 7.25])) == 0.25
    assert late_s(Run([b""], rate=10.0, seconds=2.0, begin_s=5.0, ends_s=[6.0])) == 0.0
    assert late_s(Run([b""], rate=None, seconds=2.0, begin_s=5.0, ends_s=[9.0])) == 0.0


async def test_an_answer_that_is_no_success_ends_the_run_and_is_shown() -> None:
    refused = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nfull"
    run = Run([REQUEST] * 10, seconds=60.0)
    async with serving(lambda number: [refused if number == 3 else ANSWER]) as (port, _):
        with pytest.raises(RuntimeError, match="503"):
            await drive(run, port, 1, nothing)


def test_answers_of_the_warm_up_do_not_count() -> None:
    ends = [float(second) for second in range(1, 101)]
    run = Run([b""], begin_s=0.0, latencies_s=[9.0] * 14 + [0.001] * 86, ends_s=ends)
    found = counted(run, ids=10)
    assert found["rate"] == pytest.approx(10)
    assert found["p99_ms"] == pytest.approx(1)
    assert found["answers"] == 100


async def test_an_answer_that_has_nothing_to_follow_is_an_entry_alone() -> None:
    run = Run([REQUEST] * 10, follow=lambda answer: None, seconds=60.0)
    async with serving(lambda _: [ANSWER]) as (port, read):
        await drive(run, port, 2, nothing)
    assert (len(read), len(run.latencies_s)) == (10, 10)


@pytest.mark.parametrize("granted", [True, False])
def test_a_claim_is_completed_where_it_granted_an_id(granted: bool) -> None:
    follow = packed_completed({"ids": 2, "clients": 1, "seconds": 0, "live": 1, "stream": 1}).follow
    assert follow is not None
    answer = bytes(range(16)) + bytes(4) + (2).to_bytes(4, "little") + bytes([3, 1 if granted else 3])
    request = follow(b"HTTP/1.1 200 OK\r\n\r\n" + answer)
    assert (request is not None) is granted
