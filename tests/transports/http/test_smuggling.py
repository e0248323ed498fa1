"""Requests that two parsers would split differently: one refusal each, and nothing hidden in them runs."""

import asyncio

import pytest

from tests.support.http_app import CLAIM, served

HIDDEN = b"PUT /v1/namespaces/smuggled HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
HEAD = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % CLAIM.encode()
WAYS = {
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "two lengths in one": HEAD + b"Content-Length: 0, %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "a length with a sign": HEAD + b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "a length below zero": HEAD + b"Content-Length: -1\r\n\r\n" + HIDDEN,
    "a length in hex": HEAD + b"Content-Length: 0x0\r\n\r\n" + HIDDEN,
    "a space before the colon": HEAD + b"Content-Length : 0\r\n\r\n" + HIDDEN,
    "a folded field": HEAD + b"X: a\r\n Content-Length: 0\r\n\r\n" + HIDDEN,
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a null in a name": HEAD + b"Content-Length\0: 0\r\n\r\n" + HIDDEN,
}


@pytest.mark.parametrize("way", WAYS)
async def test_requests_hidden_by_an_ambiguous_request_are_never_run(way: str) -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(WAYS[way])
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 411")), answer[:200]
        assert answer.count(b"HTTP/1.1 ") == 1
        assert http.program.gateway.namespaces() == ["default"]


@pytest.mark.parametrize("name", ["a%0Ab", "a%0D%0AX:%201", "a%1Bb", "a%E2%80%A8b", "a%00"])
async def test_a_name_that_would_forge_a_line_of_the_log_is_refused(name: str) -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        head = (
            f"PUT /v1/namespaces/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
        assert http.program.gateway.namespaces() == ["default"]
