"""The results of calls, in the form that both clients hand out. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from oncegate_spark.protocol.packed import Place, Verdicts


@dataclass(frozen=True)
class Settled:
    """What became of a claim: `settled` ids are in that state, `taken_over` ids are another attempt's by now.

    `result`: what the claim was completed with first, as far as it is known.
    """

    state: str
    settled: int
    taken_over: int
    lease_ms: int
    began_ms: int
    result: bytes | None = None


@dataclass(frozen=True)
class Staged:
    """Tells what became of a staged chunk.

    The result of staging one chunk.

    `committed`: the batch was published before, nothing was stored. `fingerprint`: the gateway's, of these rows.
    """

    committed: bool
    rows: int
    fingerprint: int


@dataclass(frozen=True)
class OpenedLane:
    """With what a client writes one producer's rows into a topic of Kafka itself; the same for ever.

    `lane`, `ledger`: what its records name. `topic`, `partition`: where those go. `transactional_id`: the lane's own; a
    producer of Kafka that starts with it fences the one before.
    """

    lane: int
    ledger: bytes
    brokers: str
    topic: str
    partition: int
    transactional_id: str


@dataclass(frozen=True)
class ProducedOffsets:
    """A range of offsets: `rows` consecutive rows of a partition, from `first_offset`.

    `topic`: where the gateway names one: rows that go into Kafka may name a topic each. None: the one written to.
    """

    partition: int
    first_offset: int
    rows: int
    topic: str | None = None


@dataclass(frozen=True)
class Committed:
    """The result of a commit.

    `outcome` is COMMITTED (visible at `offsets`) or DUPLICATE (an earlier commit of the name holds). `first_of_app`:
    COMMITTED, and the gateway remembers nothing else that was committed to the topic under this app. `higher_version`:
    DUPLICATE, since this version is committed and that of the name is a lower number; None: the name is committed.
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
        """How many offsets of the partitions that these rows went to had been taken before they came: one each row,
        and in Kafka one each transaction more."""
        lowest: dict[tuple[str | None, int], int] = {}
        for offsets in self.offsets:
            at = offsets.topic, offsets.partition
            lowest[at] = min(lowest.get(at, offsets.first_offset), offsets.first_offset)
        return sum(lowest.values())


@dataclass(frozen=True)
class Produced:
    """The result of one produce request.

    `rows` were written by it, at `offsets`. `verdicts`: one per row where the rows have ids, else None. `before`: of a
    repeat, where earlier tries of the very request wrote, as long as the gateway knows.
    """

    rows: int
    offsets: tuple[ProducedOffsets, ...]
    verdicts: Verdicts | None = None
    before: tuple[ProducedOffsets, ...] = ()


