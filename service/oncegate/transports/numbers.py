"""Packs the numbers that verdicts carry, for every transport."""

import numpy as np
from numpy.typing import NDArray

from oncegate.core.verdicts import BY_BYTE
from oncegate.engine.requests import ClaimResult

_WITH_NUMBER = np.zeros(256, np.bool_)
_WITH_NUMBER[[byte for byte, row in BY_BYTE.items() if row.number is not None]] = True


def numbered(verdicts: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Returns the indices of the verdicts that carry a number."""
    return np.flatnonzero(_WITH_NUMBER[verdicts])


def numbers_packed(answer: ClaimResult) -> bytes:
    """Packs (index, number) of each verdict that carries a number, in order: both uint32, little-endian."""
    positions = numbered(answer.verdicts)
    pairs = np.empty((len(positions), 2), "<u4")
    pairs[:, 0] = positions
    pairs[:, 1] = answer.numbers[positions]
    return pairs.tobytes()
