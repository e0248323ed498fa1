"""Five kinds of Spark jobs, each with what must come out of it: rows `id string, n bigint`, one id per output.

An id names an output, not an input: a row that makes three outputs needs three ids, a count that grows a new id for
each value, a join the ids of both sides. It is made of data alone, so a replay that is cut otherwise makes it again.
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

# The stream of a side, "left" or "right".
Streams = Callable[[str], Any]

# The file source orders files by modification time, so each gets its own second; any past day would do.
_FIRST_MTIME_S = 1_600_000_000


@dataclass(frozen=True)
class Input:
    """Two folders of files, `left` and `right`, a file of each a micro-batch; `keys`: how many keys the rows have."""

    folder: Path
    batches: int = 3
    rows: int = 60
    keys: int = 8

    def write(self) -> None:
        """Makes the files; a number has one row on the left and two on the right, there half a batch earlier."""
        for batch in range(self.batches):
            numbers = self.numbers(batch)
            self._file("left", batch, [(f"id-{n}", n) for n in numbers])
            self._file("right", batch, [(f"r-{n}-{copy}", n) for n in self._earlier(numbers) for copy in (0, 1)])

    def numbers(self, batch: int) -> range:
        """The numbers on the left in a micro-batch (counted from 0)."""
        return range(batch * self.rows, (batch + 1) * self.rows)

    def all_numbers(self) -> range:
        """The numbers on the left in all of them."""
        return range(self.batches * self.rows)

    def matched(self) -> range:
        """The numbers that both sides have."""
        return range(self.batches * self.rows - self.rows // 2)

    def key(self, number: int) -> str:
        """The key of a number's row."""
        return f"k{number % self.keys}"

    def stream(self, spark: Any, side: str) -> Any:
        """One side as a stream, a file a micro-batch."""
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
    """A kind of job. `output` makes the stream that is written, from the stream of each side and a number of partitions
    that may differ from start to start; `ids` says what must come out, computed without Spark."""

    name: str
    output: Callable[[Streams, int], Any]
    ids: Callable[[Input], Iterator[str]]
    updates: bool = False  # a Python sink takes outputMode("update") inside foreachBatch alone
    chained: bool = False  # its left side is a topic that a first job writes

    def expected(self, source: Input) -> Counter[str]:
        """How often each id must be there: once."""
        return Counter(self.ids(source))


def _count(streams: Streams, _: int) -> Any:
    """The running count of each key: a row for every value that a micro-batch has brought it to."""
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
