"""Reports the results as tables, a picture and `result.json`, and checks that the demo has shown every promise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.compare import Compared
from demo.events import of_kind
from demo.faults import state
from demo.plan import Plan, Way
from demo.supervisor import Ran

# Minimum distance of two labels, at their angle and size, as a fraction of the picture's width.
_LABELS_APART = 0.035
_GREY = "#777777"


@dataclass(frozen=True)
class Judged:
    """A run and its comparison with the expected rows."""

    plan: Plan
    ran: Ran
    compared: Compared

    @property
    def way(self) -> Way:
        """Returns the run's way to write."""
        return self.plan.way(self.ran.name)

    def result(self) -> dict[str, Any]:
        """Returns the run's member of `result.json`."""
        return {
            "rows_in": self.compared.rows_in,
            "rows_out": self.compared.rows_out,
            "duplicated": self.compared.duplicated,
            "lost": self.compared.lost,
            "salted_rows": self.ran.salted_rows,
            "takeover_rows": self.ran.takeover_rows,
            "seconds": round(self.ran.seconds, 1),
            "faults": {
                fault.name: {
                    "injected": state(fault, self.ran.events) != "waiting",
                    "hit": state(fault, self.ran.events) == "hit",
                    "duplicated": self.compared.by_batch.get(fault.batch, 0),
                }
                for fault in self.plan.faults_of(self.ran.name)
            },
        }


