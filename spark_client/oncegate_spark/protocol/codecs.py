"""Bodies of requests: ids and rows as Arrow streams, and what a gateway takes of them."""

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
CHUNK_BYTES = 8 * 2**20  # small Arrow batches are put together up to this: one sync for all of them
IDS_MAX = 100_000  # the gateway's limit for one claim
ROWS_MAX = 1_000_000  # the gateway's limit for one request


def ids_body(columns: Sequence[pa.Array], payloads: Sequence[pa.Array] = ()) -> memoryview:
    """Columns of ids and of what they come with, of equal length, as an Arrow stream; ids' names mean nothing there."""
    names = [f"id{n}" for n in range(len(columns))] + payload_names(payloads)
    return stream([pa.RecordBatch.from_arrays([*columns, *payloads], names=names)])


def payload_names(payloads: Sequence[pa.Array]) -> list[str]:
    """What these columns are called in `ids_body`."""
    return [f"payload{n}" for n in range(len(payloads))]


def stream(batches: Sequence[pa.RecordBatch]) -> memoryview:
    """One Arrow IPC stream of batches of one schema; at least one batch. It is measured first, which copies nothing,
    and then written once, to where it is sent from.
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
    """Rows as Arrow streams of about CHUNK_BYTES, never over BODY_BYTES_MAX, each with its number of rows."""
    return ((body, rows.num_rows) for rows, body in portions(batches))


def portions(batches: Iterable[pa.RecordBatch], rows_max: int | None = None) -> Iterator[tuple[pa.Table, memoryview]]:
    """As `chunks`: the rows of each beside its bytes, and never more than `rows_max` of them."""
    for rows in gathered(batches, rows_max):
        yield from _fitting(rows)


def gathered(batches: Iterable[pa.RecordBatch], rows_max: int | None = None) -> Iterator[pa.Table]:
    """Rows put together up to about CHUNK_BYTES, and never more than `rows_max` of them; none that is empty."""
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
            f"one row takes {len(body)} bytes, and a gateway takes 1 MiB a record and 32 MiB a request body unless it "
            "is set otherwise (GET /v1/limits tells): put what is large in it elsewhere and write its address, or cut "
            "the row into several; nothing was written",
            code="TOO_LARGE",
        )
    half = rows.num_rows // 2
    yield from _fitting(rows.slice(0, half))
    yield from _fitting(rows.slice(half))


def check_body(body: object) -> None:
    """Raises BadOption for rows that are no Arrow stream; nothing was sent."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise BadOption(
            f"body is of type {type_name(body)}; it is the bytes of an Arrow IPC stream, and attempt().produce takes "
            "tables; nothing was sent"
        )


def rows_in(body: bytes | memoryview) -> int:
    """How many rows an Arrow stream holds; nothing of them is copied."""
    with pa.ipc.open_stream(body) as reader:
        return sum(batch.num_rows for batch in reader)


def as_nullable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with every column declared nullable, as Spark declares what it writes to files.

    Whether a plan can prove that a column has no nulls changes with the plan; a topic's schema must not.
    """
    fields = [field.with_nullable(True) for field in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def content_digest(body: bytes | memoryview) -> str:
    """The body's SHA-256 as RFC 9530 writes it."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
