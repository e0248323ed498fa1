"""Reports the windows of `bench.scale`: figures, the extrapolation to a billion ids, and the picture."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.report.figures import Figure, Reach, judged, line
from bench.scale.model import Growth, fitted, seconds_at

BILLION = 1_000_000_000
# Windows in the first part of the run are not fitted, since caches, files and the table are still small.
LINE_FROM = 0.3
# Runs with fewer ids are not extrapolated to a billion.
LINE_IDS = 50_000_000

REACHES = (
    Reach("mixed load: rate", None, 2e6),
    Reach("memory of an id in memory", None, 32),
    Reach("memory of an id that left it*", None, 3),
    Reach("disk", None, 36),
)


@dataclass(frozen=True)
class Window:
    """A section of the run.

    asked: ids in all requests so far. ids: distinct ones. hot_ids: those in memory.
    memory_bytes: anonymous memory of the process, including `filter_bytes` of filters and fences.
    disk_bytes: includes `cold_disk_bytes` of archives and runs; the rest is entries and the snapshot.
    written_bytes: bytes written to any file during the window. rounds: how often ids left memory so far.
    longest_ms, p99_ms, p50_ms: duration of one durable call.
    """

    asked: int
    ids: int
    hot_ids: int
    cold_ids: int
    window_ids: int
    seconds: float
    cpu_s: float
    longest_ms: float
    p99_ms: float
    p50_ms: float
    memory_bytes: int
    disk_bytes: int
    filter_bytes: int
    cold_disk_bytes: int = 0
    written_bytes: int = 0
    rounds: int = 0

    def plain(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return asdict(self)


def reached(figure: Figure) -> Figure:
    """Returns the figure with its reach."""
    return judged(figure, REACHES)


def figures(windows: Sequence[Window], restart_s: float, filter_byte_s: float = 0.0) -> list[Figure]:
    """Returns the measured figures, then those for a billion ids. `filter_byte_s`: seconds to read a filter's byte."""
    start, end, run = windows[0], windows[-1], windows[1:]
    seconds, cpu_s = sum(window.seconds for window in run), sum(window.cpu_s for window in run)
    hot = hot_bytes(windows)
    cold = cold_bytes(windows, hot)
    all_figures = [
        Figure("mixed load: rate", end.asked / seconds, "ids/s"),
        Figure("mixed load: rate, processor time", end.asked / cpu_s, "ids/s"),
        Figure("mixed load: longest call", max(window.longest_ms for window in run), "ms"),
        Figure("mixed load: p99 of the worst window", max(window.p99_ms for window in run), "ms"),
        Figure("memory of an id in memory", hot, "bytes/id"),
        Figure("disk", (end.disk_bytes - start.disk_bytes) / end.ids, "bytes/id"),
        Figure("start-up", restart_s, "s"),
        Figure("start-up, rate", end.ids / restart_s, "ids/s"),
    ]
    if cold is not None:
        all_figures.append(Figure("memory of an id that left it", cold[0], "bytes/id"))
        all_figures.append(Figure("memory while ids leave it, whatever their number", cold[1] / 2**20, "MiB"))
        of_disk = end.cold_disk_bytes / end.cold_ids
        all_figures.append(Figure("disk of an id that left memory", of_disk, "bytes/id"))
        all_figures.append(Figure("disk of entries and saved index, at most", entry_bytes(windows) / 2**20, "MiB"))
        of_filters = end.filter_bytes / end.cold_ids
        all_figures.append(Figure("memory of an id that left it, filter and fences", of_filters, "bytes/id"))
    if end.ids < LINE_IDS:
        return all_figures
    return all_figures + rates_at_a_billion(windows) + billion(windows, restart_s, hot, cold, filter_byte_s)


