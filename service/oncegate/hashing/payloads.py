"""Digests of payloads: what tells whether an id comes again with what it came with before.

32 bits of AES-128-CMAC (RFC 4493) over the payload's exact bytes, keyed per namespace and apart from ids. Two payloads
that differ have one digest with a probability of 2^-32: such a pair passes for a duplicate. Whoever does not have the
key cannot look for one. 0 means that there is none, so it is no digest.

A payload of one column is that column's bytes, of several columns they are joined injectively; a null is a value like
any other, and is told from an empty one.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.arraytypes import U32
from oncegate.hashing.byte_strings import Octets, plain
from oncegate.hashing.cmac import Cmac
from oncegate.hashing.composite import join
from oncegate.hashing.keys import derive

PACKED_BYTES = 16


class PayloadDigester:
    """Computes digests under one namespace's 32-byte key. Any number of threads may use one object."""

    def __init__(self, key: bytes) -> None:
        self._cmac = Cmac(derive(key, b"payloads"))
        self._joined = Cmac(derive(key, b"joined payloads"))

    @cached_property
    def _null(self) -> U32:
        """Computed when the first null comes: a namespace without payloads opens sooner."""
        return self._of_joined([pa.nulls(1, pa.binary())])

    def of_packed(self, octets: NDArray[np.uint8]) -> U32:
        """Returns uint32[n] of n payloads of 16 bytes each, one after the other; ValueError when they are not whole."""
        rows, rest = divmod(len(octets), PACKED_BYTES)
        if rest:
            raise ValueError(f"{len(octets)} bytes are not a whole number of payloads")
        return _cut(self._cmac.of_octets(Octets.of_width(octets, PACKED_BYTES, rows)))

    def of_columns(self, columns: Sequence[pa.Array]) -> U32:
        """Returns uint32[n], none of them 0, of n payloads that are string or binary columns of equal length and any
        layout.

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
