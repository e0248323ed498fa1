"""Defines the ledger's entries for producers, drivers, and lanes (whose rows clients write directly into Kafka)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from oncegate.core.entries.fields import B16, U8, U32, U64, Blob, Tag, Text

HeldBack = Annotated[bytes, "blob", Tag(1)]
AckedTopic = Annotated[str, "text", Tag(128)]
AckedOffsets = Annotated[bytes, "blob", Tag(129)]
GapsRule = Annotated[int, "u8", Tag(1)]
SequenceDigests = Annotated[bytes, "blob", Tag(1)]
WrittenBefore = Annotated[int, "u32", Tag(128)]
RegisteredBy = Annotated[bytes, "blob", Tag(132)]
ResolvedBy = Annotated[str, "text", Tag(128)]
ResolvedIds = Annotated[int, "u64", Tag(129)]
ResolvedProducer = Annotated[str, "text", Tag(130)]


@dataclass(frozen=True, slots=True)
class DriverRegistered:
    """Records that `token` becomes the driver, in this epoch; the previous driver is fenced."""

    KIND: ClassVar[int] = 20
    driver: Text
    epoch: U64
    token: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class ProducerRegistered:
    """Begins a producer's epoch, in which the attempt `token` writes. The first one sets the producer's number and
    driver permanently.

    gaps: rule of this epoch, a number of `core.producers.Gaps`.
    writer: encoded by `core.writers`; empty: the caller did not name itself.
    """

    KIND: ClassVar[int] = 21
    producer: Text
    producer_id: U64
    epoch: U64
    token: B16
    driver: Text
    lease_ms: U32
    wall_ms: U64
    gaps: GapsRule = 0
    writer: RegisteredBy = b""


@dataclass(frozen=True, slots=True)
class SourceNamed:
    """Records permanently the source of a producer's sequences, by an id that a recreated source does not share.

    topic: that of the producer's lane; empty: the producer registers and has no lane.
    """

    KIND: ClassVar[int] = 33
    topic: Text
    producer: Text
    source_id: Text
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class SequencesClaimed:
    """Records the sequences granted to a producer's call.

    fresh, taken: inclusive spans, first and last u64 each, of unclaimed sequences and of those left by older epochs.
    digests: of their payloads, u32 each, in the order of `fresh` and then of `taken`; empty: none were sent.
    written_before: number of entries directly before this one that wrote the rows of exactly these sequences; 0: none,
    or unknown.
    """

    KIND: ClassVar[int] = 22
    producer_id: U64
    epoch: U64
    call: U32
    digest: B16
    lease_ms: U32
    wall_ms: U64
    fresh: Blob
    taken: Blob
    digests: SequenceDigests = b""
    written_before: WrittenBefore = 0


@dataclass(frozen=True, slots=True)
class SequencesCompleted:
    """Records the completion of a producer's call: the sequences that it was granted are done."""

    KIND: ClassVar[int] = 23
    producer_id: U64
    epoch: U64
    call: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class SequencesReleased:
    """Records the release of a producer's call: the sequences that it was granted are free."""

    KIND: ClassVar[int] = 24
    producer_id: U64
    epoch: U64
    call: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Acked:
    """Records a driver's ack of sequences and batches that it will never retry.

    batches: batches below it are acked, with all ids that were claimed in them; 0: none.
    upto: new watermarks of producers, pairs of u64.
    held_back: batches below `batches` that are not acked since a claim of theirs is open; u64 each, rising.
    topic: the topic that the driver writes to, if the entry also sets where its source is to be read from; empty: it
    does not.
    source_offsets: that position; empty: unknown.
    """

    KIND: ClassVar[int] = 25
    driver: Text
    epoch: U64
    batches: U64
    upto: Blob
    wall_ms: U64
    held_back: HeldBack = b""
    topic: AckedTopic = ""
    source_offsets: AckedOffsets = b""


@dataclass(frozen=True, slots=True)
class Scoped:
    """Records that the ids of a claim expire with their batch. `claim` zeros: the ids taken by the previous entry."""

    KIND: ClassVar[int] = 26
    claim: B16
    driver: Text
    batch: U64


@dataclass(frozen=True, slots=True)
class Resolved:
    """Records that a person resolved a leftover: `who`, and `why`.

    For a producer, `producer_id` is not 0 and `spans` are done or given up from now on: inclusive, first and last u64
    each. For a claim, the entry before this one completed or released the claim, and this one only documents it.

    verb: the operator's, if it was not resolve.
    ids: how many the claim held.
    producer: its name.

    Entries of earlier versions have none of the last three.
    """

    KIND: ClassVar[int] = 27
    producer_id: U64
    claim: B16
    is_done: U8
    who: Text
    why: Text
    spans: Blob
    wall_ms: U64
    verb: ResolvedBy = ""
    ids: ResolvedIds = 0
    producer: ResolvedProducer = ""


@dataclass(frozen=True, slots=True)
class LaneOpened:
    """Creates a lane permanently: the sequences of one producer in one topic. From then on only lanes write to the
    topic.

    partition: that of the lane's records, in the ledger's own topic for them.
    """

    KIND: ClassVar[int] = 29
    lane: U64
    topic: Text
    producer: Text
    partition: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class LaneWritten:
    """Records that sequences of a lane are written, from the record that the client committed with its rows.

    An ack is also such an entry: it covers all sequences from 0 on, at the offset of the last record.

    offset: the record's, in its lane's partition; those below it are entered or were not records.
    spans: inclusive, first and last u64 each, sorted and disjoint.
    """

    KIND: ClassVar[int] = 30
    lane: U64
    offset: U64
    spans: Blob
    wall_ms: U64
