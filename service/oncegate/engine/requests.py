"""Describes requests to a shard and their results, the same for every transport. Tokens and claims are 16 raw bytes.

First free ids and rows, then batches and topics, then producers and drivers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import ClaimState
from oncegate.core.entries.kinds import Name, Span
from oncegate.core.errors import OncegateError
from oncegate.core.producers import Gaps
from oncegate.index.batches import Winner
from oncegate.ports import Chunk

Schema = Any  # pyarrow ships no types
Batch = Any


@dataclass(frozen=True, slots=True)
class Scope:
    """Says that ids count within one batch of one driver only, and are forgotten when it is acked (`scope = retry`)."""

    driver: str
    batch: int


@dataclass(frozen=True, eq=False)
class ClaimRequest:
    """Asks for a claim of ids.

    ids: fingerprints in their set, (n, 2) uint64. lease_ms None: the default. scope None: ids count for ever. digests:
    uint32[n], of the payload that comes with each id; None: they come alone. id_set: the set that was named, for the
    ledger's readers; None: none was.
    """

    token: bytes
    call: int
    ids: NDArray[np.uint64]
    lease_ms: int | None = None
    scope: Scope | None = None
    digests: NDArray[np.uint32] | None = None
    id_set: str | None = None


@dataclass(frozen=True, eq=False)
class ClaimResult:
    """Tells a verdict for each id or sequence, in the order of the request.

    claim: 16 bytes, None when nothing was granted. verdicts: uint8[n], wire bytes. numbers: uint32[n], their number.
    """

    claim: bytes | None
    lease_ms: int
    verdicts: NDArray[np.uint8]
    numbers: NDArray[np.uint32]


@dataclass(frozen=True)
class SettleResult:
    """Tells what became of a claim.

    settled: how many ids still named it. taken_over: how many are another's by now. lease_ms: 0 unless renewed.
    """

    claim: bytes
    state: ClaimState
    settled: int
    taken_over: int
    lease_ms: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Holds rows as they came: `data` is the Arrow IPC stream, which the transport has parsed and checked."""

    schema: Schema
    batches: list[Batch]
    rows: int
    data: bytes


@dataclass(frozen=True, eq=False)
class TakeRequest:
    """Asks for ids to be an owner's for good.

    owner: 16 bytes that stand for the owner's name. ids: fingerprints, (n, 2) uint64. id_set: as of ClaimRequest.
    """

    owner: bytes
    ids: NDArray[np.uint64]
    scope: Scope | None = None
    id_set: str | None = None


@dataclass(frozen=True, eq=False)
class SequenceRequest:
    """Asks for a claim of a producer's sequences. Calls of one epoch count up.

    sequences: uint64[n], strictly increasing. prev_sequence: the one before the first of them in the source; that says
    that nothing lies between. lease_ms None: as registered.
    """

    producer: str
    epoch: int
    token: bytes
    call: int
    sequences: NDArray[np.uint64]
    prev_sequence: int | None = None
    lease_ms: int | None = None


@dataclass(frozen=True, eq=False)
class ProduceRequest:
    """Asks for rows to be appended to a topic.

    ids: fingerprints, (n, 2) uint64, a row each; None: rows without ids. keys: uint64[n], a hash of each row's key,
    which chooses its partition; None: the request goes whole to the next partition. digests, id_set: as of
    ClaimRequest.
    sequenced: instead of ids, a sequence each; its token and call are the request's.
    """

    topic: str
    token: bytes
    call: int
    rows: Rows
    ids: NDArray[np.uint64] | None = None
    keys: NDArray[np.uint64] | None = None
    scope: Scope | None = None
    sequenced: SequenceRequest | None = None
    digests: NDArray[np.uint32] | None = None
    id_set: str | None = None


