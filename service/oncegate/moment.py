"""Copies a dictionary as of one moment incrementally, while the dictionary changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
C = TypeVar("C")


class MomentCopy(Generic[K, V, C]):
    """Iterates, in no particular order, over copies of a dictionary's values as of the iterator's construction.

    Call `changing` before mutating a value in place. Replacing a value or adding a key needs no call. One thread at a
    time. copy: makes the yielded object from a key and its value.
    """

    def __init__(self, mapping: Mapping[K, V], copy: Callable[[K, V], C]) -> None:
        self._left = dict(mapping)
        self._order = iter(list(self._left))
        self._copy = copy
        self._copied: list[C] = []

    def changing(self, key: K) -> None:
        """Copies a key's value before a change, if the key existed at construction and is not copied yet."""
        if key in self._left:
            self._copied.append(self._copy(key, self._left.pop(key)))

    def __iter__(self) -> Iterator[C]:
        return self

    def __next__(self) -> C:
        if self._copied:
            return self._copied.pop()
        for key in self._order:
            if key in self._left:
                return self._copy(key, self._left.pop(key))
        raise StopIteration
