"""The bench's picture: rates over batch size with peers, latencies, ratios with their reach as a bar each."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report.figures import Figure

_POINT = re.compile(r"claim, (packed|Arrow strings|JSON strings), ([\d,]+) ids, (\d+) clients")
# Other numbers of clients at this size are told in the table.
_CLIENTS = {1: 64, 100: 64, 1_000: 16, 10_000: 16, 100_000: 8}


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Three panels in one picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    judged = [figure for figure in figures if figure.reach]
    height = max(5.0, 1 + 0.22 * len(judged))
    canvas, (rates, latencies, ratios) = plt.subplots(1, 3, figsize=(19, height), width_ratios=(4, 3, 5))
    _rates(rates, figures)
    _latencies(latencies, figures)
    _ratios(ratios, judged)
    canvas.tight_layout()
    canvas.savefig(path, dpi=110)
    plt.close(canvas)


def points(figures: Sequence[Figure]) -> dict[str, list[tuple[int, float]]]:
    """For each line of the first panel, (ids a request, ids a second)."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for figure in figures:
        found = _POINT.fullmatch(figure.name)
        if found is None:
            continue
        ids = int(found[2].replace(",", ""))
        if int(found[3]) != _CLIENTS.get(ids):
            continue
        if figure.peer is None:
            lines.setdefault(f"oncegate, {found[1]}", []).append((ids, figure.value))
            if figure.ceiling and found[1] == "packed":
                lines.setdefault("the same server, remembering nothing", []).append((ids, figure.ceiling))
        elif found[1] == "packed" and figure.peer_value:
            lines.setdefault(figure.peer, []).append((ids, figure.peer_value))
    return lines


def _rates(axes: Any, figures: Sequence[Figure]) -> None:
    for name, line in points(figures).items():
        own = name.startswith("oncegate")
        axes.loglog(*zip(*sorted(line), strict=True), marker="o", label=name, linestyle="-" if own else "--")
    axes.set(xlabel="ids per request", ylabel="ids per second, durable", title="Claims, one core")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(fontsize=7)


def _latencies(axes: Any, figures: Sequence[Figure]) -> None:
    shown = [figure for figure in figures if figure.unit == "ms" and figure.peer is None]
    shown = [figure for figure in shown if not figure.name.startswith("ceiling")]
    for place, figure in enumerate(reversed(shown)):
        axes.barh(place, figure.value, color=_color(figure))
        if figure.reach:
            axes.plot([figure.reach] * 2, [place - 0.4, place + 0.4], color="black")
    axes.set_yticks(range(len(shown)), [figure.name for figure in reversed(shown)], fontsize=7)
    axes.set(xscale="log", xlabel="ms (black: at most)", title="Latencies and pauses")


def _ratios(axes: Any, judged: Sequence[Figure]) -> None:
    """Bars of how far each went, 1 being what was asked for."""
    shown = [figure for figure in judged if figure.reach]
    for place, figure in enumerate(reversed(shown)):
        axes.barh(place, _part(figure), color=_color(figure))
    axes.axvline(1, color="black", linewidth=1)
    names = [f"{figure.name} : {figure.peer}" if figure.peer else figure.name for figure in reversed(shown)]
    axes.set_yticks(range(len(shown)), names, fontsize=6)
    axes.set(xscale="log", xlabel="times what was asked for", title="Reaches")


def _part(figure: Figure) -> float:
    """How many times the reach was reached."""
    assert figure.reach
    if figure.peer is not None:
        return (figure.ratio or 0.0) / figure.reach
    return figure.reach / figure.value if figure.less_is_better and figure.value else figure.value / figure.reach


def _color(figure: Figure) -> str:
    return {True: "tab:green", False: "tab:red"}.get(bool(figure.ok), "tab:blue") if figure.reach else "tab:blue"
