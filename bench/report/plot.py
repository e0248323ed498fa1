"""Draws the bench's picture: the speed of each kind of work relative to its peer, and below it the latencies.

The picture must be readable at a width of 800 pixels without knowledge of the bench. `panels` defines its content.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report.captions import caption, title
from bench.report.figures import Figure, number
from bench.report.panels import OF_SECTIONS, PANELS, TIMES, Panel

_WIDTH, _ROW, _HEAD, _TITLE_ROOM = 8.0, 0.27, 0.62, 0.28  # inches: height of a row, and of a panel without its rows
_LEFT, _RIGHT = 0.25, 0.70  # extent of the bars as fractions of the width: labels left, numbers right
_TOP, _BOTTOM = 0.5, 1.2  # inches: for the title and for the caption
# Colours that colour-blind readers can distinguish: target met, target missed, no target.
_REACHED, _MISSED, _NO_AIM = "#1b7f8c", "#d9711c", "#8a94a6"
_ALL = (*PANELS, *(panel for panels in OF_SECTIONS.values() for panel in panels), TIMES)


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Writes the picture as PNG; if there is nothing to show, removes an earlier one."""
    path.unlink(missing_ok=True)
    if not _shown(figures):
        return
    import matplotlib

    matplotlib.use("Agg")
    canvas = picture(figures)
    canvas.savefig(path, dpi=200)


def picture(figures: Sequence[Figure]) -> Any:
    """Returns a matplotlib canvas with a panel for each kind of work with a measured figure."""
    from matplotlib.figure import Figure as Canvas

    panels = _shown(figures)
    height = _TOP + _BOTTOM + sum(_HEAD + _ROW * len(rows) for _, rows in panels)
    canvas, top = Canvas(figsize=(_WIDTH, height)), height - _TOP
    limits = _limits([figure for panel, rows in panels if panel is not TIMES for _, figure in rows])
    for panel, rows in panels:
        size = _ROW * len(rows)
        axes = canvas.add_axes((_LEFT, (top - _TITLE_ROOM - size) / height, _RIGHT - _LEFT, size / height))
        _frame(axes, panel, [label for label, _ in rows])
        if panel is TIMES:
            _times(axes, rows)
        else:
            _ratios(axes, rows, limits)
        top -= _HEAD + size
    _words(canvas, height, panels[0][0])
    return canvas


def _shown(figures: Sequence[Figure]) -> list[tuple[Panel, list[tuple[str, Figure]]]]:
    """Returns each panel with a measured figure, and its rows."""
    return [(panel, rows) for panel in _ALL if (rows := panel.shown(figures))]


def _frame(axes: Any, panel: Panel, labels: Sequence[str]) -> None:
    axes.set_title(panel.title, loc="left", x=-_LEFT / (_RIGHT - _LEFT) * 0.93, fontsize=10.5, fontweight="bold", pad=5)
    axes.set_yticks(range(len(labels)), labels, fontsize=9.5)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.tick_params(axis="x", which="major", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)


def _limits(figures: Sequence[Figure]) -> tuple[float, float]:
    """Returns the limits of the axis shared by all panels with peers."""
    bounds = [bound for figure in figures for bound in (figure.ratio, figure.reach) if bound]
    return min([0.5, *bounds]) / 1.3, max([10.0, *bounds]) * 1.3


def _ratios(axes: Any, rows: Sequence[tuple[str, Figure]], limits: tuple[float, float]) -> None:
    for place, (_, figure) in enumerate(rows):
        assert figure.ratio is not None
        assert figure.peer_value is not None
        axes.barh(place, figure.ratio - 1, left=1, height=0.62, color=_color(figure))
        _aim(axes, place, figure)
        _said(axes, place, f"{figure.ratio:.2g}×" if figure.ratio < 10 else f"{figure.ratio:.0f}×", _both(figure))
    axes.axvline(1, color="#222222", linewidth=1.3)
    axes.set_xlim(*limits)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.xaxis.set_minor_formatter("")


def _times(axes: Any, rows: Sequence[tuple[str, Figure]]) -> None:
    times = [value for _, figure in rows for value in (figure.value, figure.reach) if value]
    least = min(times) / 2
    for place, (_, figure) in enumerate(rows):
        axes.barh(place, figure.value - least, left=least, height=0.62, color=_color(figure))
        _aim(axes, place, figure)
        _said(axes, place, number(figure.value), f"at most {number(figure.reach)}" if figure.reach else "")
    axes.set_xlim(least, max(times) * 1.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} ms")
    axes.xaxis.set_minor_formatter("")


def _both(figure: Figure) -> str:
    assert figure.peer_value is not None
    return f"{number(figure.value)} : {number(figure.peer_value)} {figure.unit.replace('bytes/id', 'bytes')}"


def _aim(axes: Any, place: int, figure: Figure) -> None:
    if figure.reach:
        axes.plot([figure.reach] * 2, [place - 0.42, place + 0.42], color="black", linewidth=2.2, solid_capstyle="butt")


def _said(axes: Any, place: int, first: str, second: str) -> None:
    """Writes a row's numbers to the right of the bars."""
    across = axes.get_yaxis_transform()
    axes.text(1.13, place, first, transform=across, fontsize=9.5, fontweight="bold", ha="right", va="center")
    axes.text(1.16, place, second, transform=across, fontsize=8.5, color="#444444", va="center")


def _words(canvas: Any, height: float, first: Panel) -> None:
    """Draws the title and the legend of colours, mark and line."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    canvas.text(0.02, 1 - 0.2 / height, title(first), fontsize=13, fontweight="bold", va="top")
    canvas.text(
        0.02, 0.62 / height, "\n".join(caption(first)), fontsize=8.5, color="#444444", va="top", linespacing=1.35
    )
    signs = [
        Patch(color=_REACHED, label="aim reached"),
        Patch(color=_MISSED, label="aim missed"),
        Patch(color=_NO_AIM, label="no aim set"),
        Line2D([], [], color="black", marker="|", linestyle="", markersize=11, markeredgewidth=2.2, label="the aim"),
        Line2D([], [], color="#222222", marker="|", linestyle="", markersize=11, label="1×: as good as the peer"),
    ]
    place = (0.005, 0.6 / height)
    canvas.legend(handles=signs, loc="lower left", bbox_to_anchor=place, ncols=5, fontsize=8.5, frameon=False)


def _color(figure: Figure) -> str:
    if not figure.reach:
        return _NO_AIM
    return _REACHED if figure.ok else _MISSED
