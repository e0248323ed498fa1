"""Writes down what replaces a ledger's entries, and the catalog behind it, while appends go on."""

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

# So many changes of the catalog, made while it was written down, go into the frame; more are written down before.
CHANGES_IN_FRAME = 1_000
# So often at most: where changes come faster than they are written down, the rest goes into the frame.
ROUNDS_MAX = 20

Places = tuple[Location, ...]


class PieceWriter(Protocol):
    """Makes the pieces of one snapshot durable. All methods block, in a thread that is not the loop's."""

    def add(self, piece: list[bytes]) -> Location:
        """Makes these durable; returns where they are."""

    def finish(self) -> None:
        """Makes the whole findable by its locations."""

    def abandon(self, removing: bool) -> None:
        """Goes no further; `removing`: what was written may go."""


class SnapshotTaking:
    """Writes one snapshot. `guarded` calls a function in whatever thread is free, and knows what its errors mean.

    Once `ending` is set it goes on no further: LedgerDown.
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
        # What has changed in the catalog since the last of it was handed to the writer.
        self.changes_since: list[CatalogChange] = []

    def changed(self, changes: Sequence[CatalogChange]) -> None:
        """Takes note of changes of the catalog, at the moment that they are applied."""
        if self._saving_catalog:
            self.changes_since += changes

    async def write(self, entries: AsyncIterable[bytes], removing: Callable[[], bool]) -> tuple[Places, Places]:
        """Writes the entries as they come, then the catalog; returns where they are. `changes_since` goes on growing.

        On an error no file is left where `removing` says so.
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
        """Writes the catalog as it is now, then what changed meanwhile, until little is left for the frame."""
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
    """Parts are copied here, where the catalog changes, and encoded in another thread."""
    for part in parts:
        pieces = encoded_part(part)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece


def _encoded(changes: Sequence[CatalogChange]) -> Iterator[bytes]:
    for at in range(0, len(changes), CHANGES_PER_PIECE):
        yield encode_changes(changes[at : at + CHANGES_PER_PIECE])
