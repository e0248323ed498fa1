"""Computes what a repeat of a request is told by: sixteen bytes that its ids, in their order, come to.

A multilinear hash (Carter and Wegman, 1979): the fingerprints' words, each by a weight of its place, added up modulo
2^64. Fingerprints are pseudo-random already, so two requests come to the same by accident once in some 2^128; and
whoever sought two such requests would cheat nobody else, for both are under one token and call.
"""

import numpy as np

from oncegate.arraytypes import U64

# SplitMix64 (Steele, Lea, Flood, 2014): its step and its two multipliers.
_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_KEPT = 1 << 17


def _weights(count: int) -> U64:
    """Returns the weights of so many places, by SplitMix64 from 0, each odd: no word's bits are lost by one."""
    z = np.arange(1, count + 1, dtype=np.uint64) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.asarray(z ^ (z >> np.uint64(31)) | np.uint64(1), np.uint64)


_WEIGHTS = _weights(_KEPT)


def digest_of_ids(ids: U64) -> bytes:
    """Returns 16 bytes for fingerprints, shape (n, 2), of any number."""
    weights = _WEIGHTS if len(ids) <= _KEPT else _weights(len(ids))
    return (weights[: len(ids)] @ ids).tobytes()
