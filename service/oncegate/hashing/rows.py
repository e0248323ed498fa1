"""The fingerprint of a batch: a multiset hash over its rows.

The sum modulo 2^128 of one keyed hash (AES-128-CMAC) per row. Rows may come in any order, cut into any batches, with
columns in any order and in any Arrow layout: the sum is the same; one row more, less or twice changes it. A sum and
not a xor, in which any two equal rows cancel out (Clarke et al., Incremental Multiset Hash Functions, 2003).

Names and types of the columns go into the key of the row hash: once per batch instead of once per row.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncegate.hashing.arrow_types import schema_name
from oncegate.hashing.cmac import Cmac
from oncegate.hashing.ids import FINGERPRINT_BYTES
from oncegate.hashing.keys import derive
from oncegate.hashing.row_encoding import encode

EMPTY = bytes(FINGERPRINT_BYTES)
SLICE_ROWS = 16_384  # what is encoded at once; bounds the memory for a large batch

_MODULUS = 1 << 128


class RowFingerprinter:
    """Computes fingerprints of batches under one namespace's 32-byte key. Any number of threads may use one object."""

    def __init__(self, key: bytes) -> None:
        derive(key, b"rows")  # a key of a wrong size fails here, not with the first batch
        self._key = key

    def of_batch(self, batch: pa.RecordBatch) -> bytes:
        """Returns 16 bytes, little-endian; all zeros for no rows. BadRequest names a column type that is not supported.

        The batch must be valid (`validate(full=True)`): offsets are followed, not checked.
        """
        cmac = Cmac(derive(self._key, b"rows " + hashlib.sha256(schema_name(batch.schema)).digest()))
        total = EMPTY
        for first in range(0, batch.num_rows, SLICE_ROWS):
            part = batch.slice(first, SLICE_ROWS)
            rows = encode(zip(part.schema, part.columns, strict=True), part.num_rows)
            total = add(total, _sum(cmac.of_octets(rows)))
        return total

    def keys_of(self, batch: pa.RecordBatch, names: Sequence[str]) -> NDArray[np.uint64]:
        """Returns uint64[rows]: one number for each value of some columns, by which rows find their partition.

        Stable for as long as the topic is; the batch as `of_batch` wants it. KeyError for a column it does not have.
        """
        chosen = batch.select(list(names))
        cmac = Cmac(derive(self._key, b"partition keys " + hashlib.sha256(schema_name(chosen.schema)).digest()))
        hashes = [np.zeros(0, np.uint64)]
        for first in range(0, chosen.num_rows, SLICE_ROWS):
            part = chosen.slice(first, SLICE_ROWS)
            hashes.append(cmac.of_octets(encode(zip(part.schema, part.columns, strict=True), part.num_rows))[:, 0])
        return np.concatenate(hashes)


def add(first: bytes, second: bytes) -> bytes:
    """Returns the fingerprint of two batches together: the sum modulo 2^128 of two little-endian numbers of 16
    bytes."""
    total = int.from_bytes(first, "little") + int.from_bytes(second, "little")
    return (total % _MODULUS).to_bytes(FINGERPRINT_BYTES, "little")


def _sum(prints: NDArray[np.uint64]) -> bytes:
    """The sum of (n, 2) words modulo 2^128; 32-bit limbs leave room for 2^32 rows."""
    limbs = prints.view("<u4").T
    total = sum(int(limb.sum(dtype=np.uint64)) << (32 * index) for index, limb in enumerate(limbs))
    return (total % _MODULUS).to_bytes(FINGERPRINT_BYTES, "little")
