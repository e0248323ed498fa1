"""Compares input and output: every row with every column, as multisets, in order of arrival.

The expected rows are computed from the zip by pyarrow, independently of Spark. The written rows are read back through
the gateway's read route, or from the files of the claim run's sink. Every flight is expected once, even if the input
contains copies: ids of flights are unique, and copies are equal in every column.
"""

import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from demo.data import WHOLE, Size, package_file, read_zip
from demo.events import of_kind
from demo.processes import GatewayProcess
from demo.supervisor import TOPIC, Ran

Row = tuple[object, ...]
ARROW = "application/vnd.apache.arrow.stream"
ROWS_PER_READ = 50_000
COLUMNS = (
    *("time_hour", "carrier", "flight", "airline", "origin", "dest", "tailnum"),
    *("sched_dep_time_minute", "dep_time_minute", "arr_time_minute", "dep_delay", "arr_delay"),
    *("made_up_minutes", "air_minutes", "distance_miles"),
)
_TEXT = ("carrier", "tailnum", "origin", "dest", "time_hour")


@dataclass(frozen=True)
class Expected:
    """The rows that must be written, in the order of the parts, and the part of each."""

    rows: list[Row]
    parts: NDArray[np.int64]


@dataclass(frozen=True)
class Written:
    """The rows that were written, in order of arrival, and when each was first seen (monotonic seconds)."""

    rows: list[Row]
    seen_s: NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """The differences between input and output, in rows.

    rows_in: includes rows that the input contains twice.
    strange: written rows that were never in the input; `duplicated` includes them.
    by_batch: duplicated rows of each micro-batch.
    curve_s, curve_rows: duplicates over time, in seconds since the run began.
    """

    rows_in: int
    rows_out: int
    duplicated: int
    lost: int
    strange: int
    by_batch: dict[int, int]
    curve_s: NDArray[np.float64]
    curve_rows: NDArray[np.int64]


def expected(size: Size = WHOLE) -> Expected:
    """Computes the expected rows from the zip, independently of the job."""
    integers = csv.open_csv(io.BytesIO(read_zip())).schema.names
    types = {name: pa.string() if name in _TEXT else pa.int32() for name in integers}
    convert = csv.ConvertOptions(column_types=types, null_values=["NA"], strings_can_be_null=True)
    flights = csv.read_csv(io.BytesIO(read_zip()), convert_options=convert).slice(0, size.rows)
    airlines = csv.read_csv(package_file("airlines.csv"))
    name_of = dict(zip(airlines["carrier"].to_pylist(), airlines["name"].to_pylist(), strict=True))
    made = {
        "airline": pa.array([name_of.get(carrier) for carrier in flights["carrier"].to_pylist()], pa.string()),
        "made_up_minutes": pc.subtract(flights["dep_delay"], flights["arr_delay"]),
        "air_minutes": flights["air_time"],
        "distance_miles": flights["distance"],
    }
    made |= {f"{name}_minute": _minute(flights[name]) for name in ("sched_dep_time", "dep_time", "arr_time")}
    table = pa.table({name: made[name] if name in made else flights[name] for name in COLUMNS})
    parts = np.searchsorted(size.bounds(), np.arange(table.num_rows), side="right") - 1
    return Expected(_tuples(table), parts)


def _minute(clock: pa.ChunkedArray) -> pa.ChunkedArray:
    hours = pc.divide(clock, pa.scalar(100, pa.int32()))
    return pc.subtract(clock, pc.multiply(hours, pa.scalar(40, pa.int32())))  # 100 h + m - 40 h = 60 h + m


def _tuples(table: pa.Table) -> list[Row]:
    if tuple(table.column_names) != COLUMNS:
        raise ValueError(f"columns are {table.column_names}, expected {COLUMNS}")
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def written(ran: Ran, gateway: GatewayProcess) -> Written:
    """Reads the run's whole output."""
    return _from_files(ran) if ran.name == "claim" else _from_topic(ran, gateway)


def _from_topic(ran: Ran, gateway: GatewayProcess) -> Written:
    rows: list[Row] = []
    while True:
        path = f"/namespaces/{ran.name}/topics/{TOPIC}/partitions/0/records?offset={len(rows)}&max_rows={ROWS_PER_READ}"
        body, headers = gateway.ask("GET", path, ARROW)
        if body:
            rows += _tuples(pa.ipc.open_stream(body).read_all())
        if len(rows) != int(headers["oncegate-next-offset"]):
            raise ValueError(f"{len(rows)} rows read, and the next offset is {headers['oncegate-next-offset']}")
        if len(rows) == int(headers["oncegate-high-offset"]):
            break
    samples = of_kind(ran.events, "sampled")
    first = np.searchsorted([sample["rows"] for sample in samples], np.arange(len(rows)), side="right")
    return Written(rows, np.array([sample["t"] for sample in samples])[np.minimum(first, len(samples) - 1)])


def _from_files(ran: Ran) -> Written:
    """Reads the batches of all files in the order of the events that recorded their writes."""
    batches = {file.name: _whole_batches(file) for file in (ran.folder / "sink").glob("*.arrows")}
    rows: list[Row] = []
    seen_s: list[float] = []
    for event in of_kind(ran.events, "sunk"):
        more = _tuples(pa.Table.from_batches([next(batches[event["file"]])]))
        rows += more
        seen_s += [event["t"]] * len(more)
    for name, left in batches.items():
        if next(left, None) is not None:
            raise ValueError(f"{name} holds rows that no event tells of")
    return Written(rows, np.array(seen_s))


def _whole_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Yields the complete batches of a file; its writer may have been killed during the last one."""
    with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as reader:
        while True:
            try:
                yield reader.read_next_batch()
            except (StopIteration, pa.ArrowInvalid, OSError):
                return


def batch_of_part(checkpoint: Path) -> dict[int, int]:
    """Maps each part to the micro-batch that read it, from the log of Spark's file source."""
    batches: dict[int, int] = {}
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            batches[int(Path(entry["path"]).stem.rsplit("-", 1)[1])] = entry["batchId"]
    return batches


def compare(ran: Ran, wanted: Expected, got: Written) -> Compared:
    """Counts duplicates (copies beyond the first, whatever their origin) and lost rows (expected, never written)."""
    batches = batch_of_part(ran.folder / "checkpoint")
    batch_of = {row: batches[part] for row, part in zip(wanted.rows, wanted.parts.tolist(), strict=True)}
    missing = Counter(wanted.rows)
    extra = np.zeros(len(got.rows), dtype=bool)
    by_batch: Counter[int] = Counter()
    strange = 0
    for place, row in enumerate(got.rows):
        if missing[row] > 0:
            missing[row] -= 1
            continue
        extra[place] = True
        if row in batch_of:
            by_batch[batch_of[row]] += 1
        else:
            strange += 1
    times = np.sort(got.seen_s[extra]) - ran.began_s
    return Compared(
        rows_in=len(wanted.rows) + ran.salted_rows,
        rows_out=len(got.rows),
        duplicated=int(extra.sum()),
        lost=sum(missing.values()),
        strange=strange,
        by_batch=dict(by_batch),
        curve_s=np.concatenate([[0.0], times, [ran.seconds]]),
        curve_rows=np.concatenate([np.arange(len(times) + 1), [len(times)]]),
    )
