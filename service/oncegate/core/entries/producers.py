"""Entries of the ledger about producers, drivers, and lanes (whose rows clients write into Kafka themselves)."""

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
    """Records that `token` drives from now on, in this epoch; whoever drove before is fenced."""

    KIND: ClassVar[int] = 20
    driver: Text
    epoch: U64
    token: B16
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class ProducerRegistered:
    """Begins an epoch in which `token` writes; the first one names the producer's number and driver for ever.

    gaps: of this epoch, as `core.producers.Gaps`. writer: of `core.writers`; empty: the caller did not name itself."""

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
    """Records which source the sequences of a producer are of, for ever, by an id that a later source has not.

    topic: of the lane whose producer it is; empty: the producer registers, and has no lane."""

    KIND: ClassVar[int] = 33
    topic: Text
    producer: Text
    source_id: Text
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class SequencesClaimed:
    """Records what was granted to a producer's call.

    `fresh` and `taken`: inclusive spans, first and last u64 each: claimed by nobody, and left by older epochs.
    digests: of their payloads, u32 each, in the order of `fresh` and then of `taken`; empty: they came without.
    written_before: how many entries right before this one wrote the rows of just these; 0: none, or it is not said."""

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
    """Records that a producer's call was completed: the sequences that it was granted are done."""

    KIND: ClassVar[int] = 23
    producer_id: U64
    epoch: U64
    call: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class SequencesReleased:
    """Records that a producer's call was released: the sequences that it was granted are free."""

    KIND: ClassVar[int] = 24
    producer_id: U64
    epoch: U64
    call: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class Acked:
    """The driver runs nothing of this again: `upto`, pairs of u64, is producers' new watermarks; batches below
    `batches` are acked with all ids that were claimed in them (0: none are), but for those in `held_back`, u64 each,
    rising: a claim of theirs is open.

    topic: what the driver writes to, where this also says from where its source is to be read on (`source_offsets`;
    empty: nobody knows any more); empty: it says nothing of that."""

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
    """The ids of this claim, or those taken by the entry before where `claim` is zeros, may go with their batch."""

    KIND: ClassVar[int] = 26
    claim: B16
    driver: Text
    batch: U64


@dataclass(frozen=True, slots=True)
class Resolved:
    """Records that a person has cleared a leftover: `who`, and `why`.

    Of a producer, `producer_id` not 0: `spans`, inclusive, first and last u64 each, are done or given up from now on.
    Of a claim: it only tells of the entry before it, which has settled the claim. verb: the operator's, where it was
    not resolve. ids: how many the claim held. producer: its name. Entries of earlier versions have none of the three.
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
    """Makes a lane, for ever: the sequences of one producer in one topic, which is written by lanes only from now on.

    partition: where its records stand in the ledger's own topic of them."""

    KIND: ClassVar[int] = 29
    lane: U64
    topic: Text
    producer: Text
    partition: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class LaneWritten:
    """Enters a record that a client has committed with its rows: these sequences are written. An ack is one too, of all
    from 0 on, at the offset of the last record.

    offset: of the record in its lane's partition; those before it are entered, or were no records. `spans`: inclusive,
    first and last u64 each, sorted and disjoint."""

    KIND: ClassVar[int] = 30
    lane: U64
    offset: U64
    spans: Blob
    wall_ms: U64
