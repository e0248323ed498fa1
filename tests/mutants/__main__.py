"""Plant every bug, each in a copy of its own, and run the tests that must catch it: `make mutants`.

    python -m tests.mutants [NAME ...]

Each bug is a replacement of text in a copy of the shipped source. First the named tests must pass on an unchanged
copy; then each must fail on the mutated one. Writes out/mutants/result.json: [{"name", "caught", "by"}].
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.mutants.lanes import LANES
from tests.mutants.payloads import PAYLOADS
from tests.mutants.planted import PLANTED, Mutant
from tests.mutants.producers import PRODUCERS
from tests.mutants.sealing import SEALING
from tests.mutants.serving import SERVING
from tests.mutants.sizes import SIZES
from tests.mutants.surface import SURFACE
from tests.mutants.tiers import TIERS

ROOT = Path(__file__).parents[2]
COPIED = ("service", "spark_client", "tests", "demo", "scripts")
TIMEOUT_S = 600


def copy(folder: Path) -> None:
    """The tree as far as tests need it."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md"):
        shutil.copy(ROOT / name, folder / name)


def run_tests(folder: Path, tests: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run tests against the copy: its packages stand first on the path, its compiled kernels lie in it."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder / 'service'}:{folder / 'spark_client'}:{folder}",
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def plant(folder: Path, mutant: Mutant) -> None:
    """Apply the bug; AssertionError when its text is not found just once."""
    for path, old, new in mutant.edits:
        source = (folder / path).read_text()
        assert source.count(old) == 1, f"{mutant.name}: {path} has {source.count(old)} times {old!r}"
        (folder / path).write_text(source.replace(old, new))


def try_one(mutant: Mutant) -> dict[str, object]:
    """Whether a named test fails with the bug, and which."""
    with tempfile.TemporaryDirectory(prefix=f"oncegate-{mutant.name.replace(' ', '-')}-") as place:
        folder = Path(place)
        copy(folder)
        plant(folder, mutant)
        try:
            done = run_tests(folder, list(mutant.tests))
        except subprocess.TimeoutExpired:
            return {"name": mutant.name, "caught": True, "by": f"no end after {TIMEOUT_S} s: {mutant.tests[0]}"}
        failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        caught = done.returncode == 1 and bool(failed)
        return {"name": mutant.name, "caught": caught, "by": failed[0] if caught else done.stdout[-400:]}


def check_unchanged(mutants: list[Mutant]) -> str | None:
    """The tests that catch bugs must pass without one; what they print if not."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    with tempfile.TemporaryDirectory(prefix="oncegate-unchanged-") as place:
        copy(Path(place))
        done = run_tests(Path(place), tests)
    return None if done.returncode == 0 else done.stdout[-3000:]


def main() -> int:
    planted = (*PLANTED, *SERVING, *SURFACE, *TIERS, *SEALING, *LANES, *PRODUCERS, *PAYLOADS, *SIZES)
    wanted = [mutant for mutant in planted if not sys.argv[1:] or mutant.name in sys.argv[1:]]
    out = ROOT / "out" / "mutants"
    out.mkdir(parents=True, exist_ok=True)
    results = []
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("unchanged", total=len(wanted) + 1)
        if (text := check_unchanged(wanted)) is not None:
            print(f"mutants: the tests fail without any bug\n{text}")
            return 2
        bar.advance(task)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for result in pool.map(try_one, wanted):
                bar.update(task, advance=1, description=str(result["name"]))
                results.append(result)
                if not result["caught"]:
                    bar.console.print(f"SURVIVED {result['name']}: {result['by']}")
    (out / "result.json").write_text(json.dumps(results, indent=1) + "\n")
    caught = sum(bool(result["caught"]) for result in results)
    print(f"mutants: {caught} of {len(results)} caught; {out / 'result.json'}")
    return int(caught != len(results))


if __name__ == "__main__":
    sys.exit(main())
