"""The commands of `helm test` against a real gateway: they pass there, and fail if a duplicate is granted."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from deploy.k8s.values import CHART
from tests.support.gateway_process import GatewayProcess

SCRIPT = CHART / "files/helm_test.py"


def tried(url: str, *credentials: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, SCRIPT, url, "default", *credentials], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.strip()


# A busy machine without compiled loops takes minutes to answer the first request.
COMPILES = pytest.mark.timeout(600)


@COMPILES
@pytest.mark.server
def test_an_id_is_granted_once(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        assert tried(gateway.url) == (0, "an id was granted once, and was a duplicate then")
        assert tried(gateway.url)[0] == 0, "each run has an id of its own"
        assert tried(gateway.url, "--without-key")[0] == 1, "here claims are taken without a key"


@COMPILES
@pytest.mark.server
def test_a_gateway_with_keys_refuses_a_claim_without_one_and_takes_one_with_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    command = ["keys", "add", "test", "--role", "write", "--namespace", "default", "--keys", str(keys)]
    made = subprocess.run([sys.executable, "-m", "oncegate", *command], capture_output=True, text=True, check=True)
    (key,) = re.findall(r"og_[0-9a-f]+_[0-9a-f]+", made.stdout)
    (tmp_path / "key").write_text(f"{key}\n")
    with GatewayProcess(tmp_path, "--keys", str(keys)) as gateway:
        assert tried(gateway.url, "--without-key") == (0, "a claim without a key is refused")
        assert tried(gateway.url, str(tmp_path / "key"))[0] == 0
        assert tried(gateway.url)[0] == 1, "without its key it is refused"


class Forgetful(BaseHTTPRequestHandler):
    """Grants every id."""

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer({"claim": "c", "settled": 1, "verdicts": [{"verdict": "GRANTED"}]})

    def _answer(self, body: dict[str, object]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *arguments: object) -> None:
        """Suppresses the log."""


@pytest.fixture
def forgetful() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Forgetful)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_gateway_that_grants_an_id_twice_fails_it(forgetful: str) -> None:
    status, said = tried(forgetful)
    assert (status, said.startswith("FAILED: the second claim")) == (1, True)
