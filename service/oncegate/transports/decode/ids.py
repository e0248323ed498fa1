"""Reads and checks ids in JSON, packed and Arrow encoding, and returns one array of their fingerprints.

An id is the bytes of one column, or several columns joined injectively. Null is refused in any column, because all
rows without a value would share one id. An id that is empty as a whole is refused.

An import has ids in the form in which a ledger with the same key keeps them:

id       fixed_size_binary(16)     tag and home of its fingerprint, little-endian
owner    fixed_size_binary(16)     its owner; null: the id is done
digest   uint32                    of its payload; null: no payload
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, NullId, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows
from oncegate.engine.usecases.operations.carrying import KnownIds
from oncegate.hashing.ids import Fingerprinter
from oncegate.transports.decode import columns
from oncegate.transports.decode.arrow_ipc import read_rows, read_stream

PACKED_ID_BYTES = 16
PLACES_SHOWN = 10
# Up to this many strings are faster one by one than as an array.
FEW = 40
Fingerprints = NDArray[np.uint64]
# The fingerprinter of one request; it also reads the ids' times where ids carry them.
Printer = Fingerprinter
# One id in JSON: a string, or one per column. Null is parsed so that its refusal names the position.
Id = str | list[str | None] | None


def warm_up() -> None:
    """Warms up: reads enough ids for one Arrow array, so that no request waits for lazy initialization.

    With its first array, pyarrow imports pandas if that is installed and not blocked.
    """
    of_json(["id"] * (FEW + 1), Fingerprinter(bytes(32)), Limits())


def of_packed(body: bytes, fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Fingerprints ids of 16 raw bytes each: uint64 (n, 2). Every value is an id. Raises BadRequest, TooLarge."""
    if len(body) % PACKED_ID_BYTES:
        raise BadRequest(f"a packed body has {PACKED_ID_BYTES} bytes an id; {len(body)} bytes are not a whole number")
    _check_count(len(body) // PACKED_ID_BYTES, limits)
    return fingerprints.of_packed(body)


def of_arrow(body: bytes, fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Fingerprints the rows of one IPC stream: uint64 (n, 2). All its columns, in their order, are the id.

    Raises BadRequest, TooLarge, NullId.
    """
    schema, batches = read_stream(body, limits.body_bytes)
    return of_table(pa.Table.from_batches(batches, schema), fingerprints, limits)


def of_table(table: pa.Table, fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Fingerprints a table's rows: uint64 (n, 2). All its columns, in their order, are the id.

    Numbers, dates and times count as their canonical text. Raises BadRequest for a column of another type; else as
    `of_columns`.
    """
    names = list(table.column_names)
    return of_columns(_parts(table, names), names, fingerprints, limits)


def of_named_columns(rows: Rows, names: list[str], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints | None:
    """Fingerprints the id columns of the rows: uint64 (rows, 2); None if `names` is empty.

    Numbers, dates and times count as their canonical text. Raises BadRequest for a missing column, a column of another
    type, too many columns, or one named twice; otherwise as `of_columns`.
    """
    if not columns.check_key(names, "id_col"):
        return None
    table = pa.Table.from_batches(rows.batches, rows.schema)
    columns.check_present(names, table.column_names, "id_col")
    return of_columns(_parts(table, names), names, fingerprints, limits)


def _parts(table: pa.Table, names: list[str]) -> list[Any]:
    """Returns the columns as text or bytes. Raises BadRequest for a type that ids cannot have."""
    parts = [columns.id_column(table, name) for name in names]
    for name, part in zip(names, parts, strict=True):
        if not columns.is_id(part.type):
            raise BadRequest(f"id column {name!r} has the type {part.type}; ids are {columns.ID_TYPES}")
    return parts


def of_json(ids: Sequence[Id], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Fingerprints strings, or lists of strings of the same length: uint64 (n, 2).

    Raises BadRequest if the lengths differ; otherwise as `of_columns`.
    """
    _check_count(len(ids), limits)
    if 0 < len(ids) <= FEW and (plain := _plain_bytes(ids, limits)) is not None:
        return fingerprints.of_few(plain)
    try:
        column = pa.array(ids, pa.string())
    except pa.ArrowTypeError:
        return _of_lists(ids, fingerprints, limits)
    return of_columns([column], ["id"], fingerprints, limits)


def _plain_bytes(ids: Sequence[Id], limits: Limits) -> list[bytes] | None:
    """Returns the bytes of each id if all ids are valid strings; None if any id needs the full check."""
    plain = []
    for item in ids:
        encoded = item.encode() if isinstance(item, str) else b""
        if not 0 < len(encoded) <= limits.id_bytes:
            return None
        plain.append(encoded)
    return plain


def _of_lists(ids: Sequence[Id], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Fingerprints ids of which at least one is a list."""
    widths = {len(item) if isinstance(item, list) else 1 for item in ids if item is not None}
    if len(widths) != 1 or widths == {0}:
        raise BadRequest(f"every id needs the same number of columns, at least one; here are {sorted(widths)}")
    width = widths.pop()
    columns.check_width(width, "an id")
    rows = [item if isinstance(item, list) else [item] * width for item in ids]
    parts = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return of_columns(parts, [f"column {n}" for n in range(width)], fingerprints, limits)


def of_columns(parts: list[Any], names: list[str], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Checks the columns of ids, Arrow arrays of text or bytes, and fingerprints their rows.

    One column is used unchanged; several are joined injectively. `names` are used in refusals.
    Raises BadRequest (no column), TooLarge (too many ids, or one too long), NullId with the first positions.
    """
    if not parts:
        raise BadRequest("the ids have no column")
    columns.check_width(len(parts), "an id")
    _check_count(len(parts[0]), limits)
    _check_null(parts, names)
    sizes = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        sizes += pc.binary_length(part).to_numpy(zero_copy_only=False)
    _check_sizes(sizes, limits)
    return fingerprints.of_columns(parts)


def _check_count(count: int, limits: Limits) -> None:
    if count > limits.ids_per_request:
        raise TooLarge(f"{count} ids in one request; at most {limits.ids_per_request} are taken")


def _check_null(parts: list[Any], names: list[str]) -> None:
    for part, name in zip(parts, names, strict=True):
        if part.null_count:
            _refuse("null", np.flatnonzero(pc.is_null(part).to_numpy(zero_copy_only=False)), name)


def _check_sizes(sizes: NDArray[np.int64], limits: Limits) -> None:
    if not len(sizes):
        return
    if not sizes.all():
        _refuse("empty", np.flatnonzero(sizes == 0), "id")
    if sizes.max() > limits.id_bytes:
        at = int(sizes.argmax())
        raise TooLarge(f"the id at place {at} has {sizes[at]} bytes; at most {limits.id_bytes} are taken")


def _refuse(what: str, places: NDArray[np.intp], column: str) -> None:
    first = places[:PLACES_SHOWN].tolist()
    raise NullId(
        f"{len(places)} ids are {what} in {column}, the first at places {first}: rows without an id would all be "
        "one; filter them out or give them an id. Nothing was written",
        column=column,
        count=len(places),
        places=first,
    )


IMPORT_SCHEMA = pa.schema([("id", pa.binary(16)), ("owner", pa.binary(16)), ("digest", pa.uint32())])
_NOBODY = bytes(16)


def read_known(body: bytes | memoryview, limits: Limits) -> KnownIds:
    """Reads an import's body. Raises BadRequest for other columns or a null id; TooLarge."""
    rows = read_rows(body, limits)
    if not rows.schema.equals(IMPORT_SCHEMA):
        raise BadRequest(f"an import has the columns {', '.join(map(str, IMPORT_SCHEMA))}; nothing was imported")
    table = pa.Table.from_batches(rows.batches, rows.schema).combine_chunks()
    ids, owners, digests = (table[name] for name in IMPORT_SCHEMA.names)
    if ids.null_count:
        raise BadRequest("an id of an import is null; nothing was imported")
    return KnownIds(_words(ids), _words(owners), digests.fill_null(0).to_numpy().astype(np.uint32))


def _words(column: pa.ChunkedArray) -> "np.ndarray[tuple[int, int], np.dtype[np.uint64]]":
    raw = b"".join(value or _NOBODY for value in column.to_pylist())
    return np.frombuffer(raw, "<u8").reshape(-1, 2).astype(np.uint64)
