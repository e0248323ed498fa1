"""Plants every bug in a separate copy and runs the tests that must catch it: `make mutants`.

    python -m tests.mutants [NAME ...] [--below PATH] [--list]

Each bug is an edit of the syntax tree in a copy of the shipped source (`edits`). First the named
tests must pass on an unchanged copy; then one must FAIL on the mutated copy. A test that cannot begin or does not end
proves nothing. Runs as many copies at a time as there are processors, always in the same folders, so that kernels
without a bug are compiled once. Writes out/mutants/result.json: [{"name", "seen_by", "caught", "by"}]; `seen_by` is
"module" if a module's own test catches the bug, "walk" if only a random walk does.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.progress import Progress

from tests.mutants.background import BACKGROUND
from tests.mutants.causes import CAUSES
from tests.mutants.chart import CHART
from tests.mutants.checkpoints import CHECKPOINTS
from tests.mutants.contract import CONTRACT
from tests.mutants.deletion import DELETION
from tests.mutants.delivery import DELIVERY
from tests.mutants.demo import DEMO
from tests.mutants.direct import DIRECT
from tests.mutants.duplicate_log import DUPLICATE_LOG
from tests.mutants.eviction import SEALING
from tests.mutants.firsts import FIRSTS
from tests.mutants.formats import FORMATS
from tests.mutants.grpc import GRPC
from tests.mutants.id_sets import ID_SETS
from tests.mutants.id_values import ID_VALUES
from tests.mutants.json_rows import JSON_ROWS
from tests.mutants.kafka import KAFKA
from tests.mutants.kafka_headers import KAFKA_HEADERS
from tests.mutants.kafka_matrix import KAFKA_MATRIX
from tests.mutants.kafka_models import KAFKA_MODELS
from tests.mutants.kafka_owners import KAFKA_OWNERS
from tests.mutants.kafka_plan import KAFKA_PLAN
from tests.mutants.kafka_rows import KAFKA_ROWS
from tests.mutants.kafka_sink import KAFKA_SINK
from tests.mutants.kafka_stages import KAFKA_STAGES
from tests.mutants.kafka_standby import KAFKA_STANDBY
from tests.mutants.kafka_topics import KAFKA_TOPICS
from tests.mutants.lakes import LAKES
from tests.mutants.lanes import LANES
from tests.mutants.lifecycle import LIFECYCLE
from tests.mutants.look_up import LOOK_UP
from tests.mutants.made_again import MADE_AGAIN
from tests.mutants.meetings import MEETINGS
from tests.mutants.metrics import METRICS
from tests.mutants.mutant import Mutant
from tests.mutants.named_batches import NAMED_BATCHES
from tests.mutants.neighbours import neighbours
from tests.mutants.on_down import ON_DOWN
from tests.mutants.one_namespace import ONE_NAMESPACE
from tests.mutants.operators import OPERATORS
from tests.mutants.overload import OVERLOAD
from tests.mutants.payloads import PAYLOADS
from tests.mutants.planted import PLANTED
from tests.mutants.policies import POLICIES
from tests.mutants.producers import PRODUCERS
from tests.mutants.quotas import QUOTAS
from tests.mutants.redis import REDIS
from tests.mutants.redis_standby import REDIS_STANDBY
from tests.mutants.refused_part import REFUSED_PART
from tests.mutants.security import SECURITY
from tests.mutants.sequence_payloads import SEQUENCE_PAYLOADS
from tests.mutants.serving import SERVING
from tests.mutants.source_offsets import SOURCE_OFFSETS
from tests.mutants.spark_driver import SPARK_DRIVER
from tests.mutants.starting import STARTING
from tests.mutants.step_order import STEP_ORDER
from tests.mutants.surface import SURFACE
from tests.mutants.tiers import TIERS
from tests.mutants.tokens import TOKENS
from tests.mutants.topic_columns import TOPIC_COLUMNS
from tests.mutants.traces import TRACES
from tests.mutants.turns import TURNS
from tests.mutants.unchecked import UNCHECKED
from tests.mutants.verbs import VERBS
from tests.mutants.verifier import VERIFIER

ROOT = Path(__file__).parents[2]
COPIED = (
    "service",
    "spark_client",
    "tests",
    "demo",
    "deploy",
    "helm",
    "requirements",
    "scripts",
    "docs",
    "bench",
    "examples",
)
_LISTED = (
    *PLANTED,
    *GRPC,
    *SECURITY,
    *OVERLOAD,
    *SERVING,
    *SURFACE,
    *JSON_ROWS,
    *TOKENS,
    *QUOTAS,
    *TURNS,
    *CONTRACT,
    *TIERS,
    *SEALING,
    *LANES,
    *DIRECT,
    *PRODUCERS,
    *ON_DOWN,
    *ONE_NAMESPACE,
    *OPERATORS,
    *POLICIES,
    *PAYLOADS,
    *SEQUENCE_PAYLOADS,
    *FIRSTS,
    *STARTING,
    *MEETINGS,
    *BACKGROUND,
    *ID_SETS,
    *ID_VALUES,
    *LIFECYCLE,
    *LOOK_UP,
    *UNCHECKED,
    *VERIFIER,
    *VERBS,
    *DELETION,
    *METRICS,
    *CAUSES,
    *DUPLICATE_LOG,
    *SPARK_DRIVER,
    *KAFKA,
    *KAFKA_OWNERS,
    *KAFKA_MATRIX,
    *KAFKA_MODELS,
    *KAFKA_ROWS,
    *KAFKA_PLAN,
    *REFUSED_PART,
    *KAFKA_SINK,
    *KAFKA_TOPICS,
    *MADE_AGAIN,
    *FORMATS,
    *KAFKA_HEADERS,
    *KAFKA_STANDBY,
    *KAFKA_STAGES,
    *REDIS,
    *REDIS_STANDBY,
    *CHECKPOINTS,
    *TOPIC_COLUMNS,
    *TRACES,
    *SOURCE_OFFSETS,
    *NAMED_BATCHES,
    *LAKES,
    *DELIVERY,
    *DEMO,
    *CHART,
    *STEP_ORDER,
)
MUTANTS = (*_LISTED, *neighbours(_LISTED))
TIMEOUT_S = 600
# For all tests that catch a bug, one after another.
UNCHANGED_TIMEOUT_S = 3600
PLACES = os.cpu_count() or 1


class Places:
    """Folders for the copies, one for each that is tried at a time; compiled kernels stay there."""

    def __init__(self, root: Path) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(PLACES):
            self._free.put(root / f"copy-{number}")

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """Yields a folder with an unchanged copy."""
        folder = self._free.get()
        try:
            copy(folder)
            yield folder
        finally:
            self._free.put(folder)


def copy(folder: Path) -> None:
    """Replaces the folder's content with the parts of the tree that tests need."""
    for name in COPIED:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md", "Dockerfile"):
        shutil.copy(ROOT / name, folder / name)


