"""Requests and answers of the engine, the same behind every door. Identifiers are 16 raw bytes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.core.decisions import ClaimState
from oncegate.core.entries import Name
from oncegate.index.batches import Winner
from oncegate.ports import Chunk

Schema = Any  # pyarrow ships no types
Batch = Any


@dataclass(frozen=True, eq=False)
class ClaimAsk:
    """`ids`: fingerprints, (n, 2) uint64. `lease_ms` None: the default."""

    token: bytes
    call: int
    ids: NDArray[np.uint64]
    lease_ms: int | None = None


@dataclass(frozen=True, eq=False)
class ClaimAnswer:
    """`claim` is None when nothing was granted. `verdicts` uint8[n]: wire bytes; `numbers` uint32[n]: their number."""

    claim: bytes | None
    lease_ms: int
    verdicts: NDArray[np.uint8]
    numbers: NDArray[np.uint32]


@dataclass(frozen=True)
class SettleAnswer:
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
class ProduceAsk:
    topic: str
    token: bytes
    call: int
    rows: Rows


@dataclass(frozen=True)
class ProduceAnswer:
    first_offset: int
    rows: int


@dataclass(frozen=True, eq=False)
class StageAsk:
    """`owner`: the run, or the batch job's own uuid; a later owner's stages replace an older one's."""

    name: Name
    owner: str
    token: bytes
    chunk: int
    sha256: bytes
    rows: Rows


@dataclass(frozen=True)
class StageAnswer:
    """`committed`: the name is committed already; nothing was stored, the fingerprint is for comparison."""

    committed: bool
    rows: int
    fingerprint: bytes


@dataclass(frozen=True)
class CommitAsk:
    name: Name
    run: str | None
    nonce: bytes
    winners: tuple[Winner, ...]
    digest: bytes | None
    previous_digest: bytes | None
    first_wins: bool


@dataclass(frozen=True)
class CommitAnswer:
    """`outcome` is COMMITTED or DUPLICATE; `suppressed_rows` were staged or brought and not published."""

    outcome: str
    rows: int
    first_offset: int
    suppressed_rows: int
    takeover_rows: int
    warning: str | None = None


@dataclass(frozen=True)
class AbortAsk:
    name: Name
    tokens: tuple[bytes, ...]


@dataclass(frozen=True)
class AbortAnswer:
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
    name: str
    partitions: int
    schema: Schema
    low_offset: int
    high_offset: int


__all__ = [
    "AbortAnswer",
    "AbortAsk",
    "ClaimAnswer",
    "ClaimAsk",
    "CommitAnswer",
    "CommitAsk",
    "Fetched",
    "ProduceAnswer",
    "ProduceAsk",
    "Rows",
    "SettleAnswer",
    "StageAnswer",
    "StageAsk",
    "TopicView",
    "Winner",
]
