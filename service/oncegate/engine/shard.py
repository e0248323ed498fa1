"""Serves one ledger and its index, with the use cases whose state is entirely in that ledger.

The in-memory index may run ahead of the ledger. An answer is sent only once every entry that it depends on is durable
(`commit.proven.answers`). Deadlines are checked before a decision and never after it.
"""

from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.marks import Marks
from oncegate.engine.commit.places import Places
from oncegate.engine.counts.counts import Counts
from oncegate.engine.limits import Limits
from oncegate.engine.maintenance.eviction import Eviction
from oncegate.engine.maintenance.run_files import RunFiles
from oncegate.engine.maintenance.scheduler import Scheduler
from oncegate.engine.maintenance.snapshotter import Snapshotter
from oncegate.engine.usecases.claims import Claims
from oncegate.engine.usecases.direct.lanes import DirectLanes
from oncegate.engine.usecases.drivers import Drivers
from oncegate.engine.usecases.producers import Producers
from oncegate.engine.usecases.stage_quota import StageQuota
from oncegate.index.shard import ShardIndex
from oncegate.ports import Clock, Observer, OpenLedger

# Background tasks whose current error `Shard.works` returns.
WORKS = ("compaction", "eviction", "room")


class Shard:
    """A namespace's ledger while it serves: its claims, producers, drivers and lanes, their group commit and
    maintenance."""

    def __init__(
        self,
        namespace: str,
        opened: OpenLedger,
        index: ShardIndex,
        marks: Marks,
        clock: Clock,
        observer: Observer,
        limits: Limits,
        files: RunFiles,
        counts: Counts,
    ) -> None:
        assert opened.outputs is not None
        ledger, storage = opened.ledger, opened.storage
        self.opened, self.outputs, self.marks = opened, opened.outputs, marks
        self.group_commit = GroupCommit(ledger, clock, marks, storage, counts, opened.end)
        self.journal = Journal(namespace, index, self.group_commit, clock, observer, limits, counts=counts)
        self.stages = StageQuota(self.journal, storage.free_bytes)
        self.snapshotter = Snapshotter(ledger, clock, marks, self.group_commit)
        self.eviction = Eviction(self.journal, self.outputs, files, self.snapshotter)
        self.scheduler = Scheduler(self.journal, self.stages, self.eviction, self.snapshotter)
        self.places = Places(ledger, marks, opened.topics.rows is not None)
        self.claims = Claims(self.journal, self.places)
        self.producers, self.drivers = Producers(self.journal), Drivers(self.journal)
        self.direct = DirectLanes(self.journal, opened.topics.direct)

    def failing(self) -> dict[str, str]:
        """Returns the current error of each failing background task, and the shortage if the disk is full."""
        return {work: error for work, error in self.works().items() if error}

    def works(self) -> dict[str, str]:
        """Returns the current error of each background task in `WORKS`; empty for tasks that work."""
        errors = self.scheduler.compaction_error, self.eviction.error, self.group_commit.room.shortage
        return dict(zip(WORKS, errors, strict=True))

    def counters(self) -> dict[str, int]:
        """Returns the value of every counter in `engine.counters`, by name."""
        return self.journal.counts.all(self.journal.index)
