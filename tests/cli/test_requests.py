"""Verbs that call a running gateway: with the key from their environment, over TLS, and never in plain text over a
network."""

import asyncio
import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.kafka.certificates import Authority
from oncegate.app import running
from oncegate.cli import app
from oncegate.cli.requests import RunningGateway
from oncegate.runtime.logging import open_log
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from tests.support.http_app import settings


def explained(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["explain", "an-id", *words])
    return result.exit_code, " ".join((result.stdout + result.stderr).split())


def replayed(folder: Path, *words: str) -> tuple[int, str]:
    """Sends one row into a new topic; covers the requests that bypass `RunningGateway`."""
    gateway = RunningGateway(words[1], ca=folder / "ca.pem", certificate=folder / "both.pem")
    gateway.ask("v1/namespaces/default/topics/orders", {"partitions": 1}, "PUT")
    (folder / "orders.csv").write_text("order\na\n")
    named = ["replay", str(folder / "orders.csv"), "--topic", "orders", "--id-col", "order", "--reason", "it died"]
    named += ["--allow-none-known"]
    result = CliRunner().invoke(app, [*named, *words])
    return result.exit_code, result.stdout + result.stderr


def verified(folder: Path, *words: str) -> tuple[int, str]:
    """Compares the topic with that file; bypasses `RunningGateway` too."""
    named = ["verify", "--against", "orders", "--input", str(folder / "orders.csv"), "--id-col", "order"]
    result = CliRunner().invoke(app, [*named, "--state", str(folder / "state"), *words])
    return result.exit_code, result.stdout + result.stderr


async def test_a_verb_asks_over_tls_with_its_key_and_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    key, certificate = authority.signed("localhost")
    (tmp_path / "both.pem").write_bytes(key + certificate)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    made, text = keys.made("operator", [Role.ADMIN, Role.WRITE, Role.READ], ["default"], 0)
    keys.write(tmp_path / "keys.json", [made])
    flags = {"keys": tmp_path / "keys.json", "tls_certificate": tmp_path / "both.pem"}
    flags["tls_client_ca"] = tmp_path / "ca.pem"
    async with running(settings(**flags), open_log("text", io.StringIO())) as program:
        where = ["--url", f"https://127.0.0.1:{program.port}"]
        shown = ["--ca", str(tmp_path / "ca.pem"), "--certificate", str(tmp_path / "both.pem")]
        monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
        assert "requires a key" in (await asyncio.to_thread(explained, *where, *shown))[1]
        monkeypatch.setenv("ONCEGATE_API_KEY", text)
        status, answer = await asyncio.to_thread(explained, *where, *shown)
        assert (status, "ABSENT" in answer) == (0, True)
        status, answer = await asyncio.to_thread(replayed, tmp_path, *where, *shown)
        assert (status, "1 rows read: 1 written" in answer) == (0, True), answer
        status, answer = await asyncio.to_thread(verified, tmp_path, *where, *shown)
        assert (status, "all is well" in answer) == (0, True), answer
        status, answer = await asyncio.to_thread(explained, *where)
        assert (status, "is not trusted" in answer, "--ca" in answer) == (1, True, True), answer
        status, answer = await asyncio.to_thread(explained, *where, "--ca", str(tmp_path / "missing"))
        assert (status, "No such file" in answer) == (1, True)


@pytest.fixture(params=[b"", b"+PONG\r\n"], ids=["it goes away", "it speaks no HTTP"])
def speechless(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yields the address of a server that reads a request and never answers."""

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                connection.sendall(request.param)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_requests_without_an_answer_are_unknown_and_reads_are_not(speechless: str) -> None:
    """If the error claimed that no gateway is there, an operator would repeat the fence and shut out a producer that
    has come since."""
    for words, told in (
        (("fence", "p", "--reason", "x"), "whether it was done is unknown; see what is there (`oncegate log`)"),
        (("forget", "a", "--reason", "x"), "whether it was done is unknown"),
        (("explain", "a"), "no gateway answers"),
        (("log",), "no gateway answers"),
    ):
        result = CliRunner().invoke(app, [*words, "--url", speechless])
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), result.exception
        assert told in result.stderr


@pytest.mark.parametrize("url", ["http://gateway:8080", "http://10.0.0.7:8080"])
def test_a_key_is_never_sent_in_clear_text_to_another_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEGATE_API_KEY", "og_secret")
    status, answer = explained("--url", url)
    assert status != 0
    assert "write https://" in answer
    assert "og_secret" not in answer
