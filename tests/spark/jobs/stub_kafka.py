"""A Kafka source without a broker, format("stub_kafka"): one task per partition, rows in the order of their offsets.

Spark allows no other source to be named "kafka". Apart from the name, the leaf of the plan equals that of the real
connector (4.1.0 was examined, on Spark 4.3.0): StreamingRelationV2 with the format's name and the reader's options. A
file holds the content: {"<partition>": rows}. Offsets that a compaction removed are left out.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

NAME = "stub_kafka"
TOPIC = "events"
SCHEMA = "topic string, partition int, offset bigint, n bigint"
COMPACTED = 7  # One offset of every seven is missing.


class Slice(InputPartition):  # type: ignore[misc]
    def __init__(self, partition: int, start: int, end: int) -> None:
        self.partition, self.start, self.end = partition, start, end


class StubKafka(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> "StubReader":
        return StubReader(str(self.options["log"]))


class StubReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, log: str) -> None:
        self.log = Path(log)

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self) -> dict[str, int]:
        return dict(json.loads(self.log.read_text()))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Slice]:
        return [Slice(int(name), start.get(name, 0), last) for name, last in end.items()]

    def read(self, partition: Slice) -> Iterator[pa.RecordBatch]:
        offsets = [n for n in range(partition.start, partition.end) if n % COMPACTED != COMPACTED - 1]
        for first in range(0, len(offsets), 10):
            some = offsets[first : first + 10]
            yield pa.RecordBatch.from_pydict(
                {
                    "topic": pa.array([TOPIC] * len(some)),
                    "partition": pa.array([partition.partition] * len(some), pa.int32()),
                    "offset": pa.array(some, pa.int64()),
                    "n": pa.array([number(partition.partition, offset) for offset in some], pa.int64()),
                }
            )


def number(partition: int, offset: int) -> int:
    """Returns the number that a row carries, unique to its partition and offset."""
    return partition * 1_000 + offset


def numbers(**rows: int) -> list[int]:
    """Returns the numbers of the rows of each partition: numbers(p0=5, p1=3)."""
    return [
        number(int(name[1:]), offset)
        for name, last in rows.items()
        for offset in range(last)
        if offset % COMPACTED != COMPACTED - 1
    ]


def hold(log: Path, **rows: int) -> None:
    """Sets the number of rows in each partition."""
    log.write_text(json.dumps({name[1:]: last for name, last in rows.items()}))
