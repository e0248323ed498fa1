"""A ledger that is closed while its catalog is being written closes at once and abandons the compaction."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from oncegate.core.errors import LedgerDown
from oncegate.ledgers.catalog import Catalog, Location
from oncegate.ledgers.snapshotting import SnapshotTaking
from tests.support.catalogs import RANGES, catalog_of


class ClosedAt:
    """A writer of snapshots. While it writes the piece with this number, its ledger begins to close."""

    def __init__(self, number: int, close: Callable[[], None]) -> None:
        self.written, self.abandoned = 0, False
        self._number, self._close = number, close

    def add(self, piece: Sequence[bytes]) -> Location:
        self.written += 1
        if self.written == self._number:
            self._close()
        return Location(0, 0, 0, 0, b"")

    def abandon(self, removing: bool) -> None:
        self.abandoned = removing


async def no_entries() -> AsyncIterator[bytes]:
    return
    yield b""


async def test_a_catalog_is_written_no_further_once_its_ledger_closes() -> None:
    closing, loop = asyncio.Event(), asyncio.get_running_loop()
    writer: Any = ClosedAt(1, lambda: loop.call_soon_threadsafe(closing.set))
    catalog: Catalog = catalog_of(8 * RANGES)
    taking = SnapshotTaking(writer, catalog, lambda work: work(), closing)
    with pytest.raises(LedgerDown, match="not compacted"):
        await taking.write(no_entries(), lambda: True)
    assert (writer.written, writer.abandoned) == (1, True)
