"""Defines the entries of the ledger: the fields of each kind. `codec` defines their bytes."""

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
    """Names the ways to identify rows: ids of a set, sequences of a registered producer, batches of an app,
    sequences of a lane."""

    IDS = 0
    SEQUENCES = 1
    BATCHES = 2
    LANE = 3


IdentifiedByNumber = Annotated[int, "u8", Tag(1)]


@dataclass(frozen=True, slots=True)
class SetForgotten:
    """Forgets every id of a set: from now on its ids have other fingerprints, so that none of them is known.

    token: of whoever asked, so that a repeat forgets nothing more."""

    KIND: ClassVar[int] = 31
    id_set: Text
    token: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class SetWritten:
    """Records which topic elsewhere the rows of a set of ids go to. `topic_id`: the broker's for it, which a topic that
    is deleted and created again does not keep.

    identified_by: where it is not IDS, `id_set` is the name of the producer or the app."""

    KIND: ClassVar[int] = 32
    id_set: Text
    topic: Text
    topic_id: B16
    wall_ms: U64
    identified_by: IdentifiedByNumber = IdentifiedBy.IDS


@dataclass(frozen=True, slots=True)
class Audited:
    """Records an operator's action, in one append with the entries that it made, which stand before it.

    action: the name of the verb. subject: what it was done to; empty: the whole namespace. changed: how much that was.
    who, why: as the caller's credential, and the caller, said it.
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
    """Names a batch; `write_id` is empty unless one batch writes twice to the topic."""

    app: str
    version: str
    topic: str
    write_id: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Describes the rows of a chunk that go to one partition; `range_id` names their bytes in the ledger's outputs."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<III16s")
    partition: int
    rows: int
    size_bytes: int
    range_id: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """Describes rows at consecutive offsets of one partition, from `first_offset` on."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<IQQQ")
    partition: int
    first_offset: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Archived:
    """Ids that were done or taken alike: `owner` of taken ones, zeros of done ones; when the first and the last was."""

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
    """Begins an epoch: an owner opened the ledger. `key_check` tells one namespace key from another."""

    KIND: ClassVar[int] = 1
    epoch: U64
    fingerprint_function: U8
    key_check: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Claimed:
    """Records what was granted to a claim.

    `fresh` and `taken` are fingerprints, 16 bytes each: nobody held those, and a lease had run out on these.

    digests: of their payloads, in this order, 4 bytes each, little-endian, 0 for none; empty: none has one.
    id_set: the set of ids that was named; None: the one that this kind of call uses. The fingerprints have it in them.
    writer: of `core.writers`; empty: the caller did not name itself.
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
    """Records that a claim was completed: the ids that it still held are done.

    result: what the writer had to say of it, for whoever is told DUPLICATE; empty: nothing.
    """

    KIND: ClassVar[int] = 3
    claim: B16
    wall_ms: U64
    result: ResultField = b""


@dataclass(frozen=True, slots=True)
class Released:
    """Records that a claim was released: the ids that it still held are free."""

    KIND: ClassVar[int] = 4
    claim: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """Records that a topic was made.

    `schema` is the topic's Arrow schema in IPC form, empty until something is written; retention 0: no bound."""

    KIND: ClassVar[int] = 5
    topic: Text
    partitions: U32
    schema: Blob
    retention_ms: U64
    retention_bytes: U64
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Produced:
    """Records rows that were written at `first_offset` of one partition. With ids: claim, done and output in one.

    `fresh`, `taken`, `digests` and `id_set` as of a claim, and empty where the rows have no ids. A request over
    several partitions is one entry for each, all under one `claim`.

    taken_at: where the taken ids stand among the rows, which are in the order of the request, 4 bytes each,
    little-endian; empty where all are fresh, or all are taken.

    spilled_ms: when the client had laid the rows down, by its wall clock, since the gateway was down; 0: it had not.
    spilled_by: the name of its credential, empty where none was asked for.
    writer: as of a claim.
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
    """Records that one chunk of one attempt was staged. `parts`: its rows by partition.

    key_partitions: among how many their keys have put them; 0: they have no keys, and may lie in any. writer: as of a
    claim. column_topics: the topics elsewhere that their column `topic` names, UTF-8; empty: all go to the name's.
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
    """Records stages that were removed before any commit: aborted by their writer, or given up by their owner."""

    KIND: ClassVar[int] = 8
    name: NameField
    tokens: BlobTuple
    why: Text
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Committed:
    """Publishes all rows of the winners, a span for each partition; every other stage of the name is dropped.

    source_offsets: where the batch's source is to be read on, as whoever reads it has it; empty: nobody said.
    reads_digest: of what the batch read, 32 bytes; empty: nobody said.
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
    """Records a later commit of a committed name, durable before its answer, so that a second write is known as one.

    digest: of the input from now on, where it is another for the same files and offsets; empty: it stays.
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
    """Finds out whether a full ledger has room again, and means nothing."""

    KIND: ClassVar[int] = 11
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class TopicSet:
    """Replaces a topic's schema and its retention. The schema was empty, is the same, or has columns more.

    added: how many columns stand behind those that the topic had; rows from before have nulls there."""

    KIND: ClassVar[int] = 12
    topic: Text
    schema: Blob
    retention_ms: U64
    retention_bytes: U64
    wall_ms: U64
    added: AddedColumns = 0


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Records that offsets below `before_offset` of a partition are no longer kept; it begins a span."""

    KIND: ClassVar[int] = 13
    topic: Text
    partition: U32
    before_offset: U64
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Taken:
    """Records ids that belong to an owner from now on, without lease or settling; `fresh`, `taken`, `id_set` and
    `writer` as of a claim."""

    KIND: ClassVar[int] = 14
    owner: B16
    wall_ms: U64
    fresh: Blob
    taken: Blob
    id_set: IdSetField = None
    writer: WrittenBy = b""


@dataclass(frozen=True, slots=True)
class Retired:
    """Records that ids done or taken before `before_wall_ms` are forgotten: nobody may retry them any more."""

    KIND: ClassVar[int] = 15
    before_wall_ms: U64
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class NamespaceSet:
    """Sets the namespace's settings. `horizon_ms` 0: ids are kept for ever.

    record_headers 1: records in topics elsewhere have the headers that say who wrote them. lease_expiry, id_time,
    on_ledger_down: numbers of `core.claims.LeaseExpiry`, `IdTime` and `OnLedgerDown`. shadow 1: every verdict is told
    as GRANTED. known_from_ms: what was done before is forgotten.
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
    """Holds a piece of the whole index, in place of the entries that made it: `what` names it, `part` counts its
    pieces."""

    KIND: ClassVar[int] = 17
    what: Text
    part: U32
    data: Blob


@dataclass(frozen=True, slots=True)
class Evicted:
    """Old ids were written to the ledger's outputs, from offset `first_offset` of the sealed ids on, archive after
    archive; they need not be held in memory any more. Archives are numbered from 0 on, as they come."""

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
