"""What a figure is, and its arithmetic: medians of interleaved runs, ratios, reaches, straight lines. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from statistics import median
from typing import Any

# In these units less is better.
_LESS = frozenset({"ms", "s", "ns", "bytes/id", "bytes"})


@dataclass(frozen=True)
class Figure:
    """One measured number, and a peer's in the same run. `ratio` says how many times better than the peer it is.

    `reach` is what was asked for: of the ratio where there is a peer, of the value where there is none.
    `ok`: None where nothing was asked for. `ceiling`: the same work without what makes it hard, in the same unit.
    `core_share`: processor time that the server took, by time: below 1 it did not have, or not need, its whole core.
    `cpu_us`: processor time of the server for one request.
    `runs`: every value that the median was taken of.
    """

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    reach: float | None = None
    ok: bool | None = None
    ceiling: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    core_share: float | None = None
    cpu_us: float | None = None
    runs: tuple[float, ...] = ()

    @property
    def less_is_better(self) -> bool:
        """Tells whether a lower value is a better one, from the unit."""
        return self.unit in _LESS

    def against(self, peer: str, peer_value: float) -> "Figure":
        """This figure beside a peer's."""
        return replace(self, peer=peer, peer_value=peer_value, ratio=ratio(self.value, peer_value, self.unit))

    def plain(self) -> dict[str, Any]:
        """For JSON: rounded, without what nobody measured beyond the fixed members."""
        members = {name: _rounded(value) for name, value in asdict(self).items()}
        return {name: value for name, value in members.items() if value not in (None, (), []) or name in _FIXED}


_FIXED = ("name", "value", "unit", "peer", "peer_value", "ratio", "reach", "ok")


@dataclass(frozen=True)
class Reach:
    """What is asked of all figures whose name and peer fit the patterns; `peer` None: of the value itself."""

    name: str
    peer: str | None
    reach: float

    def fits(self, figure: Figure) -> bool:
        """Tells whether a figure is one of those that this names, by the patterns of its name and its peer's."""
        if (self.peer is None) != (figure.peer is None):
            return False
        return fnmatchcase(figure.name, self.name) and fnmatchcase(figure.peer or "", self.peer or "")


def judged(figure: Figure, reaches: Sequence[Reach]) -> Figure:
    """The figure with the first reach that fits it, and whether it gets there."""
    reach = next((candidate for candidate in reaches if candidate.fits(figure)), None)
    if reach is None:
        return figure
    if reach.peer is not None:
        return replace(figure, reach=reach.reach, ok=figure.ratio is not None and figure.ratio >= reach.reach)
    ok = figure.value <= reach.reach if figure.less_is_better else figure.value >= reach.reach
    return replace(figure, reach=reach.reach, ok=ok)


def unanswered(figures: Sequence[Figure], reaches: Sequence[Reach]) -> list[Reach]:
    """The reaches that no figure fits: what they ask for was not measured, or is called otherwise by now."""
    return [reach for reach in reaches if not any(reach.fits(figure) for figure in figures)]


def read(members: Mapping[str, Any]) -> Figure:
    """A figure as another part of the bench wrote it down; unknown members are left out, the ratio is made anew."""
    fields = {name: value for name, value in members.items() if name in Figure.__dataclass_fields__}
    fields["runs"] = tuple(fields.get("runs", ()))
    figure = Figure(**fields)
    if figure.peer is None or figure.peer_value is None:
        return figure
    return figure.against(figure.peer, figure.peer_value)


def ratio(value: float, peer_value: float, unit: str) -> float | None:
    """How many times better: of rates value over peer, of times and bytes peer over value; None against zero."""
    better, worse = (peer_value, value) if unit in _LESS else (value, peer_value)
    return better / worse if worse else None


def interleaved(runs: int, named: Mapping[str, Callable[[], Mapping[str, float]]]) -> dict[str, dict[str, Any]]:
    """Each work once a round, for some rounds: the median of every member, and under `runs` all rates.

    Interleaved, so that what else the machine does meets all of them alike.
    """
    measured: dict[str, list[Mapping[str, float]]] = {name: [] for name in named}
    for _ in range(runs):
        for name, work in named.items():
            measured[name].append(work())
    return {name: _medians(rows) for name, rows in measured.items()}


def _medians(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    members = {name: median(row[name] for row in rows) for name in rows[0]}
    return {**members, "runs": tuple(row["rate"] for row in rows if "rate" in row)}


def worse(figures: Sequence[Figure], before: Sequence[Figure], by: float) -> list[tuple[Figure, Figure]]:
    """The figures that are worse than before by more than the share `by`, each with the one before.

    Beside a peer the ratios are compared, since another day's machine is another machine; else the values.
    """
    earlier_by_name = {(earlier.name, earlier.peer): earlier for earlier in before}
    pairs = [(now, earlier_by_name[now.name, now.peer]) for now in figures if (now.name, now.peer) in earlier_by_name]
    return [(now, earlier) for now, earlier in pairs if _gain(now, earlier) < 1 - by]


def _gain(now: Figure, before: Figure) -> float:
    if now.peer is None:
        return ratio(now.value, before.value, now.unit) or 1.0
    return (now.ratio or 0.0) / (before.ratio or 1.0)


def line(places: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The straight line through the points by least squares: (value at zero, rise per place).

    One point, or points at one place, give a level line through their mean.
    """
    count = len(places)
    mean_place, mean_value = sum(places) / count, sum(values) / count
    spread = sum((place - mean_place) ** 2 for place in places)
    if not spread:
        return mean_value, 0.0
    products = zip(places, values, strict=True)
    rise = sum((place - mean_place) * (value - mean_value) for place, value in products) / spread
    return mean_value - rise * mean_place, rise


def extrapolated(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """What the line through the points says of a place beyond them."""
    at_zero, rise = line(places, values)
    return at_zero + rise * place


def number(value: float) -> str:
    """Three digits, with k and M where it is large."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 1_000 else float(f"{value:.4g}")
