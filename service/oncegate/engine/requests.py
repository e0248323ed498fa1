"""Defines the requests to a shard and their results, the same for every transport. Tokens and claims are 16 raw bytes.

Free ids and rows come first, then batches and topics. `producer_requests` has those of producers and drivers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import ClaimState, IdTime, LeaseExpiry, OnLedgerDown
from oncegate.core.entries.kinds import Name
from oncegate.engine.counts.counts import Client
from oncegate.engine.quotas import Tenant
from oncegate.index.batches import Winner
from oncegate.index.claims.results import Located
from oncegate.ports import Chunk, RowRange

Schema = Any  # pyarrow ships no types
Batch = Any


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a request, as determined by the transport.

    writer: bytes of `core.writers`; empty: the request names no writer.
    client: the counts of the client program; None: they are not counted.
    tenant: the tenant whose quotas count the request; None: there is none.
    """

    writer: bytes = b""
    client: Client | None = None
    tenant: Tenant | None = None


NO_SENDER = Sender()


@dataclass(frozen=True, slots=True)
class SettingsRequest:
    """A change of a namespace's settings; fields that are None stay unchanged. Each member is a field of
    `NamespaceSet`."""

    horizon_ms: int | None = None
    auto_create_topics: bool | None = None
    record_headers: bool | None = None
    lease_expiry: LeaseExpiry | None = None
    id_time: IdTime | None = None
    shadow: bool | None = None
    on_ledger_down: OnLedgerDown | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """A batch scope (`scope = retry`): ids count only within one batch of one driver, and are forgotten when that batch
    is acked."""

    driver: str
    batch: int


@dataclass(frozen=True, eq=False)
class ClaimRequest:
    """A request to claim ids under a lease.

    ids: fingerprints in their dedup scope, (n, 2) uint64.
    lease_ms: None: the default.
    scope: None: ids count for ever.
    digests: uint32[n], of the payload of each id; None: there are no payloads.
    id_set: the named dedup scope, for readers of the ledger; None: none was named.
    locate: also return where the first of each duplicate was written.
    made_ms: uint64[n], the creation time of each id, if the namespace's ids carry one.
    """

    token: bytes
    call: int
    ids: NDArray[np.uint64]
    lease_ms: int | None = None
    scope: Scope | None = None
    digests: NDArray[np.uint32] | None = None
    id_set: str | None = None
    locate: bool = False
    made_ms: NDArray[np.uint64] | None = None
    sender: Sender = NO_SENDER


@dataclass(frozen=True, eq=False)
class ClaimResult:
    """The verdict on each id or sequence, in the order of the request.

    claim: 16 bytes; None: nothing was granted.
    verdicts: uint8[n], wire bytes.
    numbers: uint32[n], the number of each verdict.
    located: the known places of the first of each duplicate; None: not requested.
    shadow: uint8[n], in shadow mode: the verdicts without shadow mode; `verdicts` are then all GRANTED.
    """

    claim: bytes | None
    lease_ms: int
    verdicts: NDArray[np.uint8]
    numbers: NDArray[np.uint32]
    located: Located | None = None
    shadow: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class SettleResult:
    """The outcome of renewing, completing or releasing a claim.

    settled: how many ids still named the claim.
    taken_over: how many now belong to another claim.
    lease_ms: 0 unless renewed.
    result: the bytes that it was completed with, if still known.
    other_result: this call brought another result, which was dropped.
    shadow_taken_over: in shadow mode, `taken_over` without shadow mode; `taken_over` is then 0.
    """

    claim: bytes
    state: ClaimState
    settled: int
    taken_over: int
    lease_ms: int
    result: bytes | None = None
    other_result: bool = False
    shadow_taken_over: int = 0


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a request: `data` is their Arrow IPC stream, which the transport has parsed and checked."""

    schema: Schema
    batches: list[Batch]
    rows: int
    data: bytes | memoryview


@dataclass(frozen=True, eq=False)
class TakeRequest:
    """A request to claim ids for an owner permanently, without a lease.

    owner: 16 bytes that identify the owner's name.
    ids: fingerprints, (n, 2) uint64.
    id_set, locate, made_ms: as in ClaimRequest.
    """

    owner: bytes
    ids: NDArray[np.uint64]
    scope: Scope | None = None
    id_set: str | None = None
    locate: bool = False
    made_ms: NDArray[np.uint64] | None = None
    sender: Sender = NO_SENDER


@dataclass(frozen=True, eq=False)
class LookUpRequest:
    """A request for the state of ids, which claims none.

    ids: fingerprints, (n, 2) uint64.
    locate, made_ms: as in ClaimRequest.
    """

    ids: NDArray[np.uint64]
    locate: bool = False
    made_ms: NDArray[np.uint64] | None = None
    sender: Sender = NO_SENDER


@dataclass(frozen=True, eq=False)
class SequenceRequest:
    """A request to claim sequences of a producer. Calls of one epoch count up.

    sequences: uint64[n], strictly increasing.
    prev_sequence: the last sequence of the source before these: there are none in between.
    lease_ms: None: as registered.
    """

    producer: str
    epoch: int
    token: bytes
    call: int
    sequences: NDArray[np.uint64]
    prev_sequence: int | None = None
    lease_ms: int | None = None
    sender: Sender = NO_SENDER


@dataclass(frozen=True, slots=True)
class Spilled:
    """The origin of rows that waited on a client's disk while the gateway was down.

    wall_ms: when they were stored, by the client's wall clock.
    who: the name of its credential; empty if none is required.
    """

    wall_ms: int
    who: str


@dataclass(frozen=True, eq=False)
class ProduceRequest:
    """A request to append rows to a topic.

    ids: fingerprints, (n, 2) uint64, one for each row; None: rows without ids.
    keys: uint64[n], a hash of each row's key, which chooses its partition; None: all rows go to the next partition.
    digests, id_set, locate, made_ms: as in ClaimRequest.
    sequenced: a sequence for each row, instead of ids; its token and call are those of this request.
    beside: columns that are an id, a digest or a sequence; they are dropped if records have no column of that name.
    spilled: rows with ids that had waited; None: they did not wait.
    topic_ids: for rows with ids, the current ids of the topics elsewhere that they go to, by name.
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
    locate: bool = False
    made_ms: NDArray[np.uint64] | None = None
    beside: tuple[str, ...] = ()
    spilled: Spilled | None = None
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    sender: Sender = NO_SENDER


