"""Applies decisions to the index and queues their entries for the ledger; all use cases of a shard share one
journal."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import past_ms
from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Claimed, Entry
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.counts.counts import Counts
from oncegate.engine.limits import Limits
from oncegate.engine.quotas import Rates
from oncegate.index.claims.decide import ClaimBatch, claim_many
from oncegate.index.part import Undo
from oncegate.index.shard import ShardIndex
from oncegate.index.table.arrays import NO_TIMES, IdTimes
from oncegate.ports import Clock, Observer, OutputChange


@dataclass
class Journal:
    """Applies decisions to the index and queues their entries for the ledger, in that order, without an await in
    between.

    size_bytes: of the entries recorded since the last compaction.
    rates: the namespace's rate limits.
    """

    namespace: str
    index: ShardIndex
    group_commit: GroupCommit
    clock: Clock
    observer: Observer
    limits: Limits
    random: Callable[[int], bytes] = secrets.token_bytes
    counts: Counts = field(default_factory=Counts)
    size_bytes: int = 0

    def __post_init__(self) -> None:
        self.rates = Rates(self.limits, self.clock, self.counts.add)

    def wall_ms(self) -> int:
        """Returns the ledger's clock: the wall clock, but never less than the latest time recorded in the ledger."""
        return max(self.clock.wall_ms(), self.index.claims.wall_ms)

    def record(self, entries: Sequence[Entry], outputs: Sequence[OutputChange] = ()) -> int:
        """Applies entries to the index and queues them, with their outputs, as one change; returns the last
        position."""
        # Encode first: an entry that cannot be encoded must not be in the index either.
        bodies = [encode(entry) for entry in entries]
        self.size_bytes += sum(map(len, bodies))
        position, now_ms = self.group_commit.next_position, self.clock.monotonic_ms()
        if len(entries) == 1:
            return self.group_commit.submit(bodies, outputs, *self.index.apply(position, entries[0], now_ms))
        return self.group_commit.submit(bodies, outputs, *self._apply_all(position, entries, now_ms))

    def position_of(self, number: int) -> int:
        """Returns the position that the n-th (0-based) of the next recorded entries will get."""
        return self.group_commit.next_position + number

    def times(self, made_ms: NDArray[np.uint64] | None) -> IdTimes:
        """Returns the creation times of ids and the time before which ids are stale; `NO_TIMES` if the ids carry no
        time."""
        settings = self.index.settings.in_force
        past = 0 if made_ms is None else past_ms(settings.horizon_ms, settings.known_from_ms, self.wall_ms())
        return NO_TIMES if made_ms is None or not past else IdTimes(made_ms, past)

    def record_together(self, claims: Sequence[Claimed], made_ms: NDArray[np.uint64] | None) -> tuple[ClaimBatch, int]:
        """Decides on new claims and records the granted ones, as one change; all ids of each claim are passed as
        `fresh`.

        made_ms: creation times of all their ids, concatenated by claim; None: the ids carry no time.

        Returns: the decisions, and the position of the first entry.

        Raises: as `claim_many`, before any effect.
        """
        first = self.group_commit.next_position
        claim_batch = claim_many(self.index.claims, first, claims, self.clock.monotonic_ms(), self.times(made_ms))
        try:
            bodies = [encode(entry) for entry in claim_batch.entries]
        except BaseException:
            claim_batch.undo()
            raise
        self.size_bytes += sum(map(len, bodies))
        if bodies:
            self.group_commit.submit(bodies, (), claim_batch.undo, claim_batch.settle)
        return claim_batch, first

    def _apply_all(self, position: int, entries: Sequence[Entry], now_ms: int) -> tuple[Undo, Undo]:
        """Applies all entries or none; returns the functions that undo the entries and that finalize them once
        durable."""
        changes: list[tuple[Undo, Undo]] = []

        def undo() -> None:
            for back, _ in reversed(changes):
                back()

        try:
            for i, entry in enumerate(entries):
                changes.append(self.index.apply(position + i, entry, now_ms))
        except BaseException:
            undo()
            raise

        def settle() -> None:
            for _, done in changes:
                done()

        return undo, settle
