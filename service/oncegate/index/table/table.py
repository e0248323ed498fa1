"""Maps id fingerprints to rows, at 16 bytes per id, in segments that grow and are swept independently.

A full segment moves: to more slots, or over the same slots if enough of them are dead. It moves in place, since the
address space up to its maximum size is reserved. Capacities follow a ladder, and each segment's ladder begins a little
higher than the previous one's, so that about as many segments move at any request.

A dead slot (its row was released, retired or undone) counts as occupied until its segment moves, and only its own id
reuses it before. A move changes no answer. Slots of ids that leave memory are emptied at once (`delete`), so a table
from which old ids are evicted neither grows nor moves.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from oncegate.arraytypes import I32, I64, U32, U64
from oncegate.core.errors import Overloaded
from oncegate.index.table.arrays import NO_DIGESTS, NO_TIMES, Answers, BatchGrants, IdTimes, Rules, Slots, reserve
from oncegate.index.table.kernels import Kernels
from oncegate.index.table.probe import find, row_at, segment_of
from oncegate.index.table.rows import Rows

# Maximum load of a segment, dead slots included. Above it the chains of linear probing grow quickly.
LOAD_MAX = 0.72
# From this load on a segment may move early, one per request, so that a later request need not move several.
LOAD_SOON = 0.7
# Maximum load after a move, so that the next move is not soon.
LOAD_AFTER_MOVE = 0.6
# Step of a ladder: an id moves twice on average, and 57 % of the slots are occupied.
GROWTH = 1.5
# 32 GiB of address space: more than the ids of a shard's 2^28 rows, at least one claim each, can use.
SLOTS_MAX = 1 << 31
_NO_IDS: U64 = np.empty((0, 2), np.uint64)
_NO_HINTS: I64 = np.empty(0, np.int64)
# The fields of `BatchGrants` that have one element per id.
_OF_IDS = ("ids", "hints", "previous", "old_digests")


class CopyOnWrite(Protocol):
    """Receives the previous content of slots that are overwritten while a snapshot is made."""

    def overwritten(self, ids: U64, previous: U32, digests: U32) -> None:
        """Receives ids, shape (n, 2), whose slots are about to be overwritten, with their previous rows and any
        digests.
        """


class Table:
    """The slots of all ids in memory, by segment. A full segment moves.

    dead: number of slots that a move may omit once no change pins their rows.
    """

    def __init__(self, rows: Rows, kernels: Kernels, tag_bits: int, capacity: int, segments: int) -> None:
        assert segments & (segments - 1) == 0, "the lowest bits of the tag choose the segment"
        self._rows = rows
        self._kernels = kernels
        self.tag_mask = np.uint64((1 << tag_bits) - 1)
        whole = reserve({"words": (np.uint64, 2)}, SLOTS_MAX)["words"]
        self._slots_max = len(whole) // segments
        self._first = max(2.0, capacity / segments)
        self._steps = [0] * segments
        capacities = [self._capacity_at(segment, 0) for segment in range(segments)]
        base = np.arange(segments, dtype=np.int64) * self._slots_max
        self.slots = Slots(whole, base, np.array(capacities, np.int64), np.zeros(segments, np.int64))
        self.dead = 0
        self.moves = 0
        # The current snapshot: it receives overwritten slots, and no move omits any.
        self.snapshot: CopyOnWrite | None = None
        # Ids that have room in any segment; only ids that may not are counted by segment.
        self._sure = 0
        # The ids of the last request, the result of `find` for each, and the number of moves at that time.
        self._hints: tuple[U64, I64, int] = (_NO_IDS, _NO_HINTS, 0)

    @property
    def capacity(self) -> int:
        return int(self.slots.capacity.sum())

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of all slots: 16 each, 20 with payload digests."""
        return (20 if len(self.slots.digests) else 16) * self.capacity

    def keep_digests(self) -> None:
        """Adds 4 bytes to each slot for a digest of its id's payload.

        Raises Overloaded if there is no address space for them.
        """
        if not len(self.slots.digests):
            digests = reserve({"digests": (np.uint32, 1)}, len(self.slots.words))["digests"]
            if len(digests) < len(self.slots.words):
                raise Overloaded("no address space is left for payload digests; nothing was written")
            self.slots = self.slots._replace(digests=digests)

    @property
    def used(self) -> int:
        return int(self.slots.used.sum())

    def make_room(self, ids: int) -> None:
        """Enlarges the segments that their share of `ids` more ids would overfill."""
        if ids > self._sure:
            share = -(-ids // len(self._steps))
            self._make_room(np.full(len(self._steps), share))

    def make_room_for(self, given: Sequence[U64]) -> None:
        """Enlarges the segments that these ids, arrays of shape (n, 2), would overfill.

        Raises Overloaded, without effect on any answer, if a segment has its maximum size.
        """
        count = 0
        for ids in given:
            count += len(ids)
        if count > self._sure:
            more = np.zeros(len(self._steps), np.int64)
            for ids in given:
                self._kernels.demand(ids, self.tag_mask, more)
            self._make_room(more)
            left = LOAD_MAX * self.slots.capacity - self.slots.used
            self._sure = max(count, int(left.min()))
        self._sure -= count

    def sweep_for(self, more: I64) -> None:
        """Rehashes the segments that `more` ids per segment would overfill, if that can remove dead slots."""
        self._sure = 0
        if self._sweeps:
            self._make_room(more)

    def make_room_within(self, begin: int, end: int, more: I64) -> None:
        """Enlarges the segments from `begin` to `end` that `more` ids per segment would overfill.

        After `sweep_for`, other threads may do so for other segments. Raises Overloaded like `make_room_for`.
        """
        used, capacity = self.slots.used[begin:end] + more[begin:end], self.slots.capacity[begin:end]
        for segment in (begin + np.flatnonzero(used > LOAD_MAX * capacity)).tolist():
            self._enlarge(segment, int(more[segment]))

    def sweep(self) -> None:
        """Drops every dead slot whose row is not pinned."""
        if self._sweeps:
            for segment, capacity in enumerate(self.slots.capacity.tolist()):
                self._move(segment, capacity)

    def hint(self, ids: U64, hints: I64) -> None:
        """Caches the results of `find` for these ids, so that a `put` that follows need not search again."""
        self._hints = ids, hints, self.moves

    def put(self, ids: U64, row: int, digests: U32 = NO_DIGESTS) -> tuple[U32, int, U32]:
        """Points the slots of `ids`, shape (n, 2), to `row`.

        Returns the row that each named before, how many ids were absent, and the previous digests of the slots, if any,
        which `digests` replace. Call `make_room_for` before, and `keep_digests` for digests.
        """
        previous, old_digests = np.empty(len(ids), np.uint32), self._digests_of(digests, len(ids))
        hinted, hints, moves = self._hints
        if moves != self.moves:  # slots have moved since they were found
            hinted, hints = _NO_IDS, _NO_HINTS
        new, revived = self._kernels.upsert(
            self.slots, self._rows.holders, ids, self.tag_mask, row, previous, hinted, hints, old_digests
        )
        self._overwritten(int(revived), ids, previous, old_digests)
        return previous, int(new) + int(revived), old_digests

    def claim_each(
        self,
        rules: Rules,
        now_ms: int,
        ids: U64,
        cold: I32,
        rows: I64,
        ends: I64,
        position: int,
        times: IdTimes = NO_TIMES,
    ) -> tuple[Answers, BatchGrants]:
        """Decides consecutive claims of `ids`, shape (n, 2), in order. Slots of granted ids name their claim's row.

        Call `make_room_for` for all of them before.
        """
        n = len(ids)
        answers = Answers.empty(n)
        hints, previous, old_digests = np.empty(n, np.int64), np.empty(n, np.uint32), self._digests_of(NO_DIGESTS, n)
        of_claims = (np.empty(len(rows), np.int64) for _ in range(3))
        grants = BatchGrants(np.empty((n, 2), np.uint64), hints, previous, old_digests, *of_claims)
        request = rules, now_ms, self.tag_mask, ids, cold, rows, ends, position
        revived = self._kernels.claim_each(
            self.slots, self._rows.holders, *request, answers, grants, NO_DIGESTS, *times
        )
        grants = grants._replace(**{name: getattr(grants, name)[: grants.ends[-1]] for name in _OF_IDS})
        self._overwritten(int(revived), grants.ids, grants.previous, grants.old_digests)
        return answers, grants

    def _overwritten(self, revived: int, ids: U64, previous: U32, old_digests: U32) -> None:
        """Updates the counters after slots were pointed to other rows; `revived` of the slots were dead."""
        self.dead -= revived
        if self.snapshot is not None:
            self.snapshot.overwritten(ids, previous, old_digests)

    def _digests_of(self, digests: U32, ids: int) -> U32:
        """Returns the digests to write; 0 for payloads without one."""
        if not len(self.slots.digests):
            return NO_DIGESTS
        return digests.copy() if len(digests) else np.zeros(ids, np.uint32)

    def fill(self, given: U64, digests: U32, begin: int, end: int, named: I64) -> int:
        """Inserts saved slots that belong to the segments from `begin` to `end`.

        Returns the number of slots examined before the first invalid one. named: number of slots by saved row;
        increased. Call `make_room_for` before. Other threads may fill other segments.
        """
        holders = self._rows.holders
        return int(self._kernels.fill(self.slots, holders.state, given, digests, self.tag_mask, begin, end, named))

    def put_back(self, ids: U64, row: int, previous: U32, was_absent: int, old_digests: U32) -> None:
        """Undoes a `put`. New slots stay, dead: emptying one would cut the chains that run through it."""
        self._kernels.restore(self.slots, self._rows.holders, ids, self.tag_mask, row, previous, old_digests)
        self.dead += was_absent

    def row_of(self, fingerprint: U64) -> int | None:
        """Returns the row to which the slot of one id points, dead or alive; None if the id has no slot."""
        slot = self._slot_of(fingerprint)
        return int(row_at(self.slots.words, slot)) if slot >= 0 else None

    def rows_of(self, ids: U64) -> I64:
        """Returns the rows to which the slots of these ids, shape (n, 2), point, dead or alive; -1 for ids without a
        slot.
        """
        rows = np.empty(len(ids), np.int64)
        self._kernels.rows_of(self.slots, ids, self.tag_mask, rows)
        return rows

    def digest_of(self, fingerprint: U64) -> int:
        """Returns the payload digest of one id; 0 if it has none."""
        slot = self._slot_of(fingerprint) if len(self.slots.digests) else -1
        return int(self.slots.digests[slot]) if slot >= 0 else 0

    def _slot_of(self, fingerprint: U64) -> int:
        tag, home = fingerprint[0] & self.tag_mask, fingerprint[1] & np.uint64(0xFFFF_FFFF)
        segment, slots = segment_of(tag, len(self._steps)), self.slots
        return int(find(slots.words, slots.base[segment], slots.capacity[segment], tag, home))

    @property
    def _sweeps(self) -> bool:
        """Returns whether a move omits dead slots."""
        return self.dead > 0 and self.snapshot is None

    def _capacity_at(self, segment: int, step: int) -> int:
        slots: float = self._first * GROWTH ** (step + segment / len(self._steps))
        return math.ceil(slots)

    def _make_room(self, more: I64) -> None:
        """Enlarges the segments that `more` ids per segment would overfill; if there are none, one that is nearly too
        full.
        """
        slots = self.slots
        crowded = np.flatnonzero(slots.used + more > LOAD_MAX * slots.capacity)
        if not len(crowded):
            crowded = np.flatnonzero(slots.used > LOAD_SOON * slots.capacity)[:1]
        for segment in crowded.tolist():
            self._enlarge(segment, int(more[segment]))

    def _enlarge(self, segment: int, more: int) -> None:
        """Rehashes a segment to a capacity that leaves enough empty slots after `more` additions."""
        used = int(self.slots.used[segment])
        staying = int(self._kernels.staying(self.slots, segment, self._rows.holders)) if self._sweeps else used
        step = self._steps[segment]
        while staying + more > LOAD_AFTER_MOVE * self._capacity_at(segment, step):
            step += 1
        capacity = self._capacity_at(segment, step)
        if capacity > self._slots_max:
            raise Overloaded(f"an index of {self._slots_max * len(self._steps)} slots is full; nothing was written")
        self._steps[segment] = step
        self._move(segment, capacity)

    def _move(self, segment: int, capacity: int) -> None:
        used, sweeping = int(self.slots.used[segment]), self._sweeps
        chain, freed = np.empty((used + 1, 2), np.uint64), np.empty(used if sweeping else 0, np.uint32)
        digests = np.empty(used + 1 if len(self.slots.digests) else 0, np.uint32)
        holders = self._rows.holders
        free, dropped = self._kernels.move(self.slots, segment, capacity, holders, sweeping, chain, digests, freed)
        self._rows.give_back(freed[:free])
        self.dead -= int(dropped)
        self.moves += 1
