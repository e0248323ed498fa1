"""A single connection: pipelined requests, unreadable later ones, offers to upgrade, endless heads."""

import asyncio
import json
import socket
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from oncegate.transports.http.server import closing
from oncegate.transports.http.server.protocol import HEAD_BYTES
from tests.support.http_app import ARROW, CLAIM, JSON, Reply, Served, read_reply, request, served, stream, token
from tests.support.http_requests import LIVE, message, roundabout
from tests.support.memory_gateway import run_ready_tasks, wait_until

CHUNKED = request("POST", CLAIM, Content_Length="", Content_Type=JSON, Transfer_Encoding="chunked")
OFFERS = ["h2c", "websocket"]


def claiming(**headers: str) -> bytes:
    """Encodes a claim of a new id by a new attempt."""
    raw, lines = message(token=token(), ids=[token()]), [f"{name}: {value}\r\n" for name, value in headers.items()]
    return raw.replace(b"\r\n\r\n", b"\r\n" + "".join(lines).encode() + b"\r\n", 1)


async def replies(http: Served, raw: bytes, count: int) -> list[Reply]:
    """Sends bytes at once on one connection and returns the first answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
    writer.write(raw)
    found = [await asyncio.wait_for(read_reply(reader), 20) for _ in range(count)]
    writer.close()
    return found


def granted(reply: Reply) -> bool:
    return reply.status == 200 and reply.json["verdicts"] == [{"verdict": "GRANTED"}]


@pytest.mark.parametrize("way", [bytes, roundabout])
async def test_a_body_that_cannot_be_read_takes_no_answer_from_the_request_before_it(way: Any) -> None:
    async with served() as http:
        before = http.position
        first, second = await replies(http, way(claiming()) + way(CHUNKED) + b"no length\r\n", 2)
        assert granted(first)
        second.problem(411, "LENGTH_REQUIRED")
        assert second.headers["connection"] == "close"
        assert http.position == before + 1


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("way", [bytes, roundabout])
async def test_who_offers_another_protocol_is_answered_in_this_one_body_and_all(way: Any, offer: str) -> None:
    """Java's own client offers HTTP/2 with the first request of each connection."""
    offering = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": offer, "HTTP2-Settings": "AAEAAEAAAAIAAAAB"}
    async with served() as http:
        raw = way(claiming(**offering))
        found = await replies(http, raw + LIVE + way(claiming(**offering)) + way(claiming()), 4)
        assert [granted(reply) for reply in (found[0], found[2], found[3])] == [True] * 3
        assert found[1].json["status"] == "live"
        raw = way(claiming(**offering))
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(raw[:-20])
        for _ in range(5):  # answered after the piece was read: connections are read in turn
            await http.send(LIVE)
        writer.write(raw[-20:])
        assert granted(await asyncio.wait_for(read_reply(reader), 20))
        writer.close()


@pytest.mark.parametrize("before", [b"", claiming()], ids=["first", "behind another"])
async def test_a_head_that_does_not_end_is_refused_before_it_takes_much_memory(before: bytes) -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(before)
        if before:
            assert granted(await asyncio.wait_for(read_reply(reader), 20))
        writer.write(b"POST / HTTP/1.1\r\nx: " + b"x" * (HEAD_BYTES + 1 - 20))
        (await asyncio.wait_for(read_reply(reader), 20)).problem(431, "HEAD_TOO_LARGE")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


async def test_heads_that_end_may_come_in_pieces_and_as_many_as_one_likes() -> None:
    long = LIVE.replace(b"\r\n\r\n", b"\r\nx: " + b"x" * (HEAD_BYTES // 2) + b"\r\n\r\n")
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        for _ in range(5):
            for piece in (long[:1_000], long[1_000:]):
                writer.write(piece)
                await writer.drain()
            assert (await asyncio.wait_for(read_reply(reader), 20)).status == 200
        writer.close()


async def test_head_has_the_fields_of_get_and_no_body() -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(LIVE.replace(b"GET", b"HEAD") + LIVE)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        reply = await asyncio.wait_for(read_reply(reader), 20)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert f"content-length: {len(reply.body)}\r\n".encode() in head
        assert reply.json["status"] == "live"
        writer.close()


async def unread(http: Served, raw: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens a connection whose caller reads little of the answer; returns once the rest waits in the server."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", http.program.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 12)
    writer.write(raw)
    state = http.program.server.server_state
    while not any(one.transport.get_write_buffer_size() for one in state.connections):
        await run_ready_tasks()
    return reader, writer


MANY = json.dumps({"token": token(), "call": 0, "ids": [str(number) for number in range(9_000)]}).encode()


@pytest.mark.parametrize(
    "raw",
    [request("GET", "/openapi.json") * 80, request("POST", CLAIM, MANY, Content_Type=JSON) * 60],
    ids=["framework", "fast path"],
)
async def test_a_caller_that_takes_no_answers_does_not_hold_a_shutdown(
    raw: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(closing, "UNREAD_LOOKS", 4)
    async with served() as http:
        _, writer = await unread(http, raw)
        stopping = asyncio.create_task(http.program.server.drain())
        in_time, _ = await asyncio.wait([stopping], timeout=15)  # out of the 27 s that callers have
        writer.transport.abort()
        await stopping
        assert in_time
    assert http.log.getvalue().count("connections_cut") == 1
    assert "Traceback" not in http.log.getvalue() + caplog.text


def test_a_connection_is_cut_off_at_the_last_of_its_looks_and_not_before() -> None:
    connection = Mock()
    assert [closing.cut_off({connection: unread}, 3) for unread in ((1, 2), (0, 3), (1, 3))] == [0, 0, 1]
    connection.transport.abort.assert_called_once_with()


async def test_a_caller_that_takes_less_than_the_kernel_makes_room_for_is_seen_to_read() -> None:
    async with served() as http:
        reader, writer = await unread(http, request("GET", "/openapi.json") * 80)
        state = http.program.server.server_state
        looks = closing.looked_at(state, closing.looked_at(state, {}))
        assert max(count for _, count in looks.values()) == 2
        waiting = sum(one.transport.get_write_buffer_size() for one in state.connections)
        await reader.readexactly(1 << 18)
        await wait_until(lambda: max(count for _, count in closing.looked_at(state, looks).values()) == 1)
        assert sum(one.transport.get_write_buffer_size() for one in state.connections) == waiting
        writer.transport.abort()


async def test_a_caller_that_takes_its_answer_slowly_gets_it_whole_while_the_server_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closing, "UNREAD_LOOKS", 4)
    rows = pa.table({"v": ["x" * 1_000] * 12_000})
    topic = "/v1/namespaces/default/topics/t"
    async with served() as http:
        body = stream(*rows.to_batches())
        headers = {"Content_Type": ARROW, "Oncegate_Token": token(), "Oncegate_Call": "0"}
        assert (await http.send(request("POST", f"{topic}/records:produce", body, **headers))).status == 200
        reader, writer = await unread(http, request("GET", f"{topic}/partitions/0/records", Accept=ARROW))
        stopping, taken = asyncio.create_task(http.program.server.drain()), b""
        while piece := await asyncio.wait_for(reader.read(1 << 18), 20):
            taken += piece
            await asyncio.wait([stopping], timeout=0.002)
        await stopping
        writer.close()
    head, _, answer = taken.partition(b"\r\n\r\n")
    assert f"content-length: {len(answer)}\r\n".encode() in head
    assert pa.ipc.open_stream(answer).read_all().num_rows == rows.num_rows
    assert "connections_cut" not in http.log.getvalue()
