"""Sorted runs beside a ledger in memory."""

from collections.abc import Callable, Iterable

from oncegate.ledgers.names import require_run_name


class MemoryRuns:
    """`ports.Runs` over a dict that outlives it; `own` raises LedgerFenced when the ledger is another's."""

    def __init__(self, files: dict[str, bytes], own: Callable[[], None]) -> None:
        self._files = files
        self._own = own

    def names(self) -> list[str]:
        self._own()
        return sorted(self._files)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        require_run_name(name)
        self._own()
        data = b"".join(pieces)
        self._own()
        self._files[name] = data

    def open(self, name: str) -> memoryview:
        self._own()
        return memoryview(self._files[name])

    def remove(self, name: str) -> None:
        self._own()
        self._files.pop(name, None)
