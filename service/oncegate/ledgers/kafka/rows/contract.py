"""Reads rows with the columns of Spark's Kafka sink: `key`, `value`, `headers`, `topic`, `partition`, and `timestamp`.

Like the sink, the option `topic` overrides the column, and key, value and partition may be null. Unlike the sink,
`timestamp` is supported, and an unknown column is refused instead of being ignored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncegate.arraytypes import I64
from oncegate.core.errors import BadRequest, SchemaMismatch
from oncegate.ledgers.kafka.record_batch import Field, RowHeaders

_NOTHING = "; nothing was written"
# The types of each column, as Spark names them.
_TYPES = {
    "key": "string or binary",
    "value": "string or binary",
    "headers": "array<struct<key: string, value: binary>>",
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp",
}
# Schema of rows that carry no types; timestamps have Kafka's precision.
COLUMNS = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.string()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("ms", "UTC")),
    ]
)
# Partition of a row that names none. Outside the range of an int, so that no invalid partition equals it.
UNGIVEN = -(1 << 32)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of n rows.

    `keys`, `values`: null where the length is −1. `row_headers`: None without such a column. `times_ms`: int64 (n,),
    since 1970. `topics`: distinct names; `topic_of`: int64 (n,), index into them. `partitions`: int64 (n,), UNGIVEN
    where the row names none.
    """

    keys: Field
    values: Field
    row_headers: RowHeaders | None
    times_ms: I64
    topics: list[str]
    topic_of: I64
    partitions: I64


def check_schema(schema: Any, topic: str | None) -> None:
    """Checks the columns of an Arrow schema. `topic`: the option. Raises SchemaMismatch: nothing was written."""
    for field in schema:
        if field.name not in _TYPES:
            raise SchemaMismatch(
                f"column {field.name!r} is none of a Kafka record's, which are {', '.join(_TYPES)}: "
                f"select to_json(struct(*)) AS value, or drop it{_NOTHING}"
            )
        if not _fits(field.name, field.type):
            raise SchemaMismatch(
                f"column {field.name!r} must be {_TYPES[field.name]}, and is {field.type}: cast it{_NOTHING}"
            )
    if "value" not in schema.names:
        raise SchemaMismatch(f"required column 'value' not found: select to_json(struct(*)) AS value{_NOTHING}")
    if topic is None and "topic" not in schema.names:
        raise SchemaMismatch(f"topic option required when there is no column 'topic': set the option topic{_NOTHING}")


def topics_in(schema: Any, batches: Sequence[Any]) -> list[str]:
    """Returns the distinct values of the column `topic`. Raises SchemaMismatch as `check_schema`."""
    check_schema(schema, None)
    named: list[str] = pc.drop_null(pc.unique(pa.Table.from_batches(batches, schema).column("topic"))).to_pylist()
    return named


def columns_of(schema: Any, batches: Sequence[Any], topic: str | None, now_ms: int) -> Columns:
    """Reads Arrow record batches of this schema, without an object per row.

    `topic`: the option, which overrides the column. `now_ms`: timestamp of rows without one, since 1970.
    Raises SchemaMismatch as `check_schema`; BadRequest: a row has no topic, a timestamp before 1970, or a header
    without a key. Nothing was written.
    """
    check_schema(schema, topic)
    table = pa.Table.from_batches(batches, schema)
    columns = {name: _whole(table.column(name)) for name in schema.names}
    rows = table.num_rows
    topics, topic_of = ([topic], np.zeros(rows, np.int64)) if topic is not None else _topics(columns["topic"])
    return Columns(
        keys=_field(columns["key"]) if "key" in columns else _nulls(rows),
        values=_field(columns["value"]),
        row_headers=_headers(columns["headers"]) if "headers" in columns else None,
        times_ms=_times(columns["timestamp"], now_ms) if "timestamp" in columns else np.full(rows, now_ms, np.int64),
        topics=topics,
        topic_of=topic_of,
        partitions=_integers(columns["partition"], UNGIVEN) if "partition" in columns else _given_none(rows),
    )


def _fits(name: str, kind: Any) -> bool:
    is_text, is_bytes = _is_text(kind), pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    fits: bool = {
        "key": is_text or is_bytes or pa.types.is_null(kind),
        "value": is_text or is_bytes or pa.types.is_null(kind),
        "headers": _is_headers(kind),
        "topic": is_text,
        "partition": pa.types.is_int32(kind),
        "timestamp": pa.types.is_timestamp(kind),
    }[name]
    return fits


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_headers(kind: Any) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    if kind.value_type.num_fields != 2 or set(fields) != {"key", "value"}:
        return False
    return _is_text(fields["key"]) and bool(
        pa.types.is_binary(fields["value"]) or pa.types.is_large_binary(fields["value"])
    )


def _whole(column: Any) -> Any:
    """Returns a column as one array with 64-bit offsets, which cannot overflow;
    copies if the column has several chunks.
    """
    kind = column.type
    if pa.types.is_null(kind) or _is_text(kind) or pa.types.is_binary(kind):
        column = column.cast(pa.large_string() if _is_text(kind) else pa.large_binary())
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _field(array: Any) -> Field:
    """Returns the field of an array of text or bytes with 64-bit offsets, without copying."""
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return _nulls(len(array))
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(ends)
    if array.null_count:
        lengths[~_valid(array)] = -1
    return Field(np.frombuffer(b"" if data is None else data, np.uint8), ends[:-1], lengths)


def _nulls(rows: int) -> Field:
    return Field(np.zeros(0, np.uint8), np.zeros(rows, np.int64), np.full(rows, -1, np.int64))


def _given_none(rows: int) -> I64:
    return np.full(rows, UNGIVEN, np.int64)


def _valid(array: Any) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), np.bool_)


def _integers(array: Any, null: int) -> I64:
    numbers = array.cast(pa.int64())
    return np.asarray((pc.fill_null(numbers, null) if array.null_count else numbers).to_numpy(), np.int64)


def _topics(array: Any) -> tuple[list[str], I64]:
    if array.null_count:
        row = int(np.flatnonzero(~_valid(array))[0])
        raise BadRequest(f"null topic in row {row}: set the option topic, or a topic in each row{_NOTHING}")
    encoded = array.dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices.to_numpy(), np.int64)


def _times(array: Any, now_ms: int) -> I64:
    in_ms = array.cast(pa.timestamp("ms", array.type.tz), safe=False).cast(pa.int64())
    times = _integers(in_ms, now_ms)
    if (early := np.flatnonzero(times < 0)).size:
        raise BadRequest(f"timestamp before 1970 in row {int(early[0])}, which Kafka has no number for{_NOTHING}")
    return times


def _headers(array: Any) -> RowHeaders:
    offsets = np.asarray(array.offsets.to_numpy(), np.int64)
    starts, counts = offsets[:-1], np.where(_valid(array), np.diff(offsets), 0)
    items = array.values
    nameless = ~(_valid(items) & _valid(items.field("key")))
    owned = np.repeat(np.arange(len(array)), counts)
    places = np.arange(len(owned)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    if (found := np.flatnonzero(nameless[places])).size:
        raise BadRequest(f"a header without a key in row {int(owned[found[0]])}{_NOTHING}")
    names, values = (_whole(pa.chunked_array([items.field(name)])) for name in ("key", "value"))
    return RowHeaders(starts, counts, _field(names), _field(values))