@dataclass(frozen=True, eq=False)
class ProduceResult:
    """Tells how many rows were written by this request, and where. Verdicts as of ClaimResult; None: no ids."""

    rows: int
    spans: tuple[Span, ...]
    verdicts: NDArray[np.uint8] | None = None
    numbers: NDArray[np.uint32] | None = None


@dataclass(frozen=True, eq=False)
class TopicRequest:
    """Asks for a topic to be made or set up. None: as it is, or the default. schema: of one without rows yet."""

    topic: str
    partitions: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    schema: Schema | None = None


@dataclass(frozen=True, eq=False)
class StageRequest:
    """Asks for one chunk of rows to be kept until its batch is committed.

    owner: the run, or the batch job's own uuid; a later owner's stages replace an older one's. fingerprint: 16 bytes,
    of the rows. keys: as of ProduceRequest.
    """

    name: Name
    owner: str
    token: bytes
    chunk: int
    sha256: bytes
    rows: Rows
    fingerprint: bytes
    keys: NDArray[np.uint64] | None = None


@dataclass(frozen=True)
class StageResult:
    """Tells what was staged. committed: the name is committed already; nothing was stored, the driver compares."""

    committed: bool
    rows: int
    fingerprint: bytes


@dataclass(frozen=True)
class CommitRequest:
    """Asks for the winners' rows to be published under a name; `nonce`: 16 bytes, the same in every repeat."""

    name: Name
    run: str | None
    nonce: bytes
    winners: tuple[Winner, ...]
    digest: bytes | None
    previous_digest: bytes | None
    first_wins: bool


@dataclass(frozen=True)
class CommitResult:
    """Tells what a commit came to: COMMITTED or DUPLICATE. suppressed_rows: staged or brought, and not published."""

    outcome: str
    rows: int
    spans: tuple[Span, ...]
    suppressed_rows: int
    takeover_rows: int
    warning: str | None = None


@dataclass(frozen=True)
class AbortRequest:
    """Asks for what these attempts staged under a name to be removed; `tokens`: 16 bytes each."""

    name: Name
    tokens: tuple[bytes, ...]


@dataclass(frozen=True)
class AbortResult:
    """Tells how many stages were removed. committed: the name is committed, so none was."""

    committed: bool
    removed: int


@dataclass(frozen=True, eq=False)
class Fetched:
    """Holds rows that were read, in whole ranges: the first may begin before the offset, the last end after it."""

    chunks: list[Chunk]
    low_offset: int
    high_offset: int
    schema: Schema


@dataclass(frozen=True, eq=False)
class TopicView:
    """Tells a topic's schema and offsets. schema: None until known. Offsets: one a partition. Retention 0: none."""

    name: str
    schema: Schema | None
    low_offsets: list[int]
    high_offsets: list[int]
    retention_ms: int
    retention_bytes: int

    @property
    def partitions(self) -> int:
        """Counts the topic's partitions."""
        return len(self.high_offsets)


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
    """

    producer: str
    token: bytes
    driver: str
    lease_ms: int | None = None
    gaps: Gaps = Gaps.ALLOW


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
    `batch`."""

    driver: str
    epoch: int
    token: bytes
    upto: tuple[tuple[str, int], ...]
    batch: int | None = None


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
class ResolveRequest:
    """Says what a person has found out about a leftover, who that is, and why they say so."""

    is_done: bool
    who: str
    why: str


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


__all__ = [
    "AbortRequest",
    "AbortResult",
    "AckRequest",
    "AckResult",
    "ClaimRequest",
    "ClaimResult",
    "CommitRequest",
    "CommitResult",
    "DriverRequest",
    "DriverResult",
    "Fetched",
    "ProduceRequest",
    "ProduceResult",
    "ProducerRequest",
    "ProducerResult",
    "ProducerView",
    "Rows",
    "Scope",
    "SequenceRequest",
    "SequenceSettled",
    "SettleResult",
    "Span",
    "StageRequest",
    "StageResult",
    "TakeRequest",
    "TopicRequest",
    "TopicView",
    "Winner",
]
