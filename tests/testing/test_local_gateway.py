"""LocalGateway, as the tests of a program that uses a gateway run it."""

import gc
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate.core.errors import SettingsError
from oncegate.testing import LocalGateway
from oncegate.testing.local import _Running
from oncegate_spark import AsyncGateway, Gateway
from oncegate_spark.errors import Unreachable

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def local() -> Iterator[LocalGateway]:
    with LocalGateway() as gateway:
        yield gateway


def test_it_is_a_real_gateway_over_http(local: LocalGateway) -> None:
    with Gateway(local.url) as client, client.attempt() as attempt:
        attempt.complete(attempt.claim(["a", "b"]))
        assert attempt.claim(["a"]).dropped == ["a"]
    assert "effectively once" in local.log


async def test_it_serves_a_test_that_is_itself_asynchronous(local: LocalGateway) -> None:
    async with AsyncGateway(local.url) as client, client.attempt() as attempt:
        assert (await attempt.produce("asynchronous", pa.table({"n": [1, 2]}))).rows == 2


def test_a_restart_keeps_the_port_and_what_was_written() -> None:
    with LocalGateway() as local, Gateway(local.url, timeout_ms=20_000) as client:
        url = local.url
        with client.attempt() as attempt:
            attempt.complete(attempt.claim(["a"]))
        local.restart()
        assert local.url == url
        with client.attempt() as attempt:
            assert attempt.claim(["a"]).dropped == ["a"]


def test_a_folder_that_was_named_stays_and_a_temporary_one_does_not(tmp_path: Path) -> None:
    for _ in range(2):
        with LocalGateway(f"log:{tmp_path / 'data'}") as local, Gateway(local.url) as client:
            with client.attempt() as attempt:
                attempt.produce("t", pa.table({"n": [1]}))
            table = client.read("t")
    assert table is not None
    assert table.num_rows == 2
    with LocalGateway() as local:
        folder = Path(local._ledger.removeprefix("log:")).parent  # type: ignore[union-attr]
        assert folder.is_dir()
    assert not folder.exists()


def test_a_ledger_in_memory_is_not_restarted() -> None:
    with LocalGateway("memory:") as local:
        with pytest.raises(RuntimeError, match="empty after a restart"):
            local.restart()
        with Gateway(local.url) as client:
            assert client.describe()["namespace"] == "default"


def test_settings_are_given_and_not_read_from_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONCEGATE_WITNESS", str(tmp_path / "a-real-ledgers-witness"))
    monkeypatch.setenv("ONCEGATE_LEASE_MS", "777000")
    monkeypatch.chdir(tmp_path)
    Path("oncegate.toml").write_text("port = 1\n")
    with LocalGateway(lease_ms=2_000) as local, Gateway(local.url) as client, client.attempt() as attempt:
        claimed = attempt.claim(["a"])
        attempt.release(claimed)
    assert claimed.verdicts.lease_ms == 2_000
    assert not (tmp_path / "a-real-ledgers-witness").exists()


@pytest.mark.parametrize("wrong", [{"leese_ms": 1}, {"lease_ms": -1}, {"port": 8080}])
def test_a_wrong_setting_is_refused_before_anything_is_opened(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        LocalGateway(**wrong)  # type: ignore[arg-type]


def test_a_gateway_that_cannot_start_reports_the_reason_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with LocalGateway(f"log:{tmp_path / 'data'}"):
        second = LocalGateway(f"log:{tmp_path / 'data'}")
        with pytest.raises(RuntimeError, match=r"did not start.*data"):
            second.start()
        second.close()
    assert set(threading.enumerate()) == before


def test_a_start_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    cancel = _Running._cancel
    monkeypatch.setattr("oncegate.app.warm_up", lambda: go.wait(30))
    monkeypatch.setattr(_Running, "_cancel", lambda running: (cancel(running), go.set()))
    local = LocalGateway("memory:", start_ms=200)
    with pytest.raises(RuntimeError, match="within 200 ms"):
        local.start()


def test_after_close_no_thread_no_socket_and_no_warning_are_left() -> None:
    before = set(threading.enumerate())
    with LocalGateway() as local, Gateway(local.url) as client:
        client.describe()
        url, port = local.url, local.port
        local.close()
        with pytest.raises(Unreachable):
            Gateway(url, timeout_ms=200).describe()
    gc.collect()
    assert set(threading.enumerate()) == before
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
