"""Claims of new ids that come at once, folded in at once: for each what `apply` does, in the same order, with one look
at all their ids and one filling of all their rows. What comes alone, or is not new, goes its own way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oncegate.core.decisions import CLAIM, Action, Asker, IdState
from oncegate.core.entries import Claimed
from oncegate.index.answers import Asked
from oncegate.index.arrays import I64, NO_ROW, U32, U64
from oncegate.index.claims import ClaimIndex
from oncegate.index.folding import Undo
from oncegate.index.grants import NO_CLAIM, NO_TOPIC
from oncegate.index.known import Known
from oncegate.index.rows import OPEN, Rows

# Whoever asks for the first time for what nobody holds is told the same, so one question stands for all of them.
FIRST = Action.GRANT
assert {CLAIM[IdState.ABSENT, asker].action for asker in (Asker.SAME_TOKEN, Asker.OTHER)} == {FIRST}
_NOBODY = bytes(16)


def look(index: ClaimIndex, ids: U64, now_ms: int) -> Asked:
    """What is said of ids, (n, 2), of several requests, each asking for the first time: `FIRST` where an id is new.

    Only that is an answer: an id that stands here twice, or that somebody holds, is to be asked for alone. No effect.
    """
    return index._decide("claim", _NOBODY, 0, None, ids, now_ms)


def is_repeat(index: ClaimIndex, token: bytes, call: int, now_ms: int) -> bool:
    """A claim is remembered that this (token, call) made."""
    return index._known.find(token, call, now_ms) is not None


@dataclass
class Granted:
    """Claims that were folded in at once; to be settled or undone at once, as one change.

    counters: before the first; `ends`: where each one's `ids` end; `previous`, `absent` and `kept`: what `put_each`
    said; `known`: what each one's name stood for before; `losers`: rows that slots named, for dead ids.
    """

    index: ClaimIndex
    counters: tuple[int, int, int]
    names: list[bytes]
    rows: I64
    ids: U64
    ends: I64
    previous: U32
    absent: I64
    kept: U32
    known: list[tuple[Known | None, bytes | None]]
    losers: U32

    def settle(self) -> None:
        """The entries are durable."""
        pinned = np.concatenate([self.rows.astype(np.uint32), self.losers])
        self.index.settle_undo(Undo(self.counters, NO_CLAIM, pinned=pinned))

    def undo(self) -> None:
        """Take all of them back, the last one first: each as if it had come alone."""
        takeovers, open_claims, ids = self.counters
        before = ids + np.cumsum(self.absent) - self.absent
        firsts = [0, *self.ends[:-1].tolist()]
        for n in range(len(self.rows) - 1, -1, -1):
            at, row = slice(firsts[n], int(self.ends[n])), int(self.rows[n])
            undo = Undo((takeovers, open_claims + n, int(before[n])), self.names[n], self.known[n])
            undo.puts = [(row, self.ids[at], self.previous[at], int(self.absent[n]), self.kept[at])]
            undo.pinned = (row, *(() if n else self.losers.tolist()))
            self.index.undo(undo)


def grant_all(index: ClaimIndex, position: int, claims: Sequence[Claimed], ids: U64, now_ms: int) -> Granted:
    """Fold in entries, the first at `position`; `ids`: theirs one after the other, all new, as `look` has just said.

    Raises Overloaded, before any effect, only where `make_room` would.
    """
    index.make_room(0, now_ms, entries=len(claims))
    index._table.make_room_for([ids])
    counters = index._counters()
    rows = _take_all(index._rows, position, claims, now_ms)
    ends = np.cumsum([len(claim.fresh) // 16 for claim in claims])
    previous, absent, kept = index._table.put_each(ids, rows, ends)
    # Nobody loses an id, but dead slots may have named rows: these stay what they are until all of it is settled.
    losers = np.unique(previous[previous != NO_ROW])
    index._rows.holders.pins[losers] += 1
    put, known = index._known.put, []
    for claim, row in zip(claims, rows.tolist(), strict=True):
        known.append(put(claim.claim, Known(claim.token, claim.call, claim.digest, (row,))))
    index.ids += int(absent.sum())
    index.open_claims += len(claims)
    index.wall_ms = max(index.wall_ms, *(claim.wall_ms for claim in claims))
    index._granted = (int(rows[-1]),)
    names = [claim.claim for claim in claims]
    return Granted(index, counters, names, rows, ids, ends, previous, absent, kept, known, losers)


def _take_all(rows: Rows, position: int, claims: Sequence[Claimed], now_ms: int) -> I64:
    """Free rows, filled in as `Rows.take` fills in one each."""
    at, holders = np.array([rows._next() for _ in claims], np.int64), rows.holders
    lease_ms = np.array([claim.lease_ms for claim in claims], np.int64)
    rows.used[at], holders.kept[at], holders.pins[at], holders.state[at] = True, True, 1, OPEN
    rows.claim[at] = _words([claim.claim for claim in claims])
    holders.token[at] = _words([claim.token for claim in claims])
    rows.digest[at] = _words([claim.digest for claim in claims])
    holders.call[at] = [claim.call for claim in claims]
    holders.position[at] = np.arange(position, position + len(claims))
    rows.lease_ms[at], holders.lease_until_ms[at] = lease_ms, now_ms + lease_ms
    rows.wall_ms[at] = [claim.wall_ms for claim in claims]
    rows.granted[at] = [len(claim.fresh) // 16 for claim in claims]
    rows.topic[at] = NO_TOPIC
    for zero in (holders.takeover, holders.named, holders.slots, rows.ended_ms, rows.partition, rows.first_offset):
        zero[at] = 0
    rows.digests[at], rows.scoped[at] = 0, 0
    return at


def _words(raw: Sequence[bytes]) -> U64:
    """16 bytes each as the two words that arrays hold, (n, 2)."""
    return np.frombuffer(b"".join(raw), np.uint64).reshape(-1, 2)
