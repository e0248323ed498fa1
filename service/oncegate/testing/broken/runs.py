"""LSM runs that each break one promise, over any good runs."""

from collections.abc import Iterable

from oncegate.ports import Runs


class ForwardingRuns:
    """Forwards every call to good runs; each subclass breaks one promise."""

    def __init__(self, good: Runs) -> None:
        self.good = good

    def names(self) -> list[str]:
        return self.good.names()

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        self.good.write(name, pieces)

    def open(self, name: str) -> memoryview:
        return self.good.open(name)

    def remove(self, name: str) -> None:
        self.good.remove(name)


class WritesInPlace(ForwardingRuns):
    """Keeps the written part of an LSM run whose write failed."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        written = b""
        try:
            for piece in pieces:
                written += piece
        finally:
            self.good.write(name, [written])


class WritesOnce(ForwardingRuns):
    """Ignores writes of an LSM run that exists."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        if name not in self.good.names():
            self.good.write(name, pieces)


class WritesToItself(ForwardingRuns):
    """Loses LSM runs when their owner ends."""

    def __init__(self, good: Runs) -> None:
        super().__init__(good)
        self._own: dict[str, bytes] = {}

    def names(self) -> list[str]:
        return sorted(self._own)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        self.good.write(name, [])
        self._own[name] = b"".join(pieces)

    def open(self, name: str) -> memoryview:
        return memoryview(self._own[name])

    def remove(self, name: str) -> None:
        self.good.remove(name)
        self._own.pop(name, None)


class RemovesUnderReaders(ForwardingRuns):
    """Empties a removed LSM run for its open readers."""

    def __init__(self, good: Runs) -> None:
        super().__init__(good)
        self._given: dict[str, bytearray] = {}

    def open(self, name: str) -> memoryview:
        content = self._given[name] = bytearray(self.good.open(name))
        return memoryview(content).toreadonly()

    def remove(self, name: str) -> None:
        self.good.remove(name)
        content = self._given.get(name, bytearray())
        content[:] = bytes(len(content))


class TakesAnyName(ForwardingRuns):
    """Accepts invalid names, and rewrites them to valid names."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        self.good.write("x" + name.lower().removesuffix(".tmp").replace("/", "-")[:60], pieces)
