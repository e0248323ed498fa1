"""One staged chunk: its bytes held against their digest, its rows read and fingerprinted."""

import hashlib
from functools import reduce

import pyarrow as pa

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows
from oncegate.hashing.cmac import FEW_ROWS
from oncegate.hashing.keys import KEY_BYTES
from oncegate.hashing.rows import EMPTY, RowFingerprinter, add
from oncegate.transports.decode.arrow_ipc import read_rows


def warm_up() -> None:
    """Compiles the loops of fingerprints, or loads them, so that no request waits for them."""
    numbers = range(FEW_ROWS + 1)
    batch = pa.record_batch({"n": pa.array(numbers), "text": pa.array([str(n) if n else None for n in numbers])})
    RowFingerprinter(bytes(KEY_BYTES)).of_batch(batch)


def read_chunk(data: bytes | memoryview, sha256: bytes, limits: Limits) -> Rows:
    """Reads the rows of a chunk whose sender says which SHA-256 its bytes have.

    Raises BadRequest: the bytes are others than those that were sent, or no Arrow stream; TooLarge.
    """
    if hashlib.sha256(data).digest() != sha256:
        raise BadRequest("Content-Digest is not the body's SHA-256: it changed on its way; nothing was written")
    return read_rows(data, limits)


def fingerprint_of(rows: Rows, fingerprinter: RowFingerprinter) -> bytes:
    """Returns 16 bytes that are the same for the same rows, in whatever order and in however many batches."""
    return reduce(add, map(fingerprinter.of_batch, rows.batches), EMPTY)
