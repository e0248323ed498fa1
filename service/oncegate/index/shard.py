"""The whole in-memory state of a shard, as a list of parts: claims, batches, topics, producers, lanes and more."""

from collections.abc import Generator, Iterator
from functools import partial

import numpy as np

from oncegate.core.claims import LeaseExpiry
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Released, Retired, SnapshotPiece, Taken
from oncegate.index import batches, settings, topics
from oncegate.index.audit_trail import AuditSnapshot, AuditTrail
from oncegate.index.batches import BatchIndex
from oncegate.index.claims.apply import ClaimUndo as ClaimUndo
from oncegate.index.claims.apply import apply, settle, undo
from oncegate.index.claims.decide import decide
from oncegate.index.claims.evict import drop
from oncegate.index.claims.parts import ClaimParts
from oncegate.index.claims.replay import replay
from oncegate.index.claims.snapshot import restore, snapshot
from oncegate.index.claims.store import ClaimStore
from oncegate.index.lanes import LaneIndex, LanesSnapshot
from oncegate.index.lsm import tier
from oncegate.index.part import END, IndexPart, SnapshotReader, Undo, snapshot_steps, whole
from oncegate.index.producers.snapshot import parts as producer_parts
from oncegate.index.producers.store import ProducerStore
from oncegate.index.settings import IdSetIndex, IdSetsSnapshot, NamespaceSettings, SettingsSnapshot
from oncegate.index.source_offsets import SourceIds, SourceIdsSnapshot, SourceOffsets, SourceOffsetsSnapshot
from oncegate.index.spilled_rows import SpilledRows, SpilledSnapshot
from oncegate.index.table.arrays import NO_COLD
from oncegate.index.table.grants import NO_CLAIM
from oncegate.index.topics import TopicIndex

# Entries that concern only claims; they are the majority.
_OF_CLAIMS = (Claimed, Completed, Released, Taken)


