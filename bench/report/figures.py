"""Figures and their arithmetic: medians of interleaved runs, ratios, reaches (targets), fitted lines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from statistics import median
from typing import Any

# Units in which less is better.
_LESS = frozenset({"ms", "s", "ns", "bytes/id", "bytes"})


@dataclass(frozen=True)
class Figure:
    """A measured number, and a peer's in the same run.

    ratio: how many times better than the peer it is.
    reach: the target, for the ratio if there is a peer, otherwise for the value. ok: None without a target.
    ceiling: an upper bound for the value, measured on the same requests without the essential work, in the same unit.
    core_share: the server's processor time per time; below 1 it did not get, or did not need, its whole core.
    cpu_us: the server's processor time for one request.
    runs: all values of which the median was taken.
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
        """Returns whether a lower value is better, by the unit."""
        return self.unit in _LESS

    def against(self, peer: str, peer_value: float) -> "Figure":
        """Returns the figure compared with a peer's value."""
        return replace(self, peer=peer, peer_value=peer_value, ratio=ratio(self.value, peer_value, self.unit))

    def plain(self) -> dict[str, Any]:
        """Returns the members for JSON: rounded, and without optional ones that were not measured."""
        members = {name: _rounded(value) for name, value in asdict(self).items()}
        return {name: value for name, value in members.items() if value not in (None, (), []) or name in _FIXED}


_FIXED = ("name", "value", "unit", "peer", "peer_value", "ratio", "reach", "ok")


@dataclass(frozen=True)
class Reach:
    """The target of all figures whose name and peer match the patterns; `peer` None: a target of the value itself."""

    name: str
    peer: str | None
    reach: float

    def fits(self, figure: Figure) -> bool:
        """Returns whether the patterns match a figure's name and peer."""
        if (self.peer is None) != (figure.peer is None):
            return False
        return fnmatchcase(figure.name, self.name) and fnmatchcase(figure.peer or "", self.peer or "")


def judged(figure: Figure, reaches: Sequence[Reach]) -> Figure:
    """Returns the figure with the first reach that matches it, and whether it meets that."""
    reach = next((candidate for candidate in reaches if candidate.fits(figure)), None)
    if reach is None:
        return figure
    if reach.peer is not None:
        return replace(figure, reach=reach.reach, ok=figure.ratio is not None and figure.ratio >= reach.reach)
    ok = figure.value <= reach.reach if figure.less_is_better else figure.value >= reach.reach
    return replace(figure, reach=reach.reach, ok=ok)


def unanswered(figures: Sequence[Figure], reaches: Sequence[Reach]) -> list[Reach]:
    """Returns the reaches that match no figure: it was not measured, or has been renamed."""
    return [reach for reach in reaches if not any(reach.fits(figure) for figure in figures)]


def read(members: Mapping[str, Any]) -> Figure:
    """Returns a figure from its JSON members; ignores unknown ones and computes the ratio again."""
    fields = {name: value for name, value in members.items() if name in Figure.__dataclass_fields__}
    fields["runs"] = tuple(fields.get("runs", ()))
    figure = Figure(**fields)
    if figure.peer is None or figure.peer_value is None:
        return figure
    return figure.against(figure.peer, figure.peer_value)


def ratio(value: float, peer_value: float, unit: str) -> float | None:
    """Returns how many times better the value is: value / peer for rates, peer / value for times and bytes.

    None if the divisor is zero.
    """
    better, worse = (peer_value, value) if unit in _LESS else (value, peer_value)
    return better / worse if worse else None


def interleaved(runs: int, named: Mapping[str, Callable[[], Mapping[str, float]]]) -> dict[str, dict[str, Any]]:
    """Runs each job once per round; returns the median of every member, and all rates as `runs`.

    The jobs are interleaved, so that other load on the machine affects all of them alike.
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
    """Returns the figures that are worse than before by more than the fraction `by`, each with the earlier one.

    Compares ratios if there is a peer, since the machine differs from day to day; otherwise values.
    """
    earlier_by_name = {(earlier.name, earlier.peer): earlier for earlier in before}
    pairs = [(now, earlier_by_name[now.name, now.peer]) for now in figures if (now.name, now.peer) in earlier_by_name]
    return [(now, earlier) for now, earlier in pairs if _gain(now, earlier) < 1 - by]


def _gain(now: Figure, before: Figure) -> float:
    if now.peer is None:
        return ratio(now.value, before.value, now.unit) or 1.0
    return (now.ratio or 0.0) / (before.ratio or 1.0)


def line(places: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Fits a straight line by least squares; returns (value at zero, slope).

    Points at a single place give a horizontal line through their mean.
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
    """Returns the value of the fitted line at a place outside the points."""
    at_zero, rise = line(places, values)
    return at_zero + rise * place


def number(value: float) -> str:
    """Formats a number with three digits, and k, M or G if it is large."""
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
