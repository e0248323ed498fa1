"""Writes the report of a run: result.json, result.md (which pages quote), result.png, and a table on the terminal."""

import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bench.report.figures import Figure, number, worse
from bench.report.plot import draw

_COLUMNS = ("what", "value", "p50 / p99 ms", "µs of core", "beside")
# Separators within a cell: between peers, before a peer's value, before the target.
_NEXT, _OF, _REACH = "<br>", ": ", ", reach "
_VALUE = re.compile(r"(\S+(?: [kMG](?= |$))?)(?: (.*))?")


# Smaller differences are within the variation between runs.
_WORSE_BY = 0.1
# The pages that quote earlier runs.
QUOTED = Path("docs/figures")
_SIZES = {"G": 1e9, "M": 1e6, "k": 1e3}


def before() -> str:
    """Returns the text of all pages that quote earlier runs."""
    return "\n".join(page.read_text() for page in sorted(QUOTED.glob("*.md")))


def write(figures: Sequence[Figure], out: Path, command: str, seconds: float, earlier: str) -> None:
    """Writes all files of a run. `earlier`: text of pages with earlier figures; those that were better are listed."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").write_text(json.dumps([figure.plain() for figure in figures], indent=1) + "\n")
    (out / "result.md").write_text(markdown(figures, command, seconds) + what_is_worse(figures, quoted(earlier)))
    draw(figures, out / "result.png")


def markdown(figures: Sequence[Figure], command: str, seconds: float) -> str:
    """Returns the command and the machine, then a table of the figures, a row per name, without empty columns."""
    rows = [cells(group) for group in _by_name(figures)]
    kept = [place for place, _ in enumerate(_COLUMNS) if any(row[place] for row in rows)]
    head = [[_COLUMNS[place] for place in kept], ["---"] * len(kept)]
    lines = [f"`{command}`, {seconds / 60:.0f} minutes; {machine()}", ""]
    return (
        "\n".join(lines + [_row(texts) for texts in [*head, *([row[place] for place in kept] for row in rows)]]) + "\n"
    )


def _by_name(figures: Sequence[Figure]) -> list[list[Figure]]:
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.name, []).append(figure)
    return list(groups.values())


def quoted(page: str) -> list[Figure]:
    """Parses the figures in a page's tables with this report's columns; their values have three digits."""
    quotes = []
    for row in _rows(page):
        value, unit = _measured(row["value"].partition(_REACH)[0])
        figure = Figure(row["what"], value, unit)
        quotes.append(figure)
        for peer in filter(None, row.get("beside", "").split(_NEXT)):
            name, _, texts = peer.partition(_REACH)[0].rpartition(_OF)
            peer_value, _, ratio = texts.removesuffix("×").partition(", ")
            beside = figure.against(name, _value(peer_value))
            quotes.append(replace(beside, ratio=float(ratio)) if ratio else beside)
    return quotes


def _rows(page: str) -> list[dict[str, str]]:
    """Returns the cells of each row below a head of this report, by column."""
    rows, head = [], []
    for line in page.splitlines():
        texts = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif texts[:2] == list(_COLUMNS[:2]):
            head = texts
        elif head and set(texts) != {"---"}:
            rows.append(dict(zip(head, texts, strict=True)))
    return rows


def _measured(text: str) -> tuple[float, str]:
    match = _VALUE.fullmatch(text)
    if match is None:
        raise ValueError(f"no value: {text!r}")
    return _value(match[1]), match[2] or ""


def _value(text: str) -> float:
    digits, _, letter = text.partition(" ")
    return float(digits) * _SIZES.get(letter, 1.0)


def what_is_worse(figures: Sequence[Figure], before: Sequence[Figure]) -> str:
    """Returns a paragraph with each figure that is more than a tenth worse than before, and both numbers."""
    pairs: dict[str, list[str]] = {}
    for now, earlier in worse(figures, before, _WORSE_BY):
        beside = f"beside {now.peer} " if now.peer else ""
        pairs.setdefault(now.name, []).append(f"{beside}{_shown(now)}, before {_shown(earlier)}")
    if not before:
        return "\nThere is no earlier run to compare with.\n"
    head = f"Worse by more than {_WORSE_BY:.0%} than in the run quoted before (ratios where there is a peer)"
    shown = [f"- {name}: {'; '.join(texts)}" for name, texts in pairs.items()]
    return "\n" + "\n".join([f"{head}:", "", *shown] if shown else [f"{head}: nothing."]) + "\n"


def _shown(figure: Figure) -> str:
    return f"{number(figure.value)} {figure.unit}" if figure.ratio is None else f"{figure.ratio:.3g}×"


def machine() -> str:
    """Describes the machine: processor, cores, memory, system, date, load over 15 minutes."""
    model = platform.processor() or "unknown processor"
    for text in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if text.startswith("model name"):
            model = text.split(":", 1)[1].strip()
            break
    memory = psutil.virtual_memory().total / 2**30
    # The date is for readers; nothing depends on it.
    day = datetime.fromtimestamp(psutil.Process().create_time(), UTC).date()
    shown = f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, Linux {platform.release()}, {day}"
    return f"{shown}, load average {os.getloadavg()[2]:.1f}"


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def cells(figures: Sequence[Figure]) -> list[str]:
    """Returns the cells of a row: the figures of one name, alone and compared with each peer."""
    first = figures[0]
    alone = next((figure for figure in figures if figure.peer is None), replace(first, peer=None, reach=None))
    value = f"{number(first.value)} {first.unit}".rstrip() + _reach(alone)
    times = f"{first.p50_ms:.3g} / {first.p99_ms:.3g}" if first.p50_ms and first.p99_ms else ""
    cpu = "" if first.cpu_us is None else number(first.cpu_us)
    return [first.name, value, times, cpu, _NEXT.join(_peer(figure) for figure in figures if figure.peer)]


def _peer(figure: Figure) -> str:
    value = "" if figure.peer_value is None else number(figure.peer_value)
    ratio = "" if figure.ratio is None else f", {figure.ratio:.3g}×"
    return f"{figure.peer}{_OF}{value}{ratio}{_reach(figure)}"


def _reach(figure: Figure) -> str:
    """Returns the target and whether it was met; empty without a target."""
    if not figure.reach:
        return ""
    return f"{_REACH}{number(figure.reach)}{'×' if figure.peer else ''} {'ok' if figure.ok else 'missed'}"


def show(figures: Sequence[Figure], console: Console) -> None:
    """Prints the table on the terminal."""
    table = Table(*_COLUMNS)
    for group in _by_name(figures):
        judgements = [bool(figure.ok) for figure in group if figure.reach]
        style = {True: "green", False: "red"}[all(judgements)] if judgements else None
        table.add_row(*(cell.replace(_NEXT, "\n") for cell in cells(group)), style=style)
    console.print(table)


def last_line(figures: Sequence[Figure], out: Path) -> str:
    """Returns a line with the number of reaches that were met."""
    with_reach = [figure for figure in figures if figure.reach]
    met = sum(bool(figure.ok) for figure in with_reach)
    return f"bench: {met} of {len(with_reach)} reaches met, {len(figures)} figures in {out / 'result.json'}"