def hot_bytes(windows: Sequence[Window]) -> float:
    """Returns the memory of an id in memory: the median over the later windows in which all ids were in memory.

    The median excludes temporary peaks, when ids begin to leave memory or a snapshot is written.
    """
    all_hot = [window for window in windows[1:] if not window.cold_ids] or list(windows[1:2])
    later = all_hot[len(all_hot) // 2 :]
    return median((window.memory_bytes - windows[0].memory_bytes) / max(1, window.hot_ids) for window in later)


def cold_bytes(windows: Sequence[Window], hot: float) -> tuple[float, float] | None:
    """Returns the memory per id that left memory, and a constant part; None if no id has left.

    Fits a line to the memory without that of the process and of the table's slots, whose number never shrinks.
    """
    rest: list[tuple[int, float]] = []
    slots = 0
    for window in windows[1:]:
        slots = max(slots, window.hot_ids)
        if window.cold_ids:
            rest.append((window.cold_ids, window.memory_bytes - windows[0].memory_bytes - hot * slots))
    if not rest:
        return None
    at_zero, rise = line([ids for ids, _ in rest], [memory for _, memory in rest])
    return max(0.0, rise), at_zero


def entry_bytes(windows: Sequence[Window]) -> int:
    """Returns the maximum disk of entries and snapshot, which grows until each compaction."""
    return max(window.disk_bytes - window.cold_disk_bytes for window in windows)


def rates_at_a_billion(windows: Sequence[Window]) -> list[Figure]:
    """Extrapolates time and processor time by `bench.scale.model`, with its prices and its error."""
    end, name = windows[-1], f"a billion ids, by the model of {windows[-1].ids:,}"
    later = [window for window in windows[1:] if window.asked >= LINE_FROM * end.asked]
    leaving = [window for window in later if window.cold_ids] or later
    written_bytes = sum(window.written_bytes for window in windows)
    growth = Growth(end.asked, end.ids, end.cold_ids, end.rounds, written_bytes)
    lookups = BILLION * end.asked / end.ids
    all_figures = []
    for what, seconds in (
        ("", [window.seconds for window in leaving]),
        (", processor time", [window.cpu_s for window in leaving]),
    ):
        prices = fitted(leaving, seconds)
        all_figures += [
            Figure(f"{name}: rate{what}", lookups / seconds_at(BILLION, prices, growth), "ids/s"),
            Figure(f"{name}: an id{what}", 1e9 * prices.each_s, "ns"),
            Figure(f"{name}: a KiB written{what}", 2**10 * 1e9 * prices.byte_s, "ns"),
            Figure(f"{name}: windows' distance from it{what}", 100 * prices.residual, "%"),
        ]
    return all_figures


def billion(
    windows: Sequence[Window],
    restart_s: float,
    hot: float,
    cold: tuple[float, float] | None,
    filter_byte_s: float = 0.0,
) -> list[Figure]:
    """Extrapolates memory and disk of a billion ids from those of an id, and the start-up time.

    The start-up time is that of hot ids and entries, whose number is bounded, and of filters, which grow.
    """
    start, end = windows[0], windows[-1]
    in_memory = max(window.hot_ids for window in windows)
    of_old, leaving = (hot, 0.0) if cold is None else cold
    memory = start.memory_bytes + hot * in_memory + leaving + of_old * (BILLION - in_memory)
    of_old_disk = end.cold_disk_bytes / end.cold_ids if end.cold_ids else end.disk_bytes / end.ids
    disk = entry_bytes(windows) + of_old_disk * (BILLION - in_memory)
    more_filters = end.filter_bytes * ((BILLION - in_memory) / end.cold_ids - 1) if end.cold_ids else 0.0
    name = f"a billion ids, extrapolated from {end.ids:,}"
    return [
        Figure(f"{name}: memory", memory / 2**30, "GiB"),
        Figure(f"{name}: disk", disk / 2**30, "GiB"),
        Figure(f"{name}: start-up", restart_s + filter_byte_s * more_filters, "s"),
    ]


def draw(windows: Sequence[Window], path: Path) -> None:
    """Draws rate, memory and pauses over the number of ids."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    canvas, (rate, memory, pause) = plt.subplots(3, 1, figsize=(8, 9), sharex=True)
    run, millions = windows[1:], [window.ids / 1e6 for window in windows[1:]]
    rate.plot(millions, [window.window_ids / window.seconds / 1e6 for window in run])
    rate.set(ylabel="million ids a second", ylim=(0, None), title="90 % new, 8 % recent, 2 % old; durable")
    memory.plot(millions, [window.memory_bytes / 2**30 for window in run], label="memory")
    memory.plot(millions, [window.disk_bytes / 2**30 for window in run], label="disk")
    memory.set(ylabel="GiB", ylim=(0, None))
    memory.legend()
    pause.semilogy(millions, [window.longest_ms for window in run], label="longest call")
    pause.semilogy(millions, [window.p99_ms for window in run], label="p99")
    pause.semilogy(millions, [window.p50_ms for window in run], label="p50")
    pause.set(ylabel="ms", xlabel="million different ids")
    pause.legend()
    for axes in (rate, memory, pause):
        axes.grid(alpha=0.3)
    canvas.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(canvas)
