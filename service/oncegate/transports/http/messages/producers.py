"""Messages of producers and drivers: register, claim sequences, settle, close, ack, explain.

A sequence is a whole number from 0 to 2^64 - 2. JSON readers that hold numbers as doubles lose those above 2^53: they
send sequences packed, or as Arrow.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from oncegate.transports.http.messages.fields import (
    U32,
    Int64,
    Lease,
    Named,
    Read,
    Sequence,
    SourceOffsets,
    Token,
    TopicId,
    UInt64,
)
from oncegate.transports.http.messages.verdicts import VerdictMessage
from oncegate.transports.pages import LIMIT, LIMIT_MAX

Epoch = Annotated[int, Meta(ge=0, le=2**63 - 1, description="as registering answered")]
Batch = Annotated[int, Meta(ge=0, le=2**63 - 1, description="n-th batch of the driver")]


class DriverRequest(Read):
    """Registers a driver: the owner of its producers' retries."""

    token: Token


class DriverReply(Struct, frozen=True):
    """Answers a driver's registration: its epoch, and the last batch that was acked."""

    driver: str
    epoch: Int64
    batch: Int64 | None


class UptoMessage(Read):
    """Says up to which sequence nobody retries one producer any more."""

    producer: Named
    sequence: Sequence


class AckRequest(Read):
    """Says what nobody retries any more: sequences of producers, and batches."""

    token: Token
    epoch: Epoch
    upto: list[UptoMessage] = msgspec.field(default_factory=list)
    batch: Batch | None = None
    topic: Named | None = None
    source_offsets: SourceOffsets | None = None


class WatermarkMessage(Struct, frozen=True):
    """Says up to which sequence a producer is STALE from now on."""

    producer: str
    watermark: UInt64 | None


class RefusedPart(Struct, frozen=True, omit_defaults=True):
    """Says why one part of an ack, a producer or a batch, was not acked; the others were."""

    code: Literal["NOT_DONE", "UNKNOWN_PRODUCER", "OTHER_DRIVER"]
    action: Literal["fix", "stop"]
    detail: str
    producer: str | None = None
    batch: Int64 | None = None
    not_done: list[tuple[UInt64, UInt64]] = msgspec.field(default_factory=list)
    open_ids: Int64 = 0
    claims: list[str] = msgspec.field(default_factory=list)


class AckReply(Struct, frozen=True):
    """Answers an ack: the watermarks as they are now, and each part that was refused."""

    driver: str
    watermarks: list[WatermarkMessage]
    batch: Int64 | None
    refused: list[RefusedPart]


class ProducerRequest(Read):
    """Registers an attempt as the holder of a producer, under a new epoch."""

    token: Token
    driver: Named
    lease_ms: Lease | None = None
    gaps: Literal["allow", "refuse"] = "allow"
    source_id: Named | None = None


class ProducerReply(Struct, frozen=True):
    """Answers a registration: the epoch, and where the producer stands."""

    producer: str
    producer_id: int
    epoch: Int64
    lease_ms: int
    watermark: UInt64 | None
    claimed_to: UInt64 | None
    resume_after: UInt64 | None
    done: list[tuple[UInt64, UInt64]]
    truncated: bool


class SequencesRequest(Read):
    """Claims sequences of a producer: a list, or a range from `first` to `last`."""

    token: Token
    epoch: Epoch
    call: U32
    sequences: list[Sequence] | None = None
    first: Sequence | None = None
    last: Sequence | None = None
    prev_sequence: Sequence | None = None
    lease_ms: Lease | None = None


class SequencesReply(Struct, frozen=True):
    """Answers a claim of sequences: one verdict each, in order."""

    call: int
    lease_ms: int
    verdicts: list[VerdictMessage]


class SettleSequencesRequest(Read):
    """Names a claim of sequences by its call, to renew, complete or release it."""

    token: Token
    epoch: Epoch
    call: U32


class SettleSequencesReply(Struct, frozen=True):
    """Answers renew, complete and release of sequences."""

    producer: str
    call: int
    state: Literal["OPEN", "DONE", "RELEASED"]
    settled: int
    lease_ms: int


class ResolveRequest(Read):
    """Says what a person has found out about a leftover: who that is, and why they say so."""

    outcome: Literal["done", "not_done"]
    who: Named
    why: Named
    holder_gone: bool = False
    verb: Literal["release"] | None = None


class ResolveSequencesRequest(Read):
    """Says what a person has found out about a producer's leftovers: all of them, or from `first` to `last`."""

    outcome: Literal["done", "not_done"]
    who: Named
    why: Named
    first: Sequence | None = None
    last: Sequence | None = None


class ResolveReply(Struct, frozen=True):
    """Answers a resolution: how many ids or sequences are so from now on."""

    outcome: Literal["done", "not_done"]
    resolved: UInt64


class OpenLaneRequest(Read):
    """Opens the lane by which a client writes a producer's rows into a topic itself."""

    producer: Named
    source_id: Named | None = None


class OpenLaneReply(Struct, frozen=True):
    """Answers an opening: with what the client writes as this lane."""

    producer: str
    lane: UInt64
    ledger: str
    brokers: str
    topic: str
    partition: int
    transactional_id: str


class AskLaneRequest(Read):
    """Asks which sequences of a lane are written, from `first` to `last`."""

    producer: Named
    first: Sequence
    last: Sequence
    acked: Sequence | None = None
    topic_id: TopicId | None = None


class AskLaneReply(Struct, frozen=True):
    """Answers which of them are written; the others were not, and who asked is to write them."""

    producer: str
    duplicates: list[tuple[UInt64, UInt64]]


class CloseRequest(Read):
    """Ends the lease of a producer's holder."""

    token: Token
    epoch: Epoch


class CloseReply(Struct, frozen=True):
    """Answers a close: the lease is over."""

    producer: str
    epoch: Int64


class IntervalsQuery(Read):
    """Says which page of a producer's intervals is wanted."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="intervals of each kind in one answer, at most")] = LIMIT
    after: Annotated[Sequence | None, Meta(description="`next` of the page before; none: the first page")] = None


class ProducerExplained(Struct, frozen=True):
    """Says what is known of one producer."""

    producer: str
    producer_id: int
    driver: str
    epoch: Int64
    token: str
    lease_ms: int
    lease_left_ms: int
    watermark: UInt64 | None
    claimed_to: UInt64 | None
    resume_after: UInt64 | None
    done: list[tuple[UInt64, UInt64]]
    open: list[tuple[UInt64, UInt64]]
    next: UInt64 | None