@dataclass(frozen=True, eq=False)
class ProduceResult:
    """The number of rows that this request wrote, and their offsets. Verdicts are as in ClaimResult; None: no ids.

    spans: empty if a broker did not return all offsets.
    before: for a repeat, the ranges that earlier tries of the same request wrote; empty: none, or not all are known.
    located, shadow: as in ClaimResult.
    """

    rows: int
    spans: tuple[RowRange, ...]
    verdicts: NDArray[np.uint8] | None = None
    numbers: NDArray[np.uint32] | None = None
    before: tuple[RowRange, ...] = ()
    located: Located | None = None
    shadow: NDArray[np.uint8] | None = None


@dataclass(frozen=True, eq=False)
class TopicRequest:
    """A request to create a topic or change its settings; fields that are None stay unchanged, or get the default.

    schema: of a topic without rows yet.
    merges: add the schema's new columns after those of the topic; the schema may lack existing ones.
    """

    topic: str
    partitions: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    schema: Schema | None = None
    merges: bool = False


@dataclass(frozen=True, eq=False)
class StageRequest:
    """A request to store one chunk of rows until its batch is committed.

    owner: the run, or the uuid of a batch job; a later owner's stages replace those of an older one.
    fingerprint: 16 bytes, of the rows.
    keys: as in ProduceRequest.
    """

    name: Name
    owner: str
    token: bytes
    chunk: int
    sha256: bytes
    rows: Rows
    fingerprint: bytes
    keys: NDArray[np.uint64] | None = None
    sender: Sender = NO_SENDER


@dataclass(frozen=True)
class StageResult:
    """The outcome of a stage. committed: the name is committed already; nothing was stored, and the driver compares."""

    committed: bool
    rows: int
    fingerprint: bytes


@dataclass(frozen=True)
class CommitRequest:
    """A request to publish the rows of the winning attempts under a batch name.

    nonce: 16 bytes, the same in every repeat.
    digest, previous_digest: of the input of this batch and of the one before, 32 bytes or None.
    reads_digest: of the data that the batch reads, 32 bytes or None; it can be equal even if `digest` differs.
    source_offsets: from where to resume the source after this batch, kept unchanged; empty: not known.
    """

    name: Name
    run: str | None
    nonce: bytes
    winners: tuple[Winner, ...]
    digest: bytes | None
    previous_digest: bytes | None
    first_wins: bool
    source_offsets: bytes = b""
    reads_digest: bytes | None = None
    sender: Sender = NO_SENDER


@dataclass(frozen=True)
class CommitResult:
    """The outcome of a commit: COMMITTED or DUPLICATE.

    spans: the ranges of the name's rows; empty if not all are known.
    suppressed_rows: staged or sent, and not published.
    first_of_app: COMMITTED, and none of the topic's last names is of this app.
    higher_version: DUPLICATE, because this higher version is committed; None: the name itself is committed.
    """

    outcome: str
    rows: int
    spans: tuple[RowRange, ...]
    suppressed_rows: int
    takeover_rows: int
    warning: str | None = None
    first_of_app: bool = False
    higher_version: str | None = None


@dataclass(frozen=True)
class AbortRequest:
    """A request to remove the stages of these attempts under a batch name; `tokens`: 16 bytes each."""

    name: Name
    tokens: tuple[bytes, ...]


@dataclass(frozen=True)
class AbortResult:
    """The number of removed stages. committed: the name is committed, so none was removed."""

    committed: bool
    removed: int


@dataclass(frozen=True, eq=False)
class Fetched:
    """Rows that were read, in whole ranges: the first range may begin before the requested offset, and the last may
    exceed the requested number of rows."""

    chunks: list[Chunk]
    low_offset: int
    high_offset: int
    schema: Schema


@dataclass(frozen=True, eq=False)
class TopicView:
    """A topic's schema and offsets. schema: None until known. Offsets: one per partition. Retention 0: none."""

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
    "SequenceRequest",
    "SettingsRequest",
    "SettleResult",
    "StageRequest",
    "StageResult",
    "TakeRequest",
    "TopicRequest",
    "TopicView",
    "Winner",
]
