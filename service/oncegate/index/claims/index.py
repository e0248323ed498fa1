"""The claims of one shard: which ids are held or done, by whom; a pure function of the ledger's entries.

`ask` decides and changes nothing; `apply` folds an entry in, the same way live and in replay; `undo` takes the newest
change back when the ledger refused it. Leases live in memory only. There is no clock here: `now_ms` is an argument,
monotonic. One thread at a time.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from oncegate.arraytypes import I32, U32, U64
from oncegate.core.claims import CLAIM, PRODUCE, TAKE, Action, Asker, Cell, ClaimState, IdState, actions
from oncegate.core.entries.kinds import Claimed, Entry, Evicted, Retired
from oncegate.core.errors import TokenReused
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.claims.apply import ClaimFold, Undo, Widths, own
from oncegate.index.claims.evict import drop, standing_row
from oncegate.index.claims.results import ClaimDecision, ClaimView, Explained
from oncegate.index.lsm import tier
from oncegate.index.lsm.archives import ArchiveIndex
from oncegate.index.lsm.tier import ColdTier
from oncegate.index.snapshot.claims_reader import ClaimsReader, load
from oncegate.index.snapshot.claims_writer import save, saving
from oncegate.index.table.arrays import NO_COLD, NO_DIGESTS, SAME_INDEX, TAKEN, Answers, Question, Rules
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC
from oncegate.index.table.rows import DONE, LIVE, OPEN, words

__all__ = ["SAME_INDEX", "ClaimDecision", "ClaimIndex", "ClaimView", "Explained", "Undo", "Widths", "warm_up"]

_VERDICTS = {
    Action.GRANT: Verdict.GRANTED,
    Action.GRANT_AGAIN: Verdict.GRANTED,
    Action.TAKE_OVER: Verdict.GRANTED | Flag.TAKEOVER,
    Action.SAME: Verdict.SAME | Flag.OF_CALL,
    Action.BUSY: Verdict.BUSY,
    Action.DUPLICATE: Verdict.DUPLICATE,
    Action.CONFLICT: Verdict.CONFLICT,
}


def _rules(table: dict[tuple[IdState, Asker], Cell]) -> Rules:
    verdicts = [_VERDICTS[action] for action in Action]
    return Rules(np.array(list(actions(table)), np.uint8), np.array(verdicts, np.uint8))


def _in_order(digests: U32, answers: Answers) -> bytes:
    """Of the payloads of what is granted, then of what is taken over, from the last one back: as kernels have it."""
    granted: bytes = digests[answers.actions == Action.GRANT].tobytes()
    taken: bytes = digests[answers.actions == Action.TAKE_OVER][::-1].tobytes()
    return granted + taken


class ClaimIndex(ClaimFold):
    """What is asked of the claims; `widths` and `compiled` are for tests.

    `sealed`: archives of ids that left the table; `cold`: the runs that they are looked up in.
    """

    def __init__(self, widths: Widths | None = None, compiled: bool = True) -> None:
        super().__init__(widths, compiled)
        self._rules = {"claim": _rules(CLAIM), "produce": _rules(PRODUCE), "take": _rules(TAKE)}
        self.sealed = ArchiveIndex()
        self.cold = ColdTier(self.sealed)
        # By kind, and last what `GONE` is: no row.
        self._standing: I32 = np.full(1, -1, np.int32)

    def apply(self, position: int, entry: Entry, now_ms: int) -> Undo | None:
        """As the fold does, archives included."""
        undo = super().apply(position, entry, now_ms)
        if isinstance(entry, Evicted | Retired):
            undo = undo or Undo(self._counters(), NO_CLAIM)
            undo.sealed = self.sealed.apply(position, entry), lambda: self.sealed.settle(entry)
            self.wall_ms = max(self.wall_ms, entry.wall_ms)
        return undo

    def undo(self, undo: Undo) -> None:
        """Take an entry back that the ledger refused; the newest first. The table may have moved since."""
        if undo.sealed is not None:
            undo.sealed[0]()
            undo.sealed = None
        super().undo(undo)

    def settle_undo(self, undo: Undo) -> None:
        """The entry is durable: it is never taken back."""
        if undo.sealed is not None:
            undo.sealed[1]()
        super().settle_undo(undo)

    def decide(
        self,
        token: bytes,
        call: int,
        digest: bytes,
        ids: U64,
        now_ms: int,
        verb: str = "claim",
        digests: U32 = NO_DIGESTS,
    ) -> ClaimDecision:
        """What each of `ids`, shape (n, 2), is answered now; `verb`: claim or produce. No effect.

        `digest`: of the whole request. `digests`: of the payload of each id, 0 for none; no elements: none has one.
        Raises TokenReused: this (token, call) is remembered with another digest; Recovering: a run of old ids is
        damaged, and one of these may be in it.
        """
        found = self._known.find(token, call, now_ms)
        if found is not None and found[1].digest != digest:
            raise TokenReused("this token and call were used with other ids: a new request needs a new call")
        return self._decide(verb, token, call, found[0] if found is not None else None, ids, now_ms, digests)

    def decide_take(self, owner: bytes, ids: U64, now_ms: int) -> ClaimDecision:
        """What each of `ids`, shape (n, 2), is answered when this owner takes it. No effect. Raises Recovering."""
        return self._decide("take", owner, 0, None, ids, now_ms)

    def _decide(
        self,
        verb: str,
        token: bytes,
        call: int,
        claim: bytes | None,
        ids: U64,
        now_ms: int,
        digests: U32 = NO_DIGESTS,
    ) -> ClaimDecision:
        ids, n = own(ids), len(ids)
        first, second = words(token)
        question = Question(first, second, call, claim is not None, now_ms, self._table.tag_mask, digests)
        answers = Answers(np.empty(n, np.uint8), np.empty(n, np.uint8), np.empty(n, np.uint32))
        granted, places = np.empty((n, 2), np.uint64), np.empty(n, np.int64)
        held = self._cold_rows(ids)
        rests_on, again, fresh, taken = self._kernels.decide(
            self._table.slots, self._rows.holders, self._rules[verb], question, ids, answers, held, granted, places
        )
        self._table.tell(granted[:fresh], places[:fresh])
        return ClaimDecision(
            *answers,
            granted[:fresh],
            granted[n - taken :],
            again=bool(again),
            claim=claim,
            rests_on=int(rests_on),
            digests=_in_order(digests, answers) if len(digests) else b"",
        )

    def _cold_rows(self, ids: U64) -> I32:
        """The rows that stand for ids in live archives, -1 for others; an archive's ids are all alike."""
        if not self.cold.runs:
            return NO_COLD
        archives = self.cold.find(self._cut(ids))
        if archives is None:
            return NO_COLD
        kinds = self.sealed.kinds_of(archives)
        for kind in list(self.sealed.kinds)[len(self._standing) - 1 :]:
            row = standing_row(self, kind)
            self._standing = np.append(self._standing[:-1], np.array([row, -1], np.int32))
        return self._standing[kinds]

    def _cut(self, ids: U64) -> U64:
        """The ids with tags as narrow as the table's."""
        mask = self._table.tag_mask
        if mask == np.uint64(0xFFFF_FFFF_FFFF_FFFF):
            return ids
        return np.stack([ids[:, 0] & mask, ids[:, 1]], axis=1)

    def drop_evicted(self, archive: int, ids: U64) -> int:
        """Let the table go of these ids of an archive, uint64 (n, 2), which lie in a run by now; how many it had."""
        dropped = drop(self, ids)
        self.sealed.archives[archive].dropped += dropped
        return dropped

    @property
    def known_ids(self) -> int:
        """How many are held, done or taken, those that left the table included."""
        return self.ids + self.sealed.ids

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
        """What is known about one id; of one that left the table: until when its like was done, but no claim.

        Raises Recovering: a run of old ids is damaged, and this one may be in it.
        """
        row = self._table.row_of(words(fingerprint))
        rows, holders = self._rows, self._rows.holders
        if row is None or holders.state[row] not in LIVE:
            return self._explain_cold(fingerprint, 0 if row is None else int(holders.position[row]))
        state, position = holders.state[row], int(holders.position[row])
        left_ms = self._lease_left_ms(row, now_ms)
        held = IdState.CLAIMED_LIVE if left_ms else IdState.CLAIMED_OVER
        wall_ms, takeover, holder = int(rows.wall_ms[row]), bool(holders.takeover[row]), holders.token[row].tobytes()
        if state == TAKEN:
            return Explained(IdState.TAKEN, position=position, wall_ms=wall_ms, takeover=takeover, owner=holder)
        if state == DONE and not rows.claim[row].any():
            return Explained(IdState.DONE, position=position, wall_ms=wall_ms)
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
            digest_kept=self._table.digest_of(words(fingerprint)) != 0,
        )

    def _explain_cold(self, fingerprint: bytes, position: int) -> Explained:
        """`position`: of what let the slot go; an absent id may rest on an archive's retirement too."""
        position = max(position, self.sealed.position)
        found = self.cold.find(self._cut(words(fingerprint).reshape(1, 2)))
        if found is None:
            return Explained(IdState.ABSENT, position=position)
        archive = self.sealed.archives[int(found[0])]
        owner = archive.owner if archive.owner != NO_CLAIM else None
        state, takeover = IdState.DONE if owner is None else IdState.TAKEN, bool(archive.takeover)
        return Explained(state, position=position, wall_ms=archive.newest_wall_ms, takeover=takeover, owner=owner)

    def _place(self, row: int) -> tuple[str, int, int] | None:
        rows, topic = self._rows, int(self._rows.topic[row])
        if topic == NO_TOPIC:
            return None
        return self._topics[topic], int(rows.partition[row]), int(rows.first_offset[row])

    @property
    def oldest_wall_ms(self) -> int | None:
        """When the ids were done or taken that would retire first; None when there are none."""
        found = (self._settled.oldest_wall_ms(), self.sealed.oldest_wall_ms)
        return min((wall_ms for wall_ms in found if wall_ms is not None), default=None)

    def _lease_left_ms(self, row: int, now_ms: int) -> int:
        holders = self._rows.holders
        is_open = holders.state[row] == OPEN
        return max(0, int(holders.lease_until_ms[row]) - now_ms) if is_open else 0

    def save(self) -> Iterable[tuple[str, bytes]]:
        """Everything that is known, as named byte strings, leases aside; what waits for the ledger counts as applied.

        Nothing may be applied or undone before the last one is made.
        """
        return save(self)

    def saving(self) -> Iterator[list[tuple[str, bytes]]]:
        """The same, as it is now, in steps of a few milliseconds between which anything may be applied; each brings
        the strings that are complete by then. To be gone through to the end, or closed.

        A step raises SnapshotStopped when something has been undone since, or rows ran out: then it is begun anew.
        """
        return saving(self)

    def loading(self) -> ClaimsReader:
        """The same as `load`, piece by piece in the order in which they were saved."""
        return ClaimsReader(self)

    def load(self, pieces: Mapping[str, bytes]) -> None:
        """Fill an empty index with what `save` gave; `reset_leases` is to follow.

        Raises ValueError: damaged, inconsistent, or too wide for this index, which is then of no use.
        """
        load(self, pieces)

    def snapshot(self) -> dict[bytes, tuple[int, bytes, bool, int]]:
        """For tests: every id held, by tag and place: the row's state, its claim or owner, takeover, its payload's
        digest; leases aside."""
        slots, holders = self._table.slots, self._rows.holders
        found: dict[bytes, tuple[int, bytes, bool, int]] = {}
        for base, capacity in zip(slots.base.tolist(), slots.capacity.tolist(), strict=True):
            for at, (tag, held) in enumerate(slots.words[base : base + capacity].tolist(), base):
                row, key = (held & 0xFFFF_FFFF) - 1, tag.to_bytes(8, "little") + (held >> 32).to_bytes(4, "little")
                if row >= 0 and (state := int(holders.state[row])) in LIVE:
                    holder = holders.token[row] if state == TAKEN else self._rows.claim[row]
                    digest = int(slots.digests[at]) if len(slots.digests) else 0
                    found[key] = (state, holder.tobytes(), bool(holders.takeover[row]), digest)
        return found


def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache, so that no request waits for it."""
    index, ids, id16 = ClaimIndex(), np.ones((1, 2), np.uint64), bytes(16)
    index.decide(id16, 1, id16, ids, 0)
    undo = index.apply(1, Claimed(id16, id16, 1, id16, 1, 0, ids.tobytes(), b""), 0)
    assert undo is not None
    index.undo(undo)
    row = np.array([index._rows.made - 1])
    index._table.claim_each(index._rules["claim"], 0, ids, NO_COLD, row, np.ones(1, np.int64), 1)
    index.settle_undo(Undo(index._counters(), NO_CLAIM, pinned=np.empty(0, np.uint32)))
    index._kernels.staying(index._table.slots, 0, index._rows.holders)
    index.apply(2, Retired(0, 0), 0)
    index.make_room(10_000, 0)
    index.sweep(0)
    index._pooling.warm_up()
    table, holders, wanted = index._table.slots, index._rows.holders, np.zeros(index._rows.made + 1, np.uint8)
    index._kernels.gather_of(table, 0, holders, wanted, ids)
    drop(index, ids)
    tier.warm_up()
    ClaimIndex().load(dict(index.save()))
