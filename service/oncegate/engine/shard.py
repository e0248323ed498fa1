"""Joins every use case over one namespace's ledger and index: a shard, their one owner.

Durable before answered: the index may run ahead of the ledger; every answer that rests on an entry waits for it.
Deadlines are checked before a decision and never after.
"""

from collections.abc import Awaitable, Callable

from oncegate.core.claims import Verb
from oncegate.core.errors import NotEmpty
from oncegate.engine.admission import Backlog
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.marks import Marks
from oncegate.engine.commit.places import Places
from oncegate.engine.commit.proven import answers_when_proven
from oncegate.engine.counts.counts import Counts
from oncegate.engine.counts.rates import Rates
from oncegate.engine.deadline import Deadline
from oncegate.engine.id_sets import CLAIMED, chosen
from oncegate.engine.limits import Limits
from oncegate.engine.maintenance.eviction import Eviction
from oncegate.engine.maintenance.run_files import RunFiles
from oncegate.engine.maintenance.scheduler import Scheduler
from oncegate.engine.maintenance.snapshotter import Snapshotter
from oncegate.engine.policies import shadow
from oncegate.engine.policies.settings import Settings
from oncegate.engine.producer_requests import (
    AckRequest,
    AckResult,
    DriverRequest,
    DriverResult,
    LaneAnswer,
    LaneOpening,
    LaneQuestion,
    ProducerRequest,
    ProducerResult,
    ProducerView,
    ResolveRequest,
    SequenceSettled,
)
from oncegate.engine.requests import (
    AbortRequest,
    AbortResult,
    ClaimRequest,
    ClaimResult,
    CommitRequest,
    CommitResult,
    Fetched,
    LookUpRequest,
    ProduceRequest,
    ProduceResult,
    Schema,
    SequenceRequest,
    SettingsRequest,
    SettleResult,
    StageRequest,
    StageResult,
    TakeRequest,
    TopicRequest,
    TopicView,
)
from oncegate.engine.usecases.batches import Batches
from oncegate.engine.usecases.claim_batching import ClaimBatcher
from oncegate.engine.usecases.claims import Claims
from oncegate.engine.usecases.direct.lanes import DirectLanes
from oncegate.engine.usecases.drivers import Drivers
from oncegate.engine.usecases.operations.operations import Operations
from oncegate.engine.usecases.produce import Records
from oncegate.engine.usecases.producers import Producers
from oncegate.engine.usecases.stage_quota import StageQuota
from oncegate.engine.usecases.topics import Topics
from oncegate.hashing.id_times import with_times
from oncegate.hashing.ids import Fingerprinter, IdSets
from oncegate.hashing.keys import key_check
from oncegate.hashing.payloads import PayloadDigester
from oncegate.hashing.rows import RowFingerprinter
from oncegate.index.claims.results import Explained
from oncegate.index.shard import ShardIndex
from oncegate.index.table.grants import NO_CLAIM
from oncegate.ports import Clock, DirectRecords, Ledger, Mark, Observer, Outputs, RowTopics

# What may fail for a while, as `Shard.works` tells.
WORKS = ("compaction", "eviction", "room")


