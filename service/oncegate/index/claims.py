"""The claims of one shard: which ids are held or done, by whom; a pure function of the ledger's entries.

`ask` decides and changes nothing; `apply` folds an entry in, the same way live and in replay; `undo` takes the newest
change back when the ledger refused it. Leases live in memory only. There is no clock here: `now_ms` is an argument,
monotonic. One thread at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.core.decisions import CLAIM, PRODUCE, TAKE, Action, Asker, Cell, ClaimState, IdState, actions
from oncegate.core.entries import Claimed, Completed, Entry, Produced, Released, Retired, Taken
from oncegate.core.errors import Overloaded, TokenReused
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.answers import Asked, ClaimView, Explained
from oncegate.index.grants import NO_CLAIM, NO_TOPIC, Grant, grant_of
from oncegate.index.kernels import (
    COMPILED,
    I64,
    NO_ROW,
    PLAIN,
    SAME_INDEX,
    TAKEN,
    U8,
    U32,
    U64,
    Answers,
    Kernels,
    Question,
    Rules,
)
from oncegate.index.known import Known, KnownClaims
from oncegate.index.rows import DONE, LIVE, OPEN, RELEASED, ROWS_PER_CLAIM, UNKNOWN, Rows, words
from oncegate.index.table import Table

__all__ = ["SAME_INDEX", "Asked", "ClaimIndex", "ClaimView", "Explained", "Undo", "Widths", "warm_up"]

_GRANT, _TAKE_OVER = int(Action.GRANT), int(Action.TAKE_OVER)
_VERDICTS = {
    Action.GRANT: Verdict.GRANTED,
    Action.GRANT_AGAIN: Verdict.GRANTED,
    Action.TAKE_OVER: Verdict.GRANTED | Flag.TAKEOVER,
    Action.SAME: Verdict.SAME | Flag.OF_CALL,
    Action.BUSY: Verdict.BUSY,
    Action.DUPLICATE: Verdict.DUPLICATE,
}
# Sweeping to find a free row passes over all slots: below this many slots a row it is cheaper than more rows.
_SLOTS_PER_ROW = 8
# When rows have run out for good, this part of them is freed at once, so that not every claim has to.
_ROWS_KEPT_FREE = 1 / 16


@dataclass(frozen=True)
class Widths:
    """`tag_bits`: up to 64, `row_bits`: up to 32; narrow ones make collisions and reuse common, for tests."""

    tag_bits: int = 64
    row_bits: int = 32
    capacity: int = 1024


def _rules(table: dict[tuple[IdState, Asker], Cell]) -> Rules:
    verdicts = [_VERDICTS[action] for action in Action]
    return Rules(np.array(list(actions(table)), np.uint8), np.array(verdicts, np.uint8))


@dataclass
class Undo:
    """How to take one entry back, and the rows that must stay what they are until then."""

    counters: tuple[int, int, int]
    claim: bytes
    known: tuple[Known | None, bytes | None] | None = None
    puts: list[tuple[int, U64, U32, int]] = field(default_factory=list)
    settled: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    retired: tuple[NDArray[np.intp], U8, I64] | None = None
    pinned: Sequence[int] | NDArray[np.intp] = ()


class ClaimIndex:
    """`takeovers`: ids ever granted by takeover. `open_claims`: those that hold ids. `ids`: held, done or taken.

    wall_ms: the latest time in any entry; the ledger's clock never goes back behind it.
    """

    def __init__(self, widths: Widths = Widths(), compiled: bool = True) -> None:
        self._kernels: Kernels = COMPILED if compiled else PLAIN
        self._rows = Rows(widths.row_bits)
        self._table = Table(self._rows, self._kernels, widths.tag_bits, widths.capacity)
        self._known = KnownClaims(self._rows)
        self._rules = {"claim": _rules(CLAIM), "produce": _rules(PRODUCE), "take": _rules(TAKE)}
        self._topics: list[str] = []
        self.takeovers = 0
        self.open_claims = 0
        self.ids = 0
        self.wall_ms = 0

    def ask(self, token: bytes, call: int, digest: bytes, ids: U64, now_ms: int, verb: str = "claim") -> Asked:
        """What each of `ids`, shape (n, 2), is answered now; `verb`: claim or produce. No effect.

        Raises TokenReused: this (token, call) is remembered with another digest.
        """
        found = self._known.find(token, call, now_ms)
        if found is not None and found[1].digest != digest:
            raise TokenReused("this token and call were used with other ids: a new request needs a new call")
        return self._decide(verb, token, call, found[0] if found is not None else None, ids, now_ms)

    def ask_take(self, owner: bytes, ids: U64, now_ms: int) -> Asked:
        """What each of `ids`, shape (n, 2), is answered when this owner takes it. No effect."""
        return self._decide("take", owner, 0, None, ids, now_ms)

    def _decide(self, verb: str, token: bytes, call: int, claim: bytes | None, ids: U64, now_ms: int) -> Asked:
        ids, n = _own(ids), len(ids)
        first, second = words(token)
        question = Question(first, second, call, claim is not None, now_ms, self._table.tag_mask)
        answers = Answers(np.empty(n, np.uint8), np.empty(n, np.uint8), np.empty(n, np.uint32))
        seen = np.full(1 << (2 * n).bit_length(), -1, np.int32)
        rests_on, again = self._kernels.decide(
            self._table.slots, self._rows.holders, self._rules[verb], question, ids, seen, answers
        )
        return Asked(
            *answers,
            fresh=ids[answers.actions == _GRANT],
            taken=ids[answers.actions == _TAKE_OVER],
            again=bool(again),
            claim=claim,
            rests_on=int(rests_on),
        )

    def make_room(self, ids: int, now_ms: int, entries: int = 1) -> None:
        """Sweep and grow so that entries of `ids` ids in all can be applied. No answer changes by it, but for one
        case: when rows run out, settled claims are forgotten before their time.

        Raises Overloaded: no row is free, and every one is needed.
        """
        rows = self._rows
        if not self._table.has_room(ids):
            self._known.forget_old(now_ms)
            self._table.make_room(ids)
            rows.reclaim()
        wanted = ROWS_PER_CLAIM * entries
        if rows.free >= wanted:
            return
        if rows.can_grow and self._table.used > _SLOTS_PER_ROW * rows.capacity:
            rows.grow()
            return
        self.sweep(now_ms)
        while rows.can_grow and rows.free < max(wanted, rows.capacity // 4):
            rows.grow()
        if rows.free < wanted:
            self._known.forget_unnamed(max(wanted, int(rows.capacity * _ROWS_KEPT_FREE)))
        if rows.free < wanted:
            raise Overloaded(f"all {rows.capacity} rows hold claims that are open or done; nothing was written")

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
        return self._retire(position, entry) if isinstance(entry, Retired) else None

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics.append(name)
        return self._topics.index(name)

    def _grant(self, position: int, grant: Grant, now_ms: int) -> Undo:
        self.make_room(len(grant.fresh) + len(grant.taken), now_ms)
        undo = Undo(self._counters(), grant.claim)
        old = self._known.at_any_age(grant.claim) if grant.known else None
        was_open = old is not None and self._rows.open_total(old.rows) > 0
        for ids, takeover in ((grant.fresh, False), (grant.taken, True)):
            if not len(ids):
                continue
            row = self._rows.take(position, grant, takeover, len(ids), now_ms)
            previous, was_absent = self._table.put(ids := _own(ids), row)
            undo.puts.append((row, ids, previous, was_absent))
            self.ids += was_absent
        rows = tuple(row for row, *_ in undo.puts)
        losers = self._losers(undo)
        self._rows.pin(losers, 1)
        undo.pinned = (*rows, *losers)
        if grant.known:
            known = Known(grant.token, grant.call, grant.digest, rows if old is None else old.rows + rows)
            undo.known = self._known.put(grant.claim, known)
        self.takeovers += len(grant.taken)
        self.open_claims += (grant.state == OPEN and not was_open and bool(rows)) - self._emptied(losers)
        self.wall_ms = max(self.wall_ms, grant.wall_ms)
        return undo

    def _retire(self, position: int, entry: Retired) -> Undo:
        """Everything done or taken before is absent from now on; its slots are dead until they are swept."""
        rows, holders = self._rows, self._rows.holders
        due = rows.due(entry.before_wall_ms)
        undo = Undo(self._counters(), NO_CLAIM, pinned=due)
        undo.retired = (due, holders.state[due].copy(), holders.position[due].copy())
        rows.pin(due, 1)
        self.ids -= int(holders.named[due].sum())
        self._table.dead += int(holders.slots[due].sum())
        holders.state[due], holders.position[due] = UNKNOWN, position
        self.wall_ms = max(self.wall_ms, entry.wall_ms)
        return undo

    def _losers(self, undo: Undo) -> list[int]:
        """The rows that the slots named before, each once; own rows, pinned already, left out."""
        losers: set[int] = set()
        for _, _, previous, _ in undo.puts:
            held = previous[previous != NO_ROW]
            if len(held):
                losers.update(np.unique(held).tolist())
        return sorted(losers.difference(row for row, *_ in undo.puts))

    def _emptied(self, losers: list[int]) -> int:
        """How many open claims have just lost the last id they held."""
        state = self._rows.holders.state
        claims = {self._rows.claim[row].tobytes() for row in losers if state[row] == OPEN}
        known = [self._known.at_any_age(claim) for claim in claims]
        return sum(self._rows.open_total(item.rows) == 0 for item in known if item is not None)

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
        self.open_claims -= was_open
        self.wall_ms = max(self.wall_ms, entry.wall_ms)
        undo.pinned = known.rows
        rows.pin(known.rows, 1)
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
        rows, holders = self._rows, self._rows.holders
        self.settle_undo(undo)
        for row, state, named, position, wall_ms, ended_ms in reversed(undo.settled):
            self._set_state(row, state)
            holders.named[row], holders.position[row] = named, position
            rows.wall_ms[row], rows.ended_ms[row] = wall_ms, ended_ms
        if undo.retired is not None:
            due, states, positions = undo.retired
            holders.state[due], holders.position[due] = states, positions
            self._table.dead -= int(holders.slots[due].sum())
        for row, ids, previous, was_absent in reversed(undo.puts):
            rows.void(row)
            self._table.put_back(ids, row, previous, was_absent)
        if undo.known is not None:
            self._known.put_back(undo.claim, undo.known)
        self.takeovers, self.open_claims, self.ids = undo.counters

    def settle_undo(self, undo: Undo) -> None:
        """The entry is durable: it is never taken back."""
        self._rows.pin(undo.pinned, -1)

    def renew(self, claim: bytes, now_ms: int) -> None:
        """A full lease from now, also after it ran out; KeyError when nothing is known of the claim."""
        known = self._known.get(claim, now_ms)
        if known is None:
            raise KeyError(claim.hex())
        rows = list(known.rows)
        self._rows.holders.lease_until_ms[rows] = now_ms + self._rows.lease_ms[rows]

    def view(self, claim: bytes, now_ms: int) -> ClaimView:
        """What is known of a claim; UNKNOWN when it was never granted, or settled more than two leases ago."""
        known = self._known.get(claim, now_ms)
        if known is None:
            return ClaimView(ClaimState.UNKNOWN)
        rows, holders, last = self._rows, self._rows.holders, known.rows[-1]
        return ClaimView(
            ClaimState(int(holders.state[last])),
            granted=int(rows.granted[list(known.rows)].sum()),
            named=int(holders.named[list(known.rows)].sum()),
            token=known.token,
            lease_ms=int(rows.lease_ms[last]),
            lease_left_ms=self._lease_left_ms(last, now_ms),
            position=int(holders.position[list(known.rows)].max()),
        )

    def explain(self, fingerprint: bytes, now_ms: int) -> Explained:
        """What is known about one id."""
        row = self._table.row_of(words(fingerprint))
        if row is None:
            return Explained(IdState.ABSENT)
        rows, holders = self._rows, self._rows.holders
        state, position = holders.state[row], int(holders.position[row])
        if state not in LIVE:
            return Explained(IdState.ABSENT, position=position)
        left_ms = self._lease_left_ms(row, now_ms)
        held = IdState.CLAIMED_LIVE if left_ms else IdState.CLAIMED_OVER
        wall_ms, takeover, holder = int(rows.wall_ms[row]), bool(holders.takeover[row]), holders.token[row].tobytes()
        if state == TAKEN:
            return Explained(IdState.TAKEN, position=position, wall_ms=wall_ms, takeover=takeover, owner=holder)
        return Explained(
            IdState.DONE if state == DONE else held,
            rows.claim[row].tobytes(),
            holder,
            int(holders.call[row]),
            left_ms,
            position,
            wall_ms,
            takeover,
            place=self._place(row),
        )

    def _place(self, row: int) -> tuple[str, int, int] | None:
        rows, topic = self._rows, int(self._rows.topic[row])
        if topic == NO_TOPIC:
            return None
        return self._topics[topic], int(rows.partition[row]), int(rows.first_offset[row])

    @property
    def oldest_wall_ms(self) -> int | None:
        """When the ids were done or taken that would retire first; None when there are none."""
        return self._rows.oldest_wall_ms()

    def _lease_left_ms(self, row: int, now_ms: int) -> int:
        holders = self._rows.holders
        is_open = holders.state[row] == OPEN
        return max(0, int(holders.lease_until_ms[row]) - now_ms) if is_open else 0

    def reset_leases(self, now_ms: int) -> None:
        """After a rebuild: every open claim gets a full lease, every settled one is remembered from now."""
        self._rows.reset_leases(now_ms)

    def sweep(self, now_ms: int) -> None:
        """Forget what is past its time, drop dead slots, free rows. No answer changes by it."""
        self._known.forget_old(now_ms)
        self._table.sweep()
        self._rows.reclaim()

    def _counters(self) -> tuple[int, int, int]:
        return self.takeovers, self.open_claims, self.ids

    def snapshot(self) -> dict[bytes, tuple[int, bytes, bool]]:
        """For tests: every id held, by tag and place: the row's state, its claim or owner, takeover; leases aside."""
        slots, holders = self._table.slots, self._rows.holders
        found: dict[bytes, tuple[int, bytes, bool]] = {}
        for slot in np.flatnonzero(slots.row != NO_ROW):
            row, key = int(slots.row[slot]), slots.tag[slot].tobytes() + slots.place[slot].tobytes()
            state, holder = int(holders.state[row]), self._rows.claim[row].tobytes()
            if state in LIVE:
                holder = holders.token[row].tobytes() if state == TAKEN else holder
                found[key] = (state, holder, bool(holders.takeover[row]))
        return found


def _own(ids: U64) -> U64:
    """The ids as the kernels take them: C-contiguous and writeable, for numba compiles anything else apart."""
    return ids if ids.flags.c_contiguous and ids.flags.writeable else ids.copy()


def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache, so that no request waits for it."""
    index, ids, id16 = ClaimIndex(), np.ones((1, 2), np.uint64), bytes(16)
    index.ask(id16, 1, id16, ids, 0)
    undo = index.apply(1, Claimed(id16, id16, 1, id16, 1, 0, ids.tobytes(), b""), 0)
    assert undo is not None
    index.undo(undo)
    index.sweep(0)
