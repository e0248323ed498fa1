"""The program: its first lines, its refusals to start, and its stop."""

import asyncio
import contextlib
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import oncegate
from oncegate.app import announce, remove_port_file, running
from oncegate.cli import app
from oncegate.core.errors import LedgerBusy, OncegateError, SettingsError
from oncegate.doors import bound
from oncegate.ledgers.log.ledger import LogLedger
from oncegate.ports import Mark
from oncegate.runtime.logging import open_log
from oncegate.transports.promises import promise_of
from tests.support.gateway_process import GatewayProcess
from tests.support.http_app import CLAIM, JSON, request, served, settings, token

BODY = json.dumps({"token": token(), "call": 0, "ids": ["a", "b"]}).encode()


def run(*arguments: str) -> Result:
    """Runs a verb that ends by itself, in this process."""
    return CliRunner().invoke(app, list(arguments), prog_name="oncegate")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as found:
        yield found


async def test_the_first_line_has_the_promises_and_that_the_ledger_is_new(tmp_path: Path) -> None:
    lines = []
    for _ in range(2):
        async with served(ledger=f"log:{tmp_path}/data") as http:
            announce(http.program, settings(ledger=f"log:{tmp_path}/data").process, open_log("text", http.log))
            lines.append(http.log.getvalue().splitlines())
    first, again = lines
    promise = (
        f"ledger log:{tmp_path}/data (durable, synced each commit); effectively once for staged and ids; "
        "at least once for claim, duplicates bounded by takeovers; at least once for plain"
    )
    assert f"namespace default: NEW, EMPTY; {promise}" in first[0]
    assert f"namespace default: {promise}" in again[0]
    assert "loopback only" in first[1]
    assert re.search(r"listening on http://127\.0\.0\.1:\d+$", first[2])


def test_a_way_to_write_is_promised_where_the_ledger_has_it() -> None:
    ways = "effectively once for staged, ids and direct;"
    assert ways in promise_of("default", "kafka://127.0.0.1:9092/oncegate", is_new=False).sentence()
    assert "direct" not in promise_of("default", "redis://127.0.0.1:6379/oncegate", is_new=False).sentence()


async def test_a_full_disk_below_the_log_ends_no_start() -> None:
    """Its lines are lost; the gateway logs nothing, and answers."""
    async with served() as http:
        with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
            log = open_log("text", full)
            failed = error_of(lambda: announce(http.program, settings().process, log))
        assert failed is None
        assert (await http.send(request("GET", "/healthz/ready"))).status == 200


