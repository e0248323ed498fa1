"""The verdict: a table, a picture, `result.json`, and whether the demo has shown what it promises."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.compare import Compared
from demo.faults import FAULTS, state
from demo.supervisor import Ran

TITLES = {
    "plain": "an at-least-once sink, as Spark's for Kafka",
    "claim": "executors ask, then write",
    "staged": "the gateway writes, each batch once",
    "ids": "the gateway writes, each id once",
}
COLOURS = {"plain": "#c0392b", "claim": "#d68910", "staged": "#1e8449", "ids": "#2471a3"}
STYLES = {"ids": (0, (4, 4))}  # lies on the line of staged

# Of the width of the picture: two labels side by side, at their angle and size.
_LABELS_APART = 0.035


@dataclass(frozen=True)
class Judged:
    """One run and what came out of it."""

    ran: Ran
    compared: Compared

    def result(self) -> dict[str, Any]:
        """Its member of `result.json`."""
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
                for fault in FAULTS
            },
        }


def failures(runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the results of all runs fail to show; empty: everything is shown."""
    missing = [
        f"{run}: {name} was {'injected and changed nothing' if fault['injected'] else 'never injected'}"
        for run, result in runs.items()
        for name, fault in result["faults"].items()
        if not fault["hit"]
    ]
    plain, claim, ids = runs["plain"], runs["claim"], runs["ids"]
    twice = f"claim: {claim['duplicated']} rows duplicated, and only {claim['takeover_rows']} granted by takeover"
    wrong = {
        **{_broken(runs, run, "duplicated"): runs[run]["duplicated"] > 0 for run in ("staged", "ids")},
        **{_broken(runs, run, "lost"): runs[run]["lost"] > 0 for run in ("staged", "ids", "claim")},
        twice: claim["duplicated"] > claim["takeover_rows"],
        "ids: no row was sent twice, so it shows nothing of an upstream's duplicates": ids["salted_rows"] == 0,
    }
    idle = [
        f"plain: {fault.name} made no duplicates, so it proves nothing for the others"
        for fault in FAULTS
        if fault.spark and not plain["faults"][fault.name]["duplicated"]
    ]
    return missing + [text for text, is_so in wrong.items() if is_so] + idle


def _broken(runs: Mapping[str, Mapping[str, Any]], run: str, count: str) -> str:
    return f"{run}: {runs[run][count]} rows {count}"


def strangers(judged: list[Judged]) -> list[str]:
    """Rows that came out and never went in: none of the promises covers them, so none may be there."""
    found = {one.ran.name: one.compared.strange for one in judged if one.compared.strange}
    return [f"{run}: {rows} rows came out that never went in" for run, rows in found.items()]


def show(console: Console, judged: list[Judged]) -> None:
    """The two tables, of 80 columns at most: what came out, and which fault made which duplicates."""
    results = {one.ran.name: one.result() for one in judged}
    rows_in = judged[0].compared.rows_in
    console.print(f"\n[bold]{rows_in:,} flights · the same {len(FAULTS)} faults in each run[/bold]")
    table = _table("", "rows in", "rows out", "duplicated", "lost", "seconds")
    for run, result in results.items():
        numbers = [f"{result[name]:,}" for name in ("rows_in", "rows_out", "duplicated", "lost")]
        table.add_row(run, *numbers, f"{result['seconds']:.0f}", _note(run, result))
    console.print(table)
    for run in results:
        console.print(f"{run:<6}  {TITLES[run]}", highlight=False)
    console.print("\n[bold]duplicated rows by the fault of their batch[/bold]")
    faults = _table("", *results)
    for fault in FAULTS:
        if not fault.spark and FAULTS[FAULTS.index(fault) - 1].spark:
            faults.add_section()
        cells = [_cell(result["faults"][fault.name]) for result in results.values()]
        faults.add_row(fault.name, *cells, "" if fault.spark else "not Spark's own")
    faults.add_section()
    faults.add_row("batches without a fault", *(f"{_elsewhere(one):,}" for one in judged), "")
    console.print(faults)


def _table(first: str, *columns: str) -> Table:
    table = Table(first, box=None, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("")
    return table


def _note(run: str, result: Mapping[str, Any]) -> str:
    """What a row of the table needs beside its numbers."""
    if run == "claim":
        return f"← {result['takeover_rows']:,} taken over"
    return f"← {result['salted_rows']:,} sent twice" if result["salted_rows"] else ""


def _cell(fault: Mapping[str, Any]) -> str:
    return f"{fault['duplicated']:,}" if fault["hit"] else "[red]not hit[/red]"


def _elsewhere(one: Judged) -> int:
    return sum(rows for batch, rows in one.compared.by_batch.items() if batch not in {f.batch for f in FAULTS})


def write_result(path: Path, results: Mapping[str, Any]) -> None:
    """Writes the results of all runs, by name, as JSON."""
    path.write_text(json.dumps({"runs": results}, indent=2) + "\n")


def spread(places: list[float], apart: float) -> list[float]:
    """Moves labels to the right, where they would lie on one another: each so far from the one before, at least."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + apart) if moved else place)
    return moved


def draw(path: Path, judged: list[Judged]) -> None:
    """Duplicates over time, a line per run, with the faults where they struck `plain`."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for one in judged:
        compared, name = one.compared, one.ran.name
        salted = f", {one.ran.salted_rows:,} sent twice" if one.ran.salted_rows else ""
        label = f"{name}: {compared.duplicated:,} duplicated, {compared.lost:,} lost{salted}"
        (line,) = axes.step(compared.curve_s, compared.curve_rows, where="post", lw=2, color=COLOURS[name], label=label)
        line.set_linestyle(STYLES.get(name, "solid"))
    top = max(one.compared.duplicated for one in judged) or 1
    first = judged[0]
    struck = [(e["t"] - first.ran.began_s, e["fault"]) for e in first.ran.events if e["kind"] == "injected"]
    axes.set(xlabel="seconds since the run began", ylabel="duplicated rows in the output", xlim=(0, None))
    apart_s = axes.get_xlim()[1] * _LABELS_APART
    for (at, fault), label_at in zip(struck, spread([at for at, _ in struck], apart_s), strict=True):
        axes.plot([at, at, label_at], [0, top * 1.01, top * 1.05], color="#bbbbbb", lw=0.8, ls=":", zorder=0)
        axes.text(label_at, top * 1.06, fault, rotation=35, fontsize=8, color="#777777", ha="left", va="bottom")
    axes.set_ylim(-top * 0.02, top * 1.26)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{first.compared.rows_in:,} flights, the same {len(FAULTS)} faults in each run")
    figure.savefig(path, dpi=130)
    plt.close(figure)
