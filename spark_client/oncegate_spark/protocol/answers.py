"""Results of calls, as both clients return them. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from oncegate_spark.protocol.packed import Place, Verdicts


@dataclass(frozen=True)
class Settled:
    """Result of completing, releasing or renewing a claim.

    `settled` ids are in `state`; `taken_over` ids belong to another attempt. `result` is the value with which the claim
    was first completed, if known.
    """

    state: str
    settled: int
    taken_over: int
    lease_ms: int
    began_ms: int
    result: bytes | None = None


@dataclass(frozen=True)
class Staged:
    """Result of staging one chunk.

    `committed`: the batch was published before, and nothing was stored. `fingerprint`: the gateway's fingerprint of
    these rows.
    """

    committed: bool
    rows: int
    fingerprint: int


@dataclass(frozen=True)
class OpenedLane:
    """Lane through which a client writes one producer's rows into a Kafka topic; the answer never changes.

    `lane` and `ledger` are the ids that its records carry; `topic` and `partition` are their destination. A Kafka
    producer that starts with `transactional_id` fences the previous one.
    """

    lane: int
    ledger: bytes
    brokers: str
    topic: str
    partition: int
    transactional_id: str


@dataclass(frozen=True)
class ProducedOffsets:
    """Range of `rows` consecutive offsets of a partition, from `first_offset`.

    `topic` is set where the gateway names one, since rows written into Kafka may each name a topic. None is the topic
    of the request.
    """

    partition: int
    first_offset: int
    rows: int
    topic: str | None = None


@dataclass(frozen=True)
class Committed:
    """Result of a commit.

    outcome         COMMITTED (visible at `offsets`) or DUPLICATE (an earlier commit of the name is in effect)
    first_of_app    with COMMITTED: the gateway knows no other commit to the topic under this app
    higher_version  with DUPLICATE: the committed version that is higher than this one; None: the name itself is
        committed
    """

    outcome: str
    rows: int
    offsets: tuple[ProducedOffsets, ...]
    suppressed_rows: int
    takeover_rows: int
    first_of_app: bool
    warning: str | None
    higher_version: str | None = None

    @property
    def rows_before(self) -> int:
        """Returns the number of offsets used before these rows, summed over their partitions; in Kafka each transaction
        uses one more.
        """
        lowest: dict[tuple[str | None, int], int] = {}
        for offsets in self.offsets:
            at = offsets.topic, offsets.partition
            lowest[at] = min(lowest.get(at, offsets.first_offset), offsets.first_offset)
        return sum(lowest.values())


@dataclass(frozen=True)
class Produced:
    """Result of one produce request.

    rows      number of rows written, at `offsets`
    verdicts  one per row; None for rows without ids
    before    for a repeated request: where its earlier attempts wrote, if the gateway still knows
    """

    rows: int
    offsets: tuple[ProducedOffsets, ...]
    verdicts: Verdicts | None = None
    before: tuple[ProducedOffsets, ...] = ()


@dataclass
class Written:
    """Totals over all rows passed to an attempt's `produce`; each row is counted once, and all are done unless
    `spilled`.

        rows        written by this call, at `offsets`; for `takeovers` of them the lease of an earlier claim had
                    expired, and its holder may have written them elsewhere
        own         written by this attempt before: under the same id, or in a request whose reply was lost
        before      offsets of such a request whose reply was lost, if the gateway knows them
        suppressed  dropped: written by another attempt, or a repeated id within the request; `stale` of them are older
                    than the gateway's memory, so whether they are written is unknown
        conflicts   dropped under onConflict=drop: their ids are written with another payload
        id_set      dedup scope of the ids, as the gateway reports it; None without ids
        places      with `locate`: for each row, where the gateway wrote the first row of its id; None for rows written
                    now and for unknown places. Empty without `locate`
        results     with `locate`: likewise, the result with which the first row's claim was completed
        spilled     rows on this machine's disk until the gateway is back (`on_down="spill"`): none, or all of the call
    """

    rows: int = 0
    own: int = 0
    suppressed: int = 0
    takeovers: int = 0
    offsets: list[ProducedOffsets] = field(default_factory=list)
    conflicts: int = 0
    id_set: str | None = None
    before: list[ProducedOffsets] = field(default_factory=list)
    places: list[Place | None] = field(default_factory=list)
    results: list[bytes | None] = field(default_factory=list)
    spilled: int = 0
    stale: int = 0

    def room_for_firsts(self, rows: int) -> range:
        """Extends `places` and `results` by `rows` unknown entries and returns their indexes."""
        self.places += [None] * rows
        self.results += [None] * rows
        return range(len(self.places) - rows, len(self.places))

    def add(self, produced: Produced, at: Sequence[int] | None = None) -> None:
        """Adds the result of one request; `at`: indexes of its rows in `places` and `results`."""
        if at is not None and produced.verdicts is not None and (firsts := produced.verdicts.firsts) is not None:
            for index, first_row, result in zip(at, firsts.places, firsts.results, strict=True):
                self.places[index], self.results[index] = first_row, result
        self.rows += produced.rows
        self.offsets += produced.offsets
        self.before += produced.before
        if produced.verdicts is not None:
            self.own += produced.verdicts.own
            self.suppressed += produced.verdicts.suppressed
            self.takeovers += produced.verdicts.takeovers
            self.conflicts += produced.verdicts.conflicts
            self.stale += produced.verdicts.stale
            self.id_set = produced.verdicts.id_set

    def count(self, more: "Written") -> None:
        """Adds other counts, without their offsets and places."""
        self.rows += more.rows
        self.own += more.own
        self.suppressed += more.suppressed
        self.takeovers += more.takeovers
        self.conflicts += more.conflicts
        self.stale += more.stale
        self.id_set = more.id_set


@dataclass(frozen=True)
class Topic:
    """Description of a topic; partition p holds the rows from `low_offsets[p]` up to, but excluding, `high_offsets[p]`.

    `schema` is None for a topic without rows that was created without a schema. A `retention_ms` or `retention_bytes`
    of 0 means unlimited.
    """

    name: str
    schema: pa.Schema | None
    low_offsets: tuple[int, ...]
    high_offsets: tuple[int, ...]
    retention_ms: int
    retention_bytes: int

    @property
    def partitions(self) -> int:
        return len(self.high_offsets)


@dataclass
class Drained:
    """Result of draining a spill folder: every entry counted here is done.

    An entry with STALE rows is not removed, and raises instead.

        entries     calls of `produce` that were spilled
        rows        rows written
        suppressed  rows dropped because they are written, perhaps by this job: a lost reply, or a process that died
                    while draining
        conflicts   rows dropped, as on_conflict requires
    """

    entries: int = 0
    rows: int = 0
    suppressed: int = 0
    conflicts: int = 0

    def count(self, written: Written) -> None:
        self.entries += 1
        self.rows += written.rows
        self.suppressed += written.own + written.suppressed
        self.conflicts += written.conflicts


@dataclass
class Decided:
    """Verdicts on a list of ids.

    `ids` has the type that the caller passed; the properties below return subsets of it, of the same type and in order.
    """

    ids: Any
    verdicts: Verdicts

    @property
    def granted(self) -> Any:
        """Ids granted to this caller, which may write them."""
        return self._those(self.verdicts.may_write)

    @property
    def in_doubt(self) -> Any:
        """Granted ids whose earlier claim expired: its holder may have written them."""
        return self._those(self.verdicts.in_doubt)

    @property
    def unchecked(self) -> Any:
        """Granted ids that were not looked up, since the ledger is down and the namespace lets claims pass.

        They may be written already, or be granted to others too. Completing them has no effect.
        """
        return self._those(self.verdicts.unchecked)

    @property
    def busy(self) -> Any:
        """Ids held by another attempt: do not write them, and do not treat them as done."""
        return self._those(self.verdicts.open)

    @property
    def dropped(self) -> Any:
        """Ids that are written, or that repeat an earlier id of the request: drop them."""
        return self._those(self.verdicts.dropped)

    @property
    def conflicting(self) -> Any:
        """Ids that are written, or occur earlier in the request, with a different payload."""
        return self._those(self.verdicts.conflicting)

    @property
    def id_set(self) -> str | None:
        """Dedup scope in which the ids were looked up, as the gateway reports it."""
        return self.verdicts.id_set

    @property
    def places(self) -> tuple[Place | None, ...]:
        """Where the gateway first wrote each id; None: unknown, or not a duplicate. Empty without `locate`."""
        return () if self.verdicts.firsts is None else self.verdicts.firsts.places

    @property
    def results(self) -> tuple[bytes | None, ...]:
        """Result with which each id was completed; None: unknown, or not a duplicate. Empty without `locate`."""
        return () if self.verdicts.firsts is None else self.verdicts.firsts.results

    def _those(self, mask: pa.BooleanArray) -> Any:
        if isinstance(self.ids, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
            return self.ids.filter(mask)
        return [row_id for row_id, wanted in zip(self.ids, mask.to_pylist(), strict=True) if wanted]


@dataclass
class Taken(Decided):
    """Result of `take`, a claim without a lease: granted ids belong to the owner permanently, and are granted to it
    again on request.
    """


@dataclass
class Claimed(Decided):
    """Result of one claim; granted ids may be written and must then be completed."""

    call: int = 0
    began_ms: int = 0
    settled: bool = False
    columns: Sequence[pa.Array] = field(default_factory=list, repr=False)

    @property
    def claim(self) -> str | None:
        """Identifier of the claim; None if nothing was granted."""
        return self.verdicts.claim


@dataclass(frozen=True)
class DriverEpoch:
    """A registered driver; `batch` is the last batch acked under its name, None before the first."""

    epoch: int
    batch: int | None


@dataclass(frozen=True)
class Registered:
    """A producer registered to this attempt, and its progress.

    watermark     sequences up to this one are STALE permanently; None before the first ack
    claimed_to    the highest sequence ever claimed; None before the first
    resume_after  every claimed sequence up to this one is done: a new reader of the source may continue after it
    done          ranges above the watermark that are done, as (first, last), both inclusive; if `truncated`, only
        the newest
    """

    producer_id: int
    epoch: int
    lease_ms: int
    watermark: int | None
    claimed_to: int | None
    resume_after: int | None
    done: tuple[tuple[int, int], ...]
    truncated: bool


@dataclass(frozen=True)
class RefusedPart:
    """Refused part of an ack: the sequences of `producer`, or else `batch`; the other parts were acked.

    code      NOT_DONE (something is claimed and not done), UNKNOWN_PRODUCER or OTHER_DRIVER
    not_done  for a producer: the first unfinished ranges, as (first, last), both inclusive
    claims    for a batch: the first open claims
    """

    code: str
    detail: str
    producer: str | None = None
    batch: int | None = None
    not_done: tuple[tuple[int, int], ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Acked:
    """Result of an ack: sequences up to `watermarks[producer]` and batches up to `batch` are STALE permanently, except
    the parts in `refused`.
    """

    watermarks: Mapping[str, int | None]
    batch: int | None
    refused: tuple[RefusedPart, ...] = ()


@dataclass
class ClaimedSequences(Decided):
    """Result of one claim of sequences; granted sequences may be written and must then be completed."""

    call: int = 0
    began_ms: int = 0
    settled: bool = False
