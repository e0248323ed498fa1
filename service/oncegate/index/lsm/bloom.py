"""Bloom filters for sorted runs: "absent" is certain and saves the look-up; "maybe present" requires one.

Bloom, "Space/time trade-offs in hash coding with allowable errors" (CACM 1970). A filter is never authoritative: one
that is overfull is not sound and answers "maybe" to everything. A saved filter of another format, function or library
is ignored.

blocked    one 64-bit word per id (`bloom_blocked`); the default
pybloom    pybloom-live (`bloom_pybloom`), for users who prefer a known library; the extra `oncegate[pybloom]`
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
    """An approximate set of ids. Ids: uint64 (n, 2), of which the low 96 bits count: a tag, and a home of 32 bits.

    Ids must be random, as fingerprints are. Adding and querying must not overlap.
    """

    def add(self, keys: U64) -> None:
        """Adds ids; an id that is added twice counts twice. Beyond `capacity` the filter is no longer sound."""

    def might_hold(self, keys: U64) -> NDArray[np.bool_]:
        """Returns False for ids that were certainly not added, otherwise True; bool (n,), with false-positive rate
        `fpr`.
        """

    def encode(self) -> Iterator[bytes]:
        """Yields the filter in pieces of at most a MiB, for `decode`. Nothing may be added meanwhile."""

    @property
    def sound(self) -> bool:
        """Returns whether negative answers are reliable; if not, `might_hold` returns True for every id."""

    @property
    def size_bytes(self) -> int:
        """Returns the bytes of memory in use."""

    @property
    def ids(self) -> int:
        """Returns the number of ids added."""

    @property
    def capacity(self) -> int:
        """Returns the number of ids for which the filter is designed."""

    @property
    def fpr(self) -> float:
        """Returns the designed false-positive rate at full capacity."""


class _FilterClass(Protocol):
    def __call__(self, capacity: int, fpr: float) -> Filter: ...

    def require(self) -> None: ...

    def decode(self, head: Mapping[str, Any], data: memoryview) -> Filter | None: ...


KINDS: dict[str, _FilterClass] = {
    "blocked": BlockedFilter,
    "pybloom": PybloomFilter,
}


def require(kind: str) -> None:
    """Raises ValueError, naming the package to install, if filters of this kind cannot be created."""
    KINDS[kind].require()


def make(kind: str, capacity: int, fpr: float) -> Filter:
    """Returns an empty filter for `capacity` ids, which may be 0, with false-positive rate `fpr` when full.

    Raises ValueError if the kind is unknown, its library is not installed, or `fpr` is not between 0 and 1, exclusive.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown filter {kind!r}: use one of {', '.join(KINDS)}")
    if not 0 < fpr < 1:
        raise ValueError(f"a false-positive rate must be above 0 and below 1, got {fpr}")
    return KINDS[kind](max(1, capacity), fpr)


def decode(data: bytes | memoryview) -> Filter | None:
    """Decodes a filter from `encode`.

    Returns None if it is damaged, or of another format, function or library; then work without it.
    """
    parts = unpacked(data)
    if parts is None or parts[0] not in KINDS:
        return None
    kind, head, bits = parts
    return KINDS[kind].decode(head, bits)
