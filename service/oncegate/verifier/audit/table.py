"""Reads the rows to audit from a table or a Kafka topic.

A table is one file, or all files below a folder: Parquet, Arrow, CSV or NDJSON. Topics are read at isolation level
`read_committed`, with the times of the broker or the writer.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncegate.arraytypes import I64, U32
from oncegate.core.errors import BadRequest
from oncegate.verifier.audit.count import AuditRows, numbers_of
from oncegate.verifier.ids import as_ids
from oncegate.verifier.sources.inputs import inputs_of
from oncegate.verifier.sources.kafka_ids import IdsOf
from oncegate.verifier.sources.kafka_topic import KafkaTopic


class TableRows:
    """Reads the columns that an audit needs; an `AuditSource`. time, attempt, batch: columns, "" for none."""

    has_writers: bool
    is_timed: bool

    def __init__(self, path: Path, ids: Sequence[str], time: str, attempt: str, batch: str) -> None:
        """Raises BadRequest if the file does not exist, no file has a supported format, or a file lacks a column."""
        self._inputs = inputs_of(path, "the table")
        named = {"--id-col": [*ids], "--time-col": [time], "--attempt": [attempt], "--batch": [batch]}
        for option, names in named.items():
            for source in self._inputs if any(names) else ():
                source.check(names, option)
        self._ids, self._time, self._attempt, self._batch = list(ids), time, attempt, batch
        self.is_timed, self.has_writers = bool(time), bool(attempt or batch)

    @property
    def total(self) -> int | None:
        """Returns the number of rows if the files record it."""
        counts = [source.rows for source in self._inputs]
        return None if None in counts else sum(count for count in counts if count is not None)

    def rows(self) -> Iterator[AuditRows]:
        """Yields all rows of the files. Raises BadRequest if a column is missing or has an unsupported type."""
        named = [name for name in (self._time, self._attempt, self._batch) if name]
        for source in self._inputs:
            for _, table in source.batches(columns=list(dict.fromkeys([*self._ids, *named]))):
                times = _times(table, self._time) if self._time else np.zeros(len(table), np.int64)
                attempts, batches = (self._numbers(table, name) for name in (self._attempt, self._batch))
                yield AuditRows(as_ids(table, self._ids), times, attempts, batches)

    def _numbers(self, table: pa.Table, name: str) -> U32:
        return numbers_of(table[name].to_pylist()) if name else np.zeros(len(table), np.uint32)


def _times_of_text(column: pa.ChunkedArray, name: str) -> I64:
    """Parses integer milliseconds, or an ISO 8601 date or time (UTC if it has no offset); empty text is 0. Raises
    BadRequest.
    """
    null = pa.scalar(None, pa.string())
    column = pc.if_else(pc.equal(column, ""), null, column).combine_chunks()
    number = pc.match_substring_regex(column, r"^-?\d{1,18}$")
    zoned = pc.match_substring_regex(column, r"^\d{4}-\d\d-\d\d[T ].*(Z|[+-]\d\d(:?\d\d)?)$")
    try:
        numbers = pc.if_else(number, column, null).cast(pa.int64())
        local = pc.if_else(pc.or_(number, zoned), null, column).cast(pa.timestamp("ns")).cast(pa.int64())
        zone = pc.if_else(zoned, column, null).cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
    except pa.ArrowException as error:
        raise BadRequest(
            f"--time-col {name} has type {column.type}: use whole milliseconds, a date or a time in ISO 8601 "
            f"({str(error).splitlines()[0]})"
        ) from error
    times = pc.coalesce(numbers, pc.divide(pc.coalesce(local, zone), 1_000_000))
    return np.asarray(times.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _times(table: pa.Table, name: str) -> I64:
    """Returns the column as milliseconds; null is 0. Raises BadRequest."""
    column = table[name]
    if pa.types.is_string(column.type):
        return _times_of_text(column, name)
    if pa.types.is_integer(column.type):
        times = column.cast(pa.int64())
    elif pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        times = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    else:
        raise BadRequest(f"--time-col {name} has type {column.type}: use a timestamp, a date or whole milliseconds")
    return np.asarray(times.fill_null(0).to_numpy(), np.int64)


class TopicRows:
    """Reads a topic from its first record to its end as of the start of reading; an `AuditSource`.

    attempt, batch: headers of records, "" for none.
    """

    has_writers: bool
    is_timed = True

    def __init__(self, url: str, ids_of: IdsOf, attempt: str, batch: str) -> None:
        self._ids_of, self._attempt, self._batch = ids_of, attempt, batch
        self._read: AuditRows | None = None
        self._topic = KafkaTopic(url, self._seen)
        self._bounds = self._topic.bounds()
        self.has_writers = bool(attempt or batch)

    @property
    def total(self) -> int | None:
        """Returns the number of offsets, including transaction markers."""
        return sum(end - first for first, end in self._bounds)

    def rows(self) -> Iterator[AuditRows]:
        """Yields the committed records. Raises NotFound if no more records arrive before the end is reached."""
        for partition, (first, end) in enumerate(self._bounds):
            for _ in self._topic.parts(partition, first, end):
                assert self._read is not None, "each part consists of records that were seen"
                yield self._read

    def _seen(self, records: Sequence[Any]) -> pa.Table:
        ids = self._ids_of(records)
        times = np.array([record.timestamp for record in records], np.int64)
        attempts, batches = (
            numbers_of(_header(record, name) for record in records) for name in (self._attempt, self._batch)
        )
        self._read = AuditRows(ids, times, attempts, batches)
        return ids

    def close(self) -> None:
        self._topic.close()


def _header(record: Any, name: str) -> bytes | None:
    return next((value for key, value in record.headers if key == name), None) if name else None
