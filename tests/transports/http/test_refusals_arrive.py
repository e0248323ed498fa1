"""Refusals reach callers that are still sending their request, whatever client they use."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from oncegate.engine.admission import EARLY_CHECKS
from oncegate.transports.http.server import closing
from tests.support.http_app import CLAIM, JSON, read_reply, request, served, token
from tests.support.memory_gateway import wait_until
from tests.support.overload import fill

MIB = 1 << 20


def claim(*ids: str) -> bytes:
    return json.dumps({"token": token(), "call": 0, "ids": ids or ["a"]}).encode()


async def sent_whole(port: int, raw: bytes) -> Any:
    """Sends a whole request before it reads the answer, as a blocking client does."""

    def ask() -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
            sock.sendall(raw)
            found = b""
            while piece := sock.recv(1 << 16):
                found += piece
            return found

    reader = asyncio.StreamReader()
    reader.feed_data(await asyncio.to_thread(ask))
    reader.feed_eof()
    return await read_reply(reader)


@pytest.mark.parametrize("path", [CLAIM, "/v1/namespaces/default/ids:lookup"], ids=["fast path", "framework"])
async def test_who_is_refused_before_its_body_has_come_gets_the_refusal_and_no_reset(path: str) -> None:
    async with served(json_bytes=1_000) as http:
        raw = request("POST", path, b"x" * (8 * MIB), Content_Type=JSON, Connection="close")
        for _ in range(5):
            (await sent_whole(http.program.port, raw)).problem(413, "TOO_LARGE")
        await wait_until(lambda: not http.program.server.server_state.connections)


async def test_a_connection_beyond_the_limit_gets_its_refusal_after_its_request() -> None:
    async with served(connections=8) as http:
        held = [await asyncio.open_connection("127.0.0.1", http.program.port) for _ in range(8)]
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        await wait_until(lambda: len(http.program.server.server_state.connections) == 9)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        raw = request("POST", CLAIM, claim(*map(str, range(100_000))), Content_Type=JSON)
        writer.write(raw[:100])
        (await asyncio.wait_for(read_reply(reader), 20)).problem(503, "OVERLOADED")
        writer.write(raw[100:])
        await writer.drain()
        writer.close()
        await wait_until(lambda: len(http.program.server.server_state.connections) == 8)
        for _, writer in held:
            writer.close()


async def test_who_does_not_close_after_a_refusal_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "LINGER_S", 0.05)
    async with served(json_bytes=1_000) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.program.port)
        writer.write(request("POST", CLAIM, b"x" * 2_000, Content_Type=JSON, Connection="close")[:-1_000])
        (await asyncio.wait_for(read_reply(reader), 20)).problem(413, "TOO_LARGE")
        async with asyncio.timeout(20):
            await wait_until(lambda: not http.program.server.server_state.connections)
        writer.close()


GO = """package main
import ("fmt"; "io"; "net/http"; "os"; "strings")
func main() {
    answer, err := http.Post(os.Args[1], "application/json", strings.NewReader(strings.Repeat("x", 1<<20)))
    if err != nil { fmt.Println(err); os.Exit(1) }
    body, err := io.ReadAll(answer.Body)
    fmt.Println(answer.StatusCode, answer.Header.Get("Retry-After"), len(body) > 0, err)
}
"""
JAVA = """import java.net.URI; import java.net.http.*;
class Asks { public static void main(String[] given) throws Exception {
    var asked = HttpRequest.newBuilder(URI.create(given[0])).header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString("x".repeat(1 << 20))).build();
    var answer = HttpClient.newHttpClient().send(asked, HttpResponse.BodyHandlers.ofString());
    System.out.println(answer.statusCode() + " " + answer.headers().firstValue("Retry-After").get()
        + " " + (answer.body().length() > 0) + " <nil>");
} }
"""
HTTPX2 = """import httpx2, sys
r = httpx2.post(sys.argv[1], content="x" * (1 << 20), headers={"content-type": "application/json"}, timeout=20)
print(r.status_code, r.headers["retry-after"], str(bool(r.json())).lower(), "<nil>")
"""
AIOHTTP = """import aiohttp, asyncio, sys
async def ask():
    async with aiohttp.ClientSession() as s:
        async with s.post(sys.argv[1], data="x" * (1 << 20), headers={"content-type": "application/json"}) as r:
            print(r.status, r.headers["retry-after"], str(bool(await r.read())).lower(), "<nil>")
asyncio.run(ask())
"""
PYTHON = {"httpx2": HTTPX2, "aiohttp": AIOHTTP}


def command(client: str, folder: Path) -> list[str]:
    """Returns the command that runs a client. Java compiles its source, which needs a JDK; CI has all four."""
    if client in PYTHON:
        return [sys.executable, "-c", PYTHON[client]]
    program, compiler = shutil.which(client), shutil.which({"go": "go", "java": "javac"}[client])
    if program is None or compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{client} and its compiler are wanted")
        pytest.skip(f"{client} or its compiler is not here")
    source = folder / {"go": "asks.go", "java": "Asks.java"}[client]
    source.write_text(GO if client == "go" else JAVA)
    return [program, *(["run"] if client == "go" else []), str(source)]


@pytest.mark.server
@pytest.mark.parametrize("client", ["httpx2", "aiohttp", "go", "java"])
@pytest.mark.parametrize("why", ["requests at their limit", "connections at their limit", "a wait too long"])
async def test_clients_read_the_refusal_of_an_overloaded_gateway(client: str, why: str, tmp_path: Path) -> None:
    run = command(client, tmp_path)
    async with served(connections=8, requests_in_flight=1) as http, AsyncExitStack() as stack:
        held = []
        if why == "requests at their limit":
            stack.enter_context(http.program.gateway.admission.hold(0))
        elif why == "a wait too long":
            fill(http)
            http.program.gateway.admission.early_checks = EARLY_CHECKS
        else:
            held = [await asyncio.open_connection("127.0.0.1", http.program.port) for _ in range(8)]
        url = f"http://127.0.0.1:{http.program.port}{CLAIM}"
        ended = await asyncio.create_subprocess_exec(
            *run, url, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
        )
        said, errors = await asyncio.wait_for(ended.communicate(), 240)
        assert ended.returncode == 0, errors.decode()
        status, after, *rest = said.decode().split()
        assert (status, rest) == ("503", ["true", "<nil>"]), said
        assert int(after) >= 1
        for _, writer in held:
            writer.close()
