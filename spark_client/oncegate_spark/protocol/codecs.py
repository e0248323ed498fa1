"""Bytes on the wire: ids and rows as Arrow streams, verdicts packed, claims as text.

Packed answer to a claim, little-endian:

    claim 16 bytes (zeros: none) | lease_ms u32 | n u32 | n verdict bytes
    and for each SAME or BUSY, in order: index u32 | number u32
    then, where the caller asked with `locate`, what `firsts` says
"""

import base64
import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import BadId, Refused
from oncegate_spark.protocol._generated_verdicts import BY_BYTE
from oncegate_spark.protocol.firsts import Firsts

ARROW = "application/vnd.apache.arrow.stream"
PACKED = "application/vnd.oncegate.packed"
JSON = "application/json"
BODY_BYTES_MAX = 32 * 2**20  # the gateway's limit
CHUNK_BYTES = 8 * 2**20  # small Arrow batches are put together up to this: one sync for all of them
IDS_MAX = 100_000  # the gateway's limit for one claim
ROWS_MAX = 1_000_000  # the gateway's limit for one request
ID_TYPES = "strings, binary, integers, decimals, dates or timestamps"
CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"

_HEAD = struct.Struct("<16sII")


def _bytes_of(wanted: Iterable[int]) -> bytes:
    """A table for bytes.translate: 1 where the byte is wanted."""
    chosen = set(wanted)
    return bytes(1 if byte in chosen else 0 for byte in range(256))


def _those(
    verdict: str, *, takeover: bool = False, own: bool = False, number: str | None = None, unchecked: bool = False
) -> bytes:
    want = (verdict, takeover, own, number, unchecked)
    return bytes(byte for byte, row in BY_BYTE.items() if row[:5] == want)


def _bytes_by_verdict(verdict: str) -> bytes:
    return bytes(byte for byte, row in BY_BYTE.items() if row[0] == verdict)


_KNOWN = bytes(BY_BYTE)
_MAY_WRITE = _bytes_of(byte for byte, row in BY_BYTE.items() if row[-1])
_NUMBERED = bytes(byte for byte, row in BY_BYTE.items() if row[3] is not None)
_PLAIN = bytes(byte for byte in range(256) if byte not in _NUMBERED)
_BUSY = _those("BUSY", number="lease_left_ms")
_SAME_CALL = _those("SAME", number="of_call")
_OPEN = _bytes_of(_BUSY + _SAME_CALL)  # neither written nor to be dropped: to be claimed again
_IS_BUSY = _bytes_of(_BUSY)
_DUPLICATES = frozenset(byte for byte, row in BY_BYTE.items() if row[0] == "DUPLICATE")
_TAKEOVER = _bytes_of(_those("GRANTED", takeover=True))
_UNCHECKED = _bytes_of(_those("GRANTED", unchecked=True))
_CONFLICT = _bytes_of(_those("CONFLICT"))
_WRITTEN = _bytes_of(_bytes_by_verdict("DUPLICATE"))
_HELD = _bytes_of(_BUSY + _those("FREE", takeover=True))
_IN_DOUBT = _bytes_of(_those("IN_DOUBT"))


