"""The .proto keeps the rules of its trade, and the page's example runs."""

import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page
from tests.support.grpc_app import both


def test_the_proto_is_clean() -> None:
    found = subprocess.run(["buf", "lint"], cwd=ROOT / "service/proto", capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.filterwarnings("default")
async def test_the_example_of_the_guide_runs(tmp_path: Path) -> None:
    import asyncio
    import sys

    (example,) = Page(ROOT / "docs/grpc-guide.md").blocks("python")
    async with both() as doors:
        text = example.replace("127.0.0.1:8081", f"127.0.0.1:{doors.door.port}")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", text)
        assert await process.wait() == 0
