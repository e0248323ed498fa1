"""Fingerprints of ids: 16 bytes, AES-128-CMAC over the id's exact bytes, keyed per namespace and dedup scope.

Every transport gives the same fingerprint for the same bytes in the same scope. The function is pseudo-random over the
whole id: without the namespace's key nobody can construct or predict two ids of one fingerprint; with the key that is
possible. Among q honest ids of any scopes, two collide by accident with a probability of about q^2 / 2^129.

HKDF derives a key from the namespace's key and the scope's name. Keys of different scopes are independent, and an id
costs the same in every scope.

Null and empty ids are invalid; callers reject them before any effect.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, NullId
from oncegate.hashing.byte_strings import Octets, join, plain
from oncegate.hashing.cmac import Cmac
from oncegate.hashing.keys import derive

FINGERPRINT_BYTES = 16
# A fingerprinter that is not cached is made in a quarter of a millisecond; a cached one holds at most 70 KB.
SETS_KEPT = 256


class IdSets:
    """Caches the fingerprinter of each dedup scope of a namespace. Threads may share an object.

    generation_of: returns how often a scope has been forgotten as a whole.
    """

    def __init__(self, key: bytes, generation_of: Callable[[str], int] = lambda _: 0) -> None:
        self._made, self._generation_of = lru_cache(SETS_KEPT)(partial(Fingerprinter, key)), generation_of

    def of(self, id_set: str) -> "Fingerprinter":
        """Returns the fingerprinter of a dedup scope in its current generation."""
        return self._made(id_set, self._generation_of(id_set))


class Fingerprinter:
    """Computes the fingerprints of one dedup scope under a namespace's key. Threads may share an object.

    id_set: the scope's name; may be empty.
    generation: how often the scope was forgotten; each generation has other fingerprints.
    made_ms: creation times of the ids; None: they have none.
    """

    made_ms: NDArray[np.uint64] | None = None

    def __init__(self, key: bytes, id_set: str = "", generation: int = 0) -> None:
        # No purpose contains a colon or ends in a number. Two scopes, or two generations of one, therefore never share
        # a key, nor does a scope share one with any other purpose.
        name = (b" %d" % generation if generation else b"") + (b":" + id_set.encode() if id_set else b"")
        self._cmac = Cmac(derive(key, b"ids" + name))
        # A separate key: bytes sent as one id cannot imitate several joined columns.
        self._joined = Cmac(derive(key, b"joined ids" + name))

    def of_packed(self, data: bytes | memoryview) -> NDArray[np.uint64]:
        """Returns fingerprints (n, 2) of n ids of 16 raw bytes each. Raises BadRequest if the length is not a multiple
        of 16.
        """
        if len(data) % FINGERPRINT_BYTES:
            raise BadRequest(f"packed ids have 16 bytes each; {len(data)} bytes are not a multiple of that")
        return self._cmac.of_blocks(data)

    def of_few(self, messages: Sequence[bytes]) -> NDArray[np.uint64]:
        """Like `of_array`, for a few messages: one object each."""
        return self._cmac.of_few(messages)

    def of_array(self, array: pa.Array) -> NDArray[np.uint64]:
        """Returns fingerprints (n, 2), C-contiguous, of the bytes of a string or binary array of any kind, sliced or
        not.

        Raises:
            NullId: the array has nulls, which must never share a fingerprint.
            TypeError: another type.
        """
        array = plain(array)
        if array.null_count:
            raise NullId(f"{array.null_count} of {len(array)} ids are null")
        return self._cmac.of_octets(Octets.of_array(array))

    def of_columns(self, columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
        """Like `of_array`, for ids of one column's bytes or of several joined columns."""
        if len(columns) == 1:
            return self.of_array(columns[0])
        return self._joined.of_octets(Octets.of_array(join(columns)))
