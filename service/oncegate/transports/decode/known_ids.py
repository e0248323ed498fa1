"""Reads the rows of an import: ids as a ledger of the same key knows them.

id       fixed_size_binary(16)     tag and home of its fingerprint, little-endian
owner    fixed_size_binary(16)     who took it; null: it is done
digest   uint32                    of its payload; null: it came without
"""

import numpy as np
import pyarrow as pa

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.usecases.operations.carrying import KnownIds
from oncegate.transports.decode.arrow_ipc import read_rows

SCHEMA = pa.schema([("id", pa.binary(16)), ("owner", pa.binary(16)), ("digest", pa.uint32())])
_NOBODY = bytes(16)


def read_known(body: bytes | memoryview, limits: Limits) -> KnownIds:
    """Reads an import's body. Raises BadRequest: it has other columns, or an id is null; TooLarge."""
    rows = read_rows(body, limits)
    if not rows.schema.equals(SCHEMA):
        raise BadRequest(f"an import has the columns {', '.join(map(str, SCHEMA))}; nothing was imported")
    table = pa.Table.from_batches(rows.batches, rows.schema).combine_chunks()
    ids, owners, digests = (table[name] for name in SCHEMA.names)
    if ids.null_count:
        raise BadRequest("an id of an import is null; nothing was imported")
    return KnownIds(_words(ids), _words(owners), digests.fill_null(0).to_numpy().astype(np.uint32))


def _words(column: pa.ChunkedArray) -> "np.ndarray[tuple[int, int], np.dtype[np.uint64]]":
    raw = b"".join(value or _NOBODY for value in column.to_pylist())
    return np.frombuffer(raw, "<u8").reshape(-1, 2).astype(np.uint64)
