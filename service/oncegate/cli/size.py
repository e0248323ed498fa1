"""Defines the verb `oncegate size`."""

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oncegate.cli.options import AsJsonOption
from oncegate.cli.refusals import refusing
from oncegate.core.errors import SettingsError
from oncegate.engine.limits import GIB, KIB, MIB, Limits

if TYPE_CHECKING:
    from oncegate.cli.capacity import Sizes, Work

_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "y": 365 * 86_400}
_HORIZON = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdy])")

RateOption = Annotated[float, typer.Option(help="New ids per second, averaged over a day.")]
HorizonOption = Annotated[str, typer.Option(help="How long an id is kept: 12h, 30d, 1y.")]
FprOption = Annotated[float, typer.Option(help="Summed false-positive rate of the filters.")]
BatchOption = Annotated[int, typer.Option(min=1, help="Ids per request.")]
ClientsOption = Annotated[int, typer.Option(min=1, help="Concurrent clients.")]
HotIdsOption = Annotated[int, typer.Option(min=1, help="Ids that stay in memory, the setting hot_ids.")]
DigestsOption = Annotated[bool, typer.Option("--payload-digests", help="Each id comes with a payload: digestCols.")]
ResultsOption = Annotated[
    int, typer.Option(min=0, max=Limits.result_bytes, help="Bytes of the result that completes each claim.")
]
PlacesOption = Annotated[bool, typer.Option("--places", help="Rows are written by produce, and their locations kept.")]
NamesOption = Annotated[
    int, typer.Option(min=0, help="Batches committed so far: 9,460,800 of one each 10 s for 3 years.")
]
RangesOption = Annotated[int, typer.Option(min=0, help="Produce requests and staged chunks whose rows topics keep.")]


def size(
    rate: RateOption,
    horizon: HorizonOption,
    fpr: FprOption = Limits.cold_fpr,
    batch: BatchOption = 10_000,
    clients: ClientsOption = 1,
    hot_ids: HotIdsOption = Limits.hot_ids,
    payload_digests: DigestsOption = False,
    result_bytes: ResultsOption = 0,
    places: PlacesOption = False,
    names: NamesOption = 0,
    ranges: RangesOption = 0,
    as_json: AsJsonOption = False,
) -> None:
    """Estimate the maximum needs of a namespace: memory, disk, start-up time, and which ids leave memory.

    Example: oncegate size --rate 100 --horizon 7d
    """
    # Imported here: its sizes come from modules that import numpy.
    from oncegate.cli.capacity import Work

    with refusing():
        work = Work(rate, seconds(horizon), _filter_bytes(fpr), batch, clients, hot_ids)
        work = replace(work, payload_digests=payload_digests, result_bytes=result_bytes, places=places)
        sizes = _sizes(replace(work, names=names, ranges=ranges))
        if as_json:
            sys.stdout.write(msgspec.json.encode(members(sizes)).decode() + "\n")
        else:
            Console().print(_table(sizes))


def _sizes(work: "Work") -> "Sizes":
    from oncegate.cli.capacity import sizes

    try:
        return sizes(work)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def seconds(text: str) -> float:
    """Parses a retention of ids to seconds. Raises SettingsError if it is invalid."""
    match = _HORIZON.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise SettingsError(f"horizon {text!r}: a number and s, m, h, d or y are wanted, as in 30d")
    return float(match[1]) * _UNIT_S[match[2]]


def _filter_bytes(fpr: float) -> float:
    """Returns the mean filter size of an id in bytes: each run is at most half as large as the one before, with a finer
    filter.
    """
    # Imported here: the import of numba takes a second.
    from oncegate.index.lsm.bloom_blocked import WORD_BITS, design
    from oncegate.index.lsm.tier import RUNS_MAX, fpr_of

    if not 0 < fpr < 1:
        raise SettingsError(f"a false-positive rate must be above 0 and below 1, got {fpr}")
    shares = [2.0**-run for run in range(RUNS_MAX)]
    each = [WORD_BITS / 8 / design(fpr_of(run, fpr)).load for run in range(RUNS_MAX)]
    return sum(share * size_bytes for share, size_bytes in zip(shares, each, strict=True)) / sum(shares)


def members(sizes: "Sizes") -> dict[str, Any]:
    """Returns the estimate as a JSON object, with every part and every total."""
    return {
        "ids": sizes.ids,
        "hot_ids": sizes.hot_ids,
        "cold_ids": sizes.cold_ids,
        "memory_bytes": {**sizes.memory, "total": sizes.memory_bytes},
        "disk_bytes": {**sizes.disk, "total": sizes.disk_bytes},
        "start_s": {**sizes.start_s, "total": sizes.total_start_s},
    }


def _table(sizes: "Sizes") -> Table:
    table = Table("what", "part", "at most", title=f"{sizes.ids:,} ids known at once")
    table.add_row("ids", "in memory", f"{sizes.hot_ids:,}")
    table.add_row("", "on disk, behind filters", f"{sizes.cold_ids:,}", end_section=True)
    for what, parts, total in (("memory", sizes.memory, sizes.memory_bytes), ("disk", sizes.disk, sizes.disk_bytes)):
        for line, (part, size_bytes) in enumerate(parts.items()):
            table.add_row("" if line else what, part, _bytes(size_bytes))
        table.add_row("", "total", f"[bold]{_bytes(total)}[/bold]", end_section=True)
    for line, (part, spent_s) in enumerate(sizes.start_s.items()):
        table.add_row("" if line else "start-up", part, f"{spent_s:.1f} s")
    table.add_row("", "total", f"[bold]{sizes.total_start_s:.1f} s[/bold]")
    return table


def _bytes(count: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
