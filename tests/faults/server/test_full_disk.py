"""A disk that other programs fill: open claims can be completed, reads continue, and a restart serves its data."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway, OncegateError
from oncegate_spark.errors import Outcome
from tests.support.full_disks import fill, small_disk
from tests.support.gateway_process import GatewayProcess

ROWS = pa.table({"value": ["a", "b"]})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "mounted", 64) as disk:
        yield disk


def refusal_of(asked) -> OncegateError:
    with pytest.raises(OncegateError) as raised:
        asked()
    assert raised.value.outcome is Outcome.NOT_WRITTEN
    return raised.value


def code_of(asked) -> str:
    return refusal_of(asked).code


def claim_something(gateway: Gateway) -> None:
    with gateway.attempt() as attempt:
        attempt.complete(attempt.claim(["something new"]))


@pytest.mark.server
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_lets_claims_end_and_serves_reads_also_after_a_restart(disk: Path, tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path)
    process.data = disk / "data"  # its log is elsewhere
    with process, Gateway(process.url, timeout_ms=3_000) as gateway:
        with gateway.attempt() as attempt, gateway.attempt() as other, gateway.attempt() as third:
            attempt.produce("topic", ROWS)
            claimed, left = attempt.claim(["x", "y"]), other.claim(["z"])
            later = third.claim(["later"])
            ballast = fill(disk)
            assert code_of(lambda: claim_something(gateway)) == "LEDGER_FULL"
            assert process.ask("GET", "/healthz/ready")[1]["namespaces"] == {"default": "FULL"}
            attempt.complete(claimed)
            other.release(left)
            assert code_of(lambda: claim_something(gateway)) == "LEDGER_FULL", "the reserve is for completions"
            process.kill()
            process.start()
            assert process.ask("GET", "/healthz/ready")[1]["namespaces"] == {"default": "FULL"}
            table = gateway.read("topic")
            assert table is not None
            assert table.column("value").to_pylist() == ["a", "b"]
            assert gateway.explain("x")["state"] == "DONE"
            assert code_of(lambda: claim_something(gateway)) == "LEDGER_FULL"
            third.complete(later)
        ballast.unlink()
        with Gateway(process.url, timeout_ms=30_000) as patient:
            claim_something(patient)
        assert process.ask("GET", "/healthz/ready")[1]["namespaces"] == {"default": "SERVING"}
        assert process.stop() == 0
    assert process.log.count("ledger_full") == 2, "once a life"
    assert process.log.count("ledger_has_room") == 1


@pytest.mark.server
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_start_with_too_little_room_reports_how_much_is_missing_and_continues_once_it_is_there(
    disk: Path, tmp_path: Path
) -> None:
    """A sixteenth of the 64 MiB is reserved, and one MiB must be free beside it: of these 5 MiB not quite 2 are
    there."""
    process = GatewayProcess(tmp_path)
    process.data = disk / "data"
    with process:
        fill(disk)
        with Gateway(process.url, timeout_ms=3_000) as gateway:
            assert code_of(lambda: claim_something(gateway)) == "LEDGER_FULL"
        process.kill()
        ballast = fill(disk)
        os.truncate(ballast, ballast.stat().st_size - (2 << 20))
        process.start()
        missing = "4 MiB more must be free"
        with Gateway(process.url, timeout_ms=3_000) as gateway:
            assert missing in str(refusal_of(lambda: claim_something(gateway)))
            assert missing in process.ask("GET", "/v1/namespaces/default")[1]["failing"]["room"]
            assert missing in next(line for line in reversed(process.log.splitlines()) if "ledger_full" in line)
            with Gateway(process.url, "another", timeout_ms=3_000) as another:
                assert missing in str(refusal_of(another.create_namespace))
            assert process.ask("GET", "/v1/namespaces")[1]["namespaces"] == ["default"]
        os.truncate(ballast, ballast.stat().st_size - (4 << 20))
        with Gateway(process.url, timeout_ms=30_000) as gateway:
            claim_something(gateway)
        with Gateway(process.url, "another", timeout_ms=3_000) as another:
            another.create_namespace()
        assert process.ask("GET", "/v1/namespaces/default")[1]["failing"] == {}
        assert process.stop() == 0
