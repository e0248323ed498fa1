"""Writes a compaction's snapshot, the entries and then the catalog, while appends continue."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Protocol

from oncegate.core.errors import LedgerDown
from oncegate.ledgers.catalog import (
    CHANGES_PER_PIECE,
    Catalog,
    CatalogChange,
    CatalogPart,
    Location,
    encode_changes,
    encoded_part,
)
from oncegate.ledgers.snapshot_pieces import pieces_of, several, until

# At most this many catalog changes made during the snapshot go into the frame; more are written before it.
CHANGES_IN_FRAME = 1_000
# Maximum number of rounds: if changes arrive faster than they are written, the rest goes into the frame.
ROUNDS_MAX = 20

Places = tuple[Location, ...]


class PieceWriter(Protocol):
    """The durable storage of one snapshot's pieces. All methods block and run outside the event loop's thread."""

    def add(self, piece: list[bytes]) -> Location:
        """Makes a piece durable; returns its location."""

    def finish(self) -> None:
        """Completes the snapshot, so that its locations can be read."""

    def abandon(self, removing: bool) -> None:
        """Aborts the snapshot; with `removing`, the written pieces may be deleted."""


class SnapshotTaking:
    """Writer of one snapshot. `guarded`, called in worker threads, runs a function and converts its errors.

    Once `ending` is set, writing stops with LedgerDown.
    """

    def __init__(
        self,
        writer: PieceWriter,
        catalog: Catalog,
        guarded: Callable[[Callable[[], Any]], Any],
        ending: asyncio.Event,
    ) -> None:
        self._writer = writer
        self._ending = ending
        self._catalog = catalog
        self._guarded = guarded
        self._saving_catalog = False
        # Catalog changes since the catalog, or the last batch of changes, was handed to the writer.
        self.changes_since: list[CatalogChange] = []

    def changed(self, changes: Sequence[CatalogChange]) -> None:
        """Records catalog changes; must be called when they are applied."""
        if self._saving_catalog:
            self.changes_since += changes

    async def write(self, entries: AsyncIterable[bytes], removing: Callable[[], bool]) -> tuple[Places, Places]:
        """Writes the entries as they arrive, then the catalog; returns their locations. `changes_since` keeps growing.

        After an error the file is deleted if `removing()` is true.
        """
        try:
            state = [await self._add(piece) async for piece in pieces_of(until(self._ending, entries))]
            catalog = [place async for place in self._write_catalog()]
        except BaseException:
            await asyncio.to_thread(self._writer.abandon, removing())
            raise
        await asyncio.to_thread(self._guarded, self._writer.finish)
        return tuple(state), tuple(catalog)

    async def _write_catalog(self) -> AsyncIterator[Location]:
        """Writes the catalog as it is now, then repeatedly the changes made meanwhile,
        until the remaining ones fit in one frame.
        """
        self._saving_catalog = True
        with closing(self._catalog.parts()) as parts:
            async for several_pieces in pieces_of(_encoded_parts(parts)):
                yield await self._add(several_pieces)
        for _ in range(ROUNDS_MAX):
            if len(self.changes_since) <= CHANGES_IN_FRAME:
                return
            changes, self.changes_since = self.changes_since, []
            pieces = several(_encoded(changes))
            while piece := await asyncio.to_thread(next, pieces, None):
                yield await self._add(piece)

    async def _add(self, piece: list[bytes]) -> Location:
        if self._ending.is_set():
            raise LedgerDown("the ledger is being closed; it was not compacted")
        location: Location = await asyncio.to_thread(self._guarded, partial(self._writer.add, piece))
        return location


async def _encoded_parts(parts: Iterator[CatalogPart]) -> AsyncIterator[bytes]:
    """Copies parts in the event loop, where the catalog changes, and encodes them in another thread."""
    for part in parts:
        pieces = encoded_part(part)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece


def _encoded(changes: Sequence[CatalogChange]) -> Iterator[bytes]:
    for at in range(0, len(changes), CHANGES_PER_PIECE):
        yield encode_changes(changes[at : at + CHANGES_PER_PIECE])
