"""Numbers that stand for writers: equal for equal names, by a hash of 32 bits."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from oncegate.arraytypes import U32

# Attempts and batches that are met side by side: a name is hashed once while it is among them.
_KEPT = 65_536


def numbers_of(names: Iterable[Any]) -> U32:
    """Returns a number for each name, text, bytes or number, uint32 (n,); 0 where there is none.

    Two of n names meet by accident with a probability of n^2 / 2^33: then a copy counts under the wrong cause.
    """
    return np.array([0 if name in (None, "") else _number(name) for name in names], np.uint32)


@lru_cache(_KEPT)
def _number(name: Any) -> int:
    data = name if isinstance(name, bytes) else str(name).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "little") or 1
