"""Requests and answers of the engine, the same behind every door. Identifiers are 16 raw bytes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import ClaimState
from oncegate.core.entries.kinds import Name, Span
from oncegate.engine.producer_requests import SequenceRequest
from oncegate.index.batches import Winner
from oncegate.ports import Chunk

Schema = Any  # pyarrow ships no types
Batch = Any


@dataclass(frozen=True, slots=True)
class Scope:
    """`scope = retry`: the ids count within this batch of this driver, and are forgotten when it is acked."""

    driver: str
    batch: int


@dataclass(frozen=True, eq=False)
class ClaimRequest:
    """`ids`: fingerprints, (n, 2) uint64. `lease_ms` None: the default. `scope` None: ids count for ever.

    digests: uint32[n], of the payload that comes with each id; None: they come alone.
    """

    token: bytes
    call: int
    ids: NDArray[np.uint64]
    lease_ms: int | None = None
    scope: Scope | None = None
    digests: NDArray[np.uint32] | None = None


@dataclass(frozen=True, eq=False)
class ClaimResult:
    """`claim` is None when nothing was granted. `verdicts` uint8[n]: wire bytes; `numbers` uint32[n]: their number."""

    claim: bytes | None
    lease_ms: int
    verdicts: NDArray[np.uint8]
    numbers: NDArray[np.uint32]


@dataclass(frozen=True)
class SettleResult:
    """`settled` ids still named the claim, `taken_over` ids are another's by now; `lease_ms` 0 unless renewed."""

    claim: bytes
    state: ClaimState
    settled: int
    taken_over: int
    lease_ms: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as they came: `data` is the Arrow IPC stream, parsed and checked at the door."""

    schema: Schema
    batches: list[Batch]
    rows: int
    data: bytes


@dataclass(frozen=True, eq=False)
class TakeRequest:
    """`owner`: 16 bytes that stand for the owner's name. `ids`: fingerprints, (n, 2) uint64."""

    owner: bytes
    ids: NDArray[np.uint64]
    scope: Scope | None = None


@dataclass(frozen=True, eq=False)
class ProduceRequest:
    """`ids`: fingerprints, (n, 2) uint64, a row each; None: rows without ids. `keys`: uint64[n], a hash of each row's
    key, which chooses its partition; None: the request goes whole to the next partition. `digests` as of ClaimRequest.
    `sequenced`: instead of ids, a sequence each; its token and call are the request's."""

    topic: str
    token: bytes
    call: int
    rows: Rows
    ids: NDArray[np.uint64] | None = None
    keys: NDArray[np.uint64] | None = None
    scope: Scope | None = None
    sequenced: SequenceRequest | None = None
    digests: NDArray[np.uint32] | None = None


@dataclass(frozen=True, eq=False)
class ProduceResult:
    """`rows` were written by this request, at `spans`. Verdicts as of a claim; None where the rows have no ids."""

    rows: int
    spans: tuple[Span, ...]
    verdicts: NDArray[np.uint8] | None = None
    numbers: NDArray[np.uint32] | None = None


@dataclass(frozen=True, eq=False)
class TopicRequest:
    """None: as it is, or as by default. `schema`: of a topic that nothing was written to yet."""

    topic: str
    partitions: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    schema: Schema | None = None


@dataclass(frozen=True, eq=False)
class StageRequest:
    """`owner`: the run, or the batch job's own uuid; a later owner's stages replace an older one's.

    `fingerprint`: 16 bytes, of the rows. `keys` as of ProduceRequest.
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
    """`committed`: the name is committed already; nothing was stored, the fingerprint is for comparison."""

    committed: bool
    rows: int
    fingerprint: bytes


@dataclass(frozen=True)
class CommitRequest:
    name: Name
    run: str | None
    nonce: bytes
    winners: tuple[Winner, ...]
    digest: bytes | None
    previous_digest: bytes | None
    first_wins: bool


@dataclass(frozen=True)
class CommitResult:
    """`outcome` is COMMITTED or DUPLICATE; `suppressed_rows` were staged or brought and not published."""

    outcome: str
    rows: int
    spans: tuple[Span, ...]
    suppressed_rows: int
    takeover_rows: int
    warning: str | None = None


@dataclass(frozen=True)
class AbortRequest:
    name: Name
    tokens: tuple[bytes, ...]


@dataclass(frozen=True)
class AbortResult:
    """`committed`: the name is committed, so nothing was removed."""

    committed: bool
    removed: int


@dataclass(frozen=True, eq=False)
class Fetched:
    """Whole ranges that cover what was asked for; the first may begin before the offset, the last end after it."""

    chunks: list[Chunk]
    low_offset: int
    high_offset: int
    schema: Schema


@dataclass(frozen=True, eq=False)
class TopicView:
    """`schema` is None until something is written. Offsets: one a partition. Retention 0: no bound."""

    name: str
    schema: Schema | None
    low_offsets: list[int]
    high_offsets: list[int]
    retention_ms: int
    retention_bytes: int

    @property
    def partitions(self) -> int:
        return len(self.high_offsets)


__all__ = [
    "AbortRequest",
    "AbortResult",
    "ClaimRequest",
    "ClaimResult",
    "CommitRequest",
    "CommitResult",
    "Fetched",
    "ProduceRequest",
    "ProduceResult",
    "Rows",
    "Scope",
    "SettleResult",
    "Span",
    "StageRequest",
    "StageResult",
    "TakeRequest",
    "TopicRequest",
    "TopicView",
    "Winner",
]
