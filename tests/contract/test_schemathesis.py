"""The gateway accepts the document's valid requests and refuses its invalid ones; every answer is documented.

schemathesis generates the requests from the document's schemas, examples and links, the same at every run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess

pytestmark = [pytest.mark.server, pytest.mark.slow]
HERE = Path(__file__).parent
# Examples of each operation in each phase; some 3,000 requests in half a minute. More and another seed: by hand.
EXAMPLES = os.environ.get("ONCEGATE_EXAMPLES", "5")
SEED = os.environ.get("ONCEGATE_TEST_SEED", "7")


def test_every_request_of_the_document_gets_a_documented_answer(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    with GatewayProcess(folder) as process:
        command = ["--config-file", str(HERE / "schemathesis.toml"), "run", f"{process.url}/openapi.json"]
        limits = ["--checks", "all", "--max-examples", EXAMPLES, "--seed", SEED, "--no-color"]
        outcome = subprocess.run(
            [str(Path(sys.executable).with_name("st")), *command, *limits],
            cwd=tmp_path,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)},
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert outcome.returncode == 0, outcome.stdout[-6000:] + outcome.stderr[-2000:]
    assert "Stateful" in outcome.stdout
