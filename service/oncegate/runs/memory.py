"""Keeps sorted runs in memory, for a ledger that has no data folder."""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from oncegate.ports import OpenLedger
from oncegate.runs.names import require_run_name


class MemoryRuns:
    """Implements `ports.Runs` over a dict that outlives it; `require_owner` raises LedgerFenced for an old owner."""

    def __init__(self, files: dict[str, bytes], require_owner: Callable[[], None]) -> None:
        self._files = files
        self._require_owner = require_owner

    def names(self) -> list[str]:
        """Implements the port's `Runs.names`."""
        self._require_owner()
        return sorted(self._files)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Implements the port's `Runs.write`; there is always room."""
        require_run_name(name)
        self._require_owner()
        data = b"".join(pieces)
        self._require_owner()
        self._files[name] = data

    def open(self, name: str) -> memoryview:
        """Implements the port's `Runs.open`."""
        self._require_owner()
        return memoryview(self._files[name])

    def remove(self, name: str) -> None:
        """Implements the port's `Runs.remove`."""
        self._require_owner()
        self._files.pop(name, None)


class MemoryRunFolders:
    """Implements `ports.RunFolders`: a dict for each namespace. `files`: their bytes, by namespace and name."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = defaultdict(dict)

    @asynccontextmanager
    async def open(self, namespace: str, opened: OpenLedger) -> AsyncIterator[MemoryRuns]:
        """Implements the port's `RunFolders.open`: what another thread writes ends with the ledger's owner."""
        yield MemoryRuns(self.files[namespace], opened.require_owner)
