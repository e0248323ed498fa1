"""Strikes a gateway over a ledger on Kafka, row after row: `make matrix`.

    python -m tests.matrix [--runs N] [--only NAME,NAME...] [--list]

Prints the table, and writes it to out/matrix/result.md and result.json. Exit status 1: a row does not hold.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tests.matrix.catalogue import ROWS
from tests.matrix.report import Counted, markdown, table
from tests.matrix.rows import Row
from tests.matrix.runs import STAGES, run

OUT = Path(__file__).parents[2] / "out" / "matrix"
RUNS = 50
# What a line of the table takes.
WIDTH = 160


def wanted(names: str | None) -> list[Row]:
    """The rows of these names, or that try a row of the design of one of these; SystemExit: there is none."""
    asked = names.split(",") if names else []
    found = [row for row in ROWS if not asked or row.name in asked or set(row.of.split()) & set(asked)]
    if not found:
        raise SystemExit(f"matrix: there is no row {names}; --list names them")
    return found


def counted(rows: Sequence[Row], runs: int, folder: Path) -> Iterator[Counted]:
    """Each row's figures, once it is over."""
    for brokers, stage_of in STAGES.items():
        mine = [row for row in rows if row.brokers == brokers]
        if mine:
            with stage_of(folder) as stage:
                for row in mine:
                    yield run(row, range(runs), stage, folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each row")
    parser.add_argument("--only", help="names of rows, or of rows of the design as K3 or X08, joined by commas")
    parser.add_argument("--list", action="store_true", help="print the rows, and run none")
    asked = parser.parse_args()
    console, found, began = Console(width=WIDTH), list[Counted](), time.monotonic()
    if asked.list:
        console.print(table([Counted(row) for row in wanted(asked.only)]))
        return 0
    with tempfile.TemporaryDirectory(prefix="oncegate-matrix-") as folder:
        for each in counted(wanted(asked.only), asked.runs, Path(folder)):
            found.append(each)
            console.print(f"{each.row.name}: {each.hits} of {each.runs} hit, {each.verdict}, {each.seconds:.0f} s")
    console.print(table(found))
    _keep(found, f"make matrix ARGS='--runs {asked.runs}'", time.monotonic() - began)
    return int(not all(each.is_good for each in found))


def _keep(found: Sequence[Counted], command: str, seconds: float) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "result.md").write_text(markdown(found, command, seconds))
    told = [
        {**asdict(each), "row": each.row.name, "of": each.row.of.split(), "verdict": each.verdict} for each in found
    ]
    (OUT / "result.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
