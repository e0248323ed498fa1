"""Five kinds of Spark jobs and the expected output of each: rows `id string, n bigint`, one id per output row.

An id names an output, not an input: a row that produces three outputs needs three ids, a growing count needs a new id
for each value, and a join needs the ids of both sides. Ids depend on data alone, so a replay with other partitions
produces the same ids.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "id string, k string, n bigint"
OUTPUTS_OF_ONE = 3
PARTITIONS = 4

# Returns the stream of a side, "left" or "right".
Streams = Callable[[str], Any]

# The file source orders files by modification time, so each file has its own second; the day is arbitrary.
_FIRST_MTIME_S = 1_600_000_000


@dataclass(frozen=True)
class Input:
    """Two folders of files, `left` and `right`; a micro-batch reads a file of each. `keys`: number of distinct keys."""

    folder: Path
    batches: int = 3
    rows: int = 60
    keys: int = 8

    def write(self) -> None:
        """Writes the files. A number has one row on the left and two on the right, where it is half a batch earlier."""
        for batch in range(self.batches):
            numbers = self.numbers(batch)
            self._file("left", batch, [(f"id-{n}", n) for n in numbers])
            self._file("right", batch, [(f"r-{n}-{copy}", n) for n in self._earlier(numbers) for copy in (0, 1)])

    def numbers(self, batch: int) -> range:
        """Returns the numbers on the left in a micro-batch, counted from 0."""
        return range(batch * self.rows, (batch + 1) * self.rows)

    def all_numbers(self) -> range:
        """Returns the numbers on the left in all micro-batches."""
        return range(self.batches * self.rows)

    def matched(self) -> range:
        """Returns the numbers that both sides contain."""
        return range(self.batches * self.rows - self.rows // 2)

    def key(self, number: int) -> str:
        return f"k{number % self.keys}"

    def stream(self, spark: Any, side: str) -> Any:
        """Returns one side as a stream, one file per micro-batch."""
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
        return reader.parquet(str(self.folder / side))

    def _earlier(self, numbers: range) -> range:
        return range(numbers.start - self.rows // 2, numbers.stop - self.rows // 2)

    def _file(self, side: str, batch: int, rows: list[tuple[str, int]]) -> None:
        (self.folder / side).mkdir(parents=True, exist_ok=True)
        path = self.folder / side / f"{batch:04}.parquet"
        columns = {"id": [name for name, _ in rows], "k": [self.key(n) for _, n in rows]}
        pq.write_table(pa.table({**columns, "n": pa.array([n for _, n in rows], pa.int64())}), path)
        os.utime(path, (_FIRST_MTIME_S + batch, _FIRST_MTIME_S + batch))


@dataclass(frozen=True)
class Plan:
    """A kind of job.

    output: builds the written stream from the stream of each side and a number of partitions, which may differ between
    starts.
    ids: returns the expected ids, computed without Spark.
    """

    name: str
    output: Callable[[Streams, int], Any]
    ids: Callable[[Input], Iterator[str]]
    updates: bool = False  # a Python sink supports outputMode("update") only inside foreachBatch
    chained: bool = False  # the left side is a topic written by a first job

    def expected(self, source: Input) -> Counter[str]:
        """Returns the expected count of each id, which is 1."""
        return Counter(self.ids(source))


def _count(streams: Streams, _: int) -> Any:
    """Streams the running count of each key: a row for each value reached at the end of a micro-batch."""
    counts = streams("left").groupBy("k").count()
    return counts.selectExpr("concat(k, ':', count) id", "count n")


def _counts(source: Input) -> Iterator[str]:
    so_far: Counter[str] = Counter()
    for batch in range(source.batches):
        come = Counter(source.key(n) for n in source.numbers(batch))
        so_far.update(come)
        yield from (f"{key}:{so_far[key]}" for key in come)


def _join(streams: Streams, _: int) -> Any:
    left, right = streams("left").alias("l"), streams("right").alias("r")
    return left.join(right, "n").selectExpr("concat(l.id, '+', r.id) id", "n")


def _flat_map(streams: Streams, parts: int) -> Any:
    each = streams("left").selectExpr("id of", "n", f"explode(sequence(0, {OUTPUTS_OF_ONE - 1})) part")
    return each.repartition(parts).selectExpr("concat(of, '/', part) id", "n")


def _repartition(streams: Streams, parts: int) -> Any:
    return streams("left").repartition(parts, "k").select("id", "n")


PLANS = {
    plan.name: plan
    for plan in (
        Plan("count", _count, _counts, updates=True),
        Plan("join", _join, lambda source: (f"id-{n}+r-{n}-{copy}" for n in source.matched() for copy in (0, 1))),
        Plan(
            "flat_map",
            _flat_map,
            lambda source: (f"id-{n}/{part}" for n in source.all_numbers() for part in range(OUTPUTS_OF_ONE)),
        ),
        Plan("repartition", _repartition, lambda source: (f"id-{n}" for n in source.all_numbers())),
        Plan("chain", _count, _counts, updates=True, chained=True),
    )
}
