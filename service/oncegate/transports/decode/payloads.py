"""Reads the payloads of ids in each encoding, and computes their digests.

An id repeated with another payload is a CONFLICT. A payload is text, bytes, numbers or times in one or more columns.
Numbers and times count as their canonical text, as in ids. Null is a valid value. Only the digest is stored.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows
from oncegate.hashing.ids import Fingerprinter
from oncegate.hashing.payloads import PACKED_BYTES, PayloadDigester
from oncegate.transports.decode import columns, ids
from oncegate.transports.decode.arrow_ipc import read_stream
from oncegate.transports.decode.identifiers import percent_decoded

COLUMNS_HEADER, PACKED_HEADER = "Oncegate-Digest-Cols", "Oncegate-Payloads"
PayloadDigests = NDArray[np.uint32]
# One payload in JSON: a string, one string per column, or null, which is a valid value.
Payload = str | list[str | None] | None


def column_names(header: str | None) -> list[str]:
    """Parses the header's column names: comma-separated, each percent-encoded.

    Raises BadRequest for a name that appears twice.
    """
    found = [percent_decoded(name.strip(), COLUMNS_HEADER) for name in (header or "").split(",") if name.strip()]
    return columns.check_key(found, COLUMNS_HEADER)


def split_packed(body: bytes) -> tuple[bytes, NDArray[np.uint8]]:
    """Splits a body of 32 bytes per id into ids and payloads of 16 bytes each.

    Raises BadRequest if the length is not a multiple of 32.
    """
    if len(body) % (2 * PACKED_BYTES):
        raise BadRequest(f"with {PACKED_HEADER} a packed body has 32 bytes an id; {len(body)} are not a whole number")
    pairs = np.frombuffer(body, np.uint8).reshape(-1, 2, PACKED_BYTES)
    return pairs[:, 0].tobytes(), np.ascontiguousarray(pairs[:, 1]).reshape(-1)


def wants_packed(header: str | None) -> bool:
    """Returns whether a packed body contains payloads. Raises BadRequest for a value other than 0 and 1."""
    if header not in (None, "0", "1"):
        raise BadRequest(f"{PACKED_HEADER} is {header[:40]!r}; it is 1 where each id is followed by its payload")
    return header == "1"


def of_arrow(
    body: bytes, names: Sequence[str], fingerprinter: Fingerprinter, digester: PayloadDigester, limits: Limits
) -> tuple[ids.Fingerprints, PayloadDigests]:
    """Reads one IPC stream: the named columns are the payloads; all other columns, in their order, are the ids.

    Raises BadRequest, TooLarge, NullId.
    """
    schema, batches = read_stream(body, limits.body_bytes)
    table = pa.Table.from_batches(batches, schema)
    found = _columns(table, names, limits)
    alone = table.drop_columns(list(names))
    return ids.of_table(alone, fingerprinter, limits), digester.of_columns(found)


def of_named_columns(
    rows: Rows, names: list[str], is_identified: bool, digester: PayloadDigester, limits: Limits
) -> PayloadDigests | None:
    """Digests the payload columns of the rows: uint32[rows]; None if `names` is empty.

    Raises BadRequest if the rows have neither ids nor sequences, or a column cannot be a payload; TooLarge.
    """
    if not columns.check_key(names, "digest_col"):
        return None
    if not is_identified:
        raise BadRequest(
            "digest_col tells payloads of one id or sequence apart, and without id_col or sequence_col no row has one"
        )
    return digester.of_columns(_columns(pa.Table.from_batches(rows.batches, rows.schema), names, limits))


def of_json(payloads: Sequence[Payload], count: int, digester: PayloadDigester, limits: Limits) -> PayloadDigests:
    """Digests strings, or lists of strings of the same length: uint32[count], one per id.

    Raises BadRequest if there are not `count` payloads, or lengths differ; TooLarge.
    """
    if len(payloads) != count:
        raise BadRequest(f"{len(payloads)} payloads for {count} ids; each id needs its own, null is one too")
    try:
        parts = [pa.array(payloads, pa.string())]
    except pa.ArrowTypeError:
        parts = _of_lists(payloads)
    _check_sizes(parts, limits)
    return digester.of_columns(parts)


def _of_lists(payloads: Sequence[Payload]) -> list[Any]:
    widths = {len(item) if isinstance(item, list) else 1 for item in payloads}
    if len(widths) != 1 or widths == {0}:
        raise BadRequest(f"every payload needs the same number of columns, at least one; here are {sorted(widths)}")
    columns.check_width(max(widths), "a payload")
    rows = [item if isinstance(item, list) else [item] for item in payloads]
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]


def _columns(table: pa.Table, names: Sequence[str], limits: Limits) -> list[Any]:
    columns.check_present(names, table.column_names, "digest_col")
    parts = [columns.id_column(table, name) for name in names]
    for name, part in zip(names, parts, strict=True):
        if not columns.is_id(part.type):
            raise BadRequest(
                f"payload column {name!r} has the type {part.type}; payloads are {columns.ID_TYPES}: "
                "send anything else as its text"
            )
    _check_sizes(parts, limits)
    return parts


def _check_sizes(parts: Sequence[Any], limits: Limits) -> None:
    """Raises TooLarge if a payload is larger than a record may be; names the largest one."""
    sizes = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        sizes += pc.fill_null(pc.binary_length(part), 0).to_numpy(zero_copy_only=False)
    if len(sizes) and sizes.max() > limits.record_bytes:
        at = int(sizes.argmax())
        raise TooLarge(f"the payload at place {at} has {sizes[at]} bytes; at most {limits.record_bytes} are taken")
