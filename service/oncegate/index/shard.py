"""Holds everything a shard knows, in memory: claims, batches, topics, producers, lanes and more; by one `apply`."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from oncegate.core.claims import LeaseExpiry
from oncegate.core.entries.kinds import (
    Claimed,
    Completed,
    Entry,
    NamespaceSet,
    Released,
    Retired,
    SnapshotPiece,
    Staged,
    Taken,
)
from oncegate.core.entries.producers import ProducerRegistered
from oncegate.index.audit_trail import AuditTrail
from oncegate.index.batches import BatchIndex
from oncegate.index.claims.apply import Undo as ClaimUndo
from oncegate.index.claims.evict import drop
from oncegate.index.claims.index import ClaimIndex
from oncegate.index.claims.replay import replay
from oncegate.index.claims.store import ClaimStore
from oncegate.index.id_sets import IdSetIndex
from oncegate.index.lanes import LaneIndex
from oncegate.index.lsm import tier
from oncegate.index.producers.index import ProducerIndex
from oncegate.index.snapshot.claims_reader import restore
from oncegate.index.snapshot.claims_writer import snapshot
from oncegate.index.snapshot.pieces import SnapshotReader, snapshot_steps
from oncegate.index.source_offsets import SourceOffsets
from oncegate.index.table.arrays import NO_COLD
from oncegate.index.table.grants import NO_CLAIM
from oncegate.index.topics import TopicIndex

Undo = Callable[[], None]
# Ids retire by buckets of a 24th of the horizon, so at most 8 % of it late; each bucket is one short entry.
BUCKETS_PER_HORIZON = 24
BUCKET_MS_MIN = 1_000
# What a process has counted of a bucket when it ends is lost: one that is started daily still counts 23 hours.
BUCKET_MS_MAX = 3_600_000


def bucket_ms(horizon_ms: int) -> int:
    """Computes how long the ids are collected that retire together: rounded up, for all of them are the horizon at
    least."""
    return min(max(BUCKET_MS_MIN, -(-horizon_ms // BUCKETS_PER_HORIZON)), BUCKET_MS_MAX)


def buckets_kept(horizon_ms: int) -> int:
    """Computes how many buckets make the horizon."""
    return max(BUCKETS_PER_HORIZON, -(-horizon_ms // bucket_ms(horizon_ms)))


# Entries that mean nothing to any part but the claims: most of them all.
_OF_CLAIMS = (Claimed, Completed, Released, Taken)
# Entries whose writers the claims do not see.
_OF_RUNS = (Staged, ProducerRegistered)


class ShardIndex:
    """Holds everything a shard knows, rebuilt from its ledger by the same `apply` that live entries go through.

    buckets: the ledger's clock at the last retirements, oldest first, as many as the horizon has.
    """

    def __init__(self, claims: ClaimIndex | None = None) -> None:
        self.claims = claims if claims is not None else ClaimIndex()
        self.batches = BatchIndex()
        self.topics = TopicIndex()
        self.producers = ProducerIndex()
        self.source_offsets, self.lanes, self.audit_trail = SourceOffsets(), LaneIndex(), AuditTrail()
        self.id_sets = IdSetIndex()
        self.settings = NamespaceSet(0, 1, 0)
        self.settings_position = 0
        self.buckets: tuple[int, ...] = ()
        self._reader = SnapshotReader(self.claims, *self._parts)

    def apply(self, position: int, entry: Entry, now_ms: int) -> tuple[Undo, Undo]:
        """Applies one entry; returns what takes it back, and what settles it once it is durable."""
        claims = self.claims.apply(position, entry, now_ms)
        if isinstance(entry, _OF_RUNS):
            self.claims.store.runs.note(entry.writer)
        if claims is not None and isinstance(entry, _OF_CLAIMS):
            return partial(self.claims.undo, claims), partial(self.claims.settle, claims)
        undos = [self.topics.apply(position, entry), self.batches.apply(position, entry), self._set(position, entry)]
        undos += [self.producers.apply(position, entry, now_ms), self.source_offsets.apply(position, entry)]
        undos += [self.lanes.apply(position, entry), self.audit_trail.apply(position, entry)]
        undos.append(self.id_sets.apply(position, entry))
        undos.append(self.producers.source_ids.apply(position, entry))

        def undo() -> None:
            for step in reversed(undos):
                if step is not None:
                    step()
            if claims is not None:
                self.claims.undo(claims)

        def settle() -> None:
            if claims is not None:
                self.claims.settle(claims)

        return undo, settle

    @property
    def _parts(
        self,
    ) -> tuple[BatchIndex, TopicIndex, ProducerIndex, SourceOffsets, LaneIndex, AuditTrail, IdSetIndex]:
        """All that a snapshot holds beside the claims and the settings."""
        indexes = self.batches, self.topics, self.producers, self.source_offsets, self.lanes, self.audit_trail
        return *indexes, self.id_sets

    def held(self) -> dict[str, int]:
        """Counts what a deletion would forget, by kind, kinds of which there is none left out: all but the settings."""
        counts = {
            "ids": self.claims.known_ids,
            "topics": len(self.topics.names()),
            "stages": sum(1 for _ in self.batches.all_stages()),
            "batches": len(self.batches.committed),
            "producers": len(self.producers.producers),
            "drivers": len(self.producers.drivers),
            "lanes": len(self.lanes),
        }
        return {kind: count for kind, count in counts.items() if count}

    def snapshot(self) -> Iterator[SnapshotPiece]:
        """Makes entries of everything, which replace all those so far; nothing may change before the last is made."""
        return (entry for entries in self.snapshot_steps() for entry in entries)

    def snapshot_steps(self) -> Generator[list[SnapshotPiece], None, None]:
        """Makes the same, as it is at the call, in steps between which the index may change.

        A step raises SnapshotStopped when a change was undone since, or rows ran out: then it is begun anew.
        """
        return snapshot_steps(self.claims, *self._parts, (self.settings, self.buckets))

    def replayed(self, position: int, entry: Entry) -> None:
        """Takes in, for good, what is no claim's alone; the claims have seen it already."""
        if isinstance(entry, _OF_RUNS):
            self.claims.store.runs.note(entry.writer)
        self.topics.apply(position, entry)
        self.batches.apply(position, entry)
        self.producers.apply(position, entry)
        self.source_offsets.apply(position, entry)
        self.audit_trail.apply(position, entry)
        self.lanes.apply(position, entry)
        self.producers.source_ids.apply(position, entry)
        self.id_sets.apply(position, entry)
        self._set(position, entry)
        if isinstance(entry, SnapshotPiece):
            self.settings, self.buckets = self._reader.take(entry) or (self.settings, self.buckets)
            self._obey()

    def _obey(self) -> None:
        """Puts in force what the settings say of ids whose lease ran out."""
        expiry = LeaseExpiry(self.settings.lease_expiry)
        self.claims.store.let_expire(expiry)
        self.producers.store.let_expire(expiry)

    def _set(self, position: int, entry: Entry) -> Undo | None:
        """Applies the namespace's own settings; buckets of another length add up to nothing."""
        if not isinstance(entry, NamespaceSet | Retired):
            return None
        before = self.settings, self.settings_position, self.buckets
        if isinstance(entry, Retired):
            self.buckets = (*self.buckets, entry.wall_ms)[-buckets_kept(self.settings.horizon_ms) :]
            known_from_ms = max(self.settings.known_from_ms, entry.before_wall_ms)
            self.settings = replace(self.settings, known_from_ms=known_from_ms)
        else:
            self.buckets = self.buckets if entry.horizon_ms == self.settings.horizon_ms else ()
            self.settings, self.settings_position = entry, position
            self._obey()

        def undo() -> None:
            self.settings, self.settings_position, self.buckets = before
            self._obey()

        return undo


