"""examples/python_worker.py and http_idempotency.py: killed between effect and completion, rerun, counted."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.payments_server import PaymentsServer

pytestmark = pytest.mark.server
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as process:
        yield process


def run(gateway: GatewayProcess, program: str, *given: str, killed: bool = False) -> str:
    what = ["-m", "tests.support.killed_example", program] if killed else [f"examples/{program}.py"]
    command = [sys.executable, *what, "--url", gateway.url, *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stderr[-3000:]
    return done.stdout.strip()


def test_a_worker_killed_after_a_receipt_has_each_record_once(gateway: GatewayProcess, tmp_path: Path) -> None:
    def receipts() -> dict[str, tuple[str, int]]:
        """Returns the text and the inode number of each file; a replaced file would have another number."""
        return {path.name: (path.read_text(), path.stat().st_ino) for path in (tmp_path / "receipts").glob("*.txt")}

    run(gateway, "python_worker", "--folder", str(tmp_path), killed=True)
    first = receipts()
    assert list(first) == ["a-1.txt"]
    shown = [run(gateway, "python_worker", "--folder", str(tmp_path)) for _ in range(2)]
    assert shown == ["1 receipts written, 1 found, 1 were there", "0 receipts written, 0 found, 3 were there"]
    assert {name: text for name, (text, _) in receipts().items()} == {
        "a-1.txt": "a-1: 12.00\n",
        "a-2.txt": "a-2: 3.50\n",
    }
    assert receipts()["a-1.txt"] == first["a-1.txt"]


def test_payments_killed_after_a_request_or_with_a_lost_answer_are_made_once(gateway: GatewayProcess) -> None:
    with PaymentsServer() as server:
        run(gateway, "http_idempotency", "--payments", server.url, killed=True)
        assert sum(server.paid.values()) == 1
        server.faults.extend(["hang_up", "lose"])
        shown = [run(gateway, "http_idempotency", "--payments", server.url) for _ in range(2)]
    assert shown == ["3 payments made, 0 were made before", "0 payments made, 3 were made before"]
    assert {json.loads(body)["payment"]: times for body, times in server.paid.items()} == {"p-1": 1, "p-2": 1, "p-3": 1}
    assert len(server.keys) == 6
