"""The doctor: it reports healthy checks, each fault is one line with a remedy, and its claim leaves nothing."""

import json
import os
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deploy.kafka.certificates import Authority
from oncegate.cli import app
from oncegate.cli.doctor import data, machine, secrets
from oncegate.cli.doctor import gateway as deep
from oncegate.cli.doctor.findings import DoctorFinding
from oncegate.settings import load
from oncegate.testing import LocalGateway
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from tests.support.gateway_process import GatewayProcess
from tests.support.redis_server import RedisServer


def run(*words: str) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(app, ["doctor", "--json", *words], prog_name="oncegate")
    assert result.stderr == "", result.stderr
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def text_of(findings: list[dict[str, Any]], check: str, level: str | None = None) -> str:
    """Returns the findings of one check, and of one level if given, as one text."""
    return " ".join(one["what"] for one in findings if one["check"] == check and level in (None, one["level"]))


def levels(findings: Iterator[DoctorFinding]) -> list[str]:
    return [one.level.value for one in findings]


@pytest.fixture(autouse=True)
def nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ONCEGATE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_whole_installation_is_well_and_the_claim_leaves_no_namespace_and_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with LocalGateway(f"log:{folder}") as gateway:
        status, findings = run("--data", str(folder), "--port", str(gateway.port))
        assert status == 0, findings
        assert text_of(findings, "claim", "ok") == "an id was granted, completed, and is a duplicate"
        assert "is ready" in text_of(findings, "gateway", "ok")
        assert [one["check"] for one in findings if one["level"] == "wrong"] == []
        assert all(one["why"] and one["do"] for one in findings if one["level"] != "ok")
        listed = urllib.request.urlopen(f"{gateway.url}/v1/namespaces").read()
        assert json.loads(listed)["namespaces"] == ["default"]
    assert list(tmp_path.rglob("*doctor-*")) == []


def test_a_drained_gateway_and_one_with_other_settings_are_reported(tmp_path: Path) -> None:
    with LocalGateway("memory:", lease_ms=1_000) as gateway:
        where = ("--url", gateway.url, "--data", str(tmp_path / "data"), "--port", "0")
        status, findings = run(*where)
        assert (status, "semantic settings" in text_of(findings, "gateway", "warning")) == (0, True)
        CliRunner().invoke(app, ["drain", "--url", gateway.url, "--reason", "x", "--wait-ms", "0"])
        status, findings = run(*where)
        assert (status, ": x; `oncegate drain --undo`" in text_of(findings, "gateway", "wrong")) == (1, True)
        assert "oncegate drain --undo, if it is to serve" in [one["do"] for one in findings]
        assert "no namespace could be made" in text_of(findings, "claim", "warning")
        assert [one["why"] for one in findings if one["check"] == "claim"] == ["writers are refused now as well"]


def test_a_gateway_that_is_down_is_reported_with_the_reason_and_a_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with GatewayProcess(tmp_path) as gateway:
        folder.rename(tmp_path / "elsewhere")
        gateway.wait_until("is down", lambda: gateway.states() == {"default": "DOWN"})
        status, findings = run("--url", gateway.url, "--ledger", "memory:")
    line = text_of(findings, "gateway", "wrong")
    assert (status, "namespace default is DOWN (LEDGER_FENCED: " in line) == (1, True), line
    assert line.endswith("moved, removed or replaced; put it back; nothing was written)")
    assert "opened again each minute" in " ".join(one["do"] for one in findings if one["check"] == "gateway")


def test_a_key_without_the_needed_roles_is_reported_with_the_missing_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys.json"
    made = CliRunner().invoke(app, ["keys", "add", "job", "--role", "read", "--namespace", "*", "--keys", str(file)])
    monkeypatch.setenv("ONCEGATE_API_KEY", made.stdout.split()[-1])
    with GatewayProcess(tmp_path, "--keys", str(file)) as gateway:
        findings = run("--url", gateway.url, "--data", str(tmp_path / "data"), "--port", "0")[1]
    assert "roles write and admin everywhere" in " ".join(one["why"] for one in findings if one["check"] == "claim")


def test_without_a_gateway_the_rest_is_checked_and_one_that_was_named_is_missed(free_port: int) -> None:
    status, findings = run("--port", str(free_port))
    assert (status, "no gateway answers" in text_of(findings, "gateway", "warning")) == (0, True)
    assert text_of(findings, "disk", "ok")
    status, findings = run("--url", f"http://127.0.0.1:{free_port}")
    assert (status, "no gateway answers" in text_of(findings, "gateway", "wrong")) == (1, True)


def test_settings_that_cannot_be_used_are_the_one_finding() -> None:
    Path("oncegate.toml").write_text("lease_msec = 3")
    status, findings = run()
    assert (status, len(findings), "there is no setting lease_msec" in text_of(findings, "settings", "wrong")) == (
        1,
        1,
        True,
    )


def test_a_port_in_use_is_an_error(free_port: int) -> None:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", free_port))
        one.listen(1)
        assert levels(machine.ports(load(port=free_port), answers=False)) == ["wrong"]
    assert levels(machine.ports(load(port=free_port), answers=False)) == ["ok"]
    assert levels(machine.ports(load(port=free_port, host="0.0.0.0"), answers=False)) == ["wrong"]


