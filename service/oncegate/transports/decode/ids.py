"""Ids from each door as one Arrow array, checked; from there on no door differs from another.

An id is one column's bytes, or several columns joined injectively. Null is refused in any column, because rows
that lack a value would all be one id; empty is refused where the whole id is empty.
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
from oncegate.hashing.ids import Fingerprinter
from oncegate.transports.decode.arrow_ipc import read_stream
from oncegate.transports.http.messages.claims import Id

PACKED_ID_BYTES = 16
# More than any key has; each costs arrays as long as the request.
COLUMNS_MAX = 16
PLACES_SHOWN = 10
# So many strings cost less one by one than an array of them costs to set up.
FEW = 40
Fingerprints = NDArray[np.uint64]


def warm_up() -> None:
    """Take in as many ids as become an array: with its first one pyarrow imports pandas, where that is installed and
    not kept away; no request waits for it."""
    of_json(["id"] * (FEW + 1), Fingerprinter(bytes(32)), Limits())


def of_packed(body: bytes, fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Ids of 16 raw bytes each; every value is an id."""
    if len(body) % PACKED_ID_BYTES:
        raise BadRequest(f"a packed body has {PACKED_ID_BYTES} bytes an id; {len(body)} bytes are not a whole number")
    _check_count(len(body) // PACKED_ID_BYTES, limits)
    return fingerprints.of_packed(body)


def of_arrow(body: bytes, fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """One IPC stream; its columns, in their order, are the id."""
    schema, batches = read_stream(body, limits.body_bytes)
    return of_table(pa.Table.from_batches(batches, schema), fingerprints, limits)


def of_table(table: pa.Table, fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """All columns of a table, in their order."""
    for field in table.schema:
        if not is_id(field.type):
            raise BadRequest(
                f"column {field.name!r} has the type {field.type}; ids are strings or binary: "
                "send numbers as decimal strings"
            )
    columns = [column.combine_chunks() for column in table.columns]
    return of_columns(columns, list(table.column_names), fingerprints, limits)


def of_rows(rows: Rows, names: Sequence[str], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Columns of the rows themselves; whole numbers as their decimal text, as the clients send them elsewhere."""
    table = pa.Table.from_batches(rows.batches, rows.schema)
    columns = []
    for name in names:
        if name not in table.column_names:
            raise BadRequest(f"id_col names {name!r}, and the rows have {', '.join(table.column_names)}")
        column = table[name].combine_chunks()
        column = column.cast(pa.string()) if pa.types.is_integer(column.type) else column
        if not is_id(column.type):
            raise BadRequest(f"id column {name!r} has the type {column.type}; ids are strings, binary or whole numbers")
        columns.append(column)
    return of_columns(columns, list(names), fingerprints, limits)


def of_json(ids: Sequence[Id], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Strings, or lists of strings that are all of one length."""
    _check_count(len(ids), limits)
    if 0 < len(ids) <= FEW and (plain := _plain_bytes(ids, limits)) is not None:
        return fingerprints.of_few(plain)
    try:
        column = pa.array(ids, pa.string())
    except pa.ArrowTypeError:
        return _of_lists(ids, fingerprints, limits)
    return of_columns([column], ["id"], fingerprints, limits)


def _plain_bytes(ids: Sequence[Id], limits: Limits) -> list[bytes] | None:
    """Each id's bytes, where all are strings that nothing is to be said of; else None."""
    found = [item.encode() for item in ids if isinstance(item, str)]
    good = len(found) == len(ids) and all(0 < len(item) <= limits.id_bytes for item in found)
    return found if good else None


def _of_lists(ids: Sequence[Id], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Ids of which at least one is a list."""
    widths = {len(item) if isinstance(item, list) else 1 for item in ids if item is not None}
    if len(widths) != 1 or widths == {0}:
        raise BadRequest(f"every id needs the same number of columns, at least one; here are {sorted(widths)}")
    width = widths.pop()
    check_width(width, "an id")
    rows = [item if isinstance(item, list) else [item] * width for item in ids]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return of_columns(columns, [f"column {n}" for n in range(width)], fingerprints, limits)


def of_columns(columns: list[Any], names: list[str], fingerprints: Fingerprinter, limits: Limits) -> Fingerprints:
    """Checked and fingerprinted; one column is taken as it is, several are joined.

    Raises BadRequest (no column), TooLarge (too many ids, or one too long), NullId with the first places.
    """
    if not columns:
        raise BadRequest("the ids have no column")
    check_width(len(columns), "an id")
    _check_count(len(columns[0]), limits)
    _check_null(columns, names)
    sizes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        sizes += pc.binary_length(column).to_numpy(zero_copy_only=False)
    _check_sizes(sizes, limits)
    return fingerprints.of_columns(columns)


def key_names(names: list[str], what: str) -> list[str]:
    """The columns of an id or a key as they are; BadRequest for too many, or when one is there twice."""
    check_width(len(names), what)
    return once(names, what)


def check_width(columns: int, what: str) -> None:
    """BadRequest for more columns than an id, or a key, may have."""
    if columns > COLUMNS_MAX:
        raise BadRequest(f"{what} has {columns} columns; at most {COLUMNS_MAX} are taken")


def once(names: list[str], what: str) -> list[str]:
    """The names as they are; BadRequest when one is there twice."""
    if len(set(names)) < len(names):
        raise BadRequest(f"{what} is named twice: {', '.join(names)[:200]}")
    return names


def is_id(kind: Any) -> bool:
    """Whether a column of this type can be an id as it is."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds) or bool(pa.types.is_fixed_size_binary(kind))


def _check_count(count: int, limits: Limits) -> None:
    if count > limits.ids_per_request:
        raise TooLarge(f"{count} ids in one request; at most {limits.ids_per_request} are taken")


def _check_null(columns: list[Any], names: list[str]) -> None:
    for column, name in zip(columns, names, strict=True):
        if column.null_count:
            _refuse("null", np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)), name)


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