@dataclass(frozen=True)
class Verdicts:
    """The answer to one claim: a byte per id, in the order of the request; masks are Arrow booleans of that length.

    id_set: the set that the ids were looked up in; None: not said, or these are sequences. firsts: None: not asked.
    """

    claim: str | None
    lease_ms: int
    data: bytes
    numbers: bytes
    id_set: str | None = None
    firsts: Firsts | None = None

    @classmethod
    def read(cls, body: bytes, count: int, id_set: str | None = None, locate: bool = False) -> "Verdicts":
        """Raises Refused when the answer is not one to `count` ids: nothing may be concluded from it."""
        if len(body) < _HEAD.size:
            raise Refused(f"the gateway answered a claim with {len(body)} bytes")
        claim, lease_ms, length = _HEAD.unpack_from(body)
        data, numbers = body[_HEAD.size : _HEAD.size + length], body[_HEAD.size + length :]
        exceptions = len(data.translate(None, _PLAIN))
        rest = numbers[8 * exceptions :] if locate else b""
        numbers = numbers[: 8 * exceptions] if locate else numbers
        if length != count or len(data) != length or len(numbers) != 8 * exceptions or data.translate(None, _KNOWN):
            raise Refused(f"the gateway's answer to a claim of {count} ids cannot be read; is it an older client?")
        firsts = Firsts.read(rest, [byte in _DUPLICATES for byte in data]) if locate else None
        return cls(claim_text(claim) if any(claim) else None, lease_ms, data, numbers, id_set, firsts)

    def __contains__(self, verdict: str) -> bool:
        """Whether any id has this verdict, whatever its flags."""
        return any(byte in self.data for byte in _bytes_by_verdict(verdict))

    @property
    def may_write(self) -> pa.BooleanArray:
        """Ids that are granted: this attempt's to write."""
        return _mask(self.data.translate(_MAY_WRITE))

    @property
    def in_doubt(self) -> pa.BooleanArray:
        """Ids that are granted, and were held by a claim that had run out: its holder may have written them."""
        return _mask(self.data.translate(_TAKEOVER))

    @property
    def unchecked(self) -> pa.BooleanArray:
        """Ids that are granted though nobody looked, for the ledger is down: they may be written, or another's too."""
        return _mask(self.data.translate(_UNCHECKED))

    @property
    def open(self) -> pa.BooleanArray:
        """Ids that are another's for now (or an earlier call's of ours): to be claimed again in a new call."""
        return _mask(self.data.translate(_OPEN))

    @property
    def dropped(self) -> pa.BooleanArray:
        """Ids that are done without this attempt: written, or earlier in the same request."""
        others = pc.or_(self.conflicting, self.unresolved)
        return pc.invert(pc.or_(pc.or_(self.may_write, self.open), others))

    @property
    def unresolved(self) -> pa.BooleanArray:
        """Ids that nobody is granted: their holder's lease ran out, and the namespace lets nobody take them over."""
        return _mask(self.data.translate(_IN_DOUBT))

    @property
    def known(self) -> pa.BooleanArray:
        """Ids that are written, of those that were looked up."""
        return _mask(self.data.translate(_WRITTEN))

    @property
    def held(self) -> pa.BooleanArray:
        """Ids that a claim holds, its lease over or not, of those that were looked up."""
        return _mask(self.data.translate(_HELD))

    @property
    def conflicting(self) -> pa.BooleanArray:
        """Ids that are written, or stand earlier in the same request, with another payload: neither of these rows'."""
        return _mask(self.data.translate(_CONFLICT))

    @property
    def conflicts(self) -> int:
        """How many ids come with another payload than they are written with."""
        return self.count("CONFLICT")

    def count(
        self,
        verdict: str,
        *,
        takeover: bool = False,
        own: bool = False,
        number: str | None = None,
        unchecked: bool = False,
    ) -> int:
        """How many ids have just this verdict, these flags and this kind of number."""
        (byte,) = _those(verdict, takeover=takeover, own=own, number=number, unchecked=unchecked)
        return self.data.count(byte)

    @property
    def granted(self) -> int:
        """How many ids are granted."""
        return self.data.translate(_MAY_WRITE).count(1)

    @property
    def unchecked_count(self) -> int:
        """How many of the granted nobody looked up."""
        return self.count("GRANTED", unchecked=True)

    @property
    def takeovers(self) -> int:
        """How many of the granted were held by a claim that had run out: its holder may have written them."""
        return self.count("GRANTED", takeover=True)

    @property
    def own(self) -> int:
        """Ids that this very attempt has written."""
        return self.count("DUPLICATE", own=True)

    @property
    def stale(self) -> int:
        """Ids that are settled for ever: at or below a producer's watermark, or of a batch that was acked."""
        return self.count("STALE")

    @property
    def suppressed(self) -> int:
        """Rows that are not written because they are, or will be, written elsewhere. Our own work is not counted."""
        return self.count("DUPLICATE") + self.count("STALE") + self.count("SAME", number="of_index")

    @property
    def unsettled(self) -> int:
        """How many ids are neither written nor granted: see `open`."""
        return self.data.translate(_OPEN).count(1)

    @property
    def lease_left_ms(self) -> int:
        """The longest time that another attempt may still hold one of the BUSY ids; 0 when none is BUSY."""
        which = self.data.translate(None, _PLAIN)
        pairs = pa.Array.from_buffers(pa.uint64(), len(which), [None, pa.py_buffer(self.numbers)])
        left = pc.filter(pc.shift_right(pairs, 32), _mask(which.translate(_IS_BUSY)))
        return int(pc.max(left).as_py() or 0)


def _mask(ones: bytes) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.uint8(), len(ones), [None, pa.py_buffer(ones)]).cast(pa.bool_())


def claim_text(claim: bytes) -> str:
    """16 bytes as 26 characters of Crockford's base 32, lower case, as a ULID is written."""
    number = int.from_bytes(claim, "big")
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def id_columns(columns: Mapping[str, pa.Array]) -> list[pa.Array]:
    """The columns that are the ids: strings and binary as they are, integers as canonical decimal strings. Of decimals,
    dates and timestamps the gateway makes the canonical text, which is the same whatever the session's time zone.

    Raises BadId as `check_ids`.
    """
    check_ids(columns)
    return [_id_column(column) for column in columns.values()]


def check_ids(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
    """Raises BadId for types that cannot be ids, a null in any column, and ids that are empty: one identity for all
    of those rows would write the first and lose the rest.
    """
    for name, column in columns.items():
        if not pa.types.is_integer(column.type) and not is_id(column.type):
            raise BadId(f"id column {name} is of type {column.type}: {cast_line(name)}; nothing was written")
    for name, column in columns.items():
        if column.null_count:
            _refuse("null", column.null_count, len(column), name, f'F.col("{name}").isNotNull()')
    if any(_is_number_or_time(column.type) for column in columns.values()):
        return  # whose text is never empty
    empty = reduce(pc.and_, (pc.equal(pc.binary_length(column), 0) for column in columns.values()))
    if pc.any(empty).as_py():
        some = " | ".join(f'(F.length("{name}") > 0)' for name in columns)
        _refuse("empty", pc.sum(empty).as_py(), len(empty), ", ".join(columns), some)


def _id_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.cast(pa.string()) if pa.types.is_integer(whole.type) else whole


def _refuse(what: str, count: int, rows: int, name: str, condition: str) -> None:
    raise BadId(
        f"id column {name}: {count} of {rows} rows have an id that is {what}, and rows without an id cannot be told "
        f"apart. Leave them out first: df.where({condition})"
    )


def cast_line(name: str) -> str:
    """The line that makes an id of a column of another type, for the end of an error's text."""
    return f'ids are {ID_TYPES}; write df.withColumn("{name}", F.col("{name}").cast("string"))'


def is_id(kind: pa.DataType) -> bool:
    """Whether a column of this type can be an id, or the payload of one."""
    return _is_text(kind) or _is_bytes(kind) or _is_number_or_time(kind)


def _is_number_or_time(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_decimal(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


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
        size_bytes = sum(one.nbytes for one in waiting) + batch.nbytes
        count = sum(one.num_rows for one in waiting) + batch.num_rows
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
