"""A ledger in memory: for tests, and for whoever needs no ledger that outlives the process.

It keeps every promise of the port but that one. Opening again within one `MemoryLedgers` fences the older
owner and finds what was appended, so crashes of what stands above can be played with it.
"""

import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from oncegate.core.errors import LedgerFenced, NotFound
from oncegate.ledgers.catalog import Catalog, Dropped, Published, Trimmed, Wrote
from oncegate.ledgers.memory_runs import MemoryRuns
from oncegate.ledgers.stating import entries_of
from oncegate.ports import (
    Chunk,
    DropRanges,
    Mark,
    OpenLedger,
    OutputChange,
    PublishRanges,
    Replayed,
    State,
    TrimRanges,
    WriteRange,
)

_Change = Wrote[bytes] | Published | Dropped | Trimmed


@dataclass
class _Store:
    """What one namespace keeps; `epoch` is that of its newest owner, `collected` the mark that `collect` went up to."""

    key: bytes
    mark: Mark
    epoch: int = 0
    entries: list[Replayed] = field(default_factory=list)
    catalog: Catalog[bytes] = field(default_factory=lambda: Catalog(len))
    compacted: Mark | None = None
    runs: dict[str, bytes] = field(default_factory=dict)


def _change(output: OutputChange) -> _Change:
    match output:
        case WriteRange():
            return Wrote(output.range_id, output.rows, bytes(output.data))
        case PublishRanges():
            return Published(output.topic, output.partition, output.first_offset, output.range_ids)
        case DropRanges():
            return Dropped(output.range_ids)
        case TrimRanges():
            return Trimmed(output.topic, output.partition, output.before_offset)


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

    def own(self) -> None:
        """LedgerFenced once there is a newer owner, or it was closed."""
        if self._epoch != self._store.epoch:
            raise LedgerFenced(
                f"this ledger was opened as epoch {self._epoch or '(closed)'}, its owner is epoch {self._store.epoch}; "
                f"nothing was written: open it anew"
            )

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """As the port says; ValueError when `outputs` contradict what is there."""
        self.own()
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
        entries = self._store.entries
        return iter(entries[bisect_left(entries, from_position, key=lambda entry: entry.position) :])

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        found = self._store.catalog.find(topic, partition, offset, max_rows, max_bytes)
        return [Chunk(held.first_offset, held.rows, held.place) for held in found]

    async def compact(self, position: int, state: State) -> None:
        """As the port says."""
        self.own()
        self._mark_at(position)
        entries = [bytes(entry) async for entry in entries_of(state)]
        self.own()
        store = self._store
        mark = self._mark_at(position)
        later = bisect_right(store.entries, position, key=lambda entry: entry.position)
        store.entries[:later] = [Replayed(position, body, mark) for body in entries]
        store.compacted = mark

    def _mark_at(self, position: int) -> Mark:
        """The mark of the append that ended there; ValueError."""
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
            runs = MemoryRuns(store.runs, ledger.own)
            compacted = store.compacted.position if store.compacted else 0
            yield OpenLedger(ledger, store.key, ledger._epoch, runs, compacted=compacted)
        finally:
            ledger.close()

    def free_bytes(self) -> tuple[int, int]:
        return (1, 1)
