"""Claims of new ids that come at once, folded in at once: for each what `apply` does, in the same order, with one look
at all their ids and one filling of all their rows. What comes alone, or is not new, goes its own way.
"""

from collections.abc import Sequence

import numpy as np

from oncegate.core.decisions import CLAIM, Action, Asker, IdState
from oncegate.core.entries import Claimed
from oncegate.index.answers import Asked
from oncegate.index.arrays import U64
from oncegate.index.claims import ClaimIndex
from oncegate.index.folding import Undo
from oncegate.index.grants import NO_TOPIC
from oncegate.index.known import Known
from oncegate.index.rows import OPEN, Rows

# Whoever asks for the first time for what nobody holds is told the same, so one question stands for all of them.
FIRST = Action.GRANT
assert {CLAIM[IdState.ABSENT, asker].action for asker in (Asker.SAME_TOKEN, Asker.OTHER)} == {FIRST}
_NOBODY = bytes(16)
_NO_ROW = b"\xff\xff\xff\xff"


def look(index: ClaimIndex, ids: U64, now_ms: int) -> Asked:
    """What is said of ids, (n, 2), of several requests, each asking for the first time: `FIRST` where an id is new.

    Only that is an answer: an id that stands here twice, or that somebody holds, is to be asked for alone. No effect.
    """
    return index._decide("claim", _NOBODY, 0, None, ids, now_ms)


def is_repeat(index: ClaimIndex, token: bytes, call: int, now_ms: int) -> bool:
    """A claim is remembered that this (token, call) made."""
    return index._known.find(token, call, now_ms) is not None


def grant_all(index: ClaimIndex, position: int, claims: Sequence[Claimed], ids: U64, now_ms: int) -> list[Undo]:
    """Fold in entries, the first at `position`; `ids`: theirs one after the other, all new, as `look` has just said.

    What takes each of them back, in their order, and is to be settled or undone for each, the newest first.
    Room was made. Raises Overloaded, before any effect, only where `make_room` would.
    """
    index.make_room(0, now_ms, entries=len(claims))
    asked, places, moves = index._table._told
    index._table.make_room_for([ids])
    rows = _take_all(index._rows, position, claims, now_ms)
    undos, at = [], 0
    for claim, row in zip(claims, rows, strict=True):
        end = at + len(claim.fresh) // 16
        if len(places) == len(ids):
            index._table._told = asked[at:end], places[at:end], moves
        undos.append(_grant(index, claim, row, ids[at:end]))
        at = end
    index.wall_ms = max(index.wall_ms, *(claim.wall_ms for claim in claims))
    index._granted = (rows[-1],)
    return undos


def _grant(index: ClaimIndex, claim: Claimed, row: int, ids: U64) -> Undo:
    """Nobody loses an id by it, but dead slots may have named rows: these stay what they are until it is settled."""
    undo = Undo(index._counters(), claim.claim)
    previous, was_absent, kept = index._table.put(ids, row)
    undo.puts.append((row, ids, previous, was_absent, kept))
    index.ids += was_absent
    losers = () if previous.tobytes() == _NO_ROW * len(ids) else index._losers(undo)
    index._rows.pin(losers)
    undo.pinned = (row, *losers)
    undo.known = index._known.put(claim.claim, Known(claim.token, claim.call, claim.digest, (row,)))
    index.open_claims += 1
    return undo


def _take_all(rows: Rows, position: int, claims: Sequence[Claimed], now_ms: int) -> list[int]:
    """Free rows, filled in as `Rows.take` fills in one each."""
    taken = [rows._next() for _ in claims]
    at, holders = np.array(taken, np.int64), rows.holders
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
    return taken


def _words(raw: Sequence[bytes]) -> U64:
    """16 bytes each as the two words that arrays hold, (n, 2)."""
    return np.frombuffer(b"".join(raw), np.uint64).reshape(-1, 2)