def run_tests(folder: Path, tests: list[str], timeout_s: int = TIMEOUT_S) -> "subprocess.CompletedProcess[str]":
    """Runs tests against the copy: its packages are first on the path, and it holds its compiled kernels."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder / 'service'}:{folder / 'spark_client'}:{folder}",
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def plant(folder: Path, mutant: Mutant) -> None:
    """Applies the bug. Raises LookupError if an edit matches nowhere, or several times."""
    for path, source in mutant.planted(folder).items():
        (folder / path).write_text(source)


def try_one(mutant: Mutant, places: Places) -> dict[str, object]:
    """Returns whether a named test fails with the bug, and which."""
    known = {"name": mutant.name, "seen_by": mutant.seen_by}
    with places.fresh() as folder:
        plant(folder, mutant)
        try:
            done = run_tests(folder, list(mutant.tests))
        except subprocess.TimeoutExpired:
            # No test has failed: a machine that is too slow looks the same.
            return {**known, "caught": False, "by": f"no end after {TIMEOUT_S} s: {mutant.tests[0]}"}
        # An ERROR is a test that could not begin; a broker that did not start proves nothing.
        failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED")]
        caught = done.returncode == 1 and bool(failed)
        return {**known, "caught": caught, "by": failed[0] if caught else done.stdout[-400:]}


def check_unchanged(tests: list[str], places: Places) -> str | None:
    """Returns None if the tests pass without a bug, else their output."""
    with places.fresh() as folder:
        done = run_tests(folder, tests, UNCHANGED_TIMEOUT_S)
    return None if done.returncode == 0 else done.stdout[-3000:]


def try_all(wanted: list[Mutant], places: Places) -> list[dict[str, object]] | None:
    """Returns the outcome of each bug; None if the tests fail without any bug."""
    results = []
    tests = sorted({test for mutant in wanted for test in mutant.tests})
    parts = [tests[n::PLACES] for n in range(min(PLACES, len(tests)))]
    with Progress(console=Console(stderr=True)) as bar, ThreadPoolExecutor(PLACES) as pool:
        task = bar.add_task("unchanged", total=len(wanted) + len(parts))
        for text in pool.map(lambda part: check_unchanged(part, places), parts):
            if text is not None:
                print(f"mutants: the tests fail without any bug\n{text}")
                return None
            bar.advance(task)
        for result in pool.map(lambda mutant: try_one(mutant, places), wanted):
            bar.update(task, advance=1, description=str(result["name"]))
            results.append(result)
            if not result["caught"]:
                bar.console.print(f"SURVIVED {result['name']}: {result['by']}")
    return results


def wanted_ones() -> list[Mutant]:
    """Returns the bugs that the command line selects. Raises SystemExit if there are none, or after `--list`."""
    parser = ArgumentParser(
        "mutants", description="plants bugs in copies of the source, and names those that no test sees"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a planted bug; default: all")
    parser.add_argument("--below", metavar="PATH", help="only bugs planted in this file or folder")
    parser.add_argument("--list", action="store_true", help="print the names with their files, and exit")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - {mutant.name for mutant in MUTANTS}):
        parser.error(f"no planted bug has the name {', '.join(map(repr, unknown))}: see --list")
    named = [mutant for mutant in MUTANTS if not arguments.names or mutant.name in arguments.names]
    wanted = [
        one for one in named if arguments.below is None or any(path.startswith(arguments.below) for path in one.paths)
    ]
    if not wanted:
        parser.error(f"none of them is planted below {arguments.below}")
    if arguments.list:
        print("\n".join(f"{one.name}  ({', '.join(one.paths)})" for one in wanted))
        sys.exit()
    return wanted


def main() -> int:
    wanted = wanted_ones()
    out = ROOT / "out" / "mutants"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="oncegate-mutants-") as root:
        results = try_all(wanted, Places(Path(root)))
    if results is None:
        return 2
    (out / "result.json").write_text(json.dumps(results, indent=1) + "\n")
    caught = sum(bool(result["caught"]) for result in results)
    walked = sum(result["seen_by"] == "walk" for result in results)
    print(f"mutants: {caught} of {len(results)} caught, {walked} by walks alone; {out / 'result.json'}")
    return int(caught != len(results))


if __name__ == "__main__":
    sys.exit(main())
