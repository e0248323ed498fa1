"""Payloads that come with ids, from each door, as digests: an id that comes again with another one is a CONFLICT.

A payload is text, bytes or whole numbers in one column or several; whole numbers count as their decimal text, as
they do in ids. Null is a value here. Nothing of a payload is kept but its digest.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows
from oncegate.hashing.ids import Fingerprinter
from oncegate.hashing.payloads import PACKED_BYTES, PayloadDigester
from oncegate.transports.decode import ids
from oncegate.transports.decode.arrow_ipc import read_stream
from oncegate.transports.http.messages.claims import Payload

COLUMNS_HEADER, PACKED_HEADER = "Oncegate-Digest-Cols", "Oncegate-Payloads"
Digests = NDArray[np.uint32]


def column_names(header: str | None) -> list[str]:
    """The columns named by the header, comma separated, each percent-encoded; BadRequest when one is there twice."""
    found = [unquote(name.strip()) for name in (header or "").split(",") if name.strip()]
    return ids.key_names(found, COLUMNS_HEADER)


def split_packed(body: bytes) -> tuple[bytes, NDArray[np.uint8]]:
    """Ids of 16 bytes and their payloads of 16 bytes, of 32 bytes for each id; BadRequest: not a whole number."""
    if len(body) % (2 * PACKED_BYTES):
        raise BadRequest(f"with {PACKED_HEADER} a packed body has 32 bytes an id; {len(body)} are not a whole number")
    pairs = np.frombuffer(body, np.uint8).reshape(-1, 2, PACKED_BYTES)
    return pairs[:, 0].tobytes(), np.ascontiguousarray(pairs[:, 1]).reshape(-1)


def wants_packed(header: str | None) -> bool:
    """Whether payloads stand in a packed body; BadRequest when the header says neither."""
    if header not in (None, "0", "1"):
        raise BadRequest(f"{PACKED_HEADER} is {header[:40]!r}; it is 1 where each id is followed by its payload")
    return header == "1"


def of_arrow(
    body: bytes, names: Sequence[str], fingerprinter: Fingerprinter, digester: PayloadDigester, limits: Limits
) -> tuple[ids.Fingerprints, Digests]:
    """One IPC stream: the named columns are the payloads, the others, in their order, the ids."""
    schema, batches = read_stream(body, limits.body_bytes)
    table = pa.Table.from_batches(batches, schema)
    found = _columns(table, names, limits)
    alone = table.drop_columns(list(names))
    return ids.of_table(alone, fingerprinter, limits), digester.of_columns(found)


def of_rows(rows: Rows, names: Sequence[str], digester: PayloadDigester, limits: Limits) -> Digests:
    """Columns of the rows themselves."""
    return digester.of_columns(_columns(pa.Table.from_batches(rows.batches, rows.schema), names, limits))


def of_json(payloads: Sequence[Payload], count: int, digester: PayloadDigester, limits: Limits) -> Digests:
    """Strings, or lists of strings that are all of one length; as many as there are ids."""
    if len(payloads) != count:
        raise BadRequest(f"{len(payloads)} payloads for {count} ids; each id needs its own, null is one too")
    try:
        columns = [pa.array(payloads, pa.string())]
    except pa.ArrowTypeError:
        columns = _of_lists(payloads)
    _check_sizes(columns, limits)
    return digester.of_columns(columns)


def _of_lists(payloads: Sequence[Payload]) -> list[Any]:
    widths = {len(item) if isinstance(item, list) else 1 for item in payloads}
    if len(widths) != 1 or widths == {0}:
        raise BadRequest(f"every payload needs the same number of columns, at least one; here are {sorted(widths)}")
    ids.check_width(max(widths), "a payload")
    rows = [item if isinstance(item, list) else [item] for item in payloads]
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]


def _columns(table: pa.Table, names: Sequence[str], limits: Limits) -> list[Any]:
    columns = []
    for name in names:
        if name not in table.column_names:
            raise BadRequest(f"digest_col names {name!r}, and the rows have {', '.join(table.column_names)}")
        column = table[name].combine_chunks()
        column = column.cast(pa.string()) if pa.types.is_integer(column.type) else column
        if not ids.is_id(column.type):
            raise BadRequest(
                f"payload column {name!r} has the type {column.type}; payloads are strings, binary or whole numbers: "
                "send anything else as its text"
            )
        columns.append(column)
    _check_sizes(columns, limits)
    return columns


def _check_sizes(columns: Sequence[Any], limits: Limits) -> None:
    """TooLarge with the first payload that is larger than a record may be."""
    sizes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    if len(sizes) and sizes.max() > limits.record_bytes:
        at = int(sizes.argmax())
        raise TooLarge(f"the payload at place {at} has {sizes[at]} bytes; at most {limits.record_bytes} are taken")
