"""Answers for the claims of one shard: which ids are held or done, by whom; a pure function of the ledger's entries.

`decide` changes nothing; `apply` takes an entry in, the same way live and in replay; `undo` takes the newest change
back when the ledger refused it. Leases live in memory only. There is no clock here: `now_ms` is an argument,
monotonic. One thread at a time.
"""

from oncegate.arraytypes import I64, U8, U32, U64
from oncegate.core.claims import ClaimState, IdState
from oncegate.core.entries.kinds import Entry, Span
from oncegate.index.claims.apply import Undo, apply, settle, undo
from oncegate.index.claims.decide import as_wide_as, decide, decide_look_up, decide_take
from oncegate.index.claims.evict import drop
from oncegate.index.claims.firsts import AskedBy, Duplicates, Firsts, duplicates_of, firsts_of, positions_of, written_by
from oncegate.index.claims.results import ClaimDecision, ClaimView, Explained
from oncegate.index.claims.store import ClaimStore, Widths
from oncegate.index.table.arrays import NO_DIGESTS, NO_TIMES, SAME_INDEX, TAKEN, IdTimes
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC, first_offset_of
from oncegate.index.table.rows import DONE, LIVE, OPEN, words

__all__ = ["SAME_INDEX", "ClaimDecision", "ClaimIndex", "ClaimView", "Explained", "Undo", "Widths"]