@dataclass
class Written:
    """What became of all rows given to an attempt's `produce`: each of them is counted once, and all of them are done,
    unless they are `spilled`.

    rows        written by this attempt now, at `offsets`; `takeovers` of them were held by a claim that had run out:
                its holder may have written them elsewhere
    own         this attempt had written them before: under the same id, or in a request whose reply was lost
    before      where such a request wrote, whose reply was lost, as far as the gateway knows
    suppressed  dropped: another attempt wrote them, or the same id stands earlier among the rows of its request;
                `stale` of them are older than what the gateway knows, so nobody knows whether they are written
    conflicts   dropped, as onConflict says: their ids are written with another payload
    id_set      the set that the ids were looked up in, as the gateway says; None without ids
    places      of each row, in their order: where the gateway wrote the first of its id, of those that were written
                before; None: written now, or not known. Empty: not asked (`locate`)
    results     of each row, likewise: what the first was completed with
    spilled     not done: the gateway is down, and all rows of the call lie on this machine's disk (`on_down="spill"`)
                until it is back; 0, or all of them
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
        """Makes room for what is known of the firsts of so many rows more; tells where they stand."""
        self.places += [None] * rows
        self.results += [None] * rows
        return range(len(self.places) - rows, len(self.places))

    def add(self, produced: Produced, at: Sequence[int] | None = None) -> None:
        """Count what one request has written as well; `at`: where its rows stand among all that asked for firsts."""
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
        """As well as these; their offsets and places are left out."""
        self.rows += more.rows
        self.own += more.own
        self.suppressed += more.suppressed
        self.takeovers += more.takeovers
        self.conflicts += more.conflicts
        self.stale += more.stale
        self.id_set = more.id_set


@dataclass(frozen=True)
class Topic:
    """Describes a topic: its rows are those from `low_offsets` up to, not including, `high_offsets`; one of each per
    partition.

    `schema` is None until the first write where none was given. `retention_ms` and `retention_bytes`: 0 is no bound.
    """

    name: str
    schema: pa.Schema | None
    low_offsets: tuple[int, ...]
    high_offsets: tuple[int, ...]
    retention_ms: int
    retention_bytes: int

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return len(self.high_offsets)


@dataclass
class Drained:
    """What became of the rows that had waited in a spill folder, and were sent now: all of them are done; an
    entry of which some are STALE is not removed, and raises instead.

    `entries`: calls of `produce` whose rows they were. `rows`: written. `suppressed`: dropped, since they are written,
    by this job too: a request whose reply was lost, or a process that died over it. `conflicts`: dropped, as
    on_conflict says.
    """

    entries: int = 0
    rows: int = 0
    suppressed: int = 0
    conflicts: int = 0

    def count(self, written: Written) -> None:
        """Count one entry as well."""
        self.entries += 1
        self.rows += written.rows
        self.suppressed += written.own + written.suppressed
        self.conflicts += written.conflicts


@dataclass
class Decided:
    """The verdicts on some ids.

    `ids` are as they were given; the lists below are those of them, in order and of the same kind.
    """

    ids: Any
    verdicts: Verdicts

    @property
    def granted(self) -> Any:
        """These are the asker's: they may be written."""
        return self._those(self.verdicts.may_write)

    @property
    def in_doubt(self) -> Any:
        """These of the granted were held by a claim that had run out: its holder may have written them."""
        return self._those(self.verdicts.in_doubt)

    @property
    def unchecked(self) -> Any:
        """These of the granted nobody looked up, for the ledger is down and the namespace lets them pass: they may be
        written, and others may be granted them too. Completing them says nothing."""
        return self._those(self.verdicts.unchecked)

    @property
    def busy(self) -> Any:
        """These are another attempt's for now: neither write them nor take them for done."""
        return self._those(self.verdicts.open)

    @property
    def dropped(self) -> Any:
        """These are written, or stand earlier among the same ids: drop them."""
        return self._those(self.verdicts.dropped)

    @property
    def conflicting(self) -> Any:
        """These are written, or stand earlier among the same ids, with another payload than they came with here."""
        return self._those(self.verdicts.conflicting)

    @property
    def id_set(self) -> str | None:
        """The set that the ids were looked up in, as the gateway says."""
        return self.verdicts.id_set

    @property
    def places(self) -> tuple[Place | None, ...]:
        """Where the gateway wrote each of these ids first; None: not known, or not a duplicate. Empty: not asked."""
        return () if self.verdicts.firsts is None else self.verdicts.firsts.places

    @property
    def results(self) -> tuple[bytes | None, ...]:
        """What each of these ids was completed with; None: not known, or not a duplicate. Empty: not asked."""
        return () if self.verdicts.firsts is None else self.verdicts.firsts.results

    def _those(self, mask: pa.BooleanArray) -> Any:
        if isinstance(self.ids, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
            return self.ids.filter(mask)
        return [row_id for row_id, wanted in zip(self.ids, mask.to_pylist(), strict=True) if wanted]


@dataclass
class Taken(Decided):
    """The answer to `take`. Granted ids are the owner's for good, and are granted to it again when it asks again."""


@dataclass
class Claimed(Decided):
    """The answer to one claim. What is granted may be written, and must then be completed."""

    call: int = 0
    began_ms: int = 0
    settled: bool = False
    columns: Sequence[pa.Array] = field(default_factory=list, repr=False)

    @property
    def claim(self) -> str | None:
        """The claim's name; None when nothing was granted."""
        return self.verdicts.claim


@dataclass(frozen=True)
class DriverEpoch:
    """A driver that is registered: `batch` is the last that was acked under its name, None before the first."""

    epoch: int
    batch: int | None


@dataclass(frozen=True)
class Registered:
    """A producer that is this attempt's from now on, and where it stands.

    watermark     everything up to it is STALE for ever; None before the first ack
    claimed_to    the highest sequence that was ever claimed; None before the first
    resume_after  everything claimed up to it is done: whoever reads its source anew may go on behind it
    done          what is done above the watermark, as (first, last), both included; `truncated`: the newest of it only
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
    """A part of an ack that was not acked, while the others were: of `producer`, or else of `batch`.

    code      why: NOT_DONE, something of it is claimed and not done; UNKNOWN_PRODUCER; OTHER_DRIVER
    not_done  the first of that, of a producer: (first, last), both included
    claims    the first of the open claims, of a batch
    """

    code: str
    detail: str
    producer: str | None = None
    batch: int | None = None
    not_done: tuple[tuple[int, int], ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Acked:
    """Everything up to `watermarks[producer]` is STALE for ever, and so is each batch up to `batch`, but for what is
    told in `refused`."""

    watermarks: Mapping[str, int | None]
    batch: int | None
    refused: tuple[RefusedPart, ...] = ()


@dataclass
class ClaimedSequences(Decided):
    """The answer to one claim of sequences. What is granted may be written, and must then be completed."""

    call: int = 0
    began_ms: int = 0
    settled: bool = False