def warm_up() -> None:
    """Compiles every kernel of claims, or loads it from numba's cache, so that neither a start nor a request waits."""
    index, ids, id16 = ClaimIndex(), np.ones((1, 2), np.uint64), bytes(16)
    store = index.store
    index.decide(id16, 1, id16, ids, 0)
    change = index.apply(1, Claimed(id16, id16, 1, id16, 1, 0, ids.tobytes(), b""), 0)
    assert change is not None
    index.undo(change)
    row = np.array([store.rows.made - 1])
    store.table.claim_each(store.rules["claim"], 0, ids, NO_COLD, row, np.ones(1, np.int64), 1)
    index.settle(ClaimUndo(store.counters(), NO_CLAIM, pinned=np.empty(0, np.uint32)))
    table, holders = store.table.slots, store.rows.holders
    store.kernels.staying(table, 0, holders)
    index.apply(2, Retired(0, 0), 0)
    index.make_room(10_000, 0)
    index.sweep(0)
    store.sharing.warm_up()
    store.table.rows_of(ids)
    table, holders, is_picked = store.table.slots, store.rows.holders, np.zeros(store.rows.made + 1, np.uint8)
    store.kernels.gather_of(table, 0, holders, is_picked, ids)
    drop(store, ids)
    tier.warm_up()
    restore(ClaimStore(), dict(snapshot(store)))
    one = bytes(15) + b"1"
    replay([(1, Claimed(one, one, 1, one, 1, 0, one, b""))], ClaimStore(), 0)