class Shard:
    """Answers every request to one namespace. All of it may be called concurrently, on one event loop.

    Methods that return an awaitable answer once what the answer rests on is durable, and a refusal likewise; each
    raises what the use case raises that it names.
    """

    def __init__(
        self,
        namespace: str,
        ledger: Ledger,
        outputs: Outputs,
        key: bytes,
        index: ShardIndex,
        marks: Marks,
        clock: Clock,
        observer: Observer,
        limits: Limits,
        free_bytes: Callable[[], tuple[int, int]],
        files: RunFiles,
        row_topics: RowTopics | None = None,
        counts: Counts | None = None,
        direct: DirectRecords | None = None,
    ) -> None:
        self.namespace = namespace
        self.marks = marks
        self.id_sets, self.key_check = IdSets(key, index.id_sets.generation), key_check(key)
        self.row_fingerprints, self.payloads = RowFingerprinter(key), PayloadDigester(key)
        counts = Counts() if counts is None else counts
        self.group_commit = GroupCommit(ledger, clock, marks, free_bytes, counts)
        self.journal = Journal(namespace, index, self.group_commit, clock, observer, limits, counts=counts)
        self.rates, self.backlog = Rates(limits, clock, counts), Backlog()
        self.stages = StageQuota(self.journal, free_bytes)
        self.snapshotter = Snapshotter(ledger, clock, marks, self.group_commit)
        self.eviction = Eviction(self.journal, outputs, files, self.snapshotter)
        self.scheduler = Scheduler(self.journal, self.stages, self.eviction, self.snapshotter)
        places = Places(ledger, marks, row_topics is not None)
        self._claims = Claims(self.journal, places)
        self._claim_batcher = ClaimBatcher(self.journal, self._claims)
        self._topics = Topics(self.journal, outputs, row_topics)
        # Where topics lie that rows are sent to; empty: they are the ledger's own.
        self.topics_at = "" if row_topics is None else row_topics.where
        self.settings = Settings(self.journal, self.topics_at)
        # What an acknowledged append outlives, where a server's settings decide that; else empty.
        self.durability: Callable[[], str] = lambda: ""
        self._producers, self._drivers = Producers(self.journal), Drivers(self.journal)
        self.operations = Operations(self.journal, lambda: self.eviction.busy, self.rates)
        self._records = Records(self.journal, self._topics, self._producers, places)
        self._batches = Batches(self.journal, self._topics, self.stages, places)
        self._direct = DirectLanes(self.journal, direct)

    def fingerprints(self, named: str | None = None, own: str = CLAIMED) -> Fingerprinter:
        """Returns what makes fingerprints of one request's ids: in the set that it names (`named`), else in `own`.

        Where the namespace's ids carry their time it reads that too. Raises TooLarge for the set's name.
        """
        return with_times(self.id_sets.of(chosen(named, own, self.journal.limits)), self.settings.read_time)

    @answers_when_proven
    def claim(self, request: ClaimRequest, deadline: Deadline) -> Awaitable[ClaimResult]:
        """Decides which ids of a request may be written, as `ClaimBatcher.claim`."""
        self.rates.take_ids(len(request.ids))
        answering = self._claim_batcher.claim(request, deadline)
        return shadow.claimed(answering, self.journal.counts) if self.settings.shadow else answering

    @answers_when_proven
    def take(self, request: TakeRequest, deadline: Deadline) -> Awaitable[ClaimResult]:
        """Takes ids for an owner, for good, as `Claims.take`."""
        self.rates.take_ids(len(request.ids))
        answering = self._claims.take(request, deadline)
        return shadow.claimed(answering, self.journal.counts, names=False) if self.settings.shadow else answering

    @answers_when_proven
    def settle(
        self, verb: Verb, claim: bytes, deadline: Deadline, result: bytes | None = None
    ) -> Awaitable[SettleResult]:
        """Renews, completes or releases the claim that these 16 bytes name, as `Claims.settle`."""
        if claim == NO_CLAIM:
            return shadow.settled_nothing(verb, self.journal.limits.lease_ms)
        answering = self._claims.settle(verb, claim, deadline, result)
        return shadow.settled(answering) if self.settings.shadow else answering

    @answers_when_proven
    def explain(self, fingerprint: bytes) -> Awaitable[Explained]:
        """Tells what is known about one id, by its 16 bytes, as `Claims.explain`."""
        return self._claims.explain(fingerprint)

    @answers_when_proven
    def look_up(self, request: LookUpRequest, deadline: Deadline) -> Awaitable[ClaimResult]:
        """Tells what is known of ids, and grants none, as `Claims.look_up`."""
        self.rates.take_ids(len(request.ids))
        return self._claims.look_up(request, deadline)

    @answers_when_proven
    def produce(self, request: ProduceRequest, deadline: Deadline) -> Awaitable[ProduceResult]:
        """Appends rows to a topic, those whose id is free, as `Records.produce`."""
        self.rates.take_ids(request.rows.rows)
        answering = self._records.produce(request, deadline)
        return shadow.produced(answering, self.journal.counts) if self.settings.shadow else answering

    @answers_when_proven
    def register_driver(self, request: DriverRequest, deadline: Deadline) -> Awaitable[DriverResult]:
        """Gives a driver's attempt its epoch, as `Drivers.register`."""
        return self._drivers.register(request, deadline)

    @answers_when_proven
    def ack(self, request: AckRequest, deadline: Deadline) -> Awaitable[AckResult]:
        """Takes a driver's word that sequences and batches will not be run again, as `Drivers.ack`."""
        return self._drivers.ack(request, deadline)

    @answers_when_proven
    def register(self, request: ProducerRequest, deadline: Deadline) -> Awaitable[ProducerResult]:
        """Gives a producer's attempt its epoch, as `Producers.register`."""
        return self._producers.register(request, deadline)

    @answers_when_proven
    def claim_sequences(self, request: SequenceRequest, deadline: Deadline) -> Awaitable[ClaimResult]:
        """Decides which sequences of a producer may be written, as `Producers.claim`."""
        self.rates.take_ids(len(request.sequences))
        answering = self._producers.claim(request, deadline)
        return shadow.claimed(answering, self.journal.counts, names=False) if self.settings.shadow else answering

    @answers_when_proven
    def settle_sequences(
        self, verb: Verb, name: str, epoch: int, token: bytes, call: int, deadline: Deadline
    ) -> Awaitable[SequenceSettled]:
        """Renews, completes or releases all that a producer's call was granted, as `Producers.settle`."""
        answering = self._producers.settle(verb, name, epoch, token, call, deadline)
        return shadow.settled_sequences(verb, call, answering) if self.settings.shadow else answering

    @answers_when_proven
    def close_producer(self, name: str, epoch: int, token: bytes) -> Awaitable[None]:
        """Ends a producer's lease at once, as `Producers.close`."""
        return self._producers.close(name, epoch, token)

    @answers_when_proven
    def open_lane(
        self, topic: str, producer: str, deadline: Deadline, source_id: str | None = None
    ) -> Awaitable[LaneOpening]:
        """Makes or finds the lane by which a client writes itself, as `DirectLanes.open`."""
        return self._direct.open(topic, producer, deadline, source_id)

    @answers_when_proven
    def ask_lane(self, question: LaneQuestion, deadline: Deadline) -> Awaitable[LaneAnswer]:
        """Tells which sequences of a lane are written, as `DirectLanes.ask`."""
        return self._direct.ask(question, deadline)

    @answers_when_proven
    def resolve_claim(self, claim: bytes, request: ResolveRequest, deadline: Deadline) -> Awaitable[int]:
        """Clears the leftover of a claim, as `Leftovers.of_claim`."""
        return self.operations.leftovers.of_claim(claim, request, deadline)

    @answers_when_proven
    def resolve_producer(
        self, name: str, span: tuple[int | None, int | None], request: ResolveRequest, deadline: Deadline
    ) -> Awaitable[int]:
        """Clears leftovers of a producer, as `Leftovers.of_producer`."""
        return self.operations.leftovers.of_producer(name, span, request, deadline)

    @answers_when_proven
    def explain_producer(self, name: str) -> Awaitable[ProducerView]:
        """Tells what is known of a producer, as `Producers.explain`."""
        return self._producers.explain(name)

    @answers_when_proven
    def create_topic(self, request: TopicRequest, deadline: Deadline) -> Awaitable[tuple[TopicView, bool]]:
        """Makes a topic or sets its retention; returns the topic, and whether it is new; as `Topics.create`."""
        return self._topics.create(request, deadline)

    @answers_when_proven
    def topic(self, name: str) -> Awaitable[TopicView]:
        """Tells a topic's schema, offsets and retention, as `Topics.view`."""
        return self._topics.view(name)

    def remembered_topic(self, name: str) -> Awaitable[TopicView]:
        """Tells a topic as `topic` does, from memory alone: for a write, which waits for an append of its own."""
        return self._topics.view(name)

    @property
    def record_columns(self) -> Schema | None:
        """The columns of records that topics elsewhere have, as `Topics.record_columns`."""
        return self._topics.record_columns

    def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> Awaitable[Fetched]:
        """Reads rows of a partition from an offset on, as `Topics.fetch`."""
        return self._topics.fetch(topic, partition, offset, max_rows, max_bytes)

    @answers_when_proven
    def stage(self, request: StageRequest, deadline: Deadline) -> Awaitable[StageResult]:
        """Keeps a chunk of rows until its batch is committed, as `Batches.stage`."""
        return self._batches.stage(request, deadline)

    @answers_when_proven
    def commit(self, request: CommitRequest, deadline: Deadline) -> Awaitable[CommitResult]:
        """Publishes a batch's staged rows under its name, once, as `Batches.commit`."""
        return self._batches.commit(request, deadline)

    @answers_when_proven
    def abort(self, request: AbortRequest, deadline: Deadline) -> Awaitable[AbortResult]:
        """Removes what attempts have staged for a batch, as `Batches.abort`."""
        return self._batches.abort(request, deadline)

    @answers_when_proven
    def source_offsets(self, app: str, topic: str, write_id: str) -> Awaitable[bytes]:
        """Tells from where a job's source is to be read on, as `Batches.source_offsets`."""
        return self._batches.source_offsets(app, topic, write_id)

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

    async def configure(self, request: SettingsRequest, deadline: Deadline) -> None:
        """Sets the namespace up, as `Settings.configure`."""
        await self.settings.configure(request, deadline)

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

    def topics(self) -> list[str]:
        """Returns the names of all topics."""
        return self.journal.index.topics.names()

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