class ShardIndex:
    """The state of a shard, rebuilt from its ledger by the same `apply` as for live entries.

    `index.claims.apply` applies an entry to the claims first; then follow the other parts, in their order.
    """

    def __init__(self, claims: ClaimStore | None = None) -> None:
        self.claims = claims if claims is not None else ClaimStore()
        self.batches, self.topics, self.producers = BatchIndex(), TopicIndex(), ProducerStore()
        self.settings = NamespaceSettings(self._let_expire)
        self.source_offsets, self.source_ids, self.lanes = SourceOffsets(), SourceIds(), LaneIndex()
        self.spilled_rows, self.id_sets = SpilledRows(), IdSetIndex()
        self.audit_trail = AuditTrail(self.spilled_rows)
        self._parts = self._in_order()
        self._applied = [part.apply for part in self._parts if part.apply is not None]
        self._reader: SnapshotReader | None = None

    def _in_order(self) -> tuple[IndexPart, ...]:
        """Returns the parts in the order in which a snapshot saves and restores them."""
        claims, (producers, producer_writers) = ClaimParts(self.claims), producer_parts(self.producers)
        offsets, lanes, audit, spilled = self.source_offsets, self.lanes, self.audit_trail, self.spilled_rows
        sets, ids, own = self.id_sets, self.source_ids, self.settings
        return (
            claims.claims,
            batches.part(self.batches),
            topics.part(self.topics),
            producers,
            claims.scopes,
            claims.archives,
            whole("settings", SettingsSnapshot, own.snapshot, own.restore, own.apply, absent=settings.absent),
            claims.results,
            claims.writers,
            producer_writers,
            whole("source_offsets", SourceOffsetsSnapshot, offsets.snapshot, offsets.restore, offsets.apply),
            whole("audit_trail", AuditSnapshot, audit.snapshot, audit.restore, audit.apply),
            whole("spilled_rows", SpilledSnapshot, spilled.snapshot, spilled.restore, spilled.apply),
            whole("lanes", LanesSnapshot, lanes.snapshot, lanes.restore, lanes.apply, lambda: {"lanes": len(lanes)}),
            whole("id_sets", IdSetsSnapshot, sets.snapshot, sets.restore, sets.apply),
            whole("source_ids", SourceIdsSnapshot, ids.snapshot, ids.restore, ids.apply),
        )

    def apply(self, position: int, entry: Entry, now_ms: int) -> tuple[Undo, Undo]:
        """Applies one entry. Returns its undo, and a callable that settles it once it is durable."""
        store = self.claims
        change = apply(store, position, entry, now_ms)
        if change is not None and isinstance(entry, _OF_CLAIMS):
            return partial(undo, store, change), partial(settle, store, change)
        undos = [one(position, entry, now_ms) for one in self._applied]

        def undo_all() -> None:
            for step in reversed(undos):
                if step is not None:
                    step()
            if change is not None:
                undo(store, change)

        def settle_claims() -> None:
            if change is not None:
                settle(store, change)

        return undo_all, settle_claims

    def held(self) -> dict[str, int]:
        """Counts the content that deleting the namespace would forget, by kind, without empty kinds and without the
        settings.
        """
        counts: dict[str, int] = {}
        for part in self._parts:
            counts |= {kind: count for kind, count in part.count().items() if count}
        return counts

    def snapshot(self) -> Iterator[SnapshotPiece]:
        """Returns entries that replace all entries so far. Nothing may change before the last one is made."""
        return (entry for entries in self.snapshot_steps() for entry in entries)

    def snapshot_steps(self) -> Generator[list[SnapshotPiece], None, None]:
        """Creates a snapshot of the current state in steps; the index may change between steps.

        A step raises SnapshotStopped if a change was undone or rows ran out; then begin again.
        """
        return snapshot_steps(self._parts)

    def replayed(self, position: int, entry: Entry) -> None:
        """Applies a replayed entry to the other parts; the claims have already applied it. It is
        not undone.
        """
        if isinstance(entry, SnapshotPiece):
            self._restore(entry)
            return
        for one in self._applied:
            one(position, entry, 0)

    def _restore(self, piece: SnapshotPiece) -> None:
        """Reads one piece of a snapshot, and drops the reader after the last one."""
        self._reader = self._reader or SnapshotReader(self._parts)
        self._reader.take(piece)
        if piece.what == END:
            self._reader = None

    def _let_expire(self, expiry: LeaseExpiry) -> None:
        """Applies the namespace's `lease_expiry` setting to ids and sequences."""
        self.claims.let_expire(expiry)
        self.producers.let_expire(expiry)


def warm_up() -> None:
    """Compiles every kernel of claims, or loads it from numba's cache, so that neither a start nor a request waits."""
    store, ids, id16 = ClaimStore(), np.ones((1, 2), np.uint64), bytes(16)
    decide(store, id16, 1, id16, ids, 0)
    change = apply(store, 1, Claimed(id16, id16, 1, id16, 1, 0, ids.tobytes(), b""), 0)
    assert change is not None
    undo(store, change)
    row = np.array([store.rows.made - 1])
    store.table.claim_each(store.rules["claim"], 0, ids, NO_COLD, row, np.ones(1, np.int64), 1)
    settle(store, ClaimUndo(store.counters(), NO_CLAIM, pinned=np.empty(0, np.uint32)))
    table, holders = store.table.slots, store.rows.holders
    store.kernels.staying(table, 0, holders)
    apply(store, 2, Retired(0, 0), 0)
    store.table.make_room(10_000)
    store.make_room(10_000, 0)
    store.sweep(0)
    store.sharing.warm_up()
    store.table.rows_of(ids)
    table, holders, is_picked = store.table.slots, store.rows.holders, np.zeros(store.rows.made + 1, np.uint8)
    store.kernels.gather_of(table, 0, holders, is_picked, ids)
    drop(store, ids)
    tier.warm_up()
    restore(ClaimStore(), dict(snapshot(store)))
    one = bytes(15) + b"1"
    replay([(1, Claimed(one, one, 1, one, 1, 0, one, b""))], ClaimStore(), 0)
