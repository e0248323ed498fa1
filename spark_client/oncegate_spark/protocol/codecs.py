"""Encodes ids and rows as Arrow streams within the gateway's size limits."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.protocol.python_values import type_name

ARROW = "application/vnd.apache.arrow.stream"
PACKED = "application/vnd.oncegate.packed"
JSON = "application/json"
BODY_BYTES_MAX = 32 * 2**20  # the gateway's limit
CHUNK_BYTES = 8 * 2**20  # smaller Arrow batches are combined up to this size, to share one fsync
IDS_MAX = 100_000  # the gateway's limit for one claim
ROWS_MAX = 1_000_000  # the gateway's limit for one request


def ids_body(columns: Sequence[pa.Array], payloads: Sequence[pa.Array] = ()) -> memoryview:
    """Encodes id columns and payload columns of equal length as an Arrow stream; the gateway ignores the ids' column
    names.
    """
    names = [f"id{n}" for n in range(len(columns))] + payload_names(payloads)
    return stream([pa.RecordBatch.from_arrays([*columns, *payloads], names=names)])


def payload_names(payloads: Sequence[pa.Array]) -> list[str]:
    return [f"payload{n}" for n in range(len(payloads))]


def stream(batches: Sequence[pa.RecordBatch]) -> memoryview:
    """Encodes batches of one schema, at least one, as an Arrow IPC stream.

    A first pass measures the stream without copying, so that the second writes it once into a buffer of the right size.
    """
    measure = pa.MockOutputStream()
    _write_stream(measure, batches)
    room = pa.allocate_buffer(measure.size())
    with pa.FixedSizeBufferWriter(room) as sink:
        _write_stream(sink, batches)
    return memoryview(room).cast("B").toreadonly()


def _write_stream(sink: pa.NativeFile, batches: Sequence[pa.RecordBatch]) -> None:
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[memoryview, int]]:
    """Yields rows as Arrow streams of about CHUNK_BYTES, at most BODY_BYTES_MAX, each with its number of rows."""
    return ((body, rows.num_rows) for rows, body in portions(batches))


def portions(batches: Iterable[pa.RecordBatch], rows_max: int | None = None) -> Iterator[tuple[pa.Table, memoryview]]:
    """Like `chunks`, but yields the rows with their bytes, at most `rows_max` rows each."""
    for rows in gathered(batches, rows_max):
        yield from _fitting(rows)


def gathered(batches: Iterable[pa.RecordBatch], rows_max: int | None = None) -> Iterator[pa.Table]:
    """Combines batches into tables of about CHUNK_BYTES and at most `rows_max` rows; yields no empty table."""
    waiting: list[pa.RecordBatch] = []
    for batch in _pieces(batches, rows_max):
        size_bytes = sum(part.nbytes for part in waiting) + batch.nbytes
        count = sum(part.num_rows for part in waiting) + batch.num_rows
        if waiting and (size_bytes > CHUNK_BYTES or (rows_max is not None and count > rows_max)):
            yield pa.Table.from_batches(waiting)
            waiting = []
        waiting.append(as_nullable(batch))
    if waiting:
        yield pa.Table.from_batches(waiting)


def _pieces(batches: Iterable[pa.RecordBatch], rows_max: int | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows_max or max(1, batch.num_rows)):
            yield batch.slice(start, rows_max or batch.num_rows)


def _fitting(rows: pa.Table) -> Iterator[tuple[pa.Table, memoryview]]:
    body = stream(rows.to_batches())
    if len(body) <= BODY_BYTES_MAX and rows.num_rows <= ROWS_MAX:
        yield rows, body
        return
    if rows.num_rows == 1:
        raise Refused(
            f"one row takes {len(body)} bytes; the gateway's default limits are 1 MiB a record and 32 MiB a request "
            "body "
            "(GET /v1/limits has its actual limits): store large values elsewhere and write their address, or split "
            "the row; nothing was written",
            code="TOO_LARGE",
        )
    half = rows.num_rows // 2
    yield from _fitting(rows.slice(0, half))
    yield from _fitting(rows.slice(half))


def check_body(body: object) -> None:
    """Raises BadOption for a body that is not bytes; nothing was sent."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise BadOption(
            f"body is of type {type_name(body)}; it must be the bytes of an Arrow IPC stream; to write a table, use "
            "attempt().produce; nothing was sent"
        )


def rows_in(body: bytes | memoryview) -> int:
    """Counts the rows of an Arrow stream without copying them."""
    with pa.ipc.open_stream(body) as reader:
        return sum(batch.num_rows for batch in reader)


def as_nullable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Declares every column nullable, as Spark does when it writes files.

    A plan may or may not prove that a column has no nulls, and a topic's schema must not change with the plan.
    """
    fields = [field.with_nullable(True) for field in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def content_digest(body: bytes | memoryview) -> str:
    """Returns the body's SHA-256 in the format of RFC 9530."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
