"""Decodes rows: the requested part of fetched ranges, and staged chunks, whose digests are verified."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, NotAcceptable, OffsetBeyondEnd
from oncegate.engine.limits import Limits
from oncegate.engine.namespace import Namespace
from oncegate.engine.requests import Batch, Fetched, Rows, Schema
from oncegate.engine.usecases.partitioning import stream
from oncegate.hashing.arrow_types import is_list
from oncegate.hashing.cmac import FEW_ROWS
from oncegate.hashing.keys import KEY_BYTES
from oncegate.hashing.rows import EMPTY, RowFingerprinter, add
from oncegate.transports.decode.arrow_ipc import read_rows, record_bytes
from oncegate.transports.decode.json_values import NS_PER, shortest
from oncegate.transports.offload import offload

# Opening a range costs some 50 us. The next request reads the remaining ones.
RANGES_MAX = 4_096
# Conversion to Python values holds the GIL for some 2 ms.
CELLS_AT_ONCE = 2_000
BYTES_AT_ONCE = 1 << 20
# 1973: since then every zone's offset is a whole number of minutes; Liberia was the last exception.
_WHOLE_MINUTES_SINCE_S = 94_694_400


@dataclass(frozen=True)
class Window:
    """Rows of one partition: `batches`, all of `schema`, from `first_offset` up to but excluding `next_offset`."""

    schema: Schema
    batches: list[Batch]
    first_offset: int
    next_offset: int
    high_offset: int

    @property
    def size_bytes(self) -> int:
        """Returns the bytes of the rows' values."""
        return sum(batch.nbytes for batch in self.batches)


@dataclass
class _Room:
    """The rows and bytes that a read may still return."""

    rows: int
    size_bytes: int
    ranges: int = RANGES_MAX


async def read(
    namespace: Namespace,
    topic: str,
    partition: int,
    offset: int,
    max_rows: int,
    bytes_max: int,
    columns: Sequence[str] = (),
    page_bytes: int | None = None,
) -> Window:
    """Reads at most `max_rows` rows from `offset` on, and at most `bytes_max` bytes of them, but at least one row.

    Args:
        columns: only these, in their order; empty: all.
        page_bytes: no further range is fetched after this many bytes of whole ranges, so that even a large range is
            read once; None: `bytes_max`.

    Raises:
        OffsetBeyondEnd: `offset` is beyond the end; the caller has read rows that no longer exist here.
        BadRequest: the topic does not have a column.
    """
    batches: list[Batch] = []
    at, room = offset, _Room(max_rows, bytes_max)
    page_bytes = bytes_max if page_bytes is None else page_bytes
    while True:
        fetched = await namespace.topics.fetch(topic, partition, at, room.rows, min(room.size_bytes, page_bytes))
        if at > fetched.high_offset:
            raise OffsetBeyondEnd(
                f"offset {offset} was asked for and the partition ends at {fetched.high_offset}: a wrong offset, or "
                "this is an older copy of what was read before",
                high_offset=fetched.high_offset,
            )
        schema = _pruned(fetched.schema, columns)
        if batches and schema != batches[0].schema:
            # Columns were added: the next response returns the rows from here on.
            return Window(batches[0].schema, batches, offset, at, fetched.high_offset)
        fetched_bytes = sum(len(chunk.data) for chunk in fetched.chunks)
        found, is_full = await offload(fetched_bytes, _taken, fetched, schema, at, room, not batches)
        batches += found
        at += sum(batch.num_rows for batch in found)
        page_bytes -= fetched_bytes
        if is_full or not found or page_bytes <= 0:
            return Window(schema, batches, offset, at, fetched.high_offset)


