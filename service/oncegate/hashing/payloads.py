"""Digests of payloads and of requests.

The digest of a payload shows whether an id comes again with the same payload: 32 bits of AES-128-CMAC (RFC 4493) over
its exact bytes, keyed per namespace and separately from ids. Two different payloads have one digest with a probability
of 2^-32; then the second counts as a duplicate. Without the key nobody can search for such a pair. 0 means no digest.
The payload of one column is that column's bytes; several columns are joined injectively. Null is a value of its own and
differs from an empty one.

The digest of a request identifies its repeats: a multilinear hash (Carter and Wegman, 1979) of its ids in their order,
16 bytes. It is the sum modulo 2^64 of the fingerprints' words, each times a weight of its position. Fingerprints are
pseudo-random, so two requests collide by accident once in some 2^128. A caller that searches for a collision harms only
itself, since both requests have its token and call.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.arraytypes import U32, U64
from oncegate.hashing.byte_strings import Octets, join, plain
from oncegate.hashing.cmac import Cmac
from oncegate.hashing.keys import derive

PACKED_BYTES = 16


class PayloadDigester:
    """Computes digests under one namespace's 32-byte key. Threads may share an object."""

    def __init__(self, key: bytes) -> None:
        self._cmac = Cmac(derive(key, b"payloads"))
        self._joined = Cmac(derive(key, b"joined payloads"))

    @cached_property
    def _null(self) -> U32:
        """Returns the digest of a single null. Computed on first use, so that a namespace without payloads opens
        faster.
        """
        return self._of_joined([pa.nulls(1, pa.binary())])

    def of_packed(self, octets: NDArray[np.uint8]) -> U32:
        """Returns the digests, uint32[n], of n contiguous payloads of 16 bytes each. Raises ValueError if the length is
        not a multiple of 16.
        """
        rows, rest = divmod(len(octets), PACKED_BYTES)
        if rest:
            raise ValueError(f"{len(octets)} bytes are not a whole number of payloads")
        return _cut(self._cmac.of_octets(Octets.of_width(octets, PACKED_BYTES, rows)))

    def of_columns(self, columns: Sequence[pa.Array]) -> U32:
        """Returns nonzero digests, uint32[n], of n payloads: string or binary columns of equal length and any layout.

        Raises:
            TypeError: a column of another type.
            ValueError: no column, or columns of different lengths.
        """
        if len(columns) != 1:
            return self._of_joined(columns)
        column = plain(columns[0])
        digests = _cut(self._cmac.of_octets(Octets.of_array(column)))
        if column.null_count:
            digests[pc.is_null(column).to_numpy(zero_copy_only=False)] = self._null
        return digests

    def _of_joined(self, columns: Sequence[pa.Array]) -> U32:
        return _cut(self._joined.of_octets(Octets.of_array(join(columns, nulls=True))))


def _cut(prints: NDArray[np.uint64]) -> U32:
    digests: U32 = np.ascontiguousarray(prints[:, 0]).astype(np.uint32)
    digests[digests == 0] = 1
    return digests


# SplitMix64 (Steele, Lea, Flood, 2014): its step and its two multipliers.
_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_KEPT = 1 << 17


def _weights(count: int) -> U64:
    """Returns the weights of `count` positions, by SplitMix64 from 0. All are odd, so a product loses no bits of a
    word.
    """
    z = np.arange(1, count + 1, dtype=np.uint64) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.asarray(z ^ (z >> np.uint64(31)) | np.uint64(1), np.uint64)


_WEIGHTS = _weights(_KEPT)


def digest_of_ids(ids: U64) -> bytes:
    """Returns a digest of 16 bytes for any number of fingerprints, shape (n, 2)."""
    weights = _WEIGHTS if len(ids) <= _KEPT else _weights(len(ids))
    return (weights[: len(ids)] @ ids).tobytes()
