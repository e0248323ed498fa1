"""File systems that a test creates and mounts; the test is skipped if that is not possible."""

import subprocess
from pathlib import Path

import pytest


def shell(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{words[0]} is not possible here: {done.stderr.strip()}")


def make_ext4(image: Path, mount: Path) -> None:
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    shell("mkfs.ext4", "-q", str(image))
    shell("mount", "-o", "loop", str(image), str(mount))
