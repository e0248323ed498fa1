"""Runs that each break one promise, over any good ones."""

from collections.abc import Iterable

from oncegate.ports import Runs


class ForwardingRuns:
    """Runs that pass everything on; subclasses break one promise."""

    def __init__(self, good: Runs) -> None:
        self.good = good

    def names(self) -> list[str]:
        """Passes the call on."""
        return self.good.names()

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Passes the call on."""
        self.good.write(name, pieces)

    def open(self, name: str) -> memoryview:
        """Passes the call on."""
        return self.good.open(name)

    def remove(self, name: str) -> None:
        """Passes the call on."""
        self.good.remove(name)


class WritesInPlace(ForwardingRuns):
    """What is cut short stays."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """As the good ones, but for the promise that is broken."""
        written = b""
        try:
            for piece in pieces:
                written += piece
        finally:
            self.good.write(name, [written])


class WritesOnce(ForwardingRuns):
    """A name that is there is not written again."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """As the good ones, but for the promise that is broken."""
        if name not in self.good.names():
            self.good.write(name, pieces)


class WritesToItself(ForwardingRuns):
    """What is written is lost with its owner."""

    def __init__(self, good: Runs) -> None:
        super().__init__(good)
        self._own: dict[str, bytes] = {}

    def names(self) -> list[str]:
        """As the good ones, but for the promise that is broken."""
        return sorted(self._own)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """As the good ones, but for the promise that is broken."""
        self.good.write(name, [])
        self._own[name] = b"".join(pieces)

    def open(self, name: str) -> memoryview:
        """As the good ones, but for the promise that is broken."""
        return memoryview(self._own[name])

    def remove(self, name: str) -> None:
        """As the good ones, but for the promise that is broken."""
        self.good.remove(name)
        self._own.pop(name, None)


class RemovesUnderReaders(ForwardingRuns):
    """What is open is emptied with its name."""

    def __init__(self, good: Runs) -> None:
        super().__init__(good)
        self._given: dict[str, bytearray] = {}

    def open(self, name: str) -> memoryview:
        """As the good ones, but for the promise that is broken."""
        content = self._given[name] = bytearray(self.good.open(name))
        return memoryview(content).toreadonly()

    def remove(self, name: str) -> None:
        """As the good ones, but for the promise that is broken."""
        self.good.remove(name)
        content = self._given.get(name, bytearray())
        content[:] = bytes(len(content))


class TakesAnyName(ForwardingRuns):
    """Changes what cannot be a name until it can."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """As the good ones, but for the promise that is broken."""
        self.good.write("x" + name.lower().removesuffix(".tmp").replace("/", "-")[:60], pieces)
