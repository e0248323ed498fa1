"""Copies what a dictionary holds as it is at one moment, a little at a time, while it goes on changing."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
C = TypeVar("C")


class MomentCopy(Generic[K, V, C]):
    """Iterates over copies of the values that a dictionary has at the call, each as it is then, in no order.

    Whoever changes a value in place says so before, by `changing`; one that is put in its place needs no word, nor do
    later ones. One thread at a time. `copy`: makes what is yielded of a key and its value.
    """

    def __init__(self, mapping: Mapping[K, V], copy: Callable[[K, V], C]) -> None:
        self._left = dict(mapping)
        self._order = iter(list(self._left))
        self._copy = copy
        self._copied: list[C] = []

    def changing(self, key: K) -> None:
        """Copies the value of this key now, if it was there and is not copied yet."""
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
