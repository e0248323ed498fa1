"""Reports the matrix as a table, and checks that it has shown every promise."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.report.report import machine
from demo.matrix.runs import FAULTS
from demo.matrix.supervisor import Counted

ONCE = ("staged", "ids", "dedup")


@dataclass(frozen=True)
class Cell:
    """All runs of one way against one fault; `duplicated`, `lost` and `takeovers` are sums over all runs, in ids."""

    runs: int
    hits: int
    duplicated: int
    lost: int
    takeovers: int


Cells = Mapping[str, Mapping[str, Cell]]


def cells(counted: Sequence[Counted]) -> dict[str, dict[str, Cell]]:
    """Returns the cells by fault and way, in the order of the runs."""
    by_fault: dict[str, dict[str, Cell]] = {}
    for fault, way in dict.fromkeys((result.run.fault, result.run.way) for result in counted):
        own = [result for result in counted if (result.run.fault, result.run.way) == (fault, way)]
        sums = (sum(getattr(result, name) for result in own) for name in ("hit", "duplicated", "lost", "takeovers"))
        by_fault.setdefault(fault, {})[way] = Cell(len(own), *sums)
    return {fault: by_fault[fault] for fault in FAULTS if fault in by_fault}


def failures(shown: Cells) -> list[str]:
    """Returns the promises that the cells fail to show; empty: none."""
    return [
        f"{fault}, {way}: {why}"
        for fault, ways in shown.items()
        for way, cell in ways.items()
        for why in _wrong(fault, way, cell)
    ]


def _wrong(fault: str, way: str, cell: Cell) -> list[str]:
    wrong = {
        f"hit in {cell.hits} of {cell.runs} runs, so it shows nothing": cell.hits == 0,
        f"{cell.lost} lost": cell.lost > 0,
        f"{cell.duplicated} duplicated": way in ONCE and cell.duplicated > 0,
        f"{cell.duplicated} duplicated, only {cell.takeovers} taken over": way == "claim"
        and cell.duplicated > cell.takeovers,
        "no duplicates, so the fault proves nothing for the others": way == "plain"
        and FAULTS[fault].strikes is None
        and cell.duplicated == 0,
    }
    return [why for why, is_so in wrong.items() if is_so]


def markdown(shown: Cells, command: str, seconds: float) -> str:
    """Returns a page: the machine and the command, then a table with a row per fault and a column per way."""
    ways = list(dict.fromkeys(way for row in shown.values() for way in row))
    runs = [cell.runs for row in shown.values() for cell in row.values()]
    lines = [
        f"`{command}`, {sum(runs)} runs, {max(runs)} a cell, in {seconds / 60:.0f} minutes; {machine()}",
        "",
        "Ids duplicated / lost, of all runs of a cell together; *in italics* those that were taken over.",
        "",
        _row("fault", "hit, of its runs", *ways),
        _row(*["---"] * (len(ways) + 2)),
    ]
    for fault, row in shown.items():
        title = f"`{fault}`: {FAULTS[fault].title}"
        lines.append(_row(title, _hits(row), *(_numbers(row[way]) if way in row else "" for way in ways)))
    return "\n".join(lines) + "\n"


def _hits(row: Mapping[str, Cell]) -> str:
    return f"{sum(cell.hits for cell in row.values())} of {sum(cell.runs for cell in row.values())}"


def _numbers(cell: Cell) -> str:
    missed = f", hit in {cell.hits} of {cell.runs}" if cell.hits < cell.runs else ""
    return f"{cell.duplicated} / {cell.lost}{f', *{cell.takeovers}*' if cell.takeovers else ''}{missed}"


def _row(*texts: str) -> str:
    return f"| {' | '.join(texts)} |"


def show(console: Console, shown: Cells) -> None:
    """Prints a line for each fault and way."""
    table = Table("fault", "way", box=None, pad_edge=False, show_edge=False)
    for column in ("runs", "hits", "duplicated", "lost", "takeovers"):
        table.add_column(column, justify="right")
    for fault, row in shown.items():
        table.add_section()
        for way, cell in row.items():
            table.add_row(fault, way, *(f"{number:,}" for number in asdict(cell).values()))
    console.print(table)


def write(out: Path, shown: Cells, counted: Sequence[Counted], command: str, seconds: float) -> None:
    """Writes result.json, with every run, and result.md, which RELIABILITY.md quotes."""
    plain = {fault: {way: asdict(cell) for way, cell in row.items()} for fault, row in shown.items()}
    runs = [
        {**asdict(result), "run": result.run.name, "plan": result.run.plan, "batch": result.run.batch}
        for result in counted
    ]
    (out / "result.json").write_text(json.dumps({"command": command, "cells": plain, "runs": runs}, indent=1) + "\n")
    (out / "result.md").write_text(markdown(shown, command, seconds))
