"""A Bloom filter of 64-bit words: all bits of an id are in one word, so that a query costs one cache miss.

"Register-blocked": Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom filters" (JEA 2009); Lang,
Neumann, Kemper and Boncz, "Performance-optimal filtering" (VLDB 2019). Words fill unevenly, so the usual formula is too
optimistic. The size is found by inverting the true rate, over the Poisson distribution of ids per word and the exact
distribution of the bits that they set.

An id's fingerprint is already random, so nothing is hashed. The upper half of the tag chooses the word, proportionally,
so that ids sorted by tag fill the filter from one end to the other. The lower half of the tag and the home choose the
bits, six bits of them for each.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from oncegate.arraytypes import I64, U64
from oncegate.compilation import compiled
from oncegate.index.lsm.bloom_format import packed

KIND = "blocked"
# Change it with any change of `_word` or `_bits`. Saved filters hold this text, in which "place" is the home.
FUNCTION = "tag and place, 6 bits a bit, 1"
WORD_BITS = 64
HASHES_MAX = 10  # six bits each of the 64 there are
_LOW, _HALF = np.uint64(0xFFFF_FFFF), np.uint64(32)
_SIX, _SIXTY_THREE, _ONE = np.uint64(6), np.uint64(63), np.uint64(1)
_WORDS_MAX = 1 << 32
# A word with more ids than this answers yes to almost everything.
_IDS_MAX = 200
_LOAD_MIN, _LOAD_MAX = 1e-9, 100.0


def _helper(function: Callable[..., Any]) -> Callable[..., Any]:
    return register_jitable(function)  # type: ignore[no-any-return]


@_helper
def _word(tag: np.uint64, words: Any) -> Any:
    return np.int64((tag >> _HALF) * np.uint64(words) >> _HALF)


@_helper
def _bits(tag: np.uint64, home: np.uint64, hashes: int) -> Any:
    """Returns the bits of an id in its word; some may coincide."""
    drawn, bits = (tag & _LOW) << _HALF | home & _LOW, np.uint64(0)
    for _ in range(hashes):
        bits |= _ONE << (drawn & _SIXTY_THREE)
        drawn >>= _SIX
    return bits


def add(words: U64, hashes: int, keys: U64) -> None:
    for i in range(keys.shape[0]):
        words[_word(keys[i, 0], words.size)] |= _bits(keys[i, 0], keys[i, 1], hashes)


def might_hold(words: U64, hashes: int, keys: U64, at: I64, bits: U64, out: NDArray[np.bool_]) -> None:
    """Sets `out` to whether all bits of an id are set. at, bits: scratch.

    Computes all addresses first and reads afterwards, so that the processor waits for many words at once.
    """
    for i in range(keys.shape[0]):
        at[i] = _word(keys[i, 0], words.size)
        bits[i] = _bits(keys[i, 0], keys[i, 1], hashes)
    for i in range(keys.shape[0]):
        out[i] = words[at[i]] & bits[i] == bits[i]


class FilterKernels(NamedTuple):
    """The filter's loops; both sets have the same signatures, so that every test can run on either."""

    add: Callable[..., None]
    might_hold: Callable[..., None]


PLAIN = FilterKernels(add, might_hold)
COMPILED = FilterKernels(*(compiled(kernel) for kernel in PLAIN))


class Design(NamedTuple):
    """The parameters of a filter for one false-positive rate.

    load: ids per word when it is full.
    """

    hashes: int
    load: float


@lru_cache(maxsize=64)
def design(fpr: float) -> Design:
    """Returns the bits set per id, and the load in ids per word, that reach `fpr` with the fewest words."""
    return max((Design(hashes, _load(fpr, hashes)) for hashes in range(1, HASHES_MAX + 1)), key=lambda one: one.load)


def _load(fpr: float, hashes: int) -> float:
    """Finds the load by bisection: the false-positive rate grows with the load."""
    low, high = _LOAD_MIN, _LOAD_MAX
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rate(middle, hashes) < fpr else (low, middle)
    return low


