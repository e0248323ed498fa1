"""Holds one shard's claims: arrays, registries and counters, with the writers of each."""

from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import I32
from oncegate.core.cells import Cell
from oncegate.core.claims import Action, Asker, IdState, LeaseExpiry, actions, tables
from oncegate.core.errors import Overloaded
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.claims.batch_scopes import BatchScopes
from oncegate.index.claims.by_name import ClaimRegistry
from oncegate.index.claims.row_sharing import ROWS_MIN, ExpiryBuckets, RowSharing
from oncegate.index.lsm.archives import ArchiveIndex
from oncegate.index.lsm.tier import ColdTier
from oncegate.index.table.arrays import Rules
from oncegate.index.table.kernels import COMPILED, PLAIN, Kernels
from oncegate.index.table.rows import ROWS_PER_CLAIM, Rows
from oncegate.index.table.table import CopyOnWrite, Table
from oncegate.index.writers import RunOrder

# When rows have run out, this share of them is freed at once, so that not every later claim has to free some.
_ROWS_KEPT_FREE = 1 / 16


_VERDICTS = {
    Action.GRANT: Verdict.GRANTED,
    Action.GRANT_AGAIN: Verdict.GRANTED,
    Action.TAKE_OVER: Verdict.GRANTED | Flag.TAKEOVER,
    Action.SAME: Verdict.SAME | Flag.OF_CALL,
    Action.BUSY: Verdict.BUSY,
    Action.DUPLICATE: Verdict.DUPLICATE,
    Action.CONFLICT: Verdict.CONFLICT,
    Action.FREE: Verdict.FREE,
    Action.LEFT: Verdict.FREE | Flag.TAKEOVER,
    Action.HOLD: Verdict.BUSY,
    Action.IN_DOUBT: Verdict.IN_DOUBT,
    Action.STALE: Verdict.STALE,
}


def _rules(table: dict[tuple[IdState, Asker], Cell[Action]]) -> Rules:
    verdicts = [_VERDICTS[action] for action in Action]
    return Rules(np.array(list(actions(table)), np.uint8), np.array(verdicts, np.uint8))


@dataclass(frozen=True)
class Widths:
    """Bit widths of row numbers and tags in the index, and the initial table size. Narrow widths are for tests.

    tag_bits: up to 64. row_bits: up to 32. Narrow ones make collisions and reuse frequent. 28 bits of rows are 268
    million simultaneous claims, in 40 GB.
    capacity: initial slots, over all `segments` (a power of two, at least a page of memory each): at 50 million ids,
    growing one of 256 segments takes some milliseconds.
    pool_from: number of rows in use from which small claims share rows.
    """

    tag_bits: int = 64
    row_bits: int = 28
    capacity: int = 1024
    segments: int = 256
    pool_from: int = ROWS_MIN