def _taken(fetched: Fetched, schema: Schema, at: int, room: _Room, is_first: bool) -> tuple[list[Batch], bool]:
    """Returns the rows from `at` that fit, at least one if `is_first`; and whether a limit is reached."""
    found: list[Batch] = []
    for whole in _pieces(fetched, at, at + room.rows, room.ranges):
        piece = _within(whole, room.size_bytes, is_first and not found)
        if piece.num_rows:
            found.append(pa.RecordBatch.from_arrays([_column(piece, field) for field in schema], schema=schema))
        room.rows, room.size_bytes = room.rows - piece.num_rows, room.size_bytes - piece.nbytes
        if piece.num_rows < whole.num_rows:
            return found, True
    room.ranges -= len(fetched.chunks)
    return found, min(room.rows, room.size_bytes, room.ranges) <= 0


def _column(piece: Batch, field: Any) -> Any:
    """Returns one of the topic's columns; all nulls if the rows were written without the column."""
    at = piece.schema.get_field_index(field.name)
    return pa.nulls(piece.num_rows, field.type) if at < 0 else piece.column(at)


def _within(piece: Batch, size_bytes: int, one_at_least: bool) -> Batch:
    """Returns the first rows of a piece whose values fit in `size_bytes`."""
    if piece.nbytes <= size_bytes:
        return piece
    fitting = int(np.searchsorted(np.cumsum(record_bytes(piece)), size_bytes, "right"))
    return piece.slice(0, max(fitting, int(one_at_least)))


def _pruned(schema: Schema | None, columns: Sequence[str]) -> Schema:
    """Returns the topic's schema, restricted to `columns` in their order; empty before the first write.

    Raises BadRequest for an unknown column.
    """
    known = pa.schema([]) if schema is None else schema
    for name in columns:
        if name not in known.names:
            raise BadRequest(f"columns names {name!r}, and the topic has {', '.join(known.names) or 'none yet'}")
    return pa.schema([known.field(name) for name in columns]) if columns else known


def _pieces(fetched: Fetched, at: int, end: int, ranges_max: int) -> Iterator[Batch]:
    """Yields the fetched rows from `at` up to `end` batch by batch, from at most `ranges_max` ranges."""
    for chunk in fetched.chunks[:ranges_max]:
        first = chunk.first_offset
        with pa.ipc.open_stream(chunk.data) as reader:
            for batch in reader:
                piece = batch.slice(min(batch.num_rows, max(0, at - first)), max(0, end - max(at, first)))
                first += batch.num_rows
                if piece.num_rows:
                    yield piece


def as_arrow(found: Window) -> bytes:
    """Writes the rows as one Arrow IPC stream, in as few batches as possible, since each batch has its own header."""
    table = pa.Table.from_batches(found.batches, found.schema).combine_chunks()
    return stream(found.schema, table.to_batches())