def rate(load: float, hashes: int) -> float:
    """Returns the share of absent ids whose bits are all set, at `load` ids per word."""
    ids = np.arange(_IDS_MAX + 1)
    poisson = np.exp(ids * math.log(load) - load - _LOG_FACTORIALS)
    seen = float(poisson @ _rates(hashes))
    return seen + max(0.0, 1.0 - float(poisson.sum()))


_LOG_FACTORIALS = np.array([math.lgamma(ids + 1) for ids in range(_IDS_MAX + 1)])


@lru_cache(maxsize=HASHES_MAX)
def _rates(hashes: int) -> NDArray[np.float64]:
    """Returns the false-positive rates of words that hold 0, 1, … ids: the expectation of (bits set / 64) ** hashes."""
    bits = np.arange(WORD_BITS + 1) / WORD_BITS
    shares, rates = np.zeros(WORD_BITS + 1), np.empty(_IDS_MAX + 1)
    shares[0] = 1.0  # of words with so many bits set
    for ids in range(_IDS_MAX + 1):
        rates[ids] = shares @ bits**hashes
        for _ in range(hashes):  # a bit more: it was set, or it was not
            stays, grows = shares * bits, shares * (1 - bits)
            shares = stays
            shares[1:] += grows[:-1]
    return rates


class BlockedFilter:
    """Implements `Filter` as an array of words."""

    def __init__(self, capacity: int, fpr: float, kernels: FilterKernels = COMPILED) -> None:
        self.capacity = capacity
        self.fpr = fpr
        self.ids = 0
        self._kernels = kernels
        self._hashes, load = design(fpr)
        words = math.ceil(capacity / load)
        if words > _WORDS_MAX:
            raise ValueError(f"{capacity} ids at a rate of {fpr} need {words} words, above the limit of {_WORDS_MAX}")
        self._words: U64 = np.zeros(words, np.uint64)

    @staticmethod
    def require() -> None:
        """Does nothing: no package is needed."""

    @property
    def sound(self) -> bool:
        """Returns whether the filter is within its capacity; beyond that it answers "maybe present" for every id."""
        return self.ids <= self.capacity

    @property
    def size_bytes(self) -> int:
        return self._words.nbytes

    def add(self, keys: U64) -> None:
        """Adds keys, uint64 of shape (n, 2). Beyond its capacity nothing is written, since it then passes
        everything."""
        self.ids += len(keys)
        if self.sound:
            self._kernels.add(self._words, self._hashes, keys)

    def might_hold(self, keys: U64) -> NDArray[np.bool_]:
        """Returns for each key, uint64 of shape (n, 2), whether it may be present; False is certain."""
        if not self.sound:
            return np.ones(len(keys), np.bool_)
        out, at, bits = np.empty(len(keys), np.bool_), np.empty(len(keys), np.int64), np.empty(len(keys), np.uint64)
        self._kernels.might_hold(self._words, self._hashes, keys, at, bits, out)
        return out

    def encode(self) -> Iterator[bytes]:
        """Yields the filter as bytes, head first."""
        head = {"function": FUNCTION, "hashes": self._hashes, "capacity": self.capacity, "fpr": self.fpr}
        head |= {"ids": self.ids, "words": len(self._words)}
        return packed(KIND, head, self._words.data.cast("B"))

    @classmethod
    def decode(cls, head: Mapping[str, Any], data: memoryview) -> "BlockedFilter | None":
        """Decodes a filter. Returns None if it is of another function or of another size than this version would
        choose.
        """
        if head["function"] != FUNCTION:
            return None
        made = cls(head["capacity"], head["fpr"])
        return made if made.restore(head, data) else None

    def restore(self, head: Mapping[str, Any], data: memoryview) -> bool:
        """Replaces the words with encoded ones. Returns False, without effect, if they are not of this filter's
        size.
        """
        if (self._hashes, len(self._words)) != (head["hashes"], head["words"]):
            return False
        self._words = np.frombuffer(data, np.uint64).copy()
        self.ids = head["ids"]
        return True
