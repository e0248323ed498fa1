"""Long verbs show their progress on a terminal, and nothing to a program."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from oncegate.ledgers import log

VERBS = ("verify", "backup", "restore")


def arguments(verb: str, folder: Path) -> list[str]:
    """Returns the verb's arguments for a new ledger, or for a copy of one."""
    data, copy = folder / "data", folder / "copy"
    log.init(str(data))
    if verb == "verify":
        return [verb, "--data", str(data)]
    if verb == "restore":
        log.backup(str(data), str(copy))
        return [verb, "--from", str(copy), "--data", str(folder / "restored")]
    return [verb, "--data", str(data), "--to", str(copy)]


@pytest.mark.parametrize("verb", VERBS)
def test_a_person_sees_a_bar_on_the_terminal(verb: str, tmp_path: Path) -> None:
    mine, its = pty.openpty()
    command = [sys.executable, "-m", "oncegate", *arguments(verb, tmp_path)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=its, text=True, check=False, env={**os.environ, "TERM": "xterm"}
    )
    os.close(its)
    shown = os.read(mine, 1 << 16).decode(errors="replace")
    os.close(mine)
    assert done.returncode == 0, shown
    assert "━" in shown
    assert "━" not in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_a_program_reads_its_lines_and_nothing_else(verb: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "oncegate", *arguments(verb, tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert all(isinstance(json.loads(line), dict) for line in done.stdout.splitlines())
