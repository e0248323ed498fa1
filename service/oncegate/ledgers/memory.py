"""A ledger in memory: for tests, and for whoever needs no ledger that outlives the process.

It keeps every promise of the port but that one. Opening again within one `MemoryLedgers` fences the older
owner and finds what was appended, so crashes of what stands above can be played with it.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from oncegate.core.errors import LedgerFenced, NotFound
from oncegate.ledgers.catalog import Catalog, Dropped, Published, Trimmed, Wrote
from oncegate.ports import (
    Chunk,
    DropRanges,
    Mark,
    OpenLedger,
    OutputChange,
    PublishRanges,
    Replayed,
    WriteRange,
)

_Change = Wrote[bytes] | Published | Dropped | Trimmed


@dataclass
class _Store:
    """What one namespace keeps; `epoch` is that of its newest owner."""

    key: bytes
    mark: Mark
    epoch: int = 0
    entries: list[Replayed] = field(default_factory=list)
    catalog: Catalog[bytes] = field(default_factory=Catalog)


def _change(output: OutputChange) -> _Change:
    match output:
        case WriteRange():
            return Wrote(output.range_id, output.rows, bytes(output.data))
        case PublishRanges():
            return Published(output.topic, output.partition, output.first_offset, output.range_ids)
        case DropRanges():
            return Dropped(output.range_ids)


class MemoryLedger:
    """One owner's handle; dead once a newer one exists or it was closed."""

    def __init__(self, store: _Store) -> None:
        self._store = store
        self._epoch = store.epoch

    @property
    def mark(self) -> Mark:
        return self._store.mark

    def close(self) -> None:
        self._epoch = 0

    def _own(self) -> None:
        if self._epoch != self._store.epoch:
            raise LedgerFenced(
                f"this ledger was opened as epoch {self._epoch or '(closed)'}, its owner is epoch {self._store.epoch}; "
                f"nothing was written: open it anew"
            )

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """As the port says; ValueError when `outputs` contradict what is there."""
        self._own()
        store = self._store
        changes = [_change(output) for output in outputs]
        store.catalog.check(changes)
        for change in changes:
            store.catalog.apply(change)
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

    def replay(self, from_position: int) -> Iterable[Replayed]:
        return iter(self._store.entries[max(0, from_position - 1) :])

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int) -> list[Chunk]:
        found = self._store.catalog.find(topic, partition, offset, max_rows)
        return [Chunk(held.first_offset, held.rows, held.place) for held in found]

    async def trim(self, topic: str, partition: int, before_offset: int) -> int:
        self._own()
        self._store.catalog.apply(Trimmed(topic, partition, before_offset))
        return self._store.catalog.offsets(topic, partition)[0]


class MemoryLedgers:
    """`ports.Ledgers` in memory; begins with the namespace `default`."""

    new = True

    def __init__(self) -> None:
        self._stores: dict[str, _Store] = {}
        self._create("default")

    def _create(self, namespace: str) -> None:
        ledger = os.urandom(16)
        self._stores.setdefault(namespace, _Store(os.urandom(32), Mark(ledger, 0, bytes(8))))

    def names(self) -> list[str]:
        return sorted(self._stores)

    async def create(self, namespace: str) -> None:
        self._create(namespace)

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        """Fence any older owner and yield the ledger; NotFound."""
        store = self._stores.get(namespace)
        if store is None:
            raise NotFound(f"namespace {namespace} does not exist; PUT /v1/namespaces/{namespace} creates it")
        store.epoch += 1
        ledger = MemoryLedger(store)
        try:
            yield OpenLedger(ledger, store.key, ledger._epoch)
        finally:
            ledger.close()

    def free_bytes(self) -> tuple[int, int]:
        return (1, 1)