class ClaimIndex:
    """Answers for the claims of one shard, over its `store`; `widths` and `compiled` are for tests.

    archives: of ids that left the table. cold: the runs that they are looked up in. scopes: which rows go with which
    batch. All three are the store's own.
    """

    def __init__(self, widths: Widths | None = None, compiled: bool = True) -> None:
        self.store = ClaimStore(widths, compiled)
        self.archives, self.cold, self.scopes = self.store.archives, self.store.cold, self.store.scopes

    def decide(
        self,
        token: bytes,
        call: int,
        digest: bytes,
        ids: U64,
        now_ms: int,
        verb: str = "claim",
        digests: U32 = NO_DIGESTS,
        times: IdTimes = NO_TIMES,
    ) -> ClaimDecision:
        """Decides what each of `ids`, shape (n, 2), is answered now, as `claims.decide` does. No effect.

        Raises TokenReused, Recovering.
        """
        return decide(self.store, token, call, digest, ids, now_ms, verb, digests, times)

    def decide_take(self, owner: bytes, ids: U64, now_ms: int, times: IdTimes = NO_TIMES) -> ClaimDecision:
        """Decides what each of `ids`, shape (n, 2), is answered when this owner takes it. No effect.

        Raises Recovering.
        """
        return decide_take(self.store, owner, ids, now_ms, times)

    def decide_look_up(self, ids: U64, now_ms: int, times: IdTimes = NO_TIMES) -> ClaimDecision:
        """Decides what is told of each of `ids`, shape (n, 2), to whoever looks them up. No effect.

        Raises Recovering.
        """
        return decide_look_up(self.store, ids, now_ms, times)

    def apply(self, position: int, entry: Entry, now_ms: int) -> Undo | None:
        """Applies one entry, archives included; None when it is about no ids. Raises Overloaded, before any effect."""
        return apply(self.store, position, entry, now_ms)

    def undo(self, change: Undo) -> None:
        """Takes an entry back that the ledger refused; the newest first. The table may have moved since."""
        undo(self.store, change)

    def settle(self, change: Undo) -> None:
        """Lets go of what an undo would need: the entry is durable and is never taken back."""
        settle(self.store, change)

    def make_room(self, ids: int, now_ms: int, entries: int = 1, digests: bool = False) -> None:
        """Makes it sure that entries of `ids` ids in all can be applied, with `digests` of payloads or without.

        Raises Overloaded, as `ClaimStore.make_room`.
        """
        self.store.make_room(ids, now_ms, entries, digests)

    def remember_for(self, known_ms: int, size_bytes: int) -> None:
        """Lets settled claims be known for `known_ms` at least, while they take no more than so many bytes."""
        self.store.registry.remember_for(known_ms, size_bytes)

    def forget_settled(self, now_ms: int) -> None:
        """Forgets some claims that ended two leases ago, the oldest first: while they are known, their ids stay."""
        self.store.registry.forget_due(now_ms, early=True)

    @property
    def forgotten_early(self) -> int:
        """Counts the claims that were forgotten for memory, before the time that they are to be known."""
        return self.store.registry.forgotten_early

    def sweep(self, now_ms: int) -> None:
        """Forgets claims past their time, drops dead slots, frees rows. No answer changes by it."""
        self.store.sweep(now_ms)

    def reset_leases(self, now_ms: int) -> None:
        """Gives every open claim a full lease after a rebuild; every settled one is remembered from now."""
        self.store.rows.reset_leases(now_ms)

    def drop_evicted(self, archive: int, ids: U64) -> int:
        """Lets the table go of these ids of an archive, uint64 (n, 2), which lie in a run by now; how many it had."""
        dropped = drop(self.store, ids)
        self.archives.by_number[archive].dropped += dropped
        return dropped

    @property
    def ids(self) -> int:
        """Counts the ids that are held, done or taken in the table."""
        return self.store.ids

    @property
    def open_claims(self) -> int:
        """Counts the claims that hold ids."""
        return self.store.open_claims

    @property
    def takeovers(self) -> int:
        """Counts the ids that were ever granted by takeover."""
        return self.store.takeovers

    @property
    def wall_ms(self) -> int:
        """Returns the latest time in any entry; the ledger's clock never goes back behind it."""
        return self.store.wall_ms

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of the slots and of the rows made so far; what Python holds of the remembered claims comes
        on top."""
        return self.store.size_bytes

    @property
    def known_ids(self) -> int:
        """Counts the ids held, done or taken, those that left the table included."""
        return self.store.ids + self.archives.ids

    def renew(self, claim: bytes, now_ms: int) -> None:
        """Gives a claim a full lease from now, also after it ran out; KeyError when nothing is known of it."""
        record = self.store.registry.get(claim, now_ms)
        if record is None:
            raise KeyError(claim.hex())
        rows = list(record.rows)
        self.store.rows.holders.lease_until_ms[rows] = now_ms + self.store.rows.lease_ms[rows]

    def view(self, claim: bytes, now_ms: int) -> ClaimView:
        """Returns what is known of a claim; UNKNOWN: it was never granted, or was settled long ago."""
        record = self.store.registry.get(claim, now_ms)
        if record is None:
            return ClaimView(ClaimState.UNKNOWN)
        rows, holders, last = self.store.rows, self.store.rows.holders, record.rows[-1]
        return ClaimView(
            ClaimState(int(holders.state[last])),
            granted=int(rows.granted[list(record.rows)].sum()),
            named=int(holders.named[list(record.rows)].sum()),
            token=record.token,
            lease_ms=int(rows.lease_ms[last]),
            lease_left_ms=self._lease_left_ms(last, now_ms),
            position=int(holders.position[list(record.rows)].max()),
        )

    def result_of(self, claim: bytes) -> bytes | None:
        """Returns what a claim was completed with; None: with nothing, or it is not known any more."""
        results = self.store.rows.results.by_row
        record = self.store.registry.at_any_age(claim) if results else None
        return None if record is None else next((results[row] for row in record.rows if row in results), None)

    def keep_results(self, size_bytes: int) -> None:
        """Lets what claims are completed with take so many bytes of memory: the oldest are forgotten first."""
        self.store.rows.results.keep_within(size_bytes)

    @property
    def results_bytes(self) -> int:
        """Counts the bytes of memory that what claims were completed with takes."""
        return self.store.rows.results.size_bytes

    @property
    def results_forgotten(self) -> int:
        """Counts what claims were completed with and was forgotten for memory."""
        return self.store.rows.results.forgotten

    def duplicates_of(
        self, ids: U64, verdicts: U8, archives: I64 | None, asked: AskedBy, wall_ms: int
    ) -> Duplicates | None:
        """Tells why the duplicates of a request came that was decided just now, as `claims.duplicates_of`."""
        return duplicates_of(self.store, ids, verdicts, archives, asked, wall_ms)

    def firsts_of(self, ids: U64, verdicts: U8, entries_max: int, elsewhere: bool = False) -> Firsts:
        """Tells what is known of the duplicates of a request that was decided just now, as `claims.firsts_of`."""
        return firsts_of(self.store, ids, verdicts, entries_max, elsewhere)

    def written_by(self, claim: bytes) -> tuple[Span, ...]:
        """Tells what a claim's writes put where, as `claims.written_by`."""
        return written_by(self.store, claim)

    def positions_of(self, claim: bytes) -> list[int]:
        """Returns the positions of the entries that wrote a claim's rows, as `claims.positions_of`."""
        return positions_of(self.store, claim)

    def explain(self, fingerprint: bytes, now_ms: int) -> Explained:
        """Returns what is known about one id; of one that left the table: until when its like was done, but no claim.

        Raises Recovering: a run of old ids is damaged, and this one may be in it.
        """
        row = self.store.table.row_of(words(fingerprint))
        rows, holders = self.store.rows, self.store.rows.holders
        if row is None or holders.state[row] not in LIVE:
            return self._explain_cold(fingerprint, 0 if row is None else int(holders.position[row]))
        state, position = holders.state[row], int(holders.position[row])
        left_ms = self._lease_left_ms(row, now_ms)
        open_state = IdState.CLAIMED_LIVE if left_ms else IdState.CLAIMED_OVER
        wall_ms, takeover, holder = int(rows.wall_ms[row]), bool(holders.takeover[row]), holders.token[row].tobytes()
        if state == TAKEN:
            return Explained(IdState.TAKEN, position=position, wall_ms=wall_ms, takeover=takeover, owner=holder)
        if state == DONE and not rows.claim[row].any():
            return Explained(IdState.DONE, position=position, wall_ms=wall_ms)
        return Explained(
            IdState.DONE if state == DONE else open_state,
            rows.claim[row].tobytes(),
            holder,
            int(holders.call[row]),
            left_ms,
            position,
            wall_ms,
            takeover,
            written_at=self._written_at(row),
            digest_kept=self.store.table.digest_of(words(fingerprint)) != 0,
        )

    def _explain_cold(self, fingerprint: bytes, position: int) -> Explained:
        """Explains an id that has no slot; `position`: of what let it go. An archive's retirement may have come
        later."""
        position = max(position, self.archives.position)
        archives = self.cold.find(as_wide_as(self.store, words(fingerprint).reshape(1, 2)))
        if archives is None:
            return Explained(IdState.ABSENT, position=position)
        archive = self.archives.by_number[int(archives[0])]
        owner = archive.owner if archive.owner != NO_CLAIM else None
        state, takeover = IdState.DONE if owner is None else IdState.TAKEN, bool(archive.takeover)
        return Explained(state, position=position, wall_ms=archive.newest_wall_ms, takeover=takeover, owner=owner)

    def _written_at(self, row: int) -> tuple[str, int, int] | None:
        rows, topic = self.store.rows, int(self.store.rows.topic[row])
        if topic == NO_TOPIC:
            return None
        return self.store.topics[topic], int(rows.partition[row]), first_offset_of(int(rows.first_offset[row]))

    @property
    def oldest_wall_ms(self) -> int | None:
        """Tells when the ids were done or taken that would retire first; None when there are none."""
        candidates = (self.store.expiry.oldest_wall_ms(), self.archives.oldest_wall_ms)
        return min((wall_ms for wall_ms in candidates if wall_ms is not None), default=None)

    def _lease_left_ms(self, row: int, now_ms: int) -> int:
        holders = self.store.rows.holders
        is_open = holders.state[row] == OPEN
        return max(0, int(holders.lease_until_ms[row]) - now_ms) if is_open else 0

    def contents(self) -> dict[bytes, tuple[int, bytes, bool, int]]:
        """Returns every id held, for tests: by its 12 bytes, (state, claim or owner, takeover, payload's digest)."""
        slots, holders = self.store.table.slots, self.store.rows.holders
        contents: dict[bytes, tuple[int, bytes, bool, int]] = {}
        for base, capacity in zip(slots.base.tolist(), slots.capacity.tolist(), strict=True):
            for at, (tag, word) in enumerate(slots.words[base : base + capacity].tolist(), base):
                row, key = (word & 0xFFFF_FFFF) - 1, tag.to_bytes(8, "little") + (word >> 32).to_bytes(4, "little")
                if row >= 0 and (state := int(holders.state[row])) in LIVE:
                    holder = holders.token[row] if state == TAKEN else self.store.rows.claim[row]
                    digest = int(slots.digests[at]) if len(slots.digests) else 0
                    contents[key] = (state, holder.tobytes(), bool(holders.takeover[row]), digest)
        return contents
