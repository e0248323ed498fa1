"""Requests must name this gateway, must not come from pages of other sites, and have bounded heads."""

import asyncio
from typing import Any

import pytest

from oncegate.transports.http.parameters import HEAD_BYTES, TARGET_BYTES
from tests.support.http_app import request, served
from tests.support.http_requests import LIVE, message, roundabout

HOST = b"Host: localhost"
WAYS = [message, lambda: roundabout(message()), lambda: LIVE]


def with_host(raw: bytes, *lines: bytes) -> bytes:
    return raw.replace(b"Host: localhost\r\n", b"".join(line + b"\r\n" for line in lines), 1)


def with_field(raw: bytes, line: bytes) -> bytes:
    return raw.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n\r\n", 1)


@pytest.mark.parametrize("way", WAYS)
async def test_a_host_that_is_missing_doubled_or_no_name_is_a_bad_request(way: Any) -> None:
    async with served() as http:
        before = http.position
        for lines in ([], [HOST] * 2, [HOST, b"host: evil.example"], [b"Host: a b"], [b"Host:"]):
            (await http.send(with_host(way(), *lines))).problem(400, "BAD_REQUEST")
        assert http.position == before


@pytest.mark.parametrize("way", WAYS)
async def test_a_name_that_is_not_this_gateways_is_misdirected(way: Any) -> None:
    async with served() as http:
        before = http.position
        for name in (b"evil.example", b"evil.example:8080", b"localhost.evil.example", b"10.0.0.1"):
            found = (await http.send(with_host(way(), b"Host: " + name))).problem(421, "MISDIRECTED")
            assert "hosts" in found["detail"]
        assert http.position == before


@pytest.mark.parametrize("way", WAYS)
async def test_a_good_head_vouches_for_no_other(way: Any) -> None:
    """The last good head is remembered; any difference from it is checked."""
    async with served() as http:
        for _ in range(2):
            assert (await http.send(way())).status == 200
            (await http.send(with_host(way(), b"Host: evil.example"))).problem(421, "MISDIRECTED")
            (await http.send(with_field(way(), b"Origin: http://evil.example"))).problem(403, "FOREIGN_ORIGIN")
            (await http.send(with_field(way(), b"Oncegate-Nothing: 1"))).problem(400, "BAD_REQUEST")
            long = b"?a=" + b"b" * TARGET_BYTES + b" HTTP/1.1\r\n"
            (await http.send(way().replace(b" HTTP/1.1\r\n", long, 1))).problem(414, "TARGET_TOO_LONG")


async def test_its_own_addresses_and_the_names_of_the_setting_are_answered_with_any_port() -> None:
    async with served(hosts="gateway.internal, Mail.internal") as http:
        for name in (b"LOCALHOST:1", b"127.0.0.1:8080", b"[::1]:80", b"gateway.internal", b"mail.internal:9"):
            for way in WAYS:
                assert (await http.send(with_host(way(), b"Host: " + name))).status == 200, name


@pytest.mark.parametrize("way", WAYS)
async def test_a_page_of_another_site_is_refused_and_one_of_its_own_is_not(way: Any) -> None:
    async with served() as http:
        before = http.position
        for origin in (b"null", b"http://evil.example", b"http://localhost:3000", b"http://localhost.evil.example"):
            (await http.send(with_field(way(), b"Origin: " + origin))).problem(403, "FOREIGN_ORIGIN")
        assert http.position == before
        assert (await http.send(with_field(way(), b"Origin: http://localhost"))).status == 200


@pytest.mark.parametrize("way", WAYS)
async def test_a_head_that_is_too_large_and_a_target_that_is_too_long_are_distinguished(way: Any) -> None:
    async with served() as http:
        raw = way()
        path = raw.split(b" ")[1]
        for size in (TARGET_BYTES, 3 * TARGET_BYTES):
            long = raw.replace(path, path + b"?" + b"x" * size, 1)
            (await http.send(long)).problem(414, "TARGET_TOO_LONG")
        fields = b"\r\n".join(b"x-%d: %s" % (n, b"x" * 1_000) for n in range(HEAD_BYTES // 1_000))
        (await http.send(with_field(raw, fields))).problem(431, "HEAD_TOO_LARGE")


async def test_a_target_without_end_is_too_long() -> None:
    async with served() as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(b"GET /" + b"x" * (HEAD_BYTES + 1))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 20)
        assert head.split()[1] == b"414"
        writer.close()


async def test_the_document_is_refused_to_others_too() -> None:
    async with served() as http:
        raw = request("GET", "/openapi.json", Host="evil.example")
        (await http.send(raw)).problem(421, "MISDIRECTED")


@pytest.mark.parametrize("way", WAYS)
async def test_a_target_in_absolute_form_gives_the_host_and_the_header_is_ignored(way: Any) -> None:
    async with served() as http:
        raw = way()
        path, before = raw.split(b" ")[1], http.position
        for name, code in ((b"evil.example", (421, "MISDIRECTED")), (b"me@localhost", (400, "BAD_REQUEST"))):
            (await http.send(raw.replace(path, b"http://" + name + path, 1))).problem(*code)
        assert http.position == before
        own = raw.replace(path, b"http://localhost:80" + path, 1)
        assert (await http.send(own.replace(HOST, b"Host: evil.example", 1))).status == 200
