"""A ledger in memory, for tests and for use without persistence.

It keeps every promise of the port except durability. Opening it again within one `MemoryLedgers` fences the older owner
and finds the appended entries, so tests can simulate crashes of the layers above.
"""

import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from oncegate.core.errors import LedgerFenced, NotFound
from oncegate.core.lifecycle import EndCell, Event
from oncegate.ledgers.catalog import NOWHERE, Catalog, Location, change_of
from oncegate.ports import Chunk, History, Mark, OpenLedger, OutputChange, Replayed, WriteRange

# Number of entries in one batch of a replay.
BATCH_ENTRIES = 10_000


@dataclass
class _Store:
    """The data of one namespace. `epoch` is that of its newest owner, `owner` that owner's end.

    `compacted`: ledger position of the last compaction.
    """

    key: bytes
    mark: Mark
    epoch: int = 0
    entries: list[Replayed] = field(default_factory=list)
    catalog: Catalog = field(default_factory=Catalog)
    ranges: dict[Location, bytes] = field(default_factory=dict)
    made: int = 0
    compacted: Mark | None = None
    owner: EndCell | None = None

    def fence(self) -> None:
        """Fences the current owner: its next append fails and writes nothing."""
        self.epoch += 1
        why = f"its owner is epoch {self.epoch} now; nothing was written: open it anew"
        if self.owner is not None:
            self.owner.write(Event.FENCED, LedgerFenced(f"this ledger was opened as epoch {self.epoch - 1}, {why}"))

    def keep(self, written: WriteRange) -> Location:
        """Stores the bytes of a range under a new, unique location."""
        self.made += 1
        location = Location(0, self.made, 0, len(written.data), bytes(32))
        self.ranges[location] = bytes(written.data)
        return location


class MemoryLedger:
    """The implementation of `ports.Ledger` and `ports.Outputs` for one owner; ends when fenced or closed."""

    def __init__(self, store: _Store) -> None:
        self._store = store
        self.epoch = store.epoch
        self.end = EndCell()

    @property
    def mark(self) -> Mark:
        """The last ledger position; in memory, everything counts as durable."""
        return self._store.mark

    def close(self) -> None:
        """Releases the store; later calls of this object fail."""
        if self._store.owner is self.end:
            self._store.owner = None
        self.end.write(Event.STOPPED, LedgerFenced("this ledger was closed; nothing was written: open it anew"))

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Implements the port's `Ledger.append`. Raises ValueError when `outputs` contradict the catalog."""
        self.end.check()
        store = self._store
        store.catalog.check([change_of(output, lambda _: NOWHERE) for output in outputs])
        for output in outputs:
            for released in store.catalog.apply(change_of(output, store.keep)):
                del store.ranges[released]
        if entries:
            position = store.mark.position + len(entries)
            digest = hashlib.blake2b(store.mark.chain, digest_size=8, key=store.mark.ledger)
            for entry in entries:
                digest.update(len(entry).to_bytes(8, "little") + entry)
            mark = Mark(store.mark.ledger, position, digest.digest())
            first = store.mark.position + 1
            store.entries += [Replayed(first + i, bytes(entry), mark) for i, entry in enumerate(entries)]
            store.mark = mark
        return store.mark

    async def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Implements the port's `Ledger.replay`: yields the entries as of the first request for a batch."""
        entries = self._store.entries
        entries = entries[bisect_left(entries, from_position, key=lambda entry: entry.position) :]
        for first in range(0, len(entries), BATCH_ENTRIES):
            yield entries[first : first + BATCH_ENTRIES]

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        found = self._store.catalog.find(topic, partition, offset, max_rows, max_bytes)
        return [Chunk(held.first_offset, held.rows, self._store.ranges[held.location]) for held in found]

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        self.end.check()
        self._mark_at(position)
        entries = [bytes(entry) async for entry in snapshot]
        self.end.check()
        store = self._store
        mark = self._mark_at(position)
        later = bisect_right(store.entries, position, key=lambda entry: entry.position)
        store.entries[:later] = [Replayed(position, body, mark) for body in entries]
        store.compacted = mark

    def _mark_at(self, position: int) -> Mark:
        """Returns the ledger position of the append that ended at `position`. Raises ValueError."""
        compacted, entries = self._store.compacted, self._store.entries
        if compacted and position <= compacted.position:
            found = compacted
        else:
            at = bisect_right(entries, position, key=lambda entry: entry.position) - 1
            found = entries[at].mark if at >= 0 else self._store.mark
        if position < 1 or found.position != position:
            raise ValueError(f"no append that is still known ended at position {position}")
        return found


class MemoryLedgers:
    """The implementation of `ports.Ledgers` in memory; starts with the namespace `default`."""

    def __init__(self) -> None:
        self._stores: dict[str, _Store] = {}
        self._create("default")

    def _create(self, namespace: str, key: bytes | None = None) -> None:
        ledger = os.urandom(16)
        self._stores.setdefault(namespace, _Store(key or os.urandom(32), Mark(ledger, 0, bytes(8))))

    def names(self) -> list[str]:
        return sorted(self._stores)

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        self._create(namespace, key)

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        """Fences an older owner and yields the ledger. Raises NotFound."""
        store = self._store(namespace)
        store.fence()
        ledger = MemoryLedger(store)
        store.owner = ledger.end
        try:
            compacted = store.compacted.position if store.compacted else 0
            yield OpenLedger(ledger, store.key, History(store.epoch, compacted=compacted), ledger.end, ledger)
        finally:
            ledger.close()

    async def delete(self, namespace: str) -> None:
        """Implements the port's `Ledgers.delete`; fences the current owner."""
        self._store(namespace).fence()
        del self._stores[namespace]

    def _store(self, namespace: str) -> _Store:
        store = self._stores.get(namespace)
        if store is None:
            raise NotFound(f"namespace {namespace} does not exist; PUT /v1/namespaces/{namespace} creates it")
        return store