def failures(plan: Plan, runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the promises that the results of all runs fail to show; empty: none."""
    missing = [
        f"{run}: {name} was {'injected and changed nothing' if fault['injected'] else 'never injected'}"
        for run, result in runs.items()
        for name, fault in result["faults"].items()
        if not fault["hit"]
    ]
    broken = [text for way in plan.ways for text in _broken(way, runs[way.name])]
    idle = [
        f"{way.name}: {fault.name} made no duplicates, so it proves nothing for the others"
        for way in plan.ways
        if way.promise == "none"
        for fault in plan.faults_of(way.name)
        if fault.spark and not runs[way.name]["faults"][fault.name]["duplicated"]
    ]
    return missing + broken + idle


def _broken(way: Way, run: Mapping[str, Any]) -> list[str]:
    """Returns the broken promises of a way."""
    duplicated, lost, taken_over = (run[count] for count in ("duplicated", "lost", "takeover_rows"))
    untried = f"{way.name}: no row was sent twice, so it shows nothing of an upstream's duplicates"
    lines = {
        f"{way.name}: {duplicated} rows duplicated": way.promise == "once" and duplicated > 0,
        f"{way.name}: {lost} rows lost": way.promise != "none" and lost > 0,
        f"{way.name}: {duplicated} rows duplicated, and only {taken_over} granted by takeover": (
            way.promise == "takeovers" and duplicated > taken_over
        ),
        untried: way.salted and run["salted_rows"] == 0,
    }
    return [text for text, is_so in lines.items() if is_so]


def strangers(judged: list[Judged]) -> list[str]:
    """Returns a failure for each run with written rows that were never in the input; no promise permits any."""
    by_name = {verdict.ran.name: verdict.compared.strange for verdict in judged if verdict.compared.strange}
    return [f"{run}: {rows} rows came out that never went in" for run, rows in by_name.items()]


def show(console: Console, judged: list[Judged]) -> None:
    """Prints two tables, at most 80 columns wide: the results, and the duplicates caused by each fault."""
    results = {verdict.ran.name: verdict.result() for verdict in judged}
    console.print(f"\n[bold]{_headline(judged)}[/bold]")
    table = _table("", "rows in", "rows out", "duplicated", "lost", "seconds")
    for verdict in judged:
        result = results[verdict.ran.name]
        numbers = [f"{result[name]:,}" for name in ("rows_in", "rows_out", "duplicated", "lost")]
        table.add_row(verdict.ran.name, *numbers, f"{result['seconds']:.0f}", _note(verdict.way, result))
    console.print(table)
    for verdict in judged:
        console.print(f"{verdict.ran.name:<6}  {verdict.way.title}", highlight=False)
    console.print("\n[bold]duplicated rows by the fault of their batch[/bold]")
    plan = judged[0].plan
    faults = _table("", *results)
    for before, fault in zip((None, *plan.faults), plan.faults, strict=False):
        if before is not None and before.spark and not fault.spark:
            faults.add_section()
        cells = [_cell(result["faults"].get(fault.name)) for result in results.values()]
        faults.add_row(fault.name, *cells, "" if fault.spark else "not Spark's own")
    faults.add_section()
    faults.add_row("batches without a fault", *(f"{_elsewhere(verdict):,}" for verdict in judged), "")
    console.print(faults)


def _headline(judged: list[Judged]) -> str:
    plan = judged[0].plan
    same = f"the same {len(plan.faults)} faults in each run"
    if not all(way.gateway for way in plan.ways):
        same = f"{len(plan.faults)} faults, those of a gateway where there is one"
    return f"{judged[0].compared.rows_in:,} flights · {same}"


def _table(first: str, *columns: str) -> Table:
    table = Table(first, box=None, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("")
    return table


def _note(way: Way, result: Mapping[str, Any]) -> str:
    """Returns the remark on a row of the table."""
    if way.promise == "takeovers":
        return f"← {result['takeover_rows']:,} taken over"
    return f"← {result['salted_rows']:,} sent twice" if result["salted_rows"] else ""


def _cell(fault: Mapping[str, Any] | None) -> str:
    if fault is None:
        return "–"
    return f"{fault['duplicated']:,}" if fault["hit"] else "[red]not hit[/red]"


def _elsewhere(verdict: Judged) -> int:
    return sum(
        rows
        for batch, rows in verdict.compared.by_batch.items()
        if batch not in {f.batch for f in verdict.plan.faults_of(verdict.ran.name)}
    )


def write_result(path: Path, results: Mapping[str, Any]) -> None:
    """Writes the results of all runs, by name, as JSON."""
    path.write_text(json.dumps({"runs": results}, indent=2) + "\n")


def spread(places: list[float], apart: float) -> list[float]:
    """Moves overlapping labels to the right, so that each is at least `apart` from the one before."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + apart) if moved else place)
    return moved


def strikes(judged: list[Judged]) -> list[tuple[float, str, str]]:
    """Returns (time in seconds, fault, colour) of the first strike of each fault, by time.

    The time is that in the first way that meets the fault; the colour is grey for the first way, otherwise the way's.
    """
    by_fault: dict[str, tuple[float, str, str]] = {}
    for verdict in judged:
        colour = _GREY if verdict is judged[0] else verdict.way.colour
        for event in of_kind(verdict.ran.events, "injected"):
            by_fault.setdefault(event["fault"], (event["t"] - verdict.ran.began_s, event["fault"], colour))
    return sorted(by_fault.values())


def draw(path: Path, judged: list[Judged]) -> None:
    """Draws duplicates over time, a line per run, with the first strike of each fault."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for verdict in judged:
        compared, name = verdict.compared, verdict.ran.name
        salted = f", {verdict.ran.salted_rows:,} sent twice" if verdict.ran.salted_rows else ""
        label = f"{name}: {compared.duplicated:,} duplicated, {compared.lost:,} lost{salted}"
        look: dict[str, Any] = {"lw": 2, "color": verdict.way.colour, "linestyle": verdict.way.dashes, "label": label}
        axes.step(compared.curve_s, compared.curve_rows, where="post", **look)
    top = max(verdict.compared.duplicated for verdict in judged) or 1
    struck = strikes(judged)
    axes.set(xlabel="seconds since the run began", ylabel="duplicated rows in the output", xlim=(0, None))
    apart_s = axes.get_xlim()[1] * _LABELS_APART
    for (at, fault, colour), label_at in zip(struck, spread([at for at, _, _ in struck], apart_s), strict=True):
        axes.plot([at, at, label_at], [0, top * 1.01, top * 1.05], color=colour, lw=0.8, ls=":", zorder=0)
        axes.text(label_at, top * 1.06, fault, rotation=35, fontsize=8, color=colour, ha="left", va="bottom")
    axes.set_ylim(-top * 0.02, top * 1.26)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(_headline(judged))
    figure.savefig(path, dpi=130)
    plt.close(figure)
