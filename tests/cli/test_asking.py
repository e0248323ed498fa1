"""Verbs that ask a running gateway: with the key of their environment, over TLS, never where others read it."""

import asyncio
import io
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.kafka.certificates import Authority
from oncegate.app import running
from oncegate.cli import app
from oncegate.cli.running.asking import asked_of
from oncegate.runtime.logging import open_log
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from tests.support.http_app import settings


def explained(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["explain", "an-id", *words])
    return result.exit_code, " ".join((result.stdout + result.stderr).split())


def replayed(folder: Path, *words: str) -> tuple[int, str]:
    """Sends one row into a topic that is made for it; also what goes past `asked` is over TLS."""
    place, shown = "v1/namespaces/default/topics/orders", (folder / "ca.pem", folder / "both.pem")
    asked_of(words[1], place, {"partitions": 1}, *shown, method="PUT")
    (folder / "orders.csv").write_text("order\na\n")
    named = ["replay", str(folder / "orders.csv"), "--topic", "orders", "--id-col", "order", "--reason", "it died"]
    result = CliRunner().invoke(app, [*named, *words])
    return result.exit_code, result.stdout + result.stderr


async def test_a_verb_asks_over_tls_with_its_key_and_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    key, certificate = authority.signed("localhost")
    (tmp_path / "both.pem").write_bytes(key + certificate)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    made, text = keys.made("operator", [Role.ADMIN, Role.WRITE], ["default"], 0)
    keys.write(tmp_path / "keys.json", [made])
    flags = {"keys": tmp_path / "keys.json", "tls_certificate": tmp_path / "both.pem"}
    flags["tls_client_ca"] = tmp_path / "ca.pem"
    async with running(settings(**flags), open_log("text", io.StringIO())) as program:
        where = ["--url", f"https://127.0.0.1:{program.port}"]
        shown = ["--ca", str(tmp_path / "ca.pem"), "--certificate", str(tmp_path / "both.pem")]
        monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
        assert "asks for a key" in (await asyncio.to_thread(explained, *where, *shown))[1]
        monkeypatch.setenv("ONCEGATE_API_KEY", text)
        status, told = await asyncio.to_thread(explained, *where, *shown)
        assert (status, "ABSENT" in told) == (0, True)
        status, told = await asyncio.to_thread(replayed, tmp_path, *where, *shown)
        assert (status, "1 rows read: 1 written" in told) == (0, True), told
        assert "CERTIFICATE_VERIFY_FAILED" in (await asyncio.to_thread(explained, *where))[1]
        status, told = await asyncio.to_thread(explained, *where, "--ca", str(tmp_path / "missing"))
        assert (status, "No such file" in told) == (1, True)


@pytest.mark.parametrize("url", ["http://gateway:8080", "http://10.0.0.7:8080"])
def test_a_key_is_never_sent_in_clear_text_to_another_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEGATE_API_KEY", "og_secret")
    status, told = explained("--url", url)
    assert status != 0
    assert "write https://" in told
    assert "og_secret" not in told
