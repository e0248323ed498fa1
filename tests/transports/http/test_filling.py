"""Large bodies of rows, which bypass the parser: whole, truncated, slow, and followed by more."""

import asyncio

import pyarrow as pa
import pytest

from oncegate.transports.http.server.filling import Filling
from tests.support.http_app import ARROW, Reply, Served, read_reply, request, served, token

PRODUCE = "/v1/namespaces/default/topics/t/records:produce"
RECORDS = "/v1/namespaces/default/topics/t/partitions/0/records"
LIVE = request("GET", "/healthz/live")


def rows(count: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"n": pa.array(numbers), "text": [f"row {number:>90}" for number in numbers]})


def producing(table: pa.Table, **headers: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    assert len(body) > 300_000, "too small to be filled"
    head = {"Content-Type": ARROW, "Oncegate-Token": token(), "Oncegate-Call": "0", **headers}
    return request("POST", PRODUCE, body, **{name.replace("-", "_"): value for name, value in head.items()})


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[Filling]:
    """Collects every body that bypasses the parser."""
    found: list[Filling] = []
    begin = Filling._begin

    def noted(self: Filling) -> None:
        found.append(self)
        begin(self)

    monkeypatch.setattr(Filling, "_begin", noted)
    return found


async def stored(http: Served) -> pa.Table:
    headers = {"Accept": ARROW}
    reply = await http.send(request("GET", RECORDS, **headers))
    assert reply.status == 200
    return pa.ipc.open_stream(reply.body).read_all()


async def read_on(http: Served) -> None:
    """Waits until the gateway has read everything sent before: connections are read in turn."""
    for _ in range(5):
        assert (await http.send(LIVE)).status == 200


@pytest.mark.parametrize("cuts", [(), (40_000,), (200, 70_000, 250_000, -1), (-5_000, -1)])
async def test_a_body_in_any_pieces_is_what_was_sent(filled: list[Filling], cuts: tuple[int, ...]) -> None:
    raw, whole = producing(rows(4_000)), rows(4_000)
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        for first, last in zip((0, *cuts), (*cuts, len(raw)), strict=True):
            writer.write(raw[first:last])
            await writer.drain()
            await read_on(http)
        assert (await asyncio.wait_for(read_reply(reader), 20)).json["rows"] == 4_000
        assert (await stored(http)).equals(whole)
        writer.close()
    assert len(filled) == 1 or not cuts


async def test_a_connection_continues_after_such_a_body_with_the_later_requests(filled: list[Filling]) -> None:
    first, second = producing(rows(4_000)), producing(rows(4_000, 4_000))
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(first[:80_000])
        await read_on(http)
        writer.write(first[80_000:] + LIVE + second + LIVE)
        replies: list[Reply] = [await asyncio.wait_for(read_reply(reader), 20) for _ in range(4)]
        writer.close()
        assert [reply.status for reply in replies] == [200] * 4
        assert [replies[0].json["rows"], replies[2].json["rows"]] == [4_000, 4_000]
        assert (await stored(http)).equals(rows(8_000))
    assert filled


async def test_a_caller_that_goes_away_in_such_a_body_leaves_nothing_behind(filled: list[Filling]) -> None:
    raw = producing(rows(4_000))
    async with served() as http:
        before = http.position
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(raw[:-1_000])
        await writer.drain()
        await read_on(http)
        assert not filled[0].ended.done()
        writer.transport.abort()
        await asyncio.wait_for(asyncio.wait((filled[0].ended,)), 20)
        assert filled[0].ended.result() is False
        await read_on(http)
        assert http.position == before
        assert http.program.gateway.admission.size_bytes == 0
        del reader


async def test_such_a_body_that_is_too_slow_is_refused_and_its_connection_closed(filled: list[Filling]) -> None:
    raw = producing(rows(4_000))
    async with served(body_grace_ms=1, body_bytes_per_second_min=1 << 30) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(raw[:-1_000])
        reply = await asyncio.wait_for(read_reply(reader), 20)
        reply.problem(408, "BODY_TOO_SLOW")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        assert http.program.gateway.admission.size_bytes == 0


async def test_a_deadline_that_passes_in_such_a_body_is_reported(filled: list[Filling]) -> None:
    raw = producing(rows(4_000), **{"Oncegate-Timeout-Ms": "50"})
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(raw[:-1_000])
        (await asyncio.wait_for(read_reply(reader), 20)).problem(504, "DEADLINE")
        writer.close()
    assert filled


async def test_such_a_body_is_refused_without_room_for_more_and_the_connection_continues(
    filled: list[Filling],
) -> None:
    raw = producing(rows(4_000))
    async with served(body_bytes=1 << 20, bytes_in_flight=(1 << 20) + 100) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(raw[:100_000])
        await read_on(http)
        with http.program.gateway.admission.hold(800_000):
            writer.write(raw[100_000:])
            (await asyncio.wait_for(read_reply(reader), 20)).problem(503, "OVERLOADED")
        writer.write(LIVE)
        assert (await asyncio.wait_for(read_reply(reader), 20)).status == 200, "the connection continues after the body"
        writer.close()
        assert (await http.send(raw)).json["rows"] == 4_000
