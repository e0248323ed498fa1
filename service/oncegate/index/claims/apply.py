"""Folding entries into the index of claims, and taking them back: the only place where it changes."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import I64, U8, U32, U64
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Produced, Released, Retired, Taken
from oncegate.core.entries.producers import Acked, Scoped
from oncegate.core.errors import Overloaded
from oncegate.index.claims.batch_scopes import BatchScopes
from oncegate.index.claims.by_name import ClaimRecord, ClaimRegistry
from oncegate.index.claims.expiry import ExpiryBuckets
from oncegate.index.claims.row_sharing import ROWS_MIN, RowSharing
from oncegate.index.table.arrays import NO_ROW
from oncegate.index.table.grants import NO_CLAIM, Grant, grant_of
from oncegate.index.table.kernels import COMPILED, PLAIN, Kernels
from oncegate.index.table.rows import DONE, LIVE, OPEN, RELEASED, ROWS_PER_CLAIM, Rows
from oncegate.index.table.table import CopyOnWrite, Table

# When rows have run out for good, this part of them is freed at once, so that not every claim has to.
_ROWS_KEPT_FREE = 1 / 16
_NEVER_MS = 2**63 - 1
# What a slot that is new named before.
_NEW = b"\xff\xff\xff\xff"


@dataclass(frozen=True)
class Widths:
    """`tag_bits`: up to 64, `row_bits`: up to 32; narrow ones make collisions and reuse common, for tests.

    28 bits of rows are 268 million claims at once, in 40 GB. `capacity`: slots to begin with, over all `segments`
    (a power of two, a page of memory each at least): at 50 million ids, one of 256 moves in some milliseconds.
    """

    tag_bits: int = 64
    row_bits: int = 28
    capacity: int = 1024
    segments: int = 256
    pool_from: int = ROWS_MIN


@dataclass
class Undo:
    """How to take one entry back, and the rows that must stay what they are until then.

    sealed: what takes its effect on archives back, and what settles it; scoped: what does on what batches hold.
    """

    counters: tuple[int, int, int]
    claim: bytes
    known: tuple[ClaimRecord | None, bytes | None] | None = None
    puts: list[tuple[int, U64, U32, int, U32]] = field(default_factory=list)
    settled: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    retired: tuple[U32, U8, I64] | None = None
    scoped: Callable[[], None] | None = None
    sealed: tuple[Callable[[], None], Callable[[], None]] | None = None
    pinned: tuple[int, ...] | U32 = ()


class ClaimFold:
    """`takeovers`: ids ever granted by takeover. `open_claims`: those that hold ids. `ids`: held, done or taken,
    without the `evicted_ids`: those that left the table for an archive (`index.sealing`).

    wall_ms: the latest time in any entry; the ledger's clock never goes back behind it.
    """

    def __init__(self, widths: Widths | None = None, compiled: bool = True) -> None:
        widths = widths or Widths()
        self._kernels: Kernels = COMPILED if compiled else PLAIN
        self._rows = Rows(widths.row_bits)
        self._table = Table(self._rows, self._kernels, widths.tag_bits, widths.capacity, widths.segments)
        self._known = ClaimRegistry(self._rows)
        self._settled = ExpiryBuckets(self._rows)
        self._pooling = RowSharing(self._rows, self._table, self._settled, self._kernels, widths.pool_from)
        self.scopes = BatchScopes(self._rows)
        self._granted: tuple[int, ...] = ()
        self._topics: list[str] = []
        self.takeovers = 0
        self.open_claims = 0
        self.ids = 0
        self.evicted_ids = 0
        self.wall_ms = 0

    def make_room(self, ids: int, now_ms: int, entries: int = 1, digests: bool = False) -> None:
        """Make it sure that entries of `ids` ids in all can be applied, with `digests` of payloads or without. No
        answer changes by it, but for one case: when rows run out, settled claims are forgotten before their time.

        Raises Overloaded: no row is free, and every one is needed; or the slots are as many as they get.
        """
        if digests:
            self._table.keep_digests()
        rows, wanted = self._rows, ROWS_PER_CLAIM * entries
        self._known.forget_due(now_ms)
        if ids:
            self._table.make_room(ids)
            self._pooling.step(self.ids, self.wall_ms)
        if rows.free >= wanted:
            return
        self.stop_snapshot()
        self.sweep(now_ms)
        if rows.free < wanted:
            self._known.forget_unnamed(max(wanted, int(rows.limit * _ROWS_KEPT_FREE)))
        if rows.free < wanted:
            raise Overloaded(f"all {rows.limit} rows hold claims that are open or done; nothing was written")

    def apply(self, position: int, entry: Entry, now_ms: int) -> Undo | None:
        """Fold one entry in; None when it is about no ids. Its rows stay pinned until the Undo is settled or undone.

        Raises Overloaded, before any effect, only where `make_room` would.
        """
        if isinstance(entry, Claimed | Taken):
            return self._grant(position, grant_of(entry), now_ms)
        if isinstance(entry, Produced) and (entry.fresh or entry.taken):
            return self._grant(position, grant_of(entry, self._topic(entry.topic)), now_ms)
        if isinstance(entry, Completed | Released):
            return self._settle(position, entry, DONE if isinstance(entry, Completed) else RELEASED, now_ms)
        if isinstance(entry, Scoped):
            return self._scope(entry)
        if isinstance(entry, Acked):
            return self._forget_acked(position, entry)
        return self._retire(position, entry) if isinstance(entry, Retired) else None

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics.append(name)
        return self._topics.index(name)

    def _grant(self, position: int, grant: Grant, now_ms: int) -> Undo:
        given = [part for part in _parts(grant) if len(part[0])]
        self.make_room(0, now_ms, digests=len(grant.digests) > 0)
        self._table.make_room_for([ids for ids, *_ in given])
        undo = Undo(self._counters(), grant.claim)
        old = self._known.at_any_age(grant.claim) if grant.known else None
        was_open = old is not None and self._rows.open_total(old.rows) > 0
        for ids, digests, takeover in given:
            row = self._rows.take(position, grant, takeover, len(ids), now_ms)
            previous, was_absent, kept = self._table.put(ids, row, digests)
            undo.puts.append((row, ids, previous, was_absent, kept))
            self.ids += was_absent
            if grant.state != OPEN:
                self._settled.add(row)
        rows = tuple(row for row, *_ in undo.puts)
        losers = self._losers(undo)
        self._rows.pin(losers)
        undo.pinned, self._granted = (*rows, *losers), rows
        if grant.known:
            known = ClaimRecord(grant.token, grant.call, grant.digest, rows if old is None else old.rows + rows)
            undo.known = self._known.put(grant.claim, known)
            if grant.state != OPEN:
                self._known.is_ending(grant.claim)
        self.takeovers += len(grant.taken)
        self.open_claims += (grant.state == OPEN and not was_open and bool(rows)) - self._emptied(losers)
        self.wall_ms = max(self.wall_ms, grant.wall_ms)
        return undo

    def _retire(self, position: int, entry: Retired) -> Undo:
        """Everything done or taken before is absent from now on; its slots are dead until they are swept."""
        self.wall_ms = max(self.wall_ms, entry.wall_ms)
        return self._let_go(position, self._settled.take_before(entry.before_wall_ms), entry.before_wall_ms)

    def _scope(self, entry: Scoped) -> Undo:
        """The rows of this claim, or of the entry before, may go when the batch is acked."""
        known = self._known.at_any_age(entry.claim)
        rows = self._granted if entry.claim == NO_CLAIM else known.rows if known is not None else ()
        return Undo(self._counters(), NO_CLAIM, scoped=self.scopes.add(entry.driver, entry.batch, rows))

    def _forget_acked(self, position: int, entry: Acked) -> Undo:
        """What was claimed in these batches and is done goes as what retires does: the batches are STALE instead."""
        rows, scoped = self.scopes.acked(entry.driver, entry.batches)
        undo = self._let_go(position, rows, _NEVER_MS)
        undo.scoped = scoped
        self.wall_ms = max(self.wall_ms, entry.wall_ms)
        return undo

    def _let_go(self, position: int, listed: U32, before_ms: int) -> Undo:
        """Those of the rows that are done or taken since before are absent from now on."""
        rows = self._rows
        due, states = np.empty_like(listed), np.empty(len(listed), np.uint8)
        positions = np.empty(len(listed), np.int64)
        count, ids, slots = self._kernels.retire(
            rows.holders, rows.wall_ms, listed, before_ms, position, due, states, positions
        )
        undo = Undo(self._counters(), NO_CLAIM, pinned=due[:count])
        undo.retired = (due[:count], states[:count], positions[:count])
        self.ids -= int(ids)
        self._table.dead += int(slots)
        return undo

    def _losers(self, undo: Undo) -> list[int]:
        """The rows that the slots named before, each once; own rows, pinned already, left out."""
        losers: set[int] = set()
        for _, ids, previous, was_absent, _ in undo.puts:
            # New slots alone: one look, where a comparison of arrays costs more than a small claim.
            if was_absent == len(ids) and previous.tobytes() == _NEW * len(ids):
                continue
            held = previous[previous != NO_ROW]
            if len(held):
                losers.update(np.unique(held).tolist())
        return sorted(losers.difference(row for row, *_ in undo.puts))

    def _emptied(self, losers: list[int]) -> int:
        """How many open claims have just lost the last id they held."""
        state = self._rows.holders.state
        claims = {self._rows.claim[row].tobytes() for row in losers if state[row] == OPEN}
        known = [(claim, self._known.at_any_age(claim)) for claim in claims]
        emptied = [claim for claim, item in known if item is not None and self._rows.open_total(item.rows) == 0]
        for claim in emptied:
            self._known.is_ending(claim)
        return len(emptied)

    def _settle(self, position: int, entry: Completed | Released, state: int, now_ms: int) -> Undo:
        """What is forgotten holds nothing: its entry, met in a replay that was short of rows, has no effect."""
        undo = Undo(self._counters(), entry.claim)
        known = self._known.at_any_age(entry.claim)
        if known is None:
            return undo
        rows, holders = self._rows, self._rows.holders
        was_open = rows.open_total(known.rows) > 0
        for row in known.rows:
            before = (holders.state[row], holders.named[row], holders.position[row])
            undo.settled.append((row, *before, rows.wall_ms[row], rows.ended_ms[row]))
            self._set_state(row, state)
            holders.position[row], rows.wall_ms[row], rows.ended_ms[row] = position, entry.wall_ms, now_ms
            if state == DONE:
                self._settled.add(row)
        self._known.is_ending(entry.claim)
        self.open_claims -= was_open
        self.wall_ms = max(self.wall_ms, entry.wall_ms)
        undo.pinned = known.rows
        rows.pin(known.rows)
        return undo

    def _set_state(self, row: int, state: int) -> None:
        """`named` stays as it was when a row dies: how many ids it was settled with."""
        holders = self._rows.holders
        was_live, is_live = (value in LIVE for value in (holders.state[row], state))
        holders.state[row] = state
        if was_live and not is_live:
            self.ids -= int(holders.named[row])
            self._table.dead += int(holders.slots[row])
        elif is_live and not was_live:
            holders.named[row] = holders.slots[row]
            self.ids += int(holders.named[row])
            self._table.dead -= int(holders.slots[row])

    def undo(self, undo: Undo) -> None:
        """Take an entry back that the ledger refused; the newest first. The table may have moved since."""
        self.stop_snapshot()
        rows, holders = self._rows, self._rows.holders
        for row, state, named, position, wall_ms, ended_ms in reversed(undo.settled):
            self._set_state(row, state)
            holders.named[row], holders.position[row] = named, position
            rows.wall_ms[row], rows.ended_ms[row] = wall_ms, ended_ms
        if undo.retired is not None:
            due, states, positions = undo.retired
            holders.state[due], holders.position[due] = states, positions
            self._table.dead -= int(holders.slots[due].sum())
            # Those of an acked batch were never struck off the list.
            if undo.scoped is None:
                self._settled.add_all(due)
        if undo.scoped is not None:
            undo.scoped()
        for row, ids, previous, was_absent, kept in reversed(undo.puts):
            rows.void(row)
            self._table.put_back(ids, row, previous, was_absent, kept)
        if undo.known is not None:
            self._known.put_back(undo.claim, undo.known)
        self.takeovers, self.open_claims, known = undo.counters
        # Ids may have left for archives since, which no entry takes back.
        self.ids = known - self.evicted_ids
        self.settle_undo(undo)

    def settle_undo(self, undo: Undo) -> None:
        """The entry is durable: it is never taken back."""
        if isinstance(undo.pinned, tuple):
            self._rows.unpin(undo.pinned)
            return
        freed = np.empty_like(undo.pinned)
        free = self._kernels.unpin(self._rows.holders, undo.pinned, freed)
        self._rows.give_back(freed[:free])

    def reset_leases(self, now_ms: int) -> None:
        """After a rebuild: every open claim gets a full lease, every settled one is remembered from now."""
        self._rows.reset_leases(now_ms)

    def sweep(self, now_ms: int) -> None:
        """Forget what is past its time, drop dead slots, free rows. No answer changes by it."""
        self._known.forget_old(now_ms)
        self._table.sweep()

    def begin_snapshot(self, saving: CopyOnWrite) -> None:
        """From now on nothing is swept, pooled or used anew, and `saving` is told of slots that are overwritten."""
        assert self.snapshot_now is None, "one at a time"
        self._table.saving = saving
        self._rows.only_new = self._pooling.paused = True

    def stop_snapshot(self) -> None:
        """As before; a save that has not come to its end comes to none."""
        self._table.saving = None
        self._rows.only_new = self._pooling.paused = False

    @property
    def snapshot_now(self) -> CopyOnWrite | None:
        """The save that is under way, if one is."""
        return self._table.saving

    @property
    def size_bytes(self) -> int:
        """Of the slots and the rows made so far; what Python holds of the remembered claims comes on top."""
        return self._table.size_bytes + self._rows.size_bytes

    def _counters(self) -> tuple[int, int, int]:
        return self.takeovers, self.open_claims, self.ids + self.evicted_ids


def _parts(grant: Grant) -> tuple[tuple[U64, U32, bool], ...]:
    """The fresh and the taken ids, each with the digests of their payloads and whether they are taken over."""
    fresh, digests = len(grant.fresh), grant.digests
    return (own(grant.fresh), digests[:fresh], False), (own(grant.taken), digests[fresh:], True)


def own(ids: NDArray[np.uint64]) -> U64:
    """The ids as the kernels take them: C-contiguous and writeable, for numba compiles anything else apart."""
    return ids if ids.flags.c_contiguous and ids.flags.writeable else ids.copy()
