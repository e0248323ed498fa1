"""Messages of producers and drivers: register, claim sequences, settle, close, ack, explain.

A sequence is a whole number from 0 to 2^64 - 2. Callers whose JSON library stores numbers as doubles lose those above
2^53 and send sequences packed or as Arrow.
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

Epoch = Annotated[int, Meta(ge=0, le=2**63 - 1, description="the epoch returned by the registration")]
Batch = Annotated[int, Meta(ge=0, le=2**63 - 1, description="n-th batch of the driver")]


class DriverRequest(Read):
    """Registers a driver: the owner of its producers' retries."""

    token: Token


class DriverReply(Struct, frozen=True):
    """Returns a driver's epoch, and the last acked batch."""

    driver: str
    epoch: Int64
    batch: Int64 | None


class UptoMessage(Read):
    """The sequence of one producer up to which the driver never retries."""

    producer: Named
    sequence: Sequence


class AckRequest(Read):
    """Acknowledges sequences of producers, and batches, that the driver will never retry."""

    token: Token
    epoch: Epoch
    upto: list[UptoMessage] = msgspec.field(default_factory=list)
    batch: Batch | None = None
    topic: Named | None = None
    source_offsets: SourceOffsets | None = None


class WatermarkMessage(Struct, frozen=True):
    """A producer's watermark: sequences up to it are STALE."""

    producer: str
    watermark: UInt64 | None


class RefusedPart(Struct, frozen=True, omit_defaults=True):
    """The refusal of one part of an ack, a producer or a batch. All other parts took effect."""

    code: Literal["NOT_DONE", "UNKNOWN_PRODUCER", "OTHER_DRIVER"]
    action: Literal["fix", "stop"]
    detail: str
    producer: str | None = None
    batch: Int64 | None = None
    not_done: list[tuple[UInt64, UInt64]] = msgspec.field(default_factory=list)
    open_ids: Int64 = 0
    claims: list[str] = msgspec.field(default_factory=list)


class AckReply(Struct, frozen=True):
    """Returns the current watermarks, and each refused part of an ack."""

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
    """Returns the epoch and the state of a registered producer."""

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
    """Returns one verdict per claimed sequence, in order."""

    call: int
    lease_ms: int
    verdicts: list[VerdictMessage]


class SettleSequencesRequest(Read):
    """Names a claim of sequences by its call, to renew, complete or release it."""

    token: Token
    epoch: Epoch
    call: U32


class SettleSequencesReply(Struct, frozen=True):
    """Returns the state of a call after renew, complete or release."""

    producer: str
    call: int
    state: Literal["OPEN", "DONE", "RELEASED"]
    settled: int
    lease_ms: int


class ResolveRequest(Read):
    """Resolves a leftover as done or not done, with the person's name and reason."""

    outcome: Literal["done", "not_done"]
    who: Named
    why: Named
    holder_gone: bool = False
    verb: Literal["release"] | None = None


class ResolveSequencesRequest(Read):
    """Resolves a producer's leftovers as done or not done: all of them, or from `first` to `last`."""

    outcome: Literal["done", "not_done"]
    who: Named
    why: Named
    first: Sequence | None = None
    last: Sequence | None = None


class ResolveReply(Struct, frozen=True):
    """Returns the number of ids or sequences that were resolved."""

    outcome: Literal["done", "not_done"]
    resolved: UInt64


class OpenLaneRequest(Read):
    """Opens the lane through which a client writes a producer's rows into a topic itself."""

    producer: Named
    source_id: Named | None = None


class OpenLaneReply(Struct, frozen=True):
    """Returns the coordinates and the transactional id with which the client writes in this lane."""

    producer: str
    lane: UInt64
    ledger: str
    brokers: str
    topic: str
    partition: int
    transactional_id: str


class AskLaneRequest(Read):
    """Looks up which sequences of a lane are written, from `first` to `last`."""

    producer: Named
    first: Sequence
    last: Sequence
    acked: Sequence | None = None
    topic_id: TopicId | None = None


class AskLaneReply(Struct, frozen=True):
    """Returns the written sequences; the caller writes the others."""

    producer: str
    duplicates: list[tuple[UInt64, UInt64]]


class CloseRequest(Read):
    """Ends the lease of a producer's holder."""

    token: Token
    epoch: Epoch


class CloseReply(Struct, frozen=True):
    """Confirms that the holder's lease has ended."""

    producer: str
    epoch: Int64


class IntervalsQuery(Read):
    """Selects a page of a producer's intervals."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="maximum number of intervals of each kind")] = LIMIT
    after: Annotated[Sequence | None, Meta(description="`next` of the previous page; none: the first page")] = None


class ProducerExplained(Struct, frozen=True):
    """The full state of one producer."""

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
