"""Answers that their callers do not read: bounded, counted by caller, and cut off after a while."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from oncegate.engine.admission import ANSWER_SHARES
from oncegate.engine.limits import Limits
from oncegate.transports.http.routes import topics
from tests.support.http_app import ARROW, CLAIM, JSON, Served, open_http, read_reply, request, served, stream, token
from tests.support.memory_gateway import run_ready_tasks, wait_until

TOPIC = "/v1/namespaces/default/topics/t"
READ = request("GET", f"{TOPIC}/partitions/0/records?offset=0&max_rows=100000", Accept=JSON)
MIB = 1 << 20
# More than the system buffers for a connection.
ROW_BYTES, ROWS = 1_000, 12_000
SMALL: dict[str, Any] = {"page_bytes": 8 * MIB, "bytes_in_flight": 256 * MIB}


async def produce(http: Served, rows: int = ROWS) -> None:
    body = stream(pa.record_batch({"v": ["x" * ROW_BYTES] * rows}))
    headers = {"Content_Type": ARROW, "Oncegate_Token": token(), "Oncegate_Call": "0"}
    assert (await http.send(request("POST", f"{TOPIC}/records:produce", body, **headers))).status == 200


@asynccontextmanager
async def silent(
    http: Served, raw: bytes, count: int, address: str = "127.0.0.1"
) -> AsyncIterator[list[socket.socket]]:
    """Opens `count` connections that send this and read nothing."""
    loop, found = asyncio.get_running_loop(), []
    for _ in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.bind((address, 0))
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", http.program.port))
        await loop.sock_sendall(sock, raw)
        found.append(sock)
    try:
        yield found
    finally:
        for sock in found:
            sock.close()


async def ask(http: Served, raw: bytes, address: str) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port, local_addr=(address, 0))
    writer.write(raw)
    try:
        return await asyncio.wait_for(read_reply(reader), 20)
    finally:
        writer.close()


def in_flight(http: Served) -> int:
    return http.program.gateway.admission.size_bytes


def unread(http: Served) -> int:
    """Returns the bytes that wait in the server's connections."""
    return sum(one.transport.get_write_buffer_size() for one in http.program.server.server_state.connections)


async def test_readers_that_do_not_read_fill_their_own_share_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "ROOM_WAIT_S", 0.2)
    async with served(**SMALL) as http:
        await produce(http)
        share = SMALL["bytes_in_flight"] // ANSWER_SHARES
        async with silent(http, READ, 20):
            refused = http.program.gateway.admission
            await wait_until(lambda: refused.refused > 3 and unread(http) > 0 and refused.requests == 0)
            assert MIB < in_flight(http) <= share + SMALL["page_bytes"]
            assert (await ask(http, READ, "127.0.0.2")).status == 200
            full = refused.answers.hold("address 127.0.0.1", share)  # whatever the system has buffered meanwhile
            assert (await ask(http, READ, "127.0.0.1")).problem(503, "OVERLOADED")["action"] == "retry"
            small = json.dumps({"token": token(), "call": 0, "ids": ["a"]}).encode()
            claimed = await ask(http, request("POST", CLAIM, small, Content_Type=JSON), "127.0.0.1")
            assert claimed.status == 200
            full.release()
        await wait_until(lambda: in_flight(http) == 0)


async def test_a_reader_that_takes_no_byte_is_cut_off_and_its_room_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(**SMALL, unread_answer_ms=1_000) as http:
        await produce(http)
        async with silent(http, READ, 2):
            await wait_until(lambda: in_flight(http) > 0)
            await wait_until(lambda: "readers_cut connections=" in http.log.getvalue())
            await wait_until(lambda: in_flight(http) == 0 and not http.program.server.server_state.connections)


async def test_what_follows_an_answer_that_is_not_read_is_not_begun() -> None:
    ids = [str(number) for number in range(30_000)]
    claim = json.dumps({"token": token(), "call": 0, "ids": ids}).encode()
    raw = b"".join(request("POST", CLAIM, claim, Content_Type=JSON) for _ in range(2))
    later = json.dumps({"token": token(), "call": 0, "ids": ["later"]}).encode()
    async with served() as http:
        before = http.position
        stuck = raw + request("GET", "/openapi.json") * 8 + request("POST", CLAIM, later, Content_Type=JSON)
        async with silent(http, stuck, 1) as (sock,):
            await wait_until(lambda: unread(http) > 0)
            for _ in range(3):
                assert (await http.send(request("GET", "/healthz/live"))).status == 200
            await run_ready_tasks()
            assert (http.position, http.program.gateway.admission.requests) == (before + 1, 0)
            assert not http.program.server.server_state.tasks
            assert in_flight(http) > 0
            loop, taken = asyncio.get_running_loop(), b""
            while taken.count(b"HTTP/1.1 200") < 11:
                taken += await asyncio.wait_for(loop.sock_recv(sock, 1 << 20), 20)
            assert http.position == before + 2
            async with asyncio.timeout(20):  # before an idle connection is closed
                await wait_until(lambda: in_flight(http) == 0)


async def test_a_read_whose_caller_has_gone_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ROOM_WAIT_S", 60)
    read: list[object] = []
    async with served(**SMALL) as http:
        await produce(http, 1)
        answers = http.program.gateway.admission.answers
        full = answers.hold("address 127.0.0.1", SMALL["bytes_in_flight"] // ANSWER_SHARES)
        monkeypatch.setattr(topics.records, "read", read.append)
        async with silent(http, READ, 3):
            await wait_until(lambda: len(answers._waiting) == 3)
        await wait_until(lambda: not answers._waiting)
        full.release()
        assert (read, in_flight(http)) == ([], 0)


async def test_a_page_ends_at_its_size_and_rows_written_together_come_as_one_page_of_arrow() -> None:
    async with open_http(Limits(page_bytes=20_000)) as http:
        for first, count in ((0, 100), (100, 10), (110, 10), (120, 10)):
            rows = pa.record_batch({"n": list(range(first, first + count)), "v": ["x" * 1_000] * count})
            await http.post_raw(f"{TOPIC}/records:produce", ARROW, stream(rows))
        offset, pages = 0, []
        while offset < 130:
            reply = await http.get(f"{TOPIC}/partitions/0/records?offset={offset}", Accept=ARROW)
            numbers = pa.ipc.open_stream(reply.body).read_all().column("n").to_pylist()
            assert numbers == list(range(offset, int(reply.headers["oncegate-next-offset"])))
            offset += len(numbers)
            pages.append(len(numbers))
        assert pages == [100, 20, 10]
        reply = await http.get(f"{TOPIC}/partitions/0/records", Accept=JSON)
        assert len(reply.body) < 20_000 + 200
        assert reply.json["next_offset"] == len(reply.json["records"]) == 19
