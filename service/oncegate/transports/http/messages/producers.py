"""The JSON messages of producers and drivers; see `messages`, whose schemas stand beside these.

A sequence is a whole number from 0 to 2^64 - 2. JSON readers that hold numbers as doubles lose those above 2^53: they
send sequences packed, or as Arrow.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from oncegate.transports.http.messages.claims import U32, Named, Read, Sequence, Token, VerdictMessage

Epoch = Annotated[int, Meta(ge=0, le=2**63 - 1, description="as registering answered")]
Batch = Annotated[int, Meta(ge=0, le=2**63 - 1, description="n-th batch of the driver")]


class DriverRequest(Read):
    token: Token


class DriverReply(Struct, frozen=True):
    driver: str
    epoch: int
    batch: int | None


class UptoMessage(Read):
    producer: Named
    sequence: Sequence


class AckRequest(Read):
    token: Token
    epoch: Epoch
    upto: list[UptoMessage] = msgspec.field(default_factory=list)
    batch: Batch | None = None


class WatermarkMessage(Struct, frozen=True):
    producer: str
    watermark: int | None


class AckReply(Struct, frozen=True):
    driver: str
    watermarks: list[WatermarkMessage]
    batch: int | None


class ProducerRequest(Read):
    token: Token
    driver: Named
    lease_ms: U32 | None = None


class ProducerReply(Struct, frozen=True):
    producer: str
    producer_id: int
    epoch: int
    lease_ms: int
    watermark: int | None
    claimed_to: int | None
    resume_after: int | None
    done: list[tuple[int, int]]
    truncated: bool


class SequencesRequest(Read):
    token: Token
    epoch: Epoch
    call: U32
    sequences: list[Sequence] | None = None
    first: Sequence | None = None
    last: Sequence | None = None
    prev_sequence: Sequence | None = None
    lease_ms: U32 | None = None


class SequencesReply(Struct, frozen=True):
    call: int
    lease_ms: int
    verdicts: list[VerdictMessage]


class SettleSequencesRequest(Read):
    token: Token
    epoch: Epoch
    call: U32


class SettleSequencesReply(Struct, frozen=True):
    producer: str
    call: int
    state: Literal["OPEN", "DONE", "RELEASED"]
    settled: int
    lease_ms: int


class CloseRequest(Read):
    token: Token
    epoch: Epoch


class CloseReply(Struct, frozen=True):
    producer: str
    epoch: int


class ProducerExplained(Struct, frozen=True):
    producer: str
    producer_id: int
    driver: str
    epoch: int
    token: str
    lease_ms: int
    lease_left_ms: int
    watermark: int | None
    claimed_to: int | None
    resume_after: int | None
    done: list[tuple[int, int]]
    open: list[tuple[int, int]]
