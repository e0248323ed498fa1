"""Uses pybloom-live as a filter, an id at a time: https://pypi.org/project/pybloom-live/, the extra
`oncegate[pybloom]`.

Its 3.1 and 4.0 hash small filters differently, and a file of one read by the other says "not here" of nearly everything
that was put in: so a saved filter is read only by the versions that wrote it.
"""

import io
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U64
from oncegate.index.lsm.bloom_format import packed

KIND = "pybloom"
# Saved filters hold this text, where "place" is the home.
FUNCTION = "the hexadecimal digits of tag and place"
LIBRARIES = ("pybloom-live", "xxhash", "bitarray")
_KEY_DIGITS = 24


def _libraries() -> dict[str, str] | None:
    """Returns the libraries' versions; None: they are not installed."""
    try:
        return {name: version(name) for name in LIBRARIES}
    except PackageNotFoundError:
        return None


def _texts(keys: U64) -> Iterator[str]:
    """Returns the 12 bytes of each id that count, as digits: the library hashes texts."""
    packed = np.empty(len(keys), np.dtype([("tag", ">u8"), ("home", ">u4")]))
    packed["tag"], packed["home"] = keys[:, 0], (keys[:, 1] & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    digits = packed.tobytes().hex()
    return (digits[at : at + _KEY_DIGITS] for at in range(0, len(digits), _KEY_DIGITS))


class PybloomFilter:
    """Keeps a `Filter` in a pybloom_live.BloomFilter."""

    def __init__(self, capacity: int, fpr: float) -> None:
        """Makes an empty filter. ValueError: the library is not installed."""
        self.require()
        from pybloom_live import BloomFilter

        self.capacity = capacity
        self.fpr = fpr
        self.ids = 0
        self.sound = True
        self._bloom = BloomFilter(capacity, fpr)

    @staticmethod
    def require() -> None:
        """Raises ValueError, with what to do, where the library is not installed."""
        if _libraries() is None:
            raise ValueError("the filter pybloom needs pybloom-live: pip install 'oncegate[pybloom]', or use blocked")

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of its bits."""
        return int(self._bloom.bitarray.nbytes)

    def add(self, keys: U64) -> None:
        """Adds keys, uint64 of shape (n, 2). The library refuses what is added to a full filter (IndexError);
        swallowed, that would be a lie for ever."""
        self.ids += len(keys)
        try:
            for text in _texts(keys) if self.sound else ():
                self._bloom.add(text, skip_check=True)
        except IndexError:
            self.sound = False

    def might_hold(self, keys: U64) -> NDArray[np.bool_]:
        """Tells of each key, uint64 of shape (n, 2), whether it may be there; False is certain."""
        if not self.sound:
            return np.ones(len(keys), np.bool_)
        return np.fromiter((text in self._bloom for text in _texts(keys)), np.bool_, len(keys))

    def encode(self) -> Iterator[bytes]:
        """Yields the filter as bytes, head first."""
        written = io.BytesIO()
        self._bloom.tofile(written)
        head = {"function": FUNCTION, "libraries": _libraries(), "capacity": self.capacity, "fpr": self.fpr}
        return packed(KIND, {**head, "ids": self.ids, "sound": self.sound}, written.getbuffer())

    @classmethod
    def decode(cls, head: Mapping[str, Any], data: memoryview) -> "PybloomFilter | None":
        """Reads a filter; None: of another function, or of other versions of the libraries than those that are
        installed."""
        if head["function"] != FUNCTION or head["libraries"] != _libraries():
            return None
        made = cls(head["capacity"], head["fpr"])
        made.restore(head, data)
        return made

    def restore(self, head: Mapping[str, Any], data: memoryview) -> None:
        """Takes over the bits that `encode` gave."""
        self._bloom = type(self._bloom).fromfile(io.BytesIO(data))
        self.ids, self.sound = head["ids"], head["sound"]
