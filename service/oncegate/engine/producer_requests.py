"""Defines the requests about drivers, producers, lanes and leftovers, and their results; plain data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import ClaimState
from oncegate.core.errors import OncegateError
from oncegate.core.producers import Gaps
from oncegate.engine.requests import NO_SENDER, Sender
from oncegate.ports import LanePlace


@dataclass(frozen=True)
class DriverRequest:
    """A request to register a driver, which asks for its next epoch for the attempt `token`, 16 bytes."""

    driver: str
    token: bytes


@dataclass(frozen=True)
class DriverResult:
    """A driver's epoch, and the last batch acked under its name (None: no batch was acked)."""

    epoch: int
    batch: int | None


@dataclass(frozen=True)
class ProducerRequest:
    """A request to register a producer, which asks for its next epoch.

    driver: owns the producer permanently.
    lease_ms: None: the default.
    gaps: whether sequences may be skipped.
    source_id: the source of the sequences, recorded permanently; None: not named.
    """

    producer: str
    token: bytes
    driver: str
    lease_ms: int | None = None
    gaps: Gaps = Gaps.ALLOW
    sender: Sender = NO_SENDER
    source_id: str | None = None


@dataclass(frozen=True, eq=False)
class ProducerResult:
    """The state of a registered producer; `watermark`, `claimed_to` and `resume_after` are None as long as there are
    none.

    resume_after: the highest sequence such that everything claimed up to it is done.
    done: uint64, shape (k, 2), inclusive intervals above the watermark that are done; only the newest ones if
    `truncated`.
    """

    producer_id: int
    epoch: int
    lease_ms: int
    watermark: int | None
    claimed_to: int | None
    resume_after: int | None
    done: NDArray[np.uint64]
    truncated: bool


@dataclass(frozen=True)
class SequenceSettled:
    """The outcome of renewing, completing or releasing a producer's call. settled: how many sequences it was granted.
    lease_ms: 0 unless renewed."""

    call: int
    state: ClaimState
    settled: int
    lease_ms: int


@dataclass(frozen=True)
class AckRequest:
    """An ack of everything that will never be retried: for each (producer, sequence) all sequences up to it, and all
    batches up to `batch`.

    topic: the topic that the driver writes, if the ack carries offsets of its source; empty: it carries none.
    source_offsets: from where to resume the source; empty: no longer known.
    """

    driver: str
    epoch: int
    token: bytes
    upto: tuple[tuple[str, int], ...]
    batch: int | None = None
    topic: str = ""
    source_offsets: bytes = b""


@dataclass(frozen=True)
class AckResult:
    """The outcome of an ack for each of its parts; each producer is a part, and so is each batch.

    watermarks: of each named producer of the driver; None: nothing was ever acked.
    batch: the last acked batch.
    refused: the error of each refused part; `extra` has its `producer` or `batch`, and the obstacles.
    """

    watermarks: tuple[tuple[str, int | None], ...]
    batch: int | None
    refused: tuple[OncegateError, ...] = ()


@dataclass(frozen=True)
class Note:
    """The author of an operator's action, and the reason."""

    who: str
    why: str


@dataclass(frozen=True)
class ResolveRequest:
    """A person's decision about a leftover, with the name of that person and the reason.

    holder_gone: the claim's ids are no longer being written, although its lease is live.
    verb: the operator's verb in the audit trail, if other than resolve.
    """

    is_done: bool
    who: str
    why: str
    holder_gone: bool = False
    verb: str = ""


@dataclass(frozen=True, eq=False)
class ProducerView:
    """The state of a producer, as shown to a person.

    done, open: uint64 (k, 2), inclusive intervals above the watermark, at most a thousand each; `open` was claimed or
    released, and is not done.
    lease_left_ms: 0: any attempt may have the next epoch.
    """

    producer: str
    producer_id: int
    driver: str
    epoch: int
    token: bytes
    lease_ms: int
    lease_left_ms: int
    watermark: int | None
    claimed_to: int | None
    resume_after: int | None
    done: NDArray[np.uint64]
    open: NDArray[np.uint64]
    position: int


@dataclass(frozen=True, slots=True)
class LaneOpening:
    """The number of an opened lane, and the topic and partition that its client writes to."""

    lane: int
    place: LanePlace


@dataclass(frozen=True, slots=True)
class LaneQuestion:
    """A request that asks which sequences of a lane are written, from `first` to `last`, both inclusive.

    acked: the source will bring no sequence up to this one; None: not stated.
    topic_id: 16 bytes, the topic's current id; None: it is not compared.
    """

    topic: str
    producer: str
    first: int
    last: int
    acked: int | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, eq=False)
class LaneAnswer:
    """The answer to a lane question: `duplicates` are the written sequences, as ascending inclusive spans of shape (k,
    2).

    is_whole: `duplicates` covers the whole question; otherwise the client must write the rest, which was not written.
    """

    duplicates: NDArray[np.uint64]
    is_whole: bool
