"""Runs the periodic work of a shard in small steps: old stages, retention of ids and rows, compaction."""

from collections.abc import Generator
from contextlib import closing

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Retired, SnapshotPiece, Trimmed
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import COMPACTIONS, FAILED_COMPACTIONS
from oncegate.engine.maintenance import archive_log
from oncegate.engine.maintenance.eviction import Eviction
from oncegate.engine.maintenance.snapshotter import Snapshotter
from oncegate.engine.usecases.stage_quota import StageQuota
from oncegate.index.settings import bucket_ms, buckets_kept
from oncegate.index.topics import PartitionState, TopicState
from oncegate.ports import TrimRanges

# Delay before a failed compaction is retried.
COMPACT_AGAIN_MS = 60_000


class Scheduler:
    """The periodic work of a shard, in bounded steps of at most one append each, which the shard's owner calls."""

    def __init__(self, journal: Journal, stages: StageQuota, eviction: Eviction, snapshotter: Snapshotter) -> None:
        self._journal = journal
        self._snapshotter = snapshotter
        self._stages = stages
        self._eviction = eviction
        self._retired_ms = journal.clock.monotonic_ms()
        self._snapshot_bytes = 0
        # Bytes of the current snapshot, and of the entries that it replaces.
        self._sizes = (0, 0)
        self._compact_from_ms = 0
        # Monotonic time of the last compaction; before the first one, of the opening of the ledger.
        self.compacted_ms = self._retired_ms
        # The error of the last compaction; empty: it succeeded, or there was none.
        self.compaction_error = ""
        # Without this hook, back-to-back rounds of eviction would leave no moment for a compaction.
        eviction.between_rounds = self.compact

    def step(self) -> None:
        """Runs all work that is due. While the ledger is full or closing, only sweeps stages and checks evictions."""
        self._stages.sweep()
        if self._journal.group_commit.open:
            self.retire()
            self.trim()
            self.compact()
        self._eviction.step()

    def retire(self) -> None:
        """Starts the next expiry bucket, and forgets ids that were done or taken before the retention period.

        Ledger entries separate the buckets, and monotonic time measures them. Neither a changed wall clock nor a
        restart can make a gateway forget ids that may still be retried. Time in which it did not run does not count.
        """
        journal, index, now_ms = self._journal, self._journal.index, self._journal.clock.monotonic_ms()
        horizon_ms = index.settings.in_force.horizon_ms
        # Ids under eviction must not be forgotten and claimed again during the round.
        if self._eviction.busy:
            return
        if not horizon_ms or now_ms - self._retired_ms < bucket_ms(horizon_ms) or index.claims.oldest_wall_ms is None:
            return
        self._retired_ms = now_ms
        before_ms = index.settings.buckets[0] if len(index.settings.buckets) == buckets_kept(horizon_ms) else 0
        # Later than all earlier entries, even if the wall clock is behind the ledger's.
        journal.record([Retired(before_ms, journal.wall_ms() + 1)], archive_log.trim(journal, before_ms))
        if before_ms:
            journal.observer.event("retired", namespace=journal.namespace, before_wall_ms=before_ms)

    def trim(self) -> None:
        """Trims rows beyond the retention of their topic, in a bounded number of partitions."""
        journal = self._journal
        wall_ms, due = journal.wall_ms(), []
        for name, topic in journal.index.topics:
            for number, partition in enumerate(topic.partitions):
                before = _kept_from(topic, partition, wall_ms)
                if before > partition.low_offset:
                    due.append(Trimmed(name, number, before, wall_ms))
        due = due[: journal.limits.trims_per_step]
        if due:
            journal.record(due, [TrimRanges(entry.topic, entry.partition, entry.before_offset) for entry in due])

    def compact(self) -> None:
        """Requests a snapshot once the entries are twice as large as the last snapshot.

        With this factor, data is written at most three times over a year. A snapshot also pays if no entry is obsolete:
        a start reads it faster than the entries.
        """
        journal, now_ms = self._journal, self._journal.clock.monotonic_ms()
        threshold_bytes = max(journal.limits.collect_bytes, 2 * self._snapshot_bytes)
        if self._eviction.busy:
            return
        if journal.size_bytes < threshold_bytes:
            return
        if self._snapshotter.compacting or not journal.group_commit.open:
            return
        if now_ms >= self._compact_from_ms:
            self._snapshotter.compact(self.save, self._compacted)

    def save(self) -> Generator[list[bytes], None, None]:
        """Encodes the index, as it is at the call, into entries, step by step, for `Snapshotter.compact`."""
        self._sizes = 0, self._journal.size_bytes
        return self._encoded(self._journal.index.snapshot_steps())

    def _encoded(self, steps: Generator[list[SnapshotPiece], None, None]) -> Generator[list[bytes], None, None]:
        with closing(steps):
            for entries in steps:
                bodies = [encode(entry) for entry in entries]
                self._sizes = self._sizes[0] + sum(map(len, bodies)), self._sizes[1]
                yield bodies
        self._journal.observer.event("compaction", namespace=self._journal.namespace, size_bytes=self._sizes[0])

    def _compacted(self, why: dict[str, object] | None) -> None:
        """Records a successful compaction; logs a failed one and schedules a retry."""
        if why is None:
            self._snapshot_bytes, self.compaction_error = self._sizes[0], ""
            self._journal.size_bytes -= self._sizes[1]
            self._journal.counts.add(COMPACTIONS)
            self.compacted_ms = self._journal.clock.monotonic_ms()
            return
        self._journal.counts.add(FAILED_COMPACTIONS)
        self.compaction_error = str(why["error"])
        self._compact_from_ms = self._journal.clock.monotonic_ms() + COMPACT_AGAIN_MS
        self._journal.observer.event("compaction_failed", namespace=self._journal.namespace, **why)


def _kept_from(topic: TopicState, partition: PartitionState, wall_ms: int) -> int:
    """Returns the lowest offset that retention keeps. The limit of bytes never removes the newest rows."""
    ranges, size_bytes, gone = partition.kept, partition.size_bytes, 0
    for number, (_, rows_bytes, rows_wall_ms) in enumerate(ranges):
        old = topic.retention_ms and rows_wall_ms + topic.retention_ms <= wall_ms
        over = topic.retention_bytes and size_bytes > topic.retention_bytes and number < len(ranges) - 1
        if not old and not over:
            break
        size_bytes, gone = size_bytes - rows_bytes, number + 1
    return ranges[gone][0] if gone < len(ranges) else partition.high_offset
