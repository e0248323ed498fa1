"""Replays ledger entries into an empty store of claims at start-up."""

from collections.abc import Callable, Iterable

import numpy as np

from oncegate.arraytypes import U32
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Produced, Released, SnapshotPiece, Taken
from oncegate.index.claims.apply import apply, emptied, own, settle
from oncegate.index.claims.by_name import ClaimRecord
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table import bulk_insert
from oncegate.index.table.bulk_insert import IDS_PER_SEGMENT, BulkInsert
from oncegate.index.table.grants import NO_TOPIC, Grant, grant_of
from oncegate.index.table.kernels import COMPILED
from oncegate.index.table.rows import LIVE, OPEN, ROWS_PER_CLAIM

# The maintenance interval of a serving shard.
KEEP_UP_MS = 5_000
# Steps of row sharing at a time, one per request that was served: a tenth of a second at most.
STEPS_AT_ONCE = 4_096
_CLAIMS_ALONE = (Claimed, Completed, Released)


def replay(
    entries: Iterable[tuple[int, Entry]],
    store: ClaimStore,
    now_ms: int,
    *others: Callable[[int, Entry], object],
    room: int = IDS_PER_SEGMENT,
    clock_ms: Callable[[], int] | None = None,
) -> int:
    """Replays (position, entry) pairs, in ledger order, into an empty store. Returns the last position; 0 if there is
    none.

    Afterwards every open claim has a full lease from `now_ms`: renewals are not in the ledger, so the rest of its lease
    is unknown.

    others: called with every entry that does not concern claims alone.
    room: number of ids of a segment that may wait for insertion.
    clock_ms: current time, for a replay that follows a ledger for days: expired data is dropped as on a serving shard.
    None: the time stays at `now_ms`.

    Raises Overloaded if the rows' width cannot hold all open and done claims.
    """
    claims, position, restored = _Replay(store, now_ms, room), 0, False
    for position, entry in entries:
        if clock_ms is not None:
            claims.keep_up(clock_ms())
        if isinstance(entry, SnapshotPiece):
            restored = True
        elif restored:
            # Restored rows have no times yet: ended claims would count as long expired and be forgotten.
            store.rows.reset_leases(now_ms)
            restored = False
        claims.take(position, entry)
        if not isinstance(entry, _CLAIMS_ALONE):
            for other in others:
                other(position, entry)
    claims.insert_waiting()
    store.rows.reset_leases(now_ms)
    return position


class _Replay:
    """Applies entries in order, but collects ids that are still free and inserts them in bulk.

    Their rows count them from the beginning, so completing a claim changes only its rows. Any other entry first inserts
    the collected ids.
    """

    def __init__(self, store: ClaimStore, now_ms: int, room: int) -> None:
        self._store = store
        self._now_ms = self._kept_up_ms = now_ms
        self._since = 0
        kernels = bulk_insert.COMPILED if store.kernels is COMPILED else bulk_insert.PLAIN
        self._waiting = BulkInsert(store.table, kernels, room)

    def take(self, position: int, entry: Entry) -> None:
        if isinstance(entry, Claimed | Produced | Taken) and self._waits(position, entry):
            return
        if not isinstance(entry, Completed):
            self.insert_waiting()
        change = apply(self._store, position, entry, self._now_ms)
        if change is not None:
            settle(self._store, change)

    def _waits(self, position: int, entry: Claimed | Produced | Taken) -> bool:
        """Collects a grant if all its ids are new. Returns whether it did."""
        store = self._store
        if not entry.fresh or entry.taken or (not isinstance(entry, Taken) and entry.digests):
            return False
        if store.rows.free < ROWS_PER_CLAIM or store.snapshot is not None:
            return False
        if not isinstance(entry, Taken) and store.registry.at_any_age(entry.claim) is not None:
            return False
        topic = store.topic_number(entry.topic) if isinstance(entry, Produced) else NO_TOPIC
        self._grant(position, grant_of(entry, topic))
        return True

    def _grant(self, position: int, grant: Grant) -> None:
        store, rows, ids = self._store, self._store.rows, own(grant.fresh)
        row = rows.take(position, grant, False, len(ids), self._now_ms)
        rows.holders.slots[row] = rows.holders.named[row] = len(ids)
        store.last_granted = (row,)
        if grant.known:
            store.registry.put(grant.claim, ClaimRecord(grant.token, grant.call, grant.digest, (row,)))
        if grant.state == OPEN:
            store.open_claims += 1
        else:
            store.expiry.add(row)
            if grant.known:
                store.registry.is_ending(grant.claim)
        store.wall_ms = max(store.wall_ms, grant.wall_ms)
        store.runs.note(grant.writer)
        added = self._waiting.add(ids, row)
        while added < len(ids):
            self.insert_waiting()
            added = self._waiting.add(ids, row, added)
        rows.unpin((row,))

    def keep_up(self, now_ms: int) -> None:
        """Advances the clock, and periodically drops the same expired state as a serving shard."""
        self._now_ms = now_ms
        self._since += 1
        if now_ms < self._kept_up_ms + KEEP_UP_MS or self._store.snapshot is not None:
            return
        self.insert_waiting()
        self._store.sweep(now_ms)
        for _ in range(min(self._since, STEPS_AT_ONCE)):
            self._store.sharing.step(self._store.ids, self._store.wall_ms)
        self._kept_up_ms, self._since = now_ms, 0

    def insert_waiting(self) -> None:
        """Inserts the collected ids into the table."""
        if not self._waiting.ids:
            return
        new, lost = self._waiting.insert()
        self._store.ids += new
        if len(lost):
            self._lose(lost)

    def _lose(self, lost: U32) -> None:
        """Updates the rows whose slots were overwritten. lost: the previous row of each slot that now names another."""
        store, holders = self._store, self._store.rows.holders
        rows, losses = np.unique(lost, return_counts=True)
        holders.slots[rows] -= losses.astype(np.int32)
        live = np.isin(holders.state[rows], LIVE)
        holders.named[rows[live]] -= losses[live].astype(np.int32)
        revived = int(losses[~live].sum())
        store.ids += revived
        store.table.dead -= revived
        store.open_claims -= emptied(store, rows.tolist())
        store.rows.give_back_idle(rows.tolist())
