"""A claim store whose functions are its methods, so that tests and walks call one object."""

from typing import Any, Self

from oncegate.arraytypes import U64
from oncegate.core.entries.kinds import Entry
from oncegate.index.claims import lookup
from oncegate.index.claims.apply import ClaimUndo, apply, settle, undo
from oncegate.index.claims.decide import decide, decide_look_up, decide_take
from oncegate.index.claims.evict import drop
from oncegate.index.claims.firsts import Firsts, firsts_of, written_by
from oncegate.index.claims.results import ClaimDecision, ClaimView, Explained
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.rows import LIVE

Contents = dict[bytes, tuple[int, bytes, bool, int]]


class ClaimIndex(ClaimStore):
    @property
    def store(self) -> Self:
        return self

    def decide(
        self, token: bytes, call: int, digest: bytes, ids: U64, now_ms: int, *more: Any, **named: Any
    ) -> ClaimDecision:
        return decide(self, token, call, digest, ids, now_ms, *more, **named)

    def decide_take(self, owner: bytes, ids: U64, now_ms: int, *more: Any) -> ClaimDecision:
        return decide_take(self, owner, ids, now_ms, *more)

    def decide_look_up(self, ids: U64, now_ms: int, *more: Any) -> ClaimDecision:
        return decide_look_up(self, ids, now_ms, *more)

    def apply(self, position: int, entry: Entry, now_ms: int) -> ClaimUndo | None:
        return apply(self, position, entry, now_ms)

    def undo(self, change: ClaimUndo) -> None:
        undo(self, change)

    def settle(self, change: ClaimUndo) -> None:
        settle(self, change)

    def drop_evicted(self, archive: int, ids: U64) -> int:
        count = drop(self, ids)
        self.archives.by_number[archive].dropped += count
        return count

    def reset_leases(self, now_ms: int) -> None:
        self.rows.reset_leases(now_ms)

    def renew(self, claim: bytes, now_ms: int) -> None:
        lookup.renew(self, claim, now_ms)

    def view(self, claim: bytes, now_ms: int) -> ClaimView:
        return lookup.view_of(self, claim, now_ms)

    def result_of(self, claim: bytes) -> bytes | None:
        return lookup.result_of(self, claim)

    def explain(self, fingerprint: bytes, now_ms: int) -> Explained:
        return lookup.explain(self, fingerprint, now_ms)

    def firsts_of(self, ids: U64, verdicts: Any, entries_max: int, elsewhere: bool = False) -> Firsts:
        return firsts_of(self, ids, verdicts, entries_max, elsewhere)

    def written_by(self, claim: bytes) -> Any:
        return written_by(self, claim)

    def contents(self) -> Contents:
        return contents(self)


def contents(store: ClaimStore) -> Contents:
    """Returns every id in the store: its 12 bytes, mapped to (state, claim or owner, takeover, payload digest)."""
    slots, holders = store.table.slots, store.rows.holders
    held: Contents = {}
    for base, capacity in zip(slots.base.tolist(), slots.capacity.tolist(), strict=True):
        for at, (tag, word) in enumerate(slots.words[base : base + capacity].tolist(), base):
            row, key = (word & 0xFFFF_FFFF) - 1, tag.to_bytes(8, "little") + (word >> 32).to_bytes(4, "little")
            if row >= 0 and (state := int(holders.state[row])) in LIVE:
                holder = holders.token[row] if state == TAKEN else store.rows.claim[row]
                digest = int(slots.digests[at]) if len(slots.digests) else 0
                held[key] = (state, holder.tobytes(), bool(holders.takeover[row]), digest)
    return held
