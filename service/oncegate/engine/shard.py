"""One shard: one owner, one ledger, one index, and every use case over them.

Durable before said: the index may run ahead of the ledger; every answer that rests on an entry waits for it.
Deadlines are checked before a decision and never after.
"""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from oncegate.core.entries.kinds import NamespaceSet
from oncegate.core.errors import BadRequest, MissingStage, Rejected, Stop
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.marks import Marks
from oncegate.engine.deadline import Deadline
from oncegate.engine.limits import Limits
from oncegate.engine.maintenance.eviction import Eviction
from oncegate.engine.maintenance.run_files import RunFiles
from oncegate.engine.maintenance.scheduler import Scheduler
from oncegate.engine.maintenance.snapshotter import Snapshotter
from oncegate.engine.usecases.batches import Batches
from oncegate.engine.usecases.claim_batching import ClaimBatcher
from oncegate.engine.usecases.claims import Claims
from oncegate.engine.usecases.drivers import Drivers
from oncegate.engine.usecases.produce import Records
from oncegate.engine.usecases.producers import Producers
from oncegate.engine.usecases.stage_quota import StageQuota
from oncegate.engine.usecases.topics import Topics
from oncegate.hashing.ids import Fingerprinter
from oncegate.hashing.payloads import PayloadDigester
from oncegate.hashing.rows import RowFingerprinter
from oncegate.index.shard import ShardIndex
from oncegate.ports import Clock, Ledger, Mark, Observer

P = ParamSpec("P")
R = TypeVar("R")


class Shard:
    """What a namespace's one owner can be asked, by kind. Everything may be called concurrently on one event loop."""

    def __init__(
        self,
        namespace: str,
        ledger: Ledger,
        key: bytes,
        index: ShardIndex,
        marks: Marks,
        clock: Clock,
        observer: Observer,
        limits: Limits,
        free_bytes: Callable[[], tuple[int, int]],
        files: RunFiles,
    ) -> None:
        self.namespace = namespace
        self.fingerprints = Fingerprinter(key)
        self.group_commit = GroupCommit(ledger, clock, marks)
        self.journal = Journal(namespace, index, self.group_commit, clock, observer, limits)
        self.stages = StageQuota(self.journal, free_bytes)
        claims, topics = Claims(self.journal), Topics(self.journal, ledger)
        producing, staging = Records(self.journal, topics), Batches(self.journal, topics, self.stages)
        self.row_fingerprints, self.payloads = RowFingerprinter(key), PayloadDigester(key)
        self.snapshotter = Snapshotter(ledger, clock, marks, self.group_commit)
        self.eviction = Eviction(self.journal, ledger, files, self.snapshotter)
        self.scheduler = Scheduler(self.journal, self.stages, self.eviction, self.snapshotter)
        said = self._refusing_when_durable
        gathering = ClaimBatcher(self.journal, claims)
        self.claim, self.settle, self.explain = said(gathering.claim), said(claims.settle), claims.explain
        self.take, self.produce = said(claims.take), said(producing.produce)
        producers, drivers = Producers(self.journal), Drivers(self.journal)
        self.register_driver, self.ack = said(drivers.register), said(drivers.ack)
        self.register, self.claim_sequences = said(producers.register), said(producers.claim)
        self.settle_sequences, self.close_producer = said(producers.settle), said(producers.close)
        self.explain_producer = said(producers.explain)
        self.create_topic, self.fetch, self.topic = said(topics.create), topics.fetch, topics.view
        self.stage, self.commit, self.abort = said(staging.stage), said(staging.commit), said(staging.abort)
        self._marks = marks

    def _refusing_when_durable(self, use: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """A refusal too rests on what the index knows: it is said once that is durable."""

        async def careful(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return await use(*args, **kwargs)
            except (Rejected, Stop, MissingStage):
                await self.group_commit.all_durable()
                raise

        return careful

    @property
    def mark(self) -> Mark:
        """The last durable place."""
        return self.group_commit.mark

    def require(self, mark: Mark) -> None:
        """LedgerBehind unless this shard's ledger once stood at `mark`; one of a predecessor is told and passes.

        The answer brings the ledger's present mark, which takes its place.
        """
        if self._marks.is_of_predecessor(mark):
            self.journal.observer.event(
                "mark_of_predecessor",
                namespace=self.namespace,
                ledger=mark.ledger.hex(),
                position=mark.position,
                held=self._marks.holds(mark),
            )
            return
        try:
            self._marks.require(mark)
        except Exception:
            self.journal.observer.event("ledger_behind", namespace=self.namespace, position=mark.position)
            raise

    async def configure(self, horizon_ms: int | None, auto_create_topics: bool | None, deadline: Deadline) -> None:
        """Set the namespace up; None: as it is. Durable when it returns.

        Raises BadRequest, LedgerFull, DeadlinePassed: nothing was changed; LedgerDown: unknown, repeat it.
        """
        deadline.check()
        journal, known = self.journal, self.journal.index.settings
        horizon_ms = known.horizon_ms if horizon_ms is None else horizon_ms
        auto = known.auto_create_topics if auto_create_topics is None else int(auto_create_topics)
        if 0 < horizon_ms < journal.limits.horizon_ms_min:
            raise BadRequest(
                f"a horizon of {horizon_ms} ms: at least {journal.limits.horizon_ms_min}, for a retry may "
                "come as late as a lease and its repeats, or 0 to keep ids for ever"
            )
        if (horizon_ms, auto) != (known.horizon_ms, known.auto_create_topics):
            journal.group_commit.check()
            await journal.group_commit.durable(journal.record([NamespaceSet(horizon_ms, auto, journal.wall_ms())]))
        await journal.group_commit.durable(journal.index.settings_position)

    @property
    def horizon_ms(self) -> int:
        """How long a done id is known; 0: for ever."""
        return self.journal.index.settings.horizon_ms

    @property
    def auto_create_topics(self) -> bool:
        return bool(self.journal.index.settings.auto_create_topics)

    def topics(self) -> list[str]:
        """Names of the topics that something was written to."""
        return self.journal.index.topics.names()

    def counters(self) -> dict[str, int]:
        """Since the process started, but for those that the ledger itself tells (takeovers, ids, suppressed_rows)."""
        claims, batches = self.journal.index.claims, self.journal.index.batches
        return {
            **{name: self.journal.counts[name] for name in _COUNTERS},
            "takeovers": claims.takeovers + self.journal.index.producers.takeovers,
            "open_claims": claims.open_claims,
            "ids": claims.known_ids,
            **claims.cold.counters(),
            "stage_bytes": batches.stage_bytes,
            "suppressed_rows": batches.suppressed_rows,
        }


_COUNTERS = (
    "granted",
    "granted_again",
    "duplicates",
    "own_duplicates",
    "conflicts",
    "busy",
    "same",
    "stale",
    "completed",
    "released",
    "produced_rows",
    "staged_rows",
    "committed_rows",
    "duplicate_commits",
)
