"""A topic whose answers a test corrupts: short ones, trimmed offsets, an older copy."""

import base64
import json
import pickle
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from oncegate_spark.spark.datasource import OncegateSource
from oncegate_spark.spark.readers import BatchReader, StreamReader
from tests.support.stub_gateway import Answer, Asked, StubGateway, problem

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


@dataclass
class StubTopic:
    """Topic `t`; row `n` of a partition has offset n.

    `low`, `high`: the first offset and the end of each partition. `most`: the maximum of rows in an answer. `is_there`,
    `has_columns`, `has_namespace`: False if not created yet.
    """

    low: list[int]
    high: list[int]
    most: int = 1_000_000
    is_there: bool = True
    has_columns: bool = True
    has_namespace: bool = True
    asked: list[tuple[int, int]] = field(default_factory=list)

    def gateway(self) -> StubGateway:
        return StubGateway(otherwise=self.answer)

    def answer(self, asked: Asked) -> Answer:
        parts = urlsplit(asked.path)
        if not self.has_namespace:
            return problem(404, "NOT_FOUND", "fix", detail="no namespace default")
        if "/topics/" not in parts.path:
            return Answer()
        if not self.is_there:
            return problem(404, "NOT_FOUND", "fix", detail="no topic t in namespace default")
        if not parts.path.endswith("/records"):
            return Answer(body=json.dumps(self._shown()).encode())
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return self.records(int(parts.path.split("/")[-2]), int(query["offset"]), int(query["max_rows"]), query)

    def records(self, partition: int, offset: int, max_rows: int, query: dict[str, str]) -> Answer:
        self.asked.append((partition, offset))
        low, high = self.low[partition], self.high[partition]
        if offset < low:
            return problem(410, "OFFSET_TRIMMED", "fix", low_offset=low)
        if offset > high:
            return problem(409, "LEDGER_BEHIND", "stop", high_offset=high)
        numbers = range(offset, min(offset + max_rows, offset + self.most, high))
        rows = pa.table({"n": numbers, "text": [f"{partition}/{n}" for n in numbers]}, schema=SCHEMA)
        names = query["columns"].split(",") if "columns" in query else SCHEMA.names
        following = str(numbers.stop)
        return Answer(body=stream(rows.select(names)), headers={"Oncegate-Next-Offset": following})

    def _shown(self) -> dict[str, Any]:
        schema = base64.b64encode(SCHEMA.serialize().to_pybytes()).decode() if self.has_columns else None
        ends = {"low_offsets": self.low, "high_offsets": self.high, "partitions": len(self.low)}
        return {"topic": "t", **ends, "schema": "", "schema_ipc": schema, "retention_ms": 0, "retention_bytes": 0}


def stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


class Read:
    """The data source over one stub topic."""

    def __init__(self, topic: StubTopic) -> None:
        self.topic = topic
        self.stub: StubGateway = topic.gateway()
        self.streams: list[StreamReader] = []

    def source(self, **options: str) -> OncegateSource:
        return OncegateSource({"url": self.stub.url, "topic": "t", "timeoutMs": "60000", **options})

    def batch(self, **options: str) -> BatchReader:
        source = self.source(**options)
        return source.reader(source.schema())

    def stream(self, **options: str) -> StreamReader:
        source = self.source(**options)
        self.streams.append(source.streamReader(source.schema()))
        return self.streams[-1]


def rows(reader: Any, parts: list[Any]) -> list[dict[str, Any]]:
    """Reads as tasks do: from a pickled copy of the reader."""
    copy = pickle.loads(pickle.dumps(reader))
    return [row for part in parts for batch in copy.read(part) for row in batch.to_pylist()]
