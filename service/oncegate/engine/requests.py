"""Describes requests to a shard and their results, the same for every transport. Tokens and claims are 16 raw bytes.

First free ids and rows, then batches and topics; those of producers and drivers are in `producer_requests`.
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
    """Identifies the sender of one request, as the transport has read it.

    writer: bytes of `core.writers`; empty: the request names no writer. client: the counts of the client program; None:
    they are not counted. tenant: None: no tenant's quotas count the request.
    """

    writer: bytes = b""
    client: Client | None = None
    tenant: Tenant | None = None


NO_SENDER = Sender()


@dataclass(frozen=True, slots=True)
class SettingsRequest:
    """Asks for a namespace to be set up; None: as it is. Each is a field of `NamespaceSet`."""

    horizon_ms: int | None = None
    auto_create_topics: bool | None = None
    record_headers: bool | None = None
    lease_expiry: LeaseExpiry | None = None
    id_time: IdTime | None = None
    shadow: bool | None = None
    on_ledger_down: OnLedgerDown | None = None


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
    ledger's readers; None: none was. locate: the answer is to say where the first of each duplicate is. made_ms:
    uint64[n], when each id was made, where the namespace's ids say so.
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
    """Tells a verdict for each id or sequence, in the order of the request.

    claim: 16 bytes, None when nothing was granted. verdicts: uint8[n], wire bytes. numbers: uint32[n], their number.
    located: what is known of the first of each duplicate; None: nobody asked. shadow: uint8[n], where the namespace is
    in shadow mode, what each verdict would have been: `verdicts` are GRANTED then.
    """

    claim: bytes | None
    lease_ms: int
    verdicts: NDArray[np.uint8]
    numbers: NDArray[np.uint32]
    located: Located | None = None
    shadow: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class SettleResult:
    """Tells what became of a claim.

    settled: how many ids still named it. taken_over: how many are another's by now. lease_ms: 0 unless renewed.
    result: what it was completed with, as far as it is known. other_result: this call brought another, which was left.
    shadow_taken_over: in shadow mode, what `taken_over` would have been: it is 0 then.
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
    """Holds rows as they came: `data` is the Arrow IPC stream, which the transport has parsed and checked."""

    schema: Schema
    batches: list[Batch]
    rows: int
    data: bytes | memoryview


@dataclass(frozen=True, eq=False)
class TakeRequest:
    """Asks for ids to be an owner's for good.

    owner: 16 bytes that stand for the owner's name. ids: fingerprints, (n, 2) uint64. id_set, locate, made_ms: as
    of ClaimRequest.
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
    """Asks what is known of ids, and wants none granted: fingerprints, (n, 2) uint64. locate, made_ms: as
    of ClaimRequest."""

    ids: NDArray[np.uint64]
    locate: bool = False
    made_ms: NDArray[np.uint64] | None = None
    sender: Sender = NO_SENDER


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
    sender: Sender = NO_SENDER


@dataclass(frozen=True, slots=True)
class Spilled:
    """Says that a client had laid rows down while the gateway was down: when, by its wall clock, and whose it is.

    who: the name of its credential, empty where none is asked for.
    """

    wall_ms: int
    who: str


@dataclass(frozen=True, eq=False)
class ProduceRequest:
    """Asks for rows to be appended to a topic.

    ids: fingerprints, (n, 2) uint64, a row each; None: rows without ids. keys: uint64[n], a hash of each row's key,
    which chooses its partition; None: the request goes whole to the next partition. digests, id_set, locate, made_ms:
    as of ClaimRequest.
    sequenced: instead of ids, a sequence each; its token and call are the request's. beside: columns that are an id, a
    digest or a sequence, and need not be written where a record has nothing of their name. spilled: rows with ids that
    had waited; None: they come at once.
    topic_ids: of the topics elsewhere that rows with ids go to, by name, as they are now.
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
    """Tells how many rows were written by this request, and where. Verdicts as of ClaimResult; None: no ids.

    spans: empty where a broker did not tell all offsets. before: of a repeat, where all lies that earlier tries of the
    very request wrote; empty: nothing, or not all of it is known. located, shadow: as of ClaimResult.
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
    """Asks for a topic to be made or set up. None: as it is, or the default. schema: of one without rows yet.

    merges: columns of the schema that the topic has not are added behind its own, and it may lack those that it has."""

    topic: str
    partitions: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    schema: Schema | None = None
    merges: bool = False


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
    sender: Sender = NO_SENDER


@dataclass(frozen=True)
class StageResult:
    """Tells what was staged. committed: the name is committed already; nothing was stored, the driver compares."""

    committed: bool
    rows: int
    fingerprint: bytes


@dataclass(frozen=True)
class CommitRequest:
    """Asks for the winners' rows to be published under a name; `nonce`: 16 bytes, the same in every repeat.

    digest: of the batch's input; reads_digest: of what it reads, the same also where digest is another; 32 bytes or
    None. source_offsets: where its source is to be read on behind this batch, kept as it is; empty: not known.
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
    """Tells what a commit came to: COMMITTED or DUPLICATE. suppressed_rows: staged or brought, and not published.

    spans: where the name's rows lie; empty where not all of it is known.

    first_of_app: COMMITTED, and no other of the last names in the topic is of this app. higher_version: DUPLICATE,
    since this version is committed and the name's is lower; None: the name itself is committed.
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
