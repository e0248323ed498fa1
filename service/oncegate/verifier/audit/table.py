"""Rows of a table: one file, or all files below a folder; Parquet, Arrow, CSV or NDJSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncegate.arraytypes import I64, U32
from oncegate.core.errors import BadRequest
from oncegate.verifier.audit.rows import AuditRows
from oncegate.verifier.audit.writers import numbers_of
from oncegate.verifier.ids import as_ids
from oncegate.verifier.sources.inputs import inputs_of


class TableRows:
    """Reads the columns that an audit needs; a `Source`. `time`, `attempt`, `batch`: columns, "" for none."""

    has_writers: bool
    is_timed: bool

    def __init__(self, path: Path, ids: Sequence[str], time: str, attempt: str, batch: str) -> None:
        """Raises BadRequest: there is no such file, none of a kind that is read, or one lacks a column."""
        self._inputs = inputs_of(path, "the table")
        named = {"--id-col": [*ids], "--time-col": [time], "--attempt": [attempt], "--batch": [batch]}
        for option, names in named.items():
            for source in self._inputs if any(names) else ():
                source.check(names, option)
        self._ids, self._time, self._attempt, self._batch = list(ids), time, attempt, batch
        self.is_timed, self.has_writers = bool(time), bool(attempt or batch)

    @property
    def total(self) -> int | None:
        """Returns how many rows there are, where the files say so."""
        counts = [source.rows for source in self._inputs]
        return None if None in counts else sum(count for count in counts if count is not None)

    def rows(self) -> Iterator[AuditRows]:
        """Yields all rows. Raises BadRequest: a column is missing, or of a type that it cannot have."""
        named = [name for name in (self._time, self._attempt, self._batch) if name]
        for source in self._inputs:
            for _, table in source.batches(columns=list(dict.fromkeys([*self._ids, *named]))):
                times = _times(table, self._time) if self._time else np.zeros(len(table), np.int64)
                attempts, batches = (self._numbers(table, name) for name in (self._attempt, self._batch))
                yield AuditRows(as_ids(table, self._ids), times, attempts, batches)

    def _numbers(self, table: pa.Table, name: str) -> U32:
        return numbers_of(table[name].to_pylist()) if name else np.zeros(len(table), np.uint32)


def _times_of_text(column: pa.ChunkedArray, name: str) -> I64:
    """Whole milliseconds, or a date or time in ISO 8601, in UTC without an offset; empty is 0. Raises BadRequest."""
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
            f"--time-col {name} has the type {column.type}: whole milliseconds, a date or a time in ISO 8601 are read "
            f"({str(error).splitlines()[0]})"
        ) from error
    times = pc.coalesce(numbers, pc.divide(pc.coalesce(local, zone), 1_000_000))
    return np.asarray(times.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _times(table: pa.Table, name: str) -> I64:
    """The column as milliseconds; null is 0. Raises BadRequest."""
    column = table[name]
    if pa.types.is_string(column.type):
        return _times_of_text(column, name)
    if pa.types.is_integer(column.type):
        times = column.cast(pa.int64())
    elif pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        times = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    else:
        raise BadRequest(
            f"--time-col {name} has the type {column.type}; a timestamp, a date or whole milliseconds are read"
        )
    return np.asarray(times.fill_null(0).to_numpy(), np.int64)
