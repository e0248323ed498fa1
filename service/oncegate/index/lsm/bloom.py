"""Puts Bloom filters before sorted runs: "not here" is certain, and saves a look-up; "maybe here" is looked up.

Bloom, "Space/time trade-offs in hash coding with allowable errors" (CACM 1970). A filter is never truth: one that is
full is not sound, and answers "maybe" to everything; an encoded one of another format, function or library is not read.

blocked    one 64-bit word an id (`bloom_blocked`): what is used unless another is asked for
pybloom    pybloom-live (`bloom_pybloom`), for whoever trusts a known library more; the extra `oncegate[pybloom]`
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U64
from oncegate.index.lsm.bloom_blocked import BlockedFilter
from oncegate.index.lsm.bloom_format import unpacked
from oncegate.index.lsm.bloom_pybloom import PybloomFilter


class Filter(Protocol):
    """Holds a set of ids that forgets which. Ids: uint64 (n, 2), of which the low 96 bits count: a tag, a home of 32
    bits.

    They are taken for random, as fingerprints are. Adding and asking must not overlap.
    """

    def add(self, keys: U64) -> None:
        """Takes the ids in; one that is taken in twice counts twice. More than `capacity`: it is no longer sound."""

    def might_hold(self, keys: U64) -> NDArray[np.bool_]:
        """Tells of each id, bool (n,): False, it was not taken in; True, it was, or it is one of a share `fpr` of all
        others."""

    def encode(self) -> Iterator[bytes]:
        """Yields the filter in pieces of a MiB at most, which together are what `decode` reads; nothing is added
        meanwhile."""

    @property
    def sound(self) -> bool:
        """Tells whether its "not here" means anything; where it does not, `might_hold` is True throughout."""

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of memory that it holds."""

    @property
    def ids(self) -> int:
        """Counts the ids that it has taken in."""

    @property
    def capacity(self) -> int:
        """Tells how many ids it can take in."""

    @property
    def fpr(self) -> float:
        """Tells the share of others that it takes for its own once it is full, by design."""


class _FilterClass(Protocol):
    def __call__(self, capacity: int, fpr: float) -> Filter: ...

    def require(self) -> None: ...

    def decode(self, head: Mapping[str, Any], data: memoryview) -> Filter | None: ...


KINDS: dict[str, _FilterClass] = {
    "blocked": BlockedFilter,
    "pybloom": PybloomFilter,
}


def require(kind: str) -> None:
    """Raises ValueError, with what to install, where filters of this kind cannot be made."""
    KINDS[kind].require()


def make(kind: str, capacity: int, fpr: float) -> Filter:
    """Makes an empty filter for `capacity` ids (0 will do) of which, when it is full, `fpr` of all others seem to be.

    ValueError: there is no such kind, or its library is not installed; `fpr` is not above 0 and below 1.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no filter {kind!r}: there are {', '.join(KINDS)}")
    if not 0 < fpr < 1:
        raise ValueError(f"a false-positive rate lies between 0 and 1, both left out: {fpr}")
    return KINDS[kind](max(1, capacity), fpr)


def decode(data: bytes | memoryview) -> Filter | None:
    """Reads a filter that `encode` made.

    None: it is damaged, or of another format, function or library; do without it.
    """
    parts = unpacked(data)
    if parts is None or parts[0] not in KINDS:
        return None
    kind, head, bits = parts
    return KINDS[kind].decode(head, bits)
