"""Describes what is asked of and answered about drivers, producers, lanes and what a dead task leaves; plain data."""

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
    """Asks for a driver's next epoch, for the attempt that `token`, 16 bytes, names."""

    driver: str
    token: bytes


@dataclass(frozen=True)
class DriverResult:
    """Tells a driver's epoch, and the last batch that was acked under its name, None before the first."""

    epoch: int
    batch: int | None


@dataclass(frozen=True)
class ProducerRequest:
    """Asks for a producer's next epoch.

    driver: owns the producer for ever. lease_ms None: the default. gaps: whether sequences may be passed over.
    source_id: of the source that the sequences are of, as it is recorded for ever; None: not named.
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
    """Tells where a producer stands; `watermark`, `claimed_to`, `resume_after` are None before there are any.

    resume_after: the highest sequence such that everything claimed up to it is done. done: uint64, shape (k, 2),
    inclusive intervals above the watermark that are done; only the newest of them where `truncated`.
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
    """Tells what became of a call's claim. settled: how many sequences it was granted. lease_ms: 0 unless renewed."""

    call: int
    state: ClaimState
    settled: int
    lease_ms: int


@dataclass(frozen=True)
class AckRequest:
    """Says what will not be run again, part by part: of each (producer, sequence), all up to it; batches up to
    `batch`.

    topic: what the driver writes to, where the ack says from where its source is to be read on: `source_offsets`, empty
    where that is not known any more; empty: it says nothing of that.
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
    """Tells what an ack came to, part by part: each producer is one, each batch is one.

    watermarks: of each of the driver's own that was named, None where nothing was ever acked. batch: the last that was
    acked. refused: why, of each part that was not; in `extra` its `producer` or `batch`, and what stands in its way.
    """

    watermarks: tuple[tuple[str, int | None], ...]
    batch: int | None
    refused: tuple[OncegateError, ...] = ()


@dataclass(frozen=True)
class Note:
    """Says who asks for an operator's action, and why."""

    who: str
    why: str


@dataclass(frozen=True)
class ResolveRequest:
    """Says what a person has found out about a leftover, who that is, and why they say so.

    holder_gone: of a claim, nobody is writing its ids any more, though its lease runs. verb: of the operator, as the
    trail has it, where it was not resolve.
    """

    is_done: bool
    who: str
    why: str
    holder_gone: bool = False
    verb: str = ""


@dataclass(frozen=True, eq=False)
class ProducerView:
    """Tells what is known of a producer, for a person.

    done, open: uint64 (k, 2), inclusive intervals above the watermark, a thousand each at most; `open` was claimed, or
    released, and is not done. lease_left_ms 0: anybody may have the next epoch.
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
    """Tells a lane's number and with what it is written."""

    lane: int
    place: LanePlace


@dataclass(frozen=True, slots=True)
class LaneQuestion:
    """Asks which sequences of a lane are written, from `first` to `last`, both of them too. acked: the source brings
    none up to this one any more; None: nothing is said of that. topic_id: 16 bytes, the topic's as it is now; None: it
    is not compared."""

    topic: str
    producer: str
    first: int
    last: int
    acked: int | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, eq=False)
class LaneAnswer:
    """Tells which of the sequences are written: `duplicates`, inclusive spans of shape (k, 2), in order.

    is_whole: all that was asked for lies in them; else what does not was not written, and the asker is to write it.
    """

    duplicates: NDArray[np.uint64]
    is_whole: bool
