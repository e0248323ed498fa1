"""The previous version, built from its commit: its wheels, installed separately, and its tree with its own tests."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.tree import ROOT

VERSION = "0.1.0"
# The last commit of this version.
COMMIT = "f3456e305209ac9c3a8909b2986be95008d56933"
PACKAGES = {"service": ".", "client": "spark_client"}


class NotBuilt(RuntimeError):
    """Raised if the previous version cannot be built."""


@dataclass(frozen=True)
class Version:
    """A version's folders of packages and tests; `service` and `client` are entries of a Python path."""

    tree: Path
    service: Path
    client: Path


THIS = Version(ROOT, ROOT / "service", ROOT / "spark_client")


def environment(service: Version, client: Version, tests: Version) -> dict[str, str]:
    """Returns the variables of a process that uses the packages and tests of these versions."""
    return {**os.environ, "PYTHONPATH": f"{service.service}:{client.client}:{tests.tree}"}


def build(folder: Path) -> Version:
    """Builds and installs both wheels of the previous version into a folder. Raises NotBuilt."""
    tree = folder / "tree"
    tree.mkdir()
    packed = _run(["git", "archive", COMMIT], ROOT)
    subprocess.run(["tar", "-x", "-C", tree], input=packed, check=True)
    for name, package in PACKAGES.items():
        wheels = folder / f"wheel-{name}"
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)], tree / package)
        (wheel,) = wheels.glob(f"*-{VERSION}-*.whl")
        options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--target", folder / name]
        _run([sys.executable, "-m", "pip", "install", *map(str, options), str(wheel)], folder)
    return Version(tree, folder / "service", folder / "client")


def _run(command: list[str], folder: Path) -> bytes:
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode()[-800:]
        raise NotBuilt(f"{VERSION} is built from commit {COMMIT[:8]}, which has to be in the history: {said}")
    return done.stdout
