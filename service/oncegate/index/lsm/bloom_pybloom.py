"""Uses pybloom-live as a filter, one id at a time: https://pypi.org/project/pybloom-live/, the extra
`oncegate[pybloom]`.

Its versions 3.1 and 4.0 hash small filters differently. A file of one read by the other reports almost every added id
as absent, so a saved filter is read only by the versions that wrote it.
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
# Saved filters hold this text, in which "place" is the home.
FUNCTION = "the hexadecimal digits of tag and place"
LIBRARIES = ("pybloom-live", "xxhash", "bitarray")
_KEY_DIGITS = 24


def _libraries() -> dict[str, str] | None:
    """Returns the libraries' versions; None if they are not installed."""
    try:
        return {name: version(name) for name in LIBRARIES}
    except PackageNotFoundError:
        return None


def _texts(keys: U64) -> Iterator[str]:
    """Yields the 12 significant bytes of each id as hexadecimal digits: the library hashes strings."""
    packed = np.empty(len(keys), np.dtype([("tag", ">u8"), ("home", ">u4")]))
    packed["tag"], packed["home"] = keys[:, 0], (keys[:, 1] & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    digits = packed.tobytes().hex()
    return (digits[at : at + _KEY_DIGITS] for at in range(0, len(digits), _KEY_DIGITS))


class PybloomFilter:
    """Implements `Filter` with a pybloom_live.BloomFilter."""

    def __init__(self, capacity: int, fpr: float) -> None:
        """Creates an empty filter. Raises ValueError if the library is not installed."""
        self.require()
        from pybloom_live import BloomFilter

        self.capacity = capacity
        self.fpr = fpr
        self.ids = 0
        self.sound = True
        self._bloom = BloomFilter(capacity, fpr)

    @staticmethod
    def require() -> None:
        """Raises ValueError, naming the package to install, if the library is not installed."""
        if _libraries() is None:
            raise ValueError("the filter pybloom needs pybloom-live: pip install 'oncegate[pybloom]', or use blocked")

    @property
    def size_bytes(self) -> int:
        return int(self._bloom.bitarray.nbytes)

    def add(self, keys: U64) -> None:
        """Adds keys, uint64 of shape (n, 2).

        The library rejects additions to a full filter (IndexError). Ignoring that error would lose the id: the filter
        is marked unsound instead.
        """
        self.ids += len(keys)
        try:
            for text in _texts(keys) if self.sound else ():
                self._bloom.add(text, skip_check=True)
        except IndexError:
            self.sound = False

    def might_hold(self, keys: U64) -> NDArray[np.bool_]:
        """Returns for each key, uint64 of shape (n, 2), whether it may be present; False is certain."""
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
        """Decodes a filter. Returns None if it is of another function, or of other versions of the libraries than the
        installed ones.
        """
        if head["function"] != FUNCTION or head["libraries"] != _libraries():
            return None
        made = cls(head["capacity"], head["fpr"])
        made.restore(head, data)
        return made

    def restore(self, head: Mapping[str, Any], data: memoryview) -> None:
        self._bloom = type(self._bloom).fromfile(io.BytesIO(data))
        self.ids, self.sound = head["ids"], head["sound"]
