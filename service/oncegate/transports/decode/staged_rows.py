"""One staged chunk: its bytes held against their digest, its rows read and fingerprinted."""

import hashlib
from functools import reduce

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows
from oncegate.hashing.rows import EMPTY, RowFingerprinter, add
from oncegate.transports.decode.arrow_ipc import read_rows


def read_chunk(data: bytes, sha256: bytes, limits: Limits) -> Rows:
    """Reads the rows of a chunk whose sender says which SHA-256 its bytes have.

    Raises BadRequest: the bytes are others than those that were sent, or no Arrow stream; TooLarge.
    """
    if hashlib.sha256(data).digest() != sha256:
        raise BadRequest("Content-Digest is not the body's SHA-256: it changed on its way; nothing was written")
    return read_rows(data, limits)


def fingerprint_of(rows: Rows, fingerprinter: RowFingerprinter) -> bytes:
    """Returns 16 bytes that are the same for the same rows, in whatever order and in however many batches."""
    return reduce(add, map(fingerprinter.of_batch, rows.batches), EMPTY)
