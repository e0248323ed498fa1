"""Rows of lanes and a sink that keeps them, for tests of writes by sequence."""

from typing import Any, ClassVar

import pyarrow as pa

from oncegate_spark.spark.task_identity import Task

LANES = {"write": "claim", "producerCol": "lane", "sequenceCol": "at", "sink": "tests.support.lane_rows:Kept"}
TASK = Task(query="q", batch="0", run="r")


def rows(*places: tuple[str, int]) -> pa.RecordBatch:
    lanes, at = [lane for lane, _ in places], [place for _, place in places]
    return pa.RecordBatch.from_pydict({"lane": pa.array(lanes, pa.string()), "at": pa.array(at, pa.int64())})


def lane(name: str, *at: int) -> pa.RecordBatch:
    return rows(*((name, one) for one in at))


class Kept:
    """A sink whose instances share one list of rows."""

    rows: ClassVar[list[tuple[str, int]]] = []

    def open(self, context: Any) -> None:
        pass

    def write(self, batch: pa.RecordBatch) -> None:
        Kept.rows += zip(batch.column("lane").to_pylist(), batch.column("at").to_pylist(), strict=True)

    def close(self) -> None:
        pass
