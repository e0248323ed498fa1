"""Requests and answers about producers and drivers, the same behind every door. Tokens are 16 raw bytes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import ClaimState


@dataclass(frozen=True)
class DriverRequest:
    driver: str
    token: bytes


@dataclass(frozen=True)
class DriverResult:
    """`batch`: the last batch that was acked under the driver's name, None before the first."""

    epoch: int
    batch: int | None


@dataclass(frozen=True)
class ProducerRequest:
    """`driver` owns the producer for ever, from its first registration on. `lease_ms` None: the default."""

    producer: str
    token: bytes
    driver: str
    lease_ms: int | None = None


@dataclass(frozen=True, eq=False)
class ProducerResult:
    """Where a producer stands. `watermark`, `claimed_to`, `resume_after` are None before there are any.

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


@dataclass(frozen=True, eq=False)
class SequenceRequest:
    """`sequences`: uint64[n], strictly increasing. `prev_sequence`: the one before the first of them in the source, of
    which it is said that nothing lies between. Calls of one epoch count up. `lease_ms` None: as registered."""

    producer: str
    epoch: int
    token: bytes
    call: int
    sequences: NDArray[np.uint64]
    prev_sequence: int | None = None
    lease_ms: int | None = None


@dataclass(frozen=True)
class SequenceSettled:
    """`settled`: how many sequences the call was granted; `lease_ms` 0 unless renewed."""

    call: int
    state: ClaimState
    settled: int
    lease_ms: int


@dataclass(frozen=True)
class AckRequest:
    """`upto`: (producer, sequence): nothing up to it will be run again. `batch`: nor any batch up to this one."""

    driver: str
    epoch: int
    token: bytes
    upto: tuple[tuple[str, int], ...]
    batch: int | None = None


@dataclass(frozen=True)
class AckResult:
    """`watermarks`: of each producer that was named, None where nothing was ever claimed. `batch`: the last acked."""

    watermarks: tuple[tuple[str, int | None], ...]
    batch: int | None


@dataclass(frozen=True, eq=False)
class ProducerView:
    """What is known of a producer, for a person.

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