class ClaimStore:
    """The claims of one shard. All fields are public; each has its writers listed here.

    `claims.decide` reads the store. Only `claims.apply` (live), `claims.replay` (at start-up), `claims.evict` and
    `index.snapshot` (restore) change it. One thread at a time.

    kernels: the loops over arrays, compiled or plain; never changed.
    rules: the tables of `core.claims` in the kernels' form, by verb; changed by `let_expire`.
    rows: a claim's grants as arrays. `Rows` assigns and frees numbers; apply and replay write the columns.
    table: maps an id's fingerprint to its row; changed only by `Table`, called by apply, replay and evict.
    registry: the remembered claims; changed by apply, replay and, when room is short, `make_room`.
    expiry: done and taken rows by time; extended by apply and replay, reduced when ids retire.
    sharing: small done claims that share a row; works in `make_room`.
    scopes: rows by driver and batch; changed by apply.
    archives: ids that left the table, by archive; changed by apply, and `dropped` by evict.
    cold: the runs in which archived ids are looked up; the engine's maintenance replaces runs.
    standing_rows: int32, by kind of archived ids the row that represents them all, and last -1; extended by decide.
    runs: the order in which the runs of a job began to write; changed by apply, replay and restore.
    topics: names of topics, by the number in rows; extended by apply and replay.
    last_granted: rows of the last entry that granted ids, for a `Scoped` entry after it; set by apply and replay.
    takeovers: number of ids ever granted by takeover.
    open_claims: number of claims that hold ids.
    ids: number of ids held, done or taken in the table.
    evicted_ids: number of ids that left the table for an archive; never decreases.
    wall_ms: the latest time in any entry; the ledger's clock never runs backwards.

    Apply, replay and evict maintain the counters.
    """

    def __init__(self, widths: Widths | None = None, compiled: bool = True) -> None:
        widths = widths or Widths()
        self.kernels: Kernels = COMPILED if compiled else PLAIN
        self.let_expire(LeaseExpiry.TAKEOVER)
        self.rows = Rows(widths.row_bits)
        self.table = Table(self.rows, self.kernels, widths.tag_bits, widths.capacity, widths.segments)
        self.registry = ClaimRegistry(self.rows)
        self.expiry = ExpiryBuckets(self.rows)
        self.sharing = RowSharing(self.rows, self.table, self.expiry, self.kernels, widths.pool_from)
        self.scopes = BatchScopes(self.rows)
        self.archives = ArchiveIndex()
        self.cold = ColdTier(self.archives)
        self.standing_rows: I32 = np.full(1, -1, np.int32)
        self.runs = RunOrder()
        self.topics: list[str] = []
        self.last_granted: tuple[int, ...] = ()
        self.takeovers = 0
        self.open_claims = 0
        self.ids = 0
        self.evicted_ids = 0
        self.wall_ms = 0

    def let_expire(self, expiry: LeaseExpiry) -> None:
        """Applies the namespace's `lease_expiry` setting, from the next decision on."""
        self.rules = {verb: _rules(table) for verb, table in tables(expiry).items()}

    def topic_number(self, name: str) -> int:
        """Returns the number that represents a topic's name in rows; a new name gets the next number."""
        if name not in self.topics:
            self.topics.append(name)
        return self.topics.index(name)

    def counters(self) -> tuple[int, int, int]:
        """Returns the counters that an undo restores: takeovers, open claims, and all ids that were ever in the
        table.
        """
        return self.takeovers, self.open_claims, self.ids + self.evicted_ids

    def make_room(self, ids: int, now_ms: int, entries: int = 1, digests: bool = False) -> None:
        """Frees enough rows for entries with `ids` ids in total. The caller that applies them makes room in the table.

        Answers do not change, with one exception: when rows run out, ended claims are forgotten early.

        digests: the entries have payload digests.

        Raises Overloaded if no row is free and every row is needed.
        """
        if digests:
            self.table.keep_digests()
        rows, rows_needed = self.rows, ROWS_PER_CLAIM * entries
        self.registry.forget_due(now_ms)
        if ids:
            self.sharing.step(self.ids, self.wall_ms)
        if rows.free >= rows_needed:
            return
        self.end_snapshot()
        self.sweep(now_ms)
        if rows.free < rows_needed:
            self.registry.forget_unnamed(max(rows_needed, int(rows.limit * _ROWS_KEPT_FREE)))
        if rows.free < rows_needed:
            raise Overloaded(f"all {rows.limit} rows hold claims that are open or done; nothing was written")

    def sweep(self, now_ms: int) -> None:
        """Forgets expired claims, drops dead slots and frees rows. Answers do not change."""
        self.registry.forget_old(now_ms)
        self.table.sweep()

    def begin_snapshot(self, copy_on_write: CopyOnWrite) -> None:
        """Begins a snapshot. Until it ends, nothing is swept, shared or reused, and `copy_on_write` gets each
        overwritten slot.

        Only one snapshot at a time.
        """
        assert self.snapshot is None, "one at a time"
        self.table.snapshot = copy_on_write
        self.rows.only_new = self.sharing.paused = True

    def end_snapshot(self) -> None:
        """Ends the current snapshot, if any. An incomplete snapshot is useless."""
        self.table.snapshot = None
        self.rows.only_new = self.sharing.paused = False

    @property
    def snapshot(self) -> CopyOnWrite | None:
        return self.table.snapshot

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of the slots and of the allocated rows. Python's objects for remembered claims come on
        top."""
        return self.table.size_bytes + self.rows.size_bytes

    @property
    def known_ids(self) -> int:
        """Counts the ids held, done or taken, including archived ones."""
        return self.ids + self.archives.ids

    @property
    def oldest_wall_ms(self) -> int | None:
        """Returns the completion time of the ids that retire next; None if there are none."""
        candidates = (self.expiry.oldest_wall_ms(), self.archives.oldest_wall_ms)
        return min((wall_ms for wall_ms in candidates if wall_ms is not None), default=None)
