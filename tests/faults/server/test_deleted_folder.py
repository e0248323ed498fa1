"""A data folder that is moved or removed under a running gateway: all later answers are the same, and true."""

import asyncio
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate.clock import sleep_s
from oncegate.core.errors import LedgerFenced
from oncegate.ledgers.log import ledgers as log_ledgers
from oncegate.ledgers.log.ledgers import open_log
from oncegate.ledgers.log.locks import FolderLock
from oncegate_spark import Gateway, OncegateError
from oncegate_spark.errors import Outcome
from tests.support.gateway_process import GatewayProcess


def refusal(ask) -> OncegateError:
    with pytest.raises(OncegateError) as raised:
        ask()
    return raised.value


@pytest.mark.server
def test_a_removed_data_folder_has_one_code_and_nothing_was_written(tmp_path: Path) -> None:
    rows = pa.table({"value": ["a"]})
    with GatewayProcess(tmp_path) as process, Gateway(process.url, timeout_ms=2_000) as gateway:
        with gateway.attempt() as attempt:
            attempt.produce("topic", rows)
        shutil.rmtree(process.data)

        def claim() -> None:
            with gateway.attempt() as attempt:
                attempt.claim(["x"])

        def produce() -> None:
            with gateway.attempt() as attempt:
                attempt.produce("topic", rows)

        def create() -> None:
            with Gateway(process.url, "other", timeout_ms=2_000) as other:
                other.create_namespace()

        asked = (lambda: gateway.read("topic"), claim, claim, produce, lambda: gateway.read("topic"), create)
        for number, ask in enumerate(asked):
            error = refusal(ask)
            assert (error.code, error.outcome) == ("LEDGER_FENCED", Outcome.NOT_WRITTEN), f"{number}: {error}"
            assert str(error).lower().count("nothing was written") == 1, str(error)
            assert "moved, removed or replaced" in str(error)
        assert process.stop() == 0


@pytest.mark.server
def test_a_moved_replaced_or_removed_folder_is_reported_without_any_request_or_write(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as process:

        def becomes(**states: str) -> None:
            process.wait_until(f"says {states}", lambda: process.states() == states)

        def is_told(namespace: str, times: int) -> None:
            lines = [line for line in process.log.splitlines() if "ledger_lost" in line]
            assert len(lines) == times, process.log
            assert f"namespace={namespace}" in lines[-1], lines
            assert "moved, removed or replaced; put it back; nothing was written" in lines[-1], lines

        for name in ("moved", "replaced"):
            with Gateway(process.url, name) as other:
                other.create_namespace()
        becomes(default="SERVING", moved="SERVING", replaced="SERVING")
        (process.data / "moved").rename(tmp_path / "elsewhere")
        becomes(default="SERVING", moved="DOWN", replaced="SERVING")
        is_told("moved", 1)
        (process.data / "replaced").rename(tmp_path / "before")
        shutil.copytree(tmp_path / "before", process.data / "replaced")
        becomes(default="SERVING", moved="DOWN", replaced="DOWN")
        is_told("replaced", 2)
        ready, answer = process.ask("GET", "/healthz/ready")
        for name in ("moved", "replaced"):
            assert f"{name} is DOWN (LEDGER_FENCED: ledger {name} in " in answer["detail"], answer
            status, problem = process.ask("GET", f"/healthz/ready?namespace={name}")
            assert (status, "moved, removed or replaced; put it back" in problem["detail"]) == (503, True), problem
            assert problem["namespaces"] == {name: "DOWN"}
        assert (ready, answer["detail"].count("moved, removed or replaced; put it back")) == (200, 2), answer
        assert process.ask("GET", "/healthz/ready?namespace=default")[0] == 200
        shutil.rmtree(process.data)
        becomes(default="DOWN", moved="DOWN", replaced="DOWN")
        is_told("default", 3)

        def claim() -> None:
            with Gateway(process.url, timeout_ms=2_000) as gateway, gateway.attempt() as attempt:
                attempt.claim(["x"])

        error = refusal(claim)
        assert (error.code, "moved, removed or replaced" in str(error)) == ("LEDGER_FENCED", True), error
        assert process.stop() == 0


async def test_a_check_that_hangs_blocks_nothing_and_no_second_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, goes_on, looks = threading.Event(), threading.Event(), list[str]()
    real = FolderLock.require

    def require(lock: FolderLock) -> None:
        if threading.current_thread().name.startswith("looking"):
            looks.append(threading.current_thread().name)
            hung.set()
            goes_on.wait()
        real(lock)

    async def at_once(_: float) -> None:
        await sleep_s(0)

    async with open_log(str(tmp_path / "data"), create=True) as ledgers, ledgers.open("default") as opened:
        monkeypatch.setattr(FolderLock, "require", require)
        monkeypatch.setattr(log_ledgers, "sleep_s", at_once)
        try:
            await asyncio.to_thread(hung.wait)
            for number in range(100):
                await opened.ledger.append([str(number).encode()], [])
            assert looks == ["looking_0"]
        finally:
            goes_on.set()


async def test_an_append_under_way_when_its_folder_is_moved_reports_its_own_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded, goes_on, looked = threading.Event(), threading.Event(), list[FolderLock]()
    real = FolderLock.require

    def require(lock: FolderLock) -> None:
        real(lock)
        if threading.current_thread().name.startswith("ledger"):
            looked.append(lock)
        if len(looked) == 3:  # the data folder, the witness's, and the ledger's own: the frame is next
            guarded.set()
            goes_on.wait()

    async with open_log(str(tmp_path / "data"), create=True) as ledgers, ledgers.open("default") as opened:
        look = opened.ledger.look  # type: ignore[attr-defined]
        monkeypatch.setattr(FolderLock, "require", require)
        append = asyncio.create_task(opened.ledger.append([b"a"], []))
        try:
            await asyncio.to_thread(guarded.wait)
            (tmp_path / "data").rename(tmp_path / "elsewhere")
            await asyncio.to_thread(look)
            opened.end.check()
        finally:
            goes_on.set()
        assert (await append).position == 1
        await asyncio.to_thread(look)
        with pytest.raises(LedgerFenced, match="moved, removed or replaced"):
            opened.end.check()
