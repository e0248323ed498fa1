"""The one-line messages for a machine that lacks a requirement."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.kafka import needs
from demo.processes import ROOT
from deploy.kafka.jars import JarSet, JarsMissing


def java_that_says(folder: Path, version: str) -> str:
    """Creates a Java home whose java prints a version, as Java does, and does nothing else."""
    command = folder / "bin/java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    command.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_java_17_and_later_are_taken(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_that_says(tmp_path, version))
    needs.require_java()


@pytest.mark.parametrize(("version", "told"), [("11.0.2", "is 11"), ("1.8.0_402", "is 1"), ("", "is unknown")])
def test_an_older_java_is_named(version: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_that_says(tmp_path, version))
    with pytest.raises(RuntimeError, match=rf"^Java 17 is missing \(.*/bin/java {told}\); install it.*make setup$"):
        needs.require_java()


def test_jars_that_cannot_be_fetched_are_named_without_ivys_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(jars: JarSet) -> Path:
        raise JarsMissing(f"the jars of {jars.folder} could not be fetched:\n:: problems summary ::\nmany lines")

    monkeypatch.setattr(needs, "fetched", none)
    with pytest.raises(RuntimeError) as raised:
        needs.require_jars()
    assert str(raised.value).startswith("the jars of kafka-4.3.1 could not be fetched; python -m deploy.kafka.jars")
    assert "\n" not in str(raised.value)


def test_the_demo_on_a_machine_without_java_ends_with_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "demo", "--kafka", "--out", str(out)]
    without = {**os.environ, "JAVA_HOME": str(tmp_path / "nowhere")}
    done = subprocess.run(command, cwd=ROOT, env=without, capture_output=True, text=True, check=False)
    (line,) = done.stdout.splitlines()
    assert line.startswith("the demo could not be finished: Java 17 is missing")
    assert (done.returncode, done.stderr, list(out.iterdir())) == (1, "", [])