def pieces(found: Window) -> Iterator[Batch]:
    """Cuts the rows into pieces that convert quickly to Python values: the conversion holds the GIL."""
    for batch in found.batches:
        cells, size_bytes = max(batch.num_columns, 1), batch.nbytes // max(batch.num_rows, 1) + 1
        rows = max(1, min(CELLS_AT_ONCE // cells, BYTES_AT_ONCE // size_bytes))
        for first in range(0, batch.num_rows, rows):
            yield batch.slice(first, rows)


def as_dicts(piece: Batch) -> list[dict[str, Any]]:
    """Converts rows to dicts of JSON values, in the forms of `json_values`.

    Raises NotAcceptable for times beyond the year 9999.
    """
    try:
        found: list[dict[str, Any]] = values_of(piece.to_struct_array())
    except (OverflowError, ValueError) as error:
        raise NotAcceptable(f"a value of these rows has no JSON ({error}); read them as Arrow") from error
    return found


def values_of(array: Any) -> list[Any]:
    """Converts an array to Python values that `array_of` converts back to the same array.

    Raises OverflowError or ValueError for a time that Python cannot represent.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        members = [values_of(member) for member in array.flatten()]
        names = [field.name for field in kind]
        if len(set(names)) < len(names):
            raise ValueError(f"it has two members of one name: {', '.join(names)}")
        rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*members, strict=True)]
    elif pa.types.is_fixed_size_list(kind):
        rows = _cut(array.values, np.arange(len(array) + 1) * kind.list_size + array.offset * kind.list_size)
    elif is_list(kind) or pa.types.is_map(kind):
        rows = _cut(array.values, array.offsets.to_numpy())
    else:
        return _scalars(array, kind)
    if pa.types.is_map(kind):
        rows = [[tuple(entry.values()) for entry in row] for row in rows]
    if array.null_count:
        rows = [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return rows


def _cut(items: Any, ends: NDArray[np.integer[Any]]) -> list[Any]:
    """Returns the items of each list; list n has the items from `ends[n]` up to `ends[n + 1]`."""
    first = int(ends[0])
    values, at = values_of(items[first : int(ends[-1])]), (ends - first).tolist()
    return [values[start:end] for start, end in pairwise(at)]


def _scalars(array: Any, kind: Any) -> list[Any]:
    if pa.types.is_floating(kind):
        wide = array if pa.types.is_float64(kind) else shortest(array)
        found: list[Any] = wide.to_pylist()
        if pc.all(pc.is_finite(wide)).as_py() is False:
            found = [one if one is None or math.isfinite(one) else _not_finite(one) for one in found]
        return found
    if pa.types.is_timestamp(kind):
        return _times_of(array, kind)
    if pa.types.is_time64(kind) and kind.unit == "ns":
        array = array.cast(pa.string())
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return [one if one is None else _seconds(one) for one in array.cast(pa.int64()).to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


def _times_of(array: Any, kind: Any) -> list[Any]:
    """Converts timestamps. Times before 1973 are in UTC: offsets then had seconds, which ISO 8601 cannot express."""
    local, oldest = _in_zone(array, kind), pc.min(array).value
    if kind.tz is None or oldest is None or oldest >= _WHOLE_MINUTES_SINCE_S * (10**9 // NS_PER[kind.unit]):
        return local
    in_utc = pa.timestamp(kind.unit, "UTC")
    both = zip(local, _in_zone(array.cast(in_utc), in_utc), strict=True)
    return [there if there is None or str(there)[:4] > "1972" else utc for there, utc in both]


def _in_zone(array: Any, kind: Any) -> list[Any]:
    if kind.unit == "ns":
        array = pc.replace_substring(array.cast(pa.string()), " ", "T")
        array = pc.replace_substring_regex(array, r"([+-]\d\d)(\d\d)$", r"\1:\2")
    values: list[Any] = array.to_pylist()
    return values


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _seconds(ns: int) -> str:
    seconds, rest = divmod(abs(ns), 10**9)
    return f"{'-' if ns < 0 else ''}PT{seconds}{f'.{rest:09}'.rstrip('0') if rest else ''}S"


def warm_up() -> None:
    """Compiles the fingerprint loops or loads them from the cache, so that no request waits for them."""
    numbers = range(FEW_ROWS + 1)
    batch = pa.record_batch({"n": pa.array(numbers), "text": pa.array([str(n) if n else None for n in numbers])})
    RowFingerprinter(bytes(KEY_BYTES)).of_batch(batch)


def read_chunk(data: bytes | memoryview, sha256: bytes, limits: Limits) -> Rows:
    """Reads the rows of a chunk and checks the SHA-256 of its bytes.

    Raises BadRequest if the digest differs or the bytes are not an Arrow stream; TooLarge.
    """
    if hashlib.sha256(data).digest() != sha256:
        raise BadRequest("Content-Digest is not the body's SHA-256: it changed on its way; nothing was written")
    return read_rows(data, limits)


def fingerprint_of(rows: Rows, fingerprinter: RowFingerprinter) -> bytes:
    """Returns the 16-byte fingerprint of the rows, which does not depend on their order and their batches."""
    return reduce(add, map(fingerprinter.of_batch, rows.batches), EMPTY)
