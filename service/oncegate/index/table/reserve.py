"""Makes arrays that grow without being copied: address space is reserved at once, memory is taken where it is
written."""

import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Python names it from 3.13 on; the value is Linux's for x86 and ARM. Nothing is promised to what is only reserved.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PAGE_BYTES = 4096


def reserve(layout: Mapping[str, tuple[DTypeLike, int]], length: int) -> dict[str, NDArray[Any]]:
    """Returns zeroed arrays of `length` elements each, by name; `layout`: dtype and words an element (1: a flat array).

    Where so much address space is not to be had (`ulimit -v`), all are shorter by the same power of two.
    Raises MemoryError: not even a 4,096th of it was.
    """
    for shorter in range(13):
        try:
            return _reserve(layout, max(1, length >> shorter))
        except OSError:
            continue
    raise MemoryError(f"no address space for an index: {_bytes(layout, length >> 12)} bytes were refused")


def _reserve(layout: Mapping[str, tuple[DTypeLike, int]], length: int) -> dict[str, NDArray[Any]]:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    memory, arrays, at = mmap.mmap(-1, _bytes(layout, length), flags=flags), {}, 0
    for name, (dtype, words) in layout.items():
        flat: NDArray[Any] = np.frombuffer(memory, dtype, length * words, at)
        arrays[name] = flat if words == 1 else flat.reshape(length, words)
        at += _whole_pages(flat.nbytes)
    return arrays


def _bytes(layout: Mapping[str, tuple[DTypeLike, int]], length: int) -> int:
    return sum(_whole_pages(np.dtype(dtype).itemsize * words * length) for dtype, words in layout.values())


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
