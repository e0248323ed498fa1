"""The index is what the ledger's entries add up to: the fold that a start begins with."""

from collections.abc import Callable, Iterable

import numpy as np

from oncegate.arraytypes import U32
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Produced, Released, Taken
from oncegate.index.claims.apply import own
from oncegate.index.claims.by_name import ClaimRecord
from oncegate.index.claims.index import ClaimIndex
from oncegate.index.claims.index import warm_up as warm_up_claims
from oncegate.index.table import bulk_insert
from oncegate.index.table.gathered import GATHERED, Gathered
from oncegate.index.table.grants import NO_TOPIC, Grant, grant_of
from oncegate.index.table.kernels import COMPILED
from oncegate.index.table.rows import LIVE, OPEN, ROWS_PER_CLAIM

_CLAIMS_ALONE = (Claimed, Completed, Released)


def rebuild(
    entries: Iterable[tuple[int, Entry]],
    claims: ClaimIndex,
    now_ms: int,
    *others: Callable[[int, Entry], object],
    room: int = GATHERED,
) -> int:
    """Fold (position, entry) pairs, in the ledger's order, into an empty index; the last position, 0 for none.

    `others` see every entry that is not a claim's alone. Then every open claim has a full lease from `now_ms`:
    renewals are not in the ledger, so nobody can know how much of it was left.
    Raises Overloaded: the rows' width cannot hold what is open or done.
    """
    folding, position = _Replay(claims, now_ms, room), 0
    for position, entry in entries:
        folding.take(position, entry)
        if not isinstance(entry, _CLAIMS_ALONE):
            for other in others:
                other(position, entry)
    folding.settle()
    claims.reset_leases(now_ms)
    return position


def warm_up() -> None:
    """Compile every kernel of claims, or load it from numba's cache, so that neither a start nor a request waits."""
    warm_up_claims()
    id16 = bytes(15) + b"1"
    rebuild([(1, Claimed(id16, id16, 1, id16, 1, 0, id16, b""))], ClaimIndex(), 0)


class _Replay:
    """As `ClaimIndex.apply` one entry after the other, but that ids which nobody held wait until they are many.

    Their rows count them from the beginning, so completing a claim changes its rows alone. Before anything else happens
    they are put into the table.
    """

    def __init__(self, claims: ClaimIndex, now_ms: int, room: int) -> None:
        self._claims = claims
        self._now_ms = now_ms
        kernels = bulk_insert.COMPILED if claims._kernels is COMPILED else bulk_insert.PLAIN
        self._waiting = Gathered(claims._table, kernels, room)

    def take(self, position: int, entry: Entry) -> None:
        if isinstance(entry, Claimed | Produced | Taken) and self._waits(position, entry):
            return
        if not isinstance(entry, Completed):
            self.settle()
        undo = self._claims.apply(position, entry, self._now_ms)
        if undo is not None:
            self._claims.settle_undo(undo)

    def _waits(self, position: int, entry: Claimed | Produced | Taken) -> bool:
        """Take in a grant of new ids alone; whether it was one."""
        claims = self._claims
        if not entry.fresh or entry.taken or (not isinstance(entry, Taken) and entry.digests):
            return False
        if claims._rows.free < ROWS_PER_CLAIM or claims.snapshot_now is not None:
            return False
        if not isinstance(entry, Taken) and claims._known.at_any_age(entry.claim) is not None:
            return False
        topic = claims._topic(entry.topic) if isinstance(entry, Produced) else NO_TOPIC
        self._grant(position, grant_of(entry, topic))
        return True

    def _grant(self, position: int, grant: Grant) -> None:
        claims, rows, ids = self._claims, self._claims._rows, own(grant.fresh)
        row = rows.take(position, grant, False, len(ids), self._now_ms)
        rows.holders.slots[row] = rows.holders.named[row] = len(ids)
        claims._granted = (row,)
        if grant.known:
            claims._known.put(grant.claim, ClaimRecord(grant.token, grant.call, grant.digest, (row,)))
        if grant.state == OPEN:
            claims.open_claims += 1
        else:
            claims._settled.add(row)
            if grant.known:
                claims._known.is_ending(grant.claim)
        claims.wall_ms = max(claims.wall_ms, grant.wall_ms)
        added = self._waiting.add(ids, row)
        while added < len(ids):
            self.settle()
            added = self._waiting.add(ids, row, added)
        rows.unpin((row,))

    def settle(self) -> None:
        """Put what waits into the table."""
        if not self._waiting.ids:
            return
        new, lost = self._waiting.spread()
        self._claims.ids += new
        if len(lost):
            self._lose(lost)

    def _lose(self, lost: U32) -> None:
        """Slots named these rows, each as often as it stands here, and name others now."""
        claims, holders = self._claims, self._claims._rows.holders
        rows, losses = np.unique(lost, return_counts=True)
        holders.slots[rows] -= losses.astype(np.int32)
        live = np.isin(holders.state[rows], LIVE)
        holders.named[rows[live]] -= losses[live].astype(np.int32)
        revived = int(losses[~live].sum())
        claims.ids += revived
        claims._table.dead -= revived
        claims.open_claims -= claims._emptied(rows.tolist())
        claims._rows.give_back_idle(rows.tolist())
