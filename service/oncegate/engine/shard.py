"""Holds the use cases over one namespace's ledger and index, which transports call directly: a shard owns both.

Durable before answered: the index may run ahead of the ledger; every answer that rests on an entry waits for it
(`commit.proven.answers`). Deadlines are checked before a decision and never after.
"""

from oncegate.core.errors import NotEmpty
from oncegate.engine.admission import Backlog
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
from oncegate.engine.names import CLAIMED, chosen
from oncegate.engine.policies.settings import READ_TIMES, Settings
from oncegate.engine.usecases.batches import Batches
from oncegate.engine.usecases.claims import Claims
from oncegate.engine.usecases.direct.lanes import DirectLanes
from oncegate.engine.usecases.drivers import Drivers
from oncegate.engine.usecases.operations.operations import Operations
from oncegate.engine.usecases.produce import Records
from oncegate.engine.usecases.producers import Producers
from oncegate.engine.usecases.stage_quota import StageQuota
from oncegate.engine.usecases.topics import Topics
from oncegate.hashing.id_times import TimedFingerprinter
from oncegate.hashing.ids import Fingerprinter, IdSets
from oncegate.hashing.keys import key_check
from oncegate.hashing.payloads import PayloadDigester
from oncegate.hashing.rows import RowFingerprinter
from oncegate.index.shard import ShardIndex
from oncegate.ports import Clock, Mark, Observer, OpenLedger, Outputs

# What may fail for a while, as `Shard.works` tells.
WORKS = ("compaction", "eviction", "room")


class Shard:
    """Holds the use cases of one namespace. All of them may be called concurrently, on one event loop."""

    def __init__(
        self,
        namespace: str,
        opened: OpenLedger,
        outputs: Outputs,
        index: ShardIndex,
        marks: Marks,
        clock: Clock,
        observer: Observer,
        limits: Limits,
        files: RunFiles,
        counts: Counts | None = None,
    ) -> None:
        ledger, key, storage = opened.ledger, opened.key, opened.storage
        row_topics = opened.topics.rows
        self.namespace = namespace
        self.marks = marks
        self.id_sets, self.key_check = IdSets(key, index.id_sets.generation), key_check(key)
        self.row_fingerprints, self.payloads = RowFingerprinter(key), PayloadDigester(key)
        counts = Counts() if counts is None else counts
        self.group_commit = GroupCommit(ledger, clock, marks, storage, counts, opened.end)
        self.journal = Journal(namespace, index, self.group_commit, clock, observer, limits, counts=counts)
        self.rates, self.backlog = self.journal.rates, Backlog()
        self.stages = StageQuota(self.journal, storage.free_bytes)
        self.snapshotter = Snapshotter(ledger, clock, marks, self.group_commit)
        self.eviction = Eviction(self.journal, outputs, files, self.snapshotter)
        self.scheduler = Scheduler(self.journal, self.stages, self.eviction, self.snapshotter)
        # Where topics are that rows are sent to; empty: they are the ledger's own.
        self.topics_at = "" if row_topics is None else row_topics.where
        self.durability, self.away = storage.durability, storage.away
        places = Places(ledger, marks, row_topics is not None)
        self.claims = Claims(self.journal, places)
        self.producers, self.drivers = Producers(self.journal), Drivers(self.journal)
        self.direct = DirectLanes(self.journal, opened.topics.direct)
        self.topics = Topics(self.journal, outputs, row_topics)
        self.records = Records(self.journal, self.topics, self.producers, places)
        self.batches = Batches(self.journal, self.topics, self.stages, places)
        self.settings = Settings(self.journal, self.topics_at)
        self.operations = Operations(self.journal, lambda: self.eviction.busy)

    def fingerprints(self, named: str | None = None, own: str = CLAIMED) -> Fingerprinter:
        """Returns what makes fingerprints of one request's ids: in the set that it names (`named`), else in `own`.

        Where the namespace's ids carry their time it reads that too. Raises TooLarge for the set's name.
        """
        printer = self.id_sets.of(own if named is None else chosen(named, own, self.journal.limits))
        read = READ_TIMES[self.journal.index.settings.in_force.id_time]
        return printer if read is None else TimedFingerprinter(printer, read)

    @property
    def mark(self) -> Mark:
        """Returns the mark of the last durable append."""
        return self.group_commit.mark

    def require(self, mark: Mark) -> None:
        """Raises LedgerBehind unless this shard's ledger once stood at `mark`.

        A mark of a predecessor is logged and passes. The answer brings the ledger's present mark instead.
        """
        if self.marks.is_of_predecessor(mark):
            self.journal.observer.event(
                "mark_of_predecessor",
                namespace=self.namespace,
                ledger=mark.ledger.hex(),
                position=mark.position,
                held=self.marks.holds(mark),
            )
            return
        try:
            self.marks.require(mark)
        except Exception:
            self.journal.observer.event("ledger_behind", namespace=self.namespace, position=mark.position)
            raise

    async def require_empty(self) -> None:
        """Returns when the namespace holds nothing but its settings, and nothing waits to become durable.

        Raises NotEmpty with how many of what it holds; LedgerFull, LedgerDown: what it holds is not known.
        """
        group_commit = self.group_commit
        await group_commit.all_durable()
        while group_commit.next_position - 1 > group_commit.mark.position:
            await group_commit.all_durable()
        held = self.journal.index.held()
        if held:
            listed = ", ".join(f"{count} {kind}" for kind, count in held.items())
            name = self.namespace
            raise NotEmpty(
                f"namespace {name} holds {listed}: `?confirm={name}` deletes it with them; nothing was deleted",
                holds=held,
            )

    def failing(self) -> dict[str, str]:
        """Tells what fails for now, and why: work in the background, and room on the disk for more."""
        return {work: error for work, error in self.works().items() if error}

    def works(self) -> dict[str, str]:
        """Tells of all that may fail why it does; empty where it does not."""
        errors = self.scheduler.compaction_error, self.eviction.error, self.group_commit.room.shortage
        return dict(zip(WORKS, errors, strict=True))

    @property
    def compacted_to(self) -> int:
        """Tells up to which position a snapshot stands for the entries; 0: they are all there."""
        return self.marks.compacted_to

    def counters(self) -> dict[str, int]:
        """Tells every counter by its name; what each counts, `engine.counters` says."""
        return self.journal.counts.all(self.journal.index)
