"""Runs Cosmic Ray over a room of the service: `make mutation ARGS="--room core"`; what survives is out/mutation/ROOM.txt.

A survivor that changes nothing observable has a line with its reason in `survivors.csv`, next to this file.
"""

import csv
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.__main__ import ROOT, copy

COSMIC_RAY = ROOT / ".venv-mutation" / "bin"
SURVIVORS = Path(__file__).with_name("survivors.csv")
_SERVICE = "service/oncegate"
# One or two near replacements for each operator: all of Cosmic Ray's are ten times as many, and most fail at once. Numbers
# are left alone: of the kinds and the tags golden files have them, and a bound is shifted by its comparison.
_OPERATORS = (
    "ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)",
    "ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_FloorDiv|FloorDiv_Mul|LShift_RShift|RShift_LShift|BitAnd_BitOr)",
    "ReplaceUnaryOperator_Delete_Not",
    "AddNot",
    "Replace(TrueWithFalse|FalseWithTrue|AndWithOr|OrWithAnd|BreakWithContinue|ContinueWithBreak)",
    "ExceptionReplacer",
    "ZeroIterationForLoop",
)


@dataclass(frozen=True)
class Room:
    """Holds files or folders below `service/oncegate`, and the tests that are run for each of their mutants."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "core": Room(
        ("core",),
        (
            "tests/core/test_tables.py",
            "tests/core/test_producer_tables.py",
            "tests/core",
            "tests/engine/usecases/test_carrying.py",
        ),
    ),
    "table": Room(("index/table",), ("tests/index/table", "tests/index/claims")),
    "commit": Room(("engine/commit",), ("tests/engine/commit",)),
    "admission": Room(("engine/admission.py",), ("tests/engine/test_admission.py", "tests/engine/test_turns.py")),
    "server": Room(("ledgers/server",), ("tests/faults/ledger/test_election.py",)),
    "access": Room(("transports/access",), ("tests/transports/access",)),
}


def mutate(sources: list[str], tests: tuple[str, ...], root: Path) -> list[tuple[str, str, str, str]]:
    """Returns path, line, mutated line and outcome of each mutant of some files. SystemExit: the tests fail without."""
    copy(root)
    command = [
        sys.executable,
        "-m",
        "pytest",
        *["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header"],
        *tests,
    ]
    # Also compiles all modules, once: Cosmic Ray keeps what it runs from doing so.
    if _run(root, *command).returncode:
        sys.exit(f"mutation: the tests fail without any mutant: {' '.join(tests)}")
    config = {
        "module-path": sources,
        "timeout": 300.0,
        "excluded-modules": [],
        "test-command": " ".join(command),
        "distributor": {"name": "local"},
        "filters": {"operators-filter": {"exclude-operators": [f"core/(?!({'|'.join(_OPERATORS)})$)"]}},
    }
    (root / "config.toml").write_text(_toml("cosmic-ray", config))
    _cosmic_ray(root, "cosmic-ray", "init", "config.toml", "session.sqlite")
    _cosmic_ray(root, "cr-filter-operators", "session.sqlite", "config.toml")
    _leave_out_dataclasses(root)
    _cosmic_ray(root, "cosmic-ray", "exec", "config.toml", "session.sqlite")
    rows = map(json.loads, _cosmic_ray(root, "cosmic-ray", "dump", "session.sqlite").splitlines())
    return [
        (item["mutations"][0]["module_path"], *_lines(result["diff"]), result["test_outcome"])
        for item, result in rows
        if result["worker_outcome"] == "normal"
    ]


def _leave_out_dataclasses(root: Path) -> None:
    """Removes the mutants of `@dataclass(frozen=True, slots=True)`: nothing observable depends on either."""
    with closing(sqlite3.connect(root / "session.sqlite")) as session, session:
        positions = session.execute("SELECT job_id, module_path, start_pos_row FROM mutation_specs").fetchall()
        lines = {path: (root / path).read_text().splitlines() for _, path, _ in positions}
        left_out = [(job,) for job, path, row in positions if lines[path][row - 1].lstrip().startswith("@dataclass")]
        for table in ("work_results", "mutation_specs", "work_items"):
            session.executemany(f"DELETE FROM {table} WHERE job_id = ?", left_out)


def _lines(diff: str) -> tuple[str, str]:
    """Returns the line before and after, without indentation, so that a moved line stays the same survivor."""
    found = re.findall(r"^[-+](?![-+]{2} )(.*)$", diff, re.MULTILINE)
    return found[0].strip(), found[-1].strip()


def _toml(table: str, values: dict[str, object]) -> str:
    plain = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if not isinstance(value, dict))
    inner = "".join(_toml(f"{table}.{key}", value) for key, value in values.items() if isinstance(value, dict))
    return f"[{table}]\n{plain}{inner}"


def _cosmic_ray(root: Path, program: str, *arguments: str) -> str:
    done = _run(root, str(COSMIC_RAY / program), *arguments)
    if done.returncode:
        sys.exit(f"mutation: {program} {arguments[0]} failed: {done.stdout[-3000:]}")
    return done.stdout


def _run(root: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPATH": f"{root / 'service'}:{root / 'spark_client'}:{root}",
        "NUMBA_CACHE_DIR": str(root / "numba"),
    }
    return subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=False)


def main() -> int:
    parser = ArgumentParser("mutation", description="mutates each line of a room and runs the room's tests")
    parser.add_argument("--room", choices=ROOMS, required=True)
    parser.add_argument("--only", metavar="NAME", default="", help="those files alone whose path contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    room = ROOMS[asked.room]
    below = [ROOT / _SERVICE / source for source in room.sources]
    paths = [path for one in below for path in ([one] if one.is_file() else sorted(one.rglob("*.py")))]
    sources = [str(path.relative_to(ROOT)) for path in paths if asked.only in str(path)]
    # The largest first, so that each job gets as much.
    sources.sort(key=lambda path: -(ROOT / path).stat().st_size)
    parts = [sources[job :: asked.jobs] for job in range(min(asked.jobs, len(sources)))]
    with tempfile.TemporaryDirectory(prefix="oncegate-mutation-") as root, ThreadPoolExecutor(len(parts)) as pool:
        runs = pool.map(lambda n: mutate(parts[n], room.tests, Path(root) / f"copy-{n}"), range(len(parts)))
        mutants = [mutant for run in runs for mutant in run]
    with SURVIVORS.open(newline="") as file:
        explained = {(row["path"], row["line"], row["mutated"]) for row in csv.DictReader(file)}
    survivors = sorted({mutant[:3] for mutant in mutants if mutant[3] == "survived"})
    unexplained = [survivor for survivor in survivors if survivor not in explained]
    out = ROOT / "out" / "mutation"
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{asked.room}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "line", "mutated"), *unexplained])
    print(f"mutation: {len(mutants)} mutants, {len(survivors)} survived, {len(unexplained)} of them without a reason")
    for path, line, mutated in unexplained:
        print(f"{path}\n  - {line}\n  + {mutated}")
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
