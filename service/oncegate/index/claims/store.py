"""Holds the open record of one shard's claims: arrays, registries and counters, and who changes each of them."""

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

# When rows have run out for good, this part of them is freed at once, so that not every claim has to.
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
    """Says how wide the index's numbers are and how large its table begins; narrow ones are for tests.

    `tag_bits`: up to 64, `row_bits`: up to 32; narrow ones make collisions and reuse common.
    28 bits of rows are 268 million claims at once, in 40 GB. `capacity`: slots to begin with, over all `segments`
    (a power of two, a page of memory each at least): at 50 million ids, one of 256 moves in some milliseconds.
    `pool_from`: how many rows are in use before small claims share some.
    """

    tag_bits: int = 64
    row_bits: int = 28
    capacity: int = 1024
    segments: int = 256
    pool_from: int = ROWS_MIN


class ClaimStore:
    """Holds all that one shard knows of its claims; every field is public, and each says who changes it.

    `claims.decide` reads it; `claims.apply` (live), `claims.replay` (at a start), `claims.evict` and `index.snapshot`
    (restore) change it; nobody else does. One thread at a time.

    kernels: the loops over arrays, compiled or plain; never changed.
    rules: the tables of `core.claims` as the kernels take them, by verb; changed by `let_expire`.
    rows: a claim's grants as arrays; numbers are given and freed by `Rows` itself, columns written by apply and replay.
    table: from an id's fingerprint to its row; changed by `Table` alone, at the call of apply, replay and evict.
    registry: the claims that can still be named; changed by apply, replay and, when room is short, `make_room`.
    expiry: which rows are done or taken since when; appended to by apply and replay, taken from when ids retire.
    sharing: small done claims that share a row; takes its steps in `make_room`.
    scopes: which rows go with which batch of a driver; changed by apply.
    archives: ids that left the table, archive by archive; changed by apply, `dropped` by evict.
    cold: the runs that archived ids are looked up in; the engine's maintenance replaces runs.
    standing_rows: int32, by kind of archived ids the row that stands for all of them, and last -1; grown by decide.
    runs: in which order the runs of a job began to write; changed by apply and replay, and by a restore.
    topics: names of topics, by the number that rows have; appended to by apply and replay.
    last_granted: rows of the last entry that granted ids, for a `Scoped` that follows it; set by apply and replay.
    takeovers: ids ever granted by takeover. open_claims: claims that hold ids. ids: held, done or taken in the table.
    evicted_ids: those that left the table for an archive, never counted down. wall_ms: the latest time in any entry;
    the ledger's clock never goes back behind it. All counted by apply, replay and evict.
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
        """Puts the tables in force that say what becomes of ids whose lease ran out, from the next decision on."""
        self.rules = {verb: _rules(table) for verb, table in tables(expiry).items()}

    def topic_number(self, name: str) -> int:
        """Returns the number that rows have for a topic's name; a new name gets the next one."""
        if name not in self.topics:
            self.topics.append(name)
        return self.topics.index(name)

    def counters(self) -> tuple[int, int, int]:
        """Returns takeovers, open claims and ids ever in the table, as an undo brings them back."""
        return self.takeovers, self.open_claims, self.ids + self.evicted_ids

    def make_room(self, ids: int, now_ms: int, entries: int = 1, digests: bool = False) -> None:
        """Makes rows free for entries of `ids` ids in all, with `digests` of payloads or without; whoever applies them
        makes room in the table.

        No answer changes by it, but for one case: when rows run out, settled claims are forgotten before their time.
        Raises Overloaded: no row is free, and every one is needed.
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
        """Forgets claims past their time, drops dead slots, frees rows. No answer changes by it."""
        self.registry.forget_old(now_ms)
        self.table.sweep()

    def begin_snapshot(self, copy_on_write: CopyOnWrite) -> None:
        """Begins a snapshot: until it ends nothing is swept, shared or used anew, and overwritten slots are told to
        `copy_on_write`. One at a time."""
        assert self.snapshot is None, "one at a time"
        self.table.snapshot = copy_on_write
        self.rows.only_new = self.sharing.paused = True

    def end_snapshot(self) -> None:
        """Ends the snapshot under way, if there is one; when its pieces are not all made yet, it is worth nothing."""
        self.table.snapshot = None
        self.rows.only_new = self.sharing.paused = False

    @property
    def snapshot(self) -> CopyOnWrite | None:
        """Returns the snapshot that is under way, if one is."""
        return self.table.snapshot

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of the slots and of the rows made so far; what Python holds of the remembered claims comes
        on top."""
        return self.table.size_bytes + self.rows.size_bytes

    @property
    def known_ids(self) -> int:
        """Counts the ids held, done or taken, those that left the table included."""
        return self.ids + self.archives.ids

    @property
    def oldest_wall_ms(self) -> int | None:
        """Returns when the ids were done or taken that would retire first; None when there are none."""
        candidates = (self.expiry.oldest_wall_ms(), self.archives.oldest_wall_ms)
        return min((wall_ms for wall_ms in candidates if wall_ms is not None), default=None)
