"""The verbs backup, restore and verify, beside a running gateway and for one that serves from the copy."""

import asyncio
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.ledgers.log import open_log
from tests.support.gateway_process import GatewayProcess


def run(*arguments: object) -> Result:
    """Runs a verb in this process."""
    return CliRunner().invoke(app, list(map(str, arguments)), prog_name="oncegate")


class Client:
    """Claims and completes ids; sends the newest ledger position that it has seen."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        self.mark = ""

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Oncegate-Ledger": self.mark} if self.mark else {})
        data = json.dumps(body).encode() if body is not None else b""
        url = f"{self.gateway.url}/v1/namespaces/default/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as reply:
            self.mark = reply.headers["Oncegate-Ledger"]
            return json.loads(reply.read())

    def write(self, *ids: str) -> list[str]:
        """Claims ids, completes the granted ones, and returns the verdicts."""
        claimed = self.post("ids:claim", {"token": os.urandom(16).hex(), "call": 0, "ids": ids})
        if claimed["claim"]:
            self.post(f"claims/{claimed['claim']}:complete")
        return [verdict["verdict"] for verdict in claimed["verdicts"]]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    folder = tmp_path / "a"
    folder.mkdir()
    with GatewayProcess(folder) as found:
        yield found


@pytest.mark.server
def test_a_gateway_serves_from_a_restored_copy_and_reports_clients_that_remember_more(gateway, tmp_path: Path) -> None:
    """Ids completed before the backup are known, later ones are not; old ledger positions are replaced, with a
    warning."""
    client = Client(gateway)
    assert client.write("a", "b") == ["GRANTED", "GRANTED"]
    copied = run("backup", "--data", gateway.data, "--to", tmp_path / "copy", "--json")
    assert copied.exit_code == 0, copied.stderr
    assert client.write("c") == ["GRANTED"]
    verified = run("verify", "--data", gateway.data)
    assert (verified.exit_code, verified.stderr) == (0, "")
    assert verified.stdout.startswith("default: whole up to position ")
    old_mark = client.mark
    assert gateway.stop() == 0

    (tmp_path / "b").mkdir()
    again = GatewayProcess(tmp_path / "b")
    restored = run("restore", "--from", tmp_path / "copy", "--data", again.data, "--json")
    assert restored.exit_code == 0, restored.stderr
    ids = json.loads(restored.stdout)
    assert ids["predecessor"] == json.loads(copied.stdout)["ledger"] == old_mark.split(":")[0]
    with again:
        client.gateway = again
        assert client.write("a", "b", "c", "d") == ["DUPLICATE", "DUPLICATE", "GRANTED", "GRANTED"]
        assert client.mark.split(":")[0] == ids["ledger"]
        assert client.write("d") == ["DUPLICATE"]
        assert again.log.count("mark_of_predecessor") == 1
        outcome = run("verify", "--data", again.data, "--json")
        assert json.loads(outcome.stdout)["ok"] is True


def made(tmp_path: Path) -> Path:
    assert run("init", "--data", tmp_path / "data").exit_code == 0
    return tmp_path / "data"


def test_damage_ends_a_verification_with_status_1_and_is_located(tmp_path: Path) -> None:
    data = made(tmp_path)
    (data / "default/key").write_bytes(b"another")
    for arguments in ((), ("--json",)):
        outcome = run("verify", "--data", data, *arguments)
        assert outcome.exit_code == 1
        assert "the key file" in outcome.stderr
        assert len(outcome.stderr.splitlines()) == 1
    line = json.loads(outcome.stdout)
    assert (line["ok"], "the key file" in line["detail"]) == (False, True)


def test_verify_reads_what_the_entries_mean(tmp_path: Path) -> None:
    """Frames and chain are right, but the entry is not valid."""

    async def write() -> None:
        async with open_log(str(tmp_path / "data"), create=True) as ledgers, ledgers.open("default") as opened:
            await opened.ledger.append([b"no entry of ours"], [])

    asyncio.run(write())
    outcome = run("verify", "--data", tmp_path / "data")
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("oncegate: ")
    assert len(outcome.stderr.splitlines()) == 1


def test_what_cannot_be_copied_is_refused_in_one_line(tmp_path: Path) -> None:
    data = made(tmp_path)
    refused = [
        ("backup", "--data", tmp_path / "nothing", "--to", tmp_path / "x"),
        ("backup", "--data", data, "--to", data / "x"),
        ("restore", "--from", data, "--data", tmp_path / "y"),
        ("restore", "--from", tmp_path / "nothing", "--data", tmp_path / "y"),
        ("verify", "--data", tmp_path / "nothing"),
    ]
    for arguments in refused:
        outcome = run(*arguments)
        assert outcome.exit_code == 1, arguments
        assert outcome.stderr.startswith("oncegate: ")
        assert len(outcome.stderr.splitlines()) == 1, outcome.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "data.witness"]


def test_each_copy_is_reported_in_one_line(tmp_path: Path) -> None:
    data = made(tmp_path)
    copied = run("backup", "--data", data, "--to", tmp_path / "copy")
    assert copied.stdout.startswith("default: copied up to position 0 of ledger ")
    restored = run("restore", "--from", tmp_path / "copy", "--data", tmp_path / "new", "--witness", tmp_path / "w")
    assert "default: restored at position 0; ledger " in restored.stdout
    assert run("verify", "--data", tmp_path / "new").exit_code == 1, "its witness is elsewhere"
    assert run("verify", "--data", tmp_path / "new", "--witness", tmp_path / "w").exit_code == 0
    assert {copied.exit_code, restored.exit_code} == {0}
    assert {copied.stderr, restored.stderr} == {""}
