"""Fingerprints of ids: 16 bytes, AES-128-CMAC over the id's exact bytes, keyed per namespace and set of ids.

Every door gives the same fingerprint for the same bytes in the same set. A pseudo-random function of the whole id:
without the namespace's key nobody can make or foresee two ids of one fingerprint; whoever has the key can make such
ids. Among q honest ids, of whatever sets, two are equal by accident with a probability of about q^2 / 2^129.

The set's name goes into the key, by HKDF: other names have keys that know nothing of each other, and an id costs the
same in every set.

A null is no id, and neither is an empty one: callers look for them before any effect.
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
# A fingerprinter that is not kept is made again, in a quarter of a millisecond; one that is kept holds 70 KB at most.
SETS_KEPT = 256


class IdSets:
    """Gives each set of ids of a namespace its fingerprinter. Any number of threads may use one object.

    generation_of: how often a set was forgotten as a whole, as of now.
    """

    def __init__(self, key: bytes, generation_of: Callable[[str], int] = lambda _: 0) -> None:
        self._made, self._generation_of = lru_cache(SETS_KEPT)(partial(Fingerprinter, key)), generation_of

    def of(self, id_set: str) -> "Fingerprinter":
        """Returns the fingerprinter of a set, as it is since it was forgotten last."""
        return self._made(id_set, self._generation_of(id_set))


class Fingerprinter:
    """Computes the fingerprints of one set of ids under one namespace's key; the set's name may be empty.

    `generation`: how often the set was forgotten: each has fingerprints of its own.

    Any number of threads may use one object. made_ms: when the ids were made; None: they do not say it.
    """

    made_ms: NDArray[np.uint64] | None = None

    def __init__(self, key: bytes, id_set: str = "", generation: int = 0) -> None:
        # No purpose has a colon or ends in a number: two sets never have one key, nor two generations of one, nor has a
        # set the key of anything else.
        name = (b" %d" % generation if generation else b"") + (b":" + id_set.encode() if id_set else b"")
        self._cmac = Cmac(derive(key, b"ids" + name))
        # A key of their own: bytes sent as one id cannot be made to look like several columns joined.
        self._joined = Cmac(derive(key, b"joined ids" + name))

    def of_packed(self, data: bytes | memoryview) -> NDArray[np.uint64]:
        """Returns fingerprints (n, 2) of n ids of 16 raw bytes each; BadRequest for a length that is no multiple of
        16."""
        if len(data) % FINGERPRINT_BYTES:
            raise BadRequest(f"packed ids have 16 bytes each; {len(data)} bytes are not a multiple of that")
        return self._cmac.of_blocks(data)

    def of_few(self, messages: Sequence[bytes]) -> NDArray[np.uint64]:
        """Returns `of_array` of these bytes: for a few, an object for each."""
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
        """Returns fingerprints (n, 2) of ids of one column's bytes, or of several columns joined; as `of_array`."""
        if len(columns) == 1:
            return self.of_array(columns[0])
        return self._joined.of_octets(Octets.of_array(join(columns)))
