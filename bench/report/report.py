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

from bench.report.figures import Figure
from bench.report.plot import draw

_COLUMNS = ("what", "value", "unit", "p50 / p99 ms", "µs of core", "peer", "its value", "ratio", "reach", "")


def write(figures: Sequence[Figure], out: Path, command: str, seconds: float) -> None:
    """All files of one run."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").write_text(json.dumps([figure.plain() for figure in figures], indent=1) + "\n")
    (out / "result.md").write_text(markdown(figures, command, seconds))
    draw(figures, out / "result.png")


def markdown(figures: Sequence[Figure], command: str, seconds: float) -> str:
    """The figures as one table, with the machine and the command above it."""
    lines = [f"`{command}`, {seconds / 60:.0f} minutes; {machine()}", "", _row(_COLUMNS), _row(["---"] * len(_COLUMNS))]
    return "\n".join(lines + [_row(cells(figure)) for figure in figures]) + "\n"


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


def number(value: float) -> str:
    """Three digits, with k and M where it is large."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def show(figures: Sequence[Figure], console: Console) -> None:
    """The same table on the terminal."""
    table = Table(*_COLUMNS)
    for figure in figures:
        style = {True: "green", False: "red"}.get(bool(figure.ok)) if figure.reach else None
        table.add_row(*cells(figure), style=style)
    console.print(table)


def last_line(figures: Sequence[Figure], out: Path) -> str:
    """How many reaches were met."""
    asked = [figure for figure in figures if figure.reach]
    met = sum(bool(figure.ok) for figure in asked)
    return f"bench: {met} of {len(asked)} reaches met, {len(figures)} figures in {out / 'result.json'}"
