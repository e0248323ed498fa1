"""What a run of the bench leaves: result.json, result.md (which documents quote), result.png, a table to read."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bench.report.figures import Figure, number, worse
from bench.report.plot import draw

_COLUMNS = ("what", "value", "unit", "p50 / p99 ms", "µs of core", "peer", "its value", "ratio", "reach", "")


# Less than this is what a run differs by from itself.
_WORSE_BY = 0.1
_SIZES = {"G": 1e9, "M": 1e6, "k": 1e3}


def write(figures: Sequence[Figure], out: Path, command: str, seconds: float, before: str) -> None:
    """All files of one run. `before`: a page that quotes an earlier one, whose better figures are listed."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").write_text(json.dumps([figure.plain() for figure in figures], indent=1) + "\n")
    (out / "result.md").write_text(markdown(figures, command, seconds) + what_is_worse(figures, quoted(before)))
    draw(figures, out / "result.png")


def markdown(figures: Sequence[Figure], command: str, seconds: float) -> str:
    """The figures as one table, with the machine and the command above it."""
    lines = [f"`{command}`, {seconds / 60:.0f} minutes; {machine()}", "", _row(_COLUMNS), _row(["---"] * len(_COLUMNS))]
    return "\n".join(lines + [_row(cells(figure)) for figure in figures]) + "\n"


def quoted(page: str) -> list[Figure]:
    """The figures of a page's tables that have this report's columns; values have three digits there."""
    quotes = []
    for name, value, unit, _, _, peer, peer_value, *_ in _rows(page):
        figure = Figure(name, _value(value), unit)
        quotes.append(figure.against(peer, _value(peer_value)) if peer else figure)
    return quotes


def _rows(page: str) -> list[list[str]]:
    """The cells of each row below a head with this report's columns."""
    rows, inside = [], False
    for line in page.splitlines():
        inside = line == _row(_COLUMNS) or (inside and line.startswith("|"))
        if inside and line not in (_row(_COLUMNS), _row(["---"] * len(_COLUMNS))):
            rows.append([cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")])
    return rows


def _value(text: str) -> float:
    digits, _, letter = text.partition(" ")
    return float(digits) * _SIZES.get(letter, 1.0)


def what_is_worse(figures: Sequence[Figure], before: Sequence[Figure]) -> str:
    """A paragraph that names each figure that is worse than before by more than a tenth, and both numbers."""
    pairs = worse(figures, before, _WORSE_BY)
    shown = [
        f"- {now.name}{f', beside {now.peer}' if now.peer else ''}: {_shown(now)}, before {_shown(earlier)}"
        for now, earlier in pairs
    ]
    if not before:
        return "\nThere is no earlier run to compare with.\n"
    head = f"Worse by more than {_WORSE_BY:.0%} than in the run quoted before (ratios where there is a peer)"
    return "\n" + "\n".join([f"{head}:", "", *shown] if shown else [f"{head}: nothing."]) + "\n"


def _shown(figure: Figure) -> str:
    return f"{number(figure.value)} {figure.unit}" if figure.ratio is None else f"{figure.ratio:.3g}×"


def machine() -> str:
    """Processor, cores, memory, system, day, load (over 15 minutes): what figures depend on."""
    model = platform.processor() or "unknown processor"
    for text in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if text.startswith("model name"):
            model = text.split(":", 1)[1].strip()
            break
    memory = psutil.virtual_memory().total / 2**30
    # The day a person reads, not a time that anything depends on.
    day = datetime.fromtimestamp(psutil.Process().create_time(), UTC).date()
    shown = f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, Linux {platform.release()}, {day}"
    return f"{shown}, load average {os.getloadavg()[2]:.1f}"


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def cells(figure: Figure) -> list[str]:
    """A figure as the cells of a row."""
    times = f"{figure.p50_ms:.3g} / {figure.p99_ms:.3g}" if figure.p50_ms and figure.p99_ms else ""
    ratio = "" if figure.ratio is None else f"{figure.ratio:.3g}×"
    reach = "" if not figure.reach else f"{number(figure.reach)}{'×' if figure.peer else ''}"
    ok = {None: "", True: "ok", False: "missed"}[figure.ok if figure.reach else None]
    peer_value = "" if figure.peer_value is None else number(figure.peer_value)
    cpu = "" if figure.cpu_us is None else number(figure.cpu_us)
    return [figure.name, number(figure.value), figure.unit, times, cpu, figure.peer or "", peer_value, ratio, reach, ok]


def show(figures: Sequence[Figure], console: Console) -> None:
    """The same table on the terminal."""
    table = Table(*_COLUMNS)
    for figure in figures:
        style = {True: "green", False: "red"}.get(bool(figure.ok)) if figure.reach else None
        table.add_row(*cells(figure), style=style)
    console.print(table)


def last_line(figures: Sequence[Figure], out: Path) -> str:
    """How many reaches were met."""
    with_reach = [figure for figure in figures if figure.reach]
    met = sum(bool(figure.ok) for figure in with_reach)
    return f"bench: {met} of {len(with_reach)} reaches met, {len(figures)} figures in {out / 'result.json'}"