def test_a_missing_folder_of_the_pair_and_a_world_writable_one_are_errors(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "default").mkdir(parents=True)
    found = list(data.folders(load(), str(folder), answers=False))
    assert [one.what for one in found if one.level == "wrong"] == [
        f"{folder}.witness is not there, and the other of the pair is"
    ]
    (tmp_path / "data.witness").mkdir()
    folder.chmod(0o777)
    found = list(data.folders(load(), str(folder), answers=False))
    assert [one.do for one in found if one.level == "wrong"] == [f"chmod o-w {folder}"]


def test_a_disk_without_room_and_a_clock_that_was_set_back_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "default" / "0").mkdir(parents=True)
    (tmp_path / "data.witness").mkdir()
    full = load(disk_reserve_bytes=1 << 60)
    assert "wrong" in [one.level.value for one in data.folders(full, str(folder), True) if one.check == "disk"]
    late = folder / "default" / "0" / "late"
    late.touch()
    os.utime(late, (late.stat().st_atime, late.stat().st_mtime + 3_600))
    assert "warning" in [one.level.value for one in data.folders(load(), str(folder), True) if one.check == "clock"]


def test_few_open_files_leave_room_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.resource, "getrlimit", lambda kind: (1_024, 1_024))
    (found,) = machine.descriptors(load())
    assert (found.level.value, "ulimit -n" in found.do) == ("warning", True)


def test_readable_keys_and_unadministered_or_invalid_ones_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    settings = load(keys=path)
    assert levels(secrets.key_file(settings)) == ["wrong"], "there is no such file"
    keys.write(path, [])
    assert levels(secrets.key_file(settings)) == ["wrong"], "no key allows anything"
    keys.write(path, [keys.made("loader", [Role.WRITE], ["*"], 0)[0]])
    path.chmod(0o644)
    assert levels(secrets.key_file(settings)) == ["warning", "warning"]
    keys.write(path, [keys.made("operator", [Role.ADMIN], ["*"], 0)[0]])
    assert levels(secrets.key_file(settings)) == ["ok"]


def test_an_expired_or_expiring_certificate_and_one_of_another_key_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    key, certificate = authority.signed("localhost")
    pem = tmp_path / "both.pem"
    pem.write_bytes(key + certificate)
    pem.chmod(0o600)
    settings = load(tls_certificate=pem)
    assert levels(secrets.certificates(settings)) == ["ok"]
    end = secrets.x509.load_pem_x509_certificates(certificate)[0].not_valid_after_utc
    for until, level in ((timedelta(days=1), "warning"), (timedelta(days=-1), "wrong")):
        at_ms = int((end - until).astimezone(UTC).timestamp() * 1_000)
        monkeypatch.setattr(secrets.SystemClock, "wall_ms", lambda clock, at=at_ms: at)
        assert levels(secrets.certificates(settings)) == [level], datetime.fromtimestamp(at_ms / 1_000, UTC)
    pem.write_bytes(authority.signed("localhost")[0] + certificate)
    assert levels(secrets.certificates(settings)) == ["wrong"]


def test_brokers_and_servers_that_do_not_answer_are_wrong(free_port: int) -> None:
    for ledger in (f"redis://127.0.0.1:{free_port}/o?bare_key=yes", f"kafka://127.0.0.1:{free_port}/o?bare_key=yes"):
        status, findings = run("--ledger", ledger, "--witness", "w", "--port", "0")
        assert (status, text_of(findings, "ledger", "wrong") != "") == (1, True), findings


def test_redis_is_reported_by_its_persistence(tmp_path: Path) -> None:
    server = RedisServer(tmp_path).start()
    try:
        place = f"redis://127.0.0.1:{server.port}/o?bare_key=yes"
        status, findings = run("--ledger", place, "--witness", "w", "--port", "0")
        assert (status, "may hold a ledger" in text_of(findings, "ledger", "ok")) == (0, True)
        server.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        status, findings = run("--ledger", place, "--witness", "w", "--port", "0")
        assert (status, "allkeys-lru" in text_of(findings, "ledger", "wrong")) == (1, True)
    finally:
        server.kill()


def test_a_server_that_is_full_is_wrong_though_the_gateway_is_ready(tmp_path: Path) -> None:
    server = RedisServer(tmp_path).start()
    flags = "--witness", str(tmp_path / "witness")
    place = f"redis://{server.address}/full?bare_key=yes"
    try:
        with GatewayProcess(tmp_path, *flags, ledger=place) as gateway:
            server.run("CONFIG", "SET", "maxmemory", 1)
            status, findings = run("--ledger", place, *flags, "--url", gateway.url)
            assert (status, "did not take it" in text_of(findings, "claim", "wrong")) == (1, True), findings
    finally:
        server.kill()


def test_with_a_ledger_on_servers_an_id_is_claimed_and_released_and_no_namespace_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalGateway("memory:") as gateway:
        monkeypatch.setattr(deep, "parse_url", lambda url: ("kafka", ""))
        found = [(one.level.value, one.what) for one in deep.claim(deep.RunningGateway(gateway.url), None)]
        assert found == [("ok", "an id of namespace default was granted, busy for others, and is released")]
