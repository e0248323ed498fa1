"""The .proto follows its conventions and stays compatible with callers, and the page's examples run.

The baseline is in tests/golden/grpc. After an addition, run this in the root:

    buf build service/proto --exclude-source-info -o -#format=json |
        python -m json.tool > tests/golden/grpc/gateway.json
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page
from tests.support.grpc_app import both

PROTO, GATEWAY = ROOT / "service/proto", "oncegate/v1/gateway.proto"
BASELINE = ROOT / "tests/golden/grpc/gateway.json"


def test_the_proto_is_clean() -> None:
    outcome = subprocess.run(["buf", "lint"], cwd=ROOT / "service/proto", capture_output=True, text=True)
    assert (outcome.returncode, outcome.stdout) == (0, "")


def test_nothing_that_callers_rely_on_has_changed() -> None:
    assert breaking(PROTO) == ""


def test_additions_are_relied_on_from_now_on() -> None:
    built = subprocess.run(
        ["buf", "build", "--exclude-source-info", "-o", "-#format=json"], cwd=PROTO, capture_output=True
    )
    assert json.loads(built.stdout) == json.loads(BASELINE.read_text())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bytes verdicts = 3;", "bytes verdicts = 9;"),
        ("bytes verdicts = 3;", "string verdicts = 3;"),
        ("bytes verdicts = 3;", "bytes answers = 3;"),
        ("bytes verdicts = 3;", ""),
        ("optional uint32 lease_ms = 6;", "uint32 lease_ms = 6;"),
        ("CLAIM_STATE_DONE = 2;", "CLAIM_STATE_DONE = 4;"),
        ("rpc Ack(", "rpc Acknowledge("),
        ("(ProduceResponse);", "(stream ProduceResponse);"),
        ("(stream StreamClaimsResponse);", "(StreamClaimsResponse);"),
        ("service BatchService", "service StageService"),
    ],
)
def test_a_change_that_breaks_callers_is_seen(before: str, after: str, tmp_path: Path) -> None:
    text = (PROTO / GATEWAY).read_text()
    assert text.count(before) >= 1
    changed = tmp_path / GATEWAY
    changed.parent.mkdir(parents=True)
    changed.write_text(text.replace(before, after, 1))
    (tmp_path / "buf.yaml").write_text((PROTO / "buf.yaml").read_text())
    assert "gateway.proto:" in breaking(tmp_path)


def test_an_addition_breaks_no_client(tmp_path: Path) -> None:
    text = (PROTO / GATEWAY).read_text()
    changed = tmp_path / GATEWAY
    changed.parent.mkdir(parents=True)
    changed.write_text(text.replace("bytes verdicts = 3;", "bytes verdicts = 3; bytes more = 99;", 1))
    (tmp_path / "buf.yaml").write_text((PROTO / "buf.yaml").read_text())
    assert breaking(tmp_path) == ""


def breaking(folder: Path) -> str:
    """Returns the differences of a folder's .proto that break callers of the baseline; "" if there are none."""
    command = ["buf", "breaking", "--against", str(BASELINE)]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert outcome.returncode in (0, 100), outcome.stderr
    return outcome.stdout


@pytest.mark.filterwarnings("default")
async def test_the_examples_of_the_guide_run(tmp_path: Path) -> None:
    examples = Page(ROOT / "docs/grpc-guide.md").blocks("python")
    async with both() as doors:
        for example in examples:
            text = example.replace("127.0.0.1:8081", f"127.0.0.1:{doors.door.port}")
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", text)
            assert await process.wait() == 0
    assert len(examples) == 2
