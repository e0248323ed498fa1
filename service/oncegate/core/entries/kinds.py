"""Defines the entries of the ledger: the fields of each kind. `codec` defines their encoding."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, ClassVar, get_args

from oncegate.core.entries.fields import B16, U8, U32, U64, Blob, BlobTuple, Opt, Tag, Text
from oncegate.core.entries.producers import (
    Acked,
    DriverRegistered,
    LaneOpened,
    LaneWritten,
    ProducerRegistered,
    Resolved,
    Scoped,
    SequencesClaimed,
    SequencesCompleted,
    SequencesReleased,
    SourceNamed,
)


class IdentifiedBy(IntEnum):
    """The ways to identify rows: ids of a dedup scope, sequences of a registered producer, batches of an app, lane
    sequences.
    """

    IDS = 0
    SEQUENCES = 1
    BATCHES = 2
    LANE = 3


IdentifiedByNumber = Annotated[int, "u8", Tag(1)]


@dataclass(frozen=True, slots=True)
class SetForgotten:
    """Forgets every id of a dedup scope: from this entry on its ids have different fingerprints, so that no earlier one
    matches.

    token: the caller's, so that a repeat forgets nothing more.
    """

    KIND: ClassVar[int] = 31
    id_set: Text
    token: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class SetWritten:
    """Records the external topic that the rows of a dedup scope are written to.

    topic_id: the broker's id of the topic; a topic that is deleted and created again has another one.
    identified_by: if it is not IDS, `id_set` is the name of the producer or the app.
    """

    KIND: ClassVar[int] = 32
    id_set: Text
    topic: Text
    topic_id: B16
    wall_ms: U64
    identified_by: IdentifiedByNumber = IdentifiedBy.IDS


@dataclass(frozen=True, slots=True)
class Audited:
    """Records an operator's action. It follows, in one append, the entries that the action made.

    action: name of the verb.
    subject: its object; empty: the whole namespace.
    changed: number of ids, rows or spans that it changed.
    who, why: from the caller's credential, and from the caller.
    """

    KIND: ClassVar[int] = 28
    action: Text
    subject: Text
    changed: U64
    who: Text
    why: Text
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a batch. `write_id` is empty unless one batch writes twice to the topic."""

    app: str
    version: str
    topic: str
    write_id: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a chunk that go to one partition. `range_id` identifies their bytes in the ledger's outputs."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<III16s")
    partition: int
    rows: int
    size_bytes: int
    range_id: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """Rows at consecutive offsets of one partition, starting at `first_offset`."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<IQQQ")
    partition: int
    first_offset: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive: evicted ids that share one state, all done or all taken by one owner.

    owner: zeros for done ids.
    oldest_wall_ms, newest_wall_ms: when the first and the last of them was done or taken.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<16sBQQQ")
    owner: bytes
    takeover: int
    oldest_wall_ms: int
    newest_wall_ms: int
    ids: int


NameField = Annotated[Name, "name"]
Parts = Annotated[tuple[Part, ...], "parts"]
SpansField = Annotated[tuple[Span, ...], "spans"]
Archives = Annotated[tuple[Archived, ...], "archives"]
DigestsField = Annotated[bytes, "blob", Tag(1)]
KeyPartitions = Annotated[int, "u32", Tag(1)]
AddedColumns = Annotated[int, "u32", Tag(1)]
IdSetField = Annotated[str | None, "text", Tag(128)]
ResultField = Annotated[bytes, "blob", Tag(128)]
TakenAt = Annotated[bytes, "blob", Tag(129)]
SpilledMs = Annotated[int, "u64", Tag(130)]
SpilledBy = Annotated[str, "text", Tag(131)]
SourceOffsetsField = Annotated[bytes, "blob", Tag(128)]
ReadsDigest = Annotated[bytes, "blob", Tag(129)]
NewDigest = Annotated[bytes, "blob", Tag(128)]
RecordHeaders = Annotated[int, "u8", Tag(1)]
LeaseExpiryNumber = Annotated[int, "u8", Tag(2)]
IdTimeNumber = Annotated[int, "u8", Tag(3)]
Shadowed = Annotated[int, "u8", Tag(4)]
OnLedgerDownNumber = Annotated[int, "u8", Tag(5)]
KnownFromMs = Annotated[int, "u64", Tag(128)]
WrittenBy = Annotated[bytes, "blob", Tag(132)]
ColumnTopics = Annotated[tuple[bytes, ...], "blobs", Tag(133)]


@dataclass(frozen=True, slots=True)
class Opened:
    """Begins an epoch of the ledger: an owner has opened it. `key_check` distinguishes namespace keys."""

    KIND: ClassVar[int] = 1
    epoch: U64
    fingerprint_function: U8
    key_check: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Claimed:
    """Records the ids granted to a claim.

    fresh: fingerprints of ids that nobody held, 16 bytes each.
    taken: fingerprints of ids taken over after a lease expired, 16 bytes each.
    digests: of their payloads, in this order, 4 bytes each, little-endian; 0: none. Empty: none has one.
    id_set: the named dedup scope, which is part of the fingerprints; None: the default of this kind of call.
    writer: encoded by `core.writers`; empty: the caller did not name itself.
    """

    KIND: ClassVar[int] = 2
    claim: B16
    token: B16
    call: U32
    digest: B16
    lease_ms: U32
    wall_ms: U64
    fresh: Blob
    taken: Blob
    digests: DigestsField = b""
    id_set: IdSetField = None
    writer: WrittenBy = b""


@dataclass(frozen=True, slots=True)
class Completed:
    """Records the completion of a claim: the ids that it still held are done.

    result: the writer's result, returned with DUPLICATE verdicts; empty: none.
    """

    KIND: ClassVar[int] = 3
    claim: B16
    wall_ms: U64
    result: ResultField = b""


@dataclass(frozen=True, slots=True)
class Released:
    """Records the release of a claim: the ids that it still held are free."""

    KIND: ClassVar[int] = 4
    claim: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """Records the creation of a topic.

    schema: the topic's Arrow schema in IPC form; empty until something is written.
    retention_ms, retention_bytes: 0: no bound.
    """

    KIND: ClassVar[int] = 5
    topic: Text
    partitions: U32
    schema: Blob
    retention_ms: U64
    retention_bytes: U64
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Produced:
    """Records rows written to consecutive offsets of one partition, starting at `first_offset`. With ids it is claim,
    completion and rows in one entry.

    `fresh`, `taken`, `digests`, `id_set` and `writer` are as in `Claimed`, and empty if the rows have no ids. A request
    for several partitions is one entry per partition, all under one `claim`.

    taken_at: indexes of the taken ids among the rows, which are in the request's order; 4 bytes each, little-endian.
    Empty if all are fresh or all are taken.
    spilled_ms: when the client spilled the rows while the gateway was down, by the client's wall clock; 0: it did not.
    spilled_by: name of the credential of that client; empty if none was required.
    """

    KIND: ClassVar[int] = 6
    topic: Text
    partition: U32
    first_offset: U64
    rows: U32
    size_bytes: U32
    claim: B16
    token: B16
    call: U32
    digest: B16
    wall_ms: U64
    fresh: Blob
    taken: Blob
    digests: DigestsField = b""
    id_set: IdSetField = None
    taken_at: TakenAt = b""
    spilled_ms: SpilledMs = 0
    spilled_by: SpilledBy = ""
    writer: WrittenBy = b""


@dataclass(frozen=True, slots=True)
class Staged:
    """Records that one chunk of one attempt was staged.

    parts: its rows by partition.
    key_partitions: number of partitions over which their keys were distributed; 0: they have no keys and may go to any.
    writer: as in `Claimed`.
    column_topics: external topics named by their column `topic`, UTF-8; empty: all rows go to the topic of the name.
    """

    KIND: ClassVar[int] = 7
    name: NameField
    owner: Text
    token: B16
    chunk: U32
    sha256: Blob
    rows: U32
    size_bytes: U32
    fingerprint: B16
    schema: Blob
    parts: Parts
    wall_ms: U64
    key_partitions: KeyPartitions = 0
    writer: WrittenBy = b""
    column_topics: ColumnTopics = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """Records stages that were removed before any commit: aborted by their writer, or abandoned by their owner."""

    KIND: ClassVar[int] = 8
    name: NameField
    tokens: BlobTuple
    why: Text
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Committed:
    """Publishes all rows of the winning attempts, one span per partition, and drops every other stage of the batch
    name.

    source_offsets: where to continue reading the batch's source, in the reader's own form; empty: unknown.
    reads_digest: of what the batch read, 32 bytes; empty: unknown.
    """

    KIND: ClassVar[int] = 9
    name: NameField
    run: Opt
    nonce: B16
    winners: BlobTuple
    digest: Opt
    fingerprint: B16
    rows: U64
    spans: SpansField
    wall_ms: U64
    source_offsets: SourceOffsetsField = b""
    reads_digest: ReadsDigest = b""


@dataclass(frozen=True, slots=True)
class Asked:
    """Records a further commit of a batch name that is already committed. Durable before its answer, so that a second
    write is recognised as one.

    digest: replaces the input digest, if the same files and offsets now have another one; empty: no change.
    """

    KIND: ClassVar[int] = 10
    name: NameField
    run: Opt
    nonce: B16
    outcome: Text
    rows: U64
    rows_equal: U8
    wall_ms: U64
    digest: NewDigest = b""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe that tests whether a full ledger accepts entries again; no other effect."""

    KIND: ClassVar[int] = 11
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class TopicSet:
    """Replaces a topic's schema and its retention. The schema was empty, is the same, or has additional columns.

    added: number of columns appended to the topic's; earlier rows have nulls there.
    """

    KIND: ClassVar[int] = 12
    topic: Text
    schema: Blob
    retention_ms: U64
    retention_bytes: U64
    wall_ms: U64
    added: AddedColumns = 0


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Records that offsets below `before_offset` of a partition are no longer kept; `before_offset` begins a span."""

    KIND: ClassVar[int] = 13
    topic: Text
    partition: U32
    before_offset: U64
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Taken:
    """Records ids that now belong to an owner, without a lease. `fresh`, `taken`, `id_set` and `writer` are as in
    `Claimed`.
    """

    KIND: ClassVar[int] = 14
    owner: B16
    wall_ms: U64
    fresh: Blob
    taken: Blob
    id_set: IdSetField = None
    writer: WrittenBy = b""


@dataclass(frozen=True, slots=True)
class Retired:
    """Records that ids done or taken before `before_wall_ms` are forgotten: their retry period has passed."""

    KIND: ClassVar[int] = 15
    before_wall_ms: U64
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class NamespaceSet:
    """Replaces the namespace's settings.

    horizon_ms: retention of ids; 0: for ever.
    record_headers: 1: records in external topics have headers that name their writer.
    lease_expiry, id_time, on_ledger_down: numbers of `core.claims.LeaseExpiry`, `IdTime` and `OnLedgerDown`.
    shadow: 1: every verdict is returned as GRANTED.
    known_from_ms: ids done before it are forgotten.
    """

    KIND: ClassVar[int] = 16
    horizon_ms: U64
    auto_create_topics: U8
    wall_ms: U64
    record_headers: RecordHeaders = 0
    lease_expiry: LeaseExpiryNumber = 0
    id_time: IdTimeNumber = 0
    shadow: Shadowed = 0
    on_ledger_down: OnLedgerDownNumber = 0
    known_from_ms: KnownFromMs = 0


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
    """A piece of a snapshot, which replaces the entries that produced the index. `what` names the part of the index,
    `part` counts its pieces.
    """

    KIND: ClassVar[int] = 17
    what: Text
    part: U32
    data: Blob


@dataclass(frozen=True, slots=True)
class Evicted:
    """Records an eviction: archives in the ledger's outputs now hold these old ids, which need not stay in memory.

    first_offset: offset of the first of them among the sealed ids.
    archives: numbered from 0 in the order in which they are recorded.
    """

    KIND: ClassVar[int] = 18
    first_offset: U64
    archives: Archives
    wall_ms: U64


Entry = (
    Opened
    | Claimed
    | Completed
    | Released
    | TopicCreated
    | Produced
    | Staged
    | Dropped
    | Committed
    | Asked
    | Probe
    | TopicSet
    | Trimmed
    | Taken
    | Retired
    | NamespaceSet
    | SnapshotPiece
    | Evicted
    | DriverRegistered
    | ProducerRegistered
    | SequencesClaimed
    | SequencesCompleted
    | SequencesReleased
    | Acked
    | Scoped
    | Resolved
    | Audited
    | LaneOpened
    | LaneWritten
    | SetForgotten
    | SetWritten
    | SourceNamed
)
KINDS: dict[int, type[Any]] = {cls.KIND: cls for cls in get_args(Entry)}