def error_of(work: Callable[[], None]) -> OSError | None:
    """Returns the error with which it ends; closing a full file raises one of its own."""
    try:
        work()
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "example.org", ""])
def test_only_loopback_is_listened_on_while_there_are_no_credentials(host: str) -> None:
    with pytest.raises(SettingsError, match=r"(without keys|an address is wanted)"):
        bound(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_every_loopback_address_may_be_listened_on(host: str) -> None:
    bound(host, 0).close()


async def test_a_taken_port_is_refused_in_one_line() -> None:
    async with served() as http:
        with pytest.raises(SettingsError, match=f"port {http.program.port} of 127.0.0.1 cannot be had"):
            bound("127.0.0.1", http.program.port)


async def test_a_start_that_is_refused_leaves_no_data_folder_of_its_own(tmp_path: Path) -> None:
    where = {"ledger": f"log:{tmp_path}/new/data"}
    async with served() as http:
        taken = http.program.port
        refused: list[tuple[dict[str, Any], str]] = [
            ({"port": taken}, f"port {taken} of 127.0.0.1 cannot be had"),
            ({"grpc_port": taken}, f"port {taken} of 127.0.0.1 cannot be had"),
            ({"standby": True}, "leave standby out"),
            ({"duplicates_topic": "d"}, "has no brokers"),
            ({"tls_certificate": tmp_path / "none"}, "No such file"),
        ]
        for flags, words in refused:
            with pytest.raises((SettingsError, OncegateError), match=words):
                async with running(settings(**where, **flags), open_log("text", io.StringIO())):
                    raise AssertionError("it is not started")
            assert list(tmp_path.iterdir()) == [], words


def test_a_port_file_that_could_not_be_written_is_refused_before_the_start(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "port"):
        with pytest.raises(SettingsError, match="it is a folder, or lies in none"):
            remove_port_file(settings(port_file=path).process)


async def test_a_second_gateway_on_the_same_folder_is_refused_before_it_listens(tmp_path: Path) -> None:
    url = f"log:{tmp_path}/data"
    async with served(ledger=url):
        with pytest.raises(LedgerBusy, match=rf"data folder {tmp_path}/data is owned by process {os.getpid()}"):
            async with running(settings(ledger=url), open_log("text")):
                pass


async def test_rows_completed_before_a_restart_are_duplicates_after_it(tmp_path: Path) -> None:
    url = f"log:{tmp_path}/data"
    async with served(ledger=url) as http:
        claimed = await http.send(request("POST", CLAIM, BODY, Content_Type=JSON))
        mark = claimed.headers["oncegate-ledger"]
        await http.send(request("POST", f"/v1/namespaces/default/claims/{claimed.json['claim']}:complete"))
    async with served(ledger=url) as http:
        other = json.dumps({"token": token(), "call": 0, "ids": ["a", "b", "c"]}).encode()
        reply = await http.send(request("POST", CLAIM, other, Content_Type=JSON, Oncegate_Ledger=mark))
        assert [verdict["verdict"] for verdict in reply.json["verdicts"]] == ["DUPLICATE", "DUPLICATE", "GRANTED"]


async def test_closing_answers_what_is_in_flight_and_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"log:{tmp_path}/data"
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def held(*given: Any) -> Mark:
        begun.set()
        await let_go.wait()
        return await append(*given)

    async with served(ledger=url) as http:
        append = LogLedger.append
        monkeypatch.setattr(LogLedger, "append", held)
        answered = asyncio.create_task(http.send(request("POST", CLAIM, BODY, Content_Type=JSON)))
        await begun.wait()
        closing = asyncio.create_task(http.program.server.drain())
        while http.program.server.acceptors[0].is_open:
            await asyncio.wait([closing], timeout=0.01)
        let_go.set()
        assert (await answered).json["verdicts"][0]["verdict"] == "GRANTED"
    async with served(ledger=url) as http:
        other = json.dumps({"token": token(), "call": 0, "ids": ["a"]}).encode()
        reply = await http.send(request("POST", CLAIM, other, Content_Type=JSON))
        assert reply.json["verdicts"][0]["verdict"] == "BUSY"


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program_with_status_0_and_its_log_records_that(number: int, server: GatewayProcess) -> None:
    os.kill(server.pid, number)
    assert server.stop() == 0
    assert "stopped" in server.log.splitlines()[-1]
    assert "Traceback" not in server.log


@pytest.mark.server
def test_a_hangup_ends_the_program_at_once_and_looks_like_no_bug(tmp_path: Path) -> None:
    """Unlike a verb it has nothing half made: its answers are on the disk. Under `nohup` it would continue."""
    with GatewayProcess(tmp_path, runner=("env", "--default-signal=HUP")) as server:
        server.signal(signal.SIGHUP)
        assert server.stop() == -signal.SIGHUP
        assert "Traceback" not in server.log


@pytest.mark.server
def test_a_signal_ends_the_program_with_status_0_though_readers_read_nothing(server: GatewayProcess) -> None:
    topic = "/v1/namespaces/default/topics/t"
    row = {"v": "x" * 1_000_000}
    for call in range(8):
        asked = {"token": token(), "call": call, "records": [row] * 3}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", f"{topic}/records:produce", json.dumps(asked), {"Content-Type": JSON})
        assert connection.getresponse().status == 200
        connection.close()
    path = f"{topic}/partitions/0/records?offset=0&max_rows=100000"
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for sock in silent:
        sock.sendall(request("GET", path, Accept=JSON))
    os.kill(server.pid, signal.SIGTERM)
    assert server.stop() == 0
    assert "stopped" in server.log.splitlines()[-1]
    for sock in silent:
        sock.close()


# A program whose ledgers are never closed; the rest is unchanged.
HANGING = """
import asyncio, sys
from oncegate.engine.gateway import Gateway
async def close(self): await asyncio.Event().wait()
Gateway.close = close
from oncegate.__main__ import main
main()
"""


@pytest.mark.server
def test_a_program_that_hangs_at_its_end_ends_in_its_time_and_its_log_records_that(tmp_path: Path) -> None:
    settings_file = tmp_path / "oncegate.toml"
    settings_file.write_text("shutdown_ms = 1000\n")
    command = [sys.executable, "-c", HANGING, "serve", "--ledger", "memory:", "--port", "0"]
    process = subprocess.Popen([*command, "--config", str(settings_file)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "listening on" not in process.stderr.readline():
        pass
    began_s = time.monotonic()
    process.terminate()
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1
    assert "not closed 1000 ms after the signal to stop" in rest
    assert time.monotonic() - began_s < 10


@pytest.mark.server
def test_a_folder_in_use_is_refused_with_its_owner_and_status_1(server: GatewayProcess, tmp_path: Path) -> None:
    outcome = run("serve", "--data", str(server.data), "--port", "0")
    assert outcome.exit_code == 1
    assert f"data folder {server.data} is owned by process {server.pid}" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


@pytest.mark.server
def test_the_port_file_is_written_when_ready_and_an_old_one_is_not_left(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    port_file.write_text("1\n")
    command = [sys.executable, "-m", "oncegate", "serve", "--ledger", "memory:", "--port", "0", "--log-format", "json"]
    process = subprocess.Popen([*command, "--port-file", str(port_file)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: list[Any] = []
    while not any(line["event"] == "listening" for line in lines):
        lines.append(json.loads(process.stderr.readline()))
    process.terminate()
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0, rest
    assert lines[-1]["address"] == f"http://127.0.0.1:{port_file.read_text().strip()}"
    assert lines[-1]["message"] == f"listening on {lines[-1]['address']}"
    assert (opened := next(line for line in lines if line["event"] == "namespace_opened"))
    assert (opened["namespace"], opened["durability"]) == ("default", "forgotten when this process ends")
    assert opened["promises"]["staged"] == "effectively once"
    lines += [json.loads(line) for line in rest.splitlines()]
    assert [line["event"] for line in lines[-2:]] == ["stopping", "stopped"]
    for line in lines:
        assert re.fullmatch("[a-z_]+", line["event"]), "a name, with fields beside it"
        assert line["instance"] == f"{socket.gethostname()}/{process.pid}"
        assert line["version"] == oncegate.__version__


REFUSED = {
    "another host": ["serve", "--host", "0.0.0.0"],
    "two ledgers": ["serve", "--data", "x", "--ledger", "memory:"],
    "an unknown scheme": ["serve", "--ledger", "tape:x"],
    "no such settings file": ["serve", "--config", "nowhere.toml"],
    "a dump of nothing": ["ledger", "dump", "--data", "nowhere"],
    "a file for a folder": ["serve", "--data", "file"],
    "an unknown log format": ["serve", "--log-format", "xml"],
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_done_is_refused_in_one_line_with_status_1(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    outcome = run(*arguments)
    assert outcome.exit_code == 1, outcome.stderr
    assert outcome.stderr.startswith("oncegate: ")
    assert len(outcome.stderr.splitlines()) == 1, outcome.stderr


@pytest.mark.server
def test_a_folder_is_made_once_and_its_ledger_can_be_read_while_it_is_served(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    made = run("init", "--data", data)
    assert (made.exit_code, made.stdout) == (0, f"data folder {data}: NEW, EMPTY; namespace default\n")
    assert run("init", "--data", data).exit_code == 1
    with GatewayProcess(tmp_path):
        outcome = run("ledger", "dump", "--data", data, "--json")
        assert outcome.exit_code == 0, outcome.stderr
        kinds = [json.loads(line)["kind"] for line in outcome.stdout.splitlines()]
        assert kinds[0] == "Ledger"
        assert "Opened" in kinds
        assert kinds[-1] == "Witness"
    table = run("ledger", "dump", "--data", data)
    assert "Opened" in table.stdout
