"""Runs Cosmic Ray over a room of the service: `make mutation ARGS="--room core"`; survivors are in out/mutation/ROOM.csv.

An interrupted run resumes, and survivors are tried again: out/mutation/sessions holds the outcome of each mutant until
its file changes. A survivor that changes nothing observable has a line with its reason in `survivors.csv`, next to this
file.
"""

import csv
import hashlib
import json
import os
import random
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue

from tests.mutants.__main__ import ROOT, copy
from tests.mutants.warm import CLIENT

OUT = ROOT / "out" / "mutation"
COSMIC_RAY = ROOT / ".venv-mutation" / "bin"
SURVIVORS = Path(__file__).with_name("survivors.csv")
_SERVICE = "service/oncegate"
# One or two close replacements for each operator: Cosmic Ray's full list is ten times as long, and most of it fails at
# once. Numbers are not mutated: golden files cover those of kinds and tags, and a bound is shifted by its comparison.
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
    """Holds files or folders below `service/oncegate`, and what runs for each of their mutants.

    tests: files and folders. interpreted: kernels run as plain Python: to compile them takes a minute in each copy.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    interpreted: bool = False


ROOMS = {
    "core": Room(("core",), ("tests/core", "tests/engine/usecases/test_carrying.py")),
    # Without the walks that compare compiled kernels over many seeds: interpreted they take minutes.
    "table": Room(
        ("index/table",),
        (
            *("tests/index/table/test_slots_and_rows.py", "tests/index/table/test_delete.py"),
            *("tests/index/table/test_kernels.py", "tests/index/table/test_cold_hooks.py"),
            *("tests/index/claims/test_index.py", "tests/index/claims/test_cells.py"),
            *("tests/index/claims/test_expiry.py", "tests/index/claims/test_bulk_claim.py"),
            *("tests/index/claims/test_firsts.py", "tests/index/claims/test_replay.py"),
            *("tests/index/table/test_bulk_insert.py", "tests/index/claims/test_undo.py"),
            *("tests/index/claims/test_digests.py", "tests/index/claims/test_against_a_dict.py"),
        ),
        interpreted=True,
    ),
    "commit": Room(
        ("engine/commit",),
        (
            "tests/engine/commit",
            "tests/engine/usecases/test_places_of_sequences.py",
            "tests/engine/usecases/test_places_elsewhere.py",
        ),
        interpreted=True,
    ),
    "admission": Room(
        ("engine/admission.py",),
        (
            *("tests/engine/test_admission.py", "tests/engine/test_turns.py"),
            # What is fast enough depends on compiled kernels.
            "--deselect=tests/engine/test_turns.py::"
            "test_a_small_claim_is_answered_before_most_large_ones_of_another_namespace_that_came_first",
        ),
        interpreted=True,
    ),
    "election": Room(
        ("ledgers/server/election.py", "ledgers/server/holders.py"), ("tests/faults/ledger/test_election.py",)
    ),
    "server": Room(
        tuple(f"ledgers/server/{name}.py" for name in ("following", "ledger", "ledgers", "namespaces", "replay")),
        (
            *("tests/faults/redis/test_conformance.py", "tests/faults/redis/test_standby_ledger.py"),
            *("tests/faults/redis/test_ledger_damage.py", "tests/faults/redis/test_one_namespace.py"),
        ),
    ),
    "access": Room(("transports/access",), ("tests/transports/access",)),
}
Mutation = tuple[str, str, str, str]
_OPTIONS = re.compile(r"\s*@dataclass|class \w+\(msgspec\.Struct")
_NOT_CHOSEN = "not chosen"


class Runner:
    """Runs the tests of a room for each mutant of a source, in a copy of the project and in forks of one process."""

    def __init__(self, room: Room, root: Path) -> None:
        self._room, self.root = room, root
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": f"{root / 'service'}:{root / 'spark_client'}:{root}",
            "NUMBA_CACHE_DIR": str(root / "numba"),
            "NUMBA_DISABLE_JIT": str(int(room.interpreted)),
        }

    @contextmanager
    def started(self) -> "Iterator[Runner]":
        """Serves the tests for as long as it is open. SystemExit: they fail without any mutant."""
        copy(self.root)
        command = [sys.executable, "-m", "tests.mutants.warm", str(self.root / "tests.socket"), *self._room.tests]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with (
            (self.root / "tests.log").open("w") as log,
            subprocess.Popen(command, cwd=self.root, env=self._environment, stderr=log, **pipes) as server,
        ):
            if server.stdout.readline() != b"ready\n":
                output = (self.root / "tests.log").read_text()[-3000:]
                sys.exit(f"mutation: the tests fail without any mutant: {output}")
            try:
                yield self
            finally:
                server.stdin.close()

    def mutate(self, source: str, session: Path, share: float, seed: int) -> list[Mutation]:
        """Returns path, line, mutated line and outcome of a share of the mutants, chosen by `seed`, and of those before.

        Mutants that the session has as killed are not run again.
        """
        config = {
            "module-path": [source],
            "timeout": 3600.0,
            "excluded-modules": [],
            "test-command": shlex.join([sys.executable, "-ISc", CLIENT, str(self.root / "tests.socket")]),
            "distributor": {"name": "local"},
            "filters": {"operators-filter": {"exclude-operators": [f"core/(?!({'|'.join(_OPERATORS)})$)"]}},
        }
        name = f"{session.stem}.toml"
        (self.root / name).write_text(_toml("cosmic-ray", config))
        if not session.exists():
            begun = session.with_suffix(".begun")
            begun.unlink(missing_ok=True)
            self._cosmic_ray("cosmic-ray", "init", name, str(begun))
            self._cosmic_ray("cr-filter-operators", str(begun), name)
            self._leave_out_options(begun)
            begun.rename(session)
        with closing(sqlite3.connect(session)) as database, database:
            database.execute("DELETE FROM work_results WHERE test_outcome <> 'KILLED' OR output = ?", (_NOT_CHOSEN,))
            _choose(database, share, seed)
        self._cosmic_ray("cosmic-ray", "exec", name, str(session))
        rows = map(json.loads, self._cosmic_ray("cosmic-ray", "dump", str(session)).splitlines())
        return [
            (item["mutations"][0]["module_path"], *_lines(result["diff"]), result["test_outcome"])
            for item, result in rows
            if result["worker_outcome"] == "normal"
        ]

    def _leave_out_options(self, session: Path) -> None:
        """Removes the mutants of `frozen=True` and `slots=True` of classes: nothing observable depends on either."""
        with closing(sqlite3.connect(session)) as database, database:
            positions = database.execute("SELECT job_id, module_path, start_pos_row FROM mutation_specs").fetchall()
            lines = {path: (self.root / path).read_text().splitlines() for _, path, _ in positions}
            left_out = [(job,) for job, path, row in positions if _OPTIONS.match(lines[path][row - 1])]
            for table in ("work_results", "mutation_specs", "work_items"):
                database.executemany(f"DELETE FROM {table} WHERE job_id = ?", left_out)

    def _cosmic_ray(self, program: str, *arguments: str) -> str:
        command = (str(COSMIC_RAY / program), *arguments)
        done = subprocess.run(
            command, cwd=self.root, env=self._environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"mutation: {program} {arguments[0]} failed: {done.stdout[-3000:]}")
        return done.stdout


def _choose(database: sqlite3.Connection, share: float, seed: int) -> None:
    """Leaves out all mutants but a share of the whole."""
    mutants = database.execute(
        "SELECT job_id FROM mutation_specs ORDER BY start_pos_row, start_pos_col, operator_name, operator_args, occurrence"
    ).fetchall()
    ended = {job for (job,) in database.execute("SELECT job_id FROM work_results")}
    skipped = database.execute("SELECT job_id FROM work_results WHERE worker_outcome = 'SKIPPED'").fetchall()
    of_operators = [job for (job,) in mutants if (job,) not in set(skipped)]
    chosen = random.Random(seed).sample(of_operators, round(share * len(of_operators)))
    left_out = [("SKIPPED", _NOT_CHOSEN, job) for job in of_operators if job not in {*chosen, *ended}]
    database.executemany("INSERT INTO work_results (worker_outcome, output, job_id) VALUES (?, ?, ?)", left_out)


def _lines(diff: str) -> tuple[str, str]:
    """Returns the line before and after, without indentation, so that a moved line stays the same survivor."""
    matches = re.findall(r"^[-+](?![-+]{2} )(.*)$", diff, re.MULTILINE)
    return matches[0].strip(), matches[-1].strip()


def _toml(table: str, values: dict[str, object]) -> str:
    plain = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if not isinstance(value, dict))
    inner = "".join(_toml(f"{table}.{key}", value) for key, value in values.items() if isinstance(value, dict))
    return f"[{table}]\n{plain}{inner}"


def mutate_all(queue: "SimpleQueue[str]", runner: Runner, share: float, seed: int) -> list[Mutation]:
    """Returns the mutants of the sources in the queue; a second run resumes where the first one ended."""
    mutants: list[Mutation] = []
    with runner.started():
        while True:
            try:
                source = queue.get_nowait()
            except Empty:
                return mutants
            digest = hashlib.sha256((runner.root / source).read_bytes() + "".join(_OPERATORS).encode()).hexdigest()[:12]
            name = source.removeprefix(f"{_SERVICE}/").removesuffix(".py").replace("/", ".")
            of_source = runner.mutate(source, OUT / "sessions" / f"{name}-{digest}.sqlite", share, seed)
            survived = sum(outcome == "survived" for *_, outcome in of_source)
            print(f"{source}: {len(of_source)} mutants, {survived} survived", flush=True)
            mutants += of_source


def main() -> int:
    parser = ArgumentParser("mutation", description="mutates each line of a room and runs the room's tests")
    parser.add_argument("--room", choices=ROOMS, required=True)
    parser.add_argument("--only", metavar="NAME", default="", help="those files alone whose path contains this")
    parser.add_argument("--share", type=float, default=1.0, help="of all mutants, from 0 to 1; the others are left out")
    parser.add_argument("--seed", type=int, default=1, help="chooses them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    room = ROOMS[arguments.room]
    (OUT / "sessions").mkdir(parents=True, exist_ok=True)
    below = [ROOT / _SERVICE / source for source in room.sources]
    paths = [path for one in below for path in ([one] if one.is_file() else sorted(one.rglob("*.py")))]
    sources = [str(path.relative_to(ROOT)) for path in paths if arguments.only in str(path)]
    # The largest first: a job that takes one last would be alone with it.
    queue = SimpleQueue[str]()
    for source in sorted(sources, key=lambda path: -(ROOT / path).stat().st_size):
        queue.put(source)
    jobs = min(arguments.jobs, len(sources))
    with tempfile.TemporaryDirectory(prefix="oncegate-mutation-") as root, ThreadPoolExecutor(jobs) as pool:
        mutants = [
            *chain.from_iterable(
                pool.map(
                    lambda n: mutate_all(
                        queue, Runner(room, Path(root) / f"copy-{n}"), arguments.share, arguments.seed
                    ),
                    range(jobs),
                )
            )
        ]
    with SURVIVORS.open(newline="") as file:
        explained = {(row["path"], row["line"], row["mutated"]) for row in csv.DictReader(file)}
    survivors = sorted({mutant[:3] for mutant in mutants if mutant[3] == "survived"})
    unexplained = [survivor for survivor in survivors if survivor not in explained]
    with (OUT / f"{arguments.room}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "line", "mutated"), *unexplained])
    print(f"mutation: {len(mutants)} mutants, {len(survivors)} survived, {len(unexplained)} of them without a reason")
    for path, line, mutated in unexplained:
        print(f"{path}\n  - {line}\n  + {mutated}")
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
