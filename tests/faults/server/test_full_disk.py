"""A disk that others fill: what was begun is ended, reads go on, and a start on it serves what it holds."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway, OncegateError
from oncegate_spark.errors import Outcome
from tests.support.gateway_process import GatewayProcess
from tests.support.real_disks import shell

ROWS = pa.table({"value": ["a", "b"]})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system of 64 MiB."""
    mount = tmp_path / "mounted"
    mount.mkdir()
    shell("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(mount))
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def fill(disk: Path) -> Path:
    """Somebody else takes all that is left, to the last block."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size_bytes in (1 << 20, 4096):
            try:
                while True:
                    file.write(bytes(size_bytes))
            except OSError:
                continue
    return ballast


def code_of(asked) -> str:
    with pytest.raises(OncegateError) as raised:
        asked()
    assert raised.value.outcome is Outcome.NOT_WRITTEN
    return raised.value.code


def claim_something(gateway: Gateway) -> None:
    with gateway.attempt() as attempt:
        attempt.complete(attempt.claim(["something new"]))


@pytest.mark.server
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_lets_claims_end_and_serves_reads_also_after_a_restart(disk: Path, tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path)
    process.data = disk / "data"  # its log lies elsewhere
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
            assert code_of(lambda: claim_something(gateway)) == "LEDGER_FULL", "what is kept is for ends"
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
