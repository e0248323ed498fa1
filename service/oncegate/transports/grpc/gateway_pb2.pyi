from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClaimState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLAIM_STATE_UNSPECIFIED: _ClassVar[ClaimState]
    CLAIM_STATE_OPEN: _ClassVar[ClaimState]
    CLAIM_STATE_DONE: _ClassVar[ClaimState]
    CLAIM_STATE_RELEASED: _ClassVar[ClaimState]

class StageOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_OUTCOME_UNSPECIFIED: _ClassVar[StageOutcome]
    STAGE_OUTCOME_STAGED: _ClassVar[StageOutcome]
    STAGE_OUTCOME_COMMITTED: _ClassVar[StageOutcome]

class ReplayMismatch(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLAY_MISMATCH_UNSPECIFIED: _ClassVar[ReplayMismatch]
    REPLAY_MISMATCH_FAIL: _ClassVar[ReplayMismatch]
    REPLAY_MISMATCH_FIRST_WINS: _ClassVar[ReplayMismatch]

class CommitOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMIT_OUTCOME_UNSPECIFIED: _ClassVar[CommitOutcome]
    COMMIT_OUTCOME_COMMITTED: _ClassVar[CommitOutcome]
    COMMIT_OUTCOME_DUPLICATE: _ClassVar[CommitOutcome]

class Gaps(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GAPS_UNSPECIFIED: _ClassVar[Gaps]
    GAPS_ALLOW: _ClassVar[Gaps]
    GAPS_REFUSE: _ClassVar[Gaps]
CLAIM_STATE_UNSPECIFIED: ClaimState
CLAIM_STATE_OPEN: ClaimState
CLAIM_STATE_DONE: ClaimState
CLAIM_STATE_RELEASED: ClaimState
STAGE_OUTCOME_UNSPECIFIED: StageOutcome
STAGE_OUTCOME_STAGED: StageOutcome
STAGE_OUTCOME_COMMITTED: StageOutcome
REPLAY_MISMATCH_UNSPECIFIED: ReplayMismatch
REPLAY_MISMATCH_FAIL: ReplayMismatch
REPLAY_MISMATCH_FIRST_WINS: ReplayMismatch
COMMIT_OUTCOME_UNSPECIFIED: CommitOutcome
COMMIT_OUTCOME_COMMITTED: CommitOutcome
COMMIT_OUTCOME_DUPLICATE: CommitOutcome
GAPS_UNSPECIFIED: Gaps
GAPS_ALLOW: Gaps
GAPS_REFUSE: Gaps

class ClaimRequest(_message.Message):
    __slots__ = ("namespace", "token", "call", "packed", "arrow", "lease_ms", "driver", "batch", "id_set")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ID_SET_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    token: bytes
    call: int
    packed: bytes
    arrow: bytes
    lease_ms: int
    driver: str
    batch: int
    id_set: str
    def __init__(self, namespace: _Optional[str] = ..., token: _Optional[bytes] = ..., call: _Optional[int] = ..., packed: _Optional[bytes] = ..., arrow: _Optional[bytes] = ..., lease_ms: _Optional[int] = ..., driver: _Optional[str] = ..., batch: _Optional[int] = ..., id_set: _Optional[str] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("claim", "lease_ms", "verdicts", "numbers", "id_set", "shadow_verdicts")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ID_SET_FIELD_NUMBER: _ClassVar[int]
    SHADOW_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    claim: bytes
    lease_ms: int
    verdicts: bytes
    numbers: bytes
    id_set: str
    shadow_verdicts: bytes
    def __init__(self, claim: _Optional[bytes] = ..., lease_ms: _Optional[int] = ..., verdicts: _Optional[bytes] = ..., numbers: _Optional[bytes] = ..., id_set: _Optional[str] = ..., shadow_verdicts: _Optional[bytes] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("claim", "state", "settled", "taken_over", "lease_ms", "result", "other_result", "shadow_taken_over")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    TAKEN_OVER_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    OTHER_RESULT_FIELD_NUMBER: _ClassVar[int]
    SHADOW_TAKEN_OVER_FIELD_NUMBER: _ClassVar[int]
    claim: bytes
    state: ClaimState
    settled: int
    taken_over: int
    lease_ms: int
    result: bytes
    other_result: bool
    shadow_taken_over: int
    def __init__(self, claim: _Optional[bytes] = ..., state: _Optional[_Union[ClaimState, str]] = ..., settled: _Optional[int] = ..., taken_over: _Optional[int] = ..., lease_ms: _Optional[int] = ..., result: _Optional[bytes] = ..., other_result: _Optional[bool] = ..., shadow_taken_over: _Optional[int] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("namespace", "claim")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim: bytes
    def __init__(self, namespace: _Optional[str] = ..., claim: _Optional[bytes] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("settled",)
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    settled: Settled
    def __init__(self, settled: _Optional[_Union[Settled, _Mapping]] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("namespace", "claim", "result")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim: bytes
    result: bytes
    def __init__(self, namespace: _Optional[str] = ..., claim: _Optional[bytes] = ..., result: _Optional[bytes] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("settled",)
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    settled: Settled
    def __init__(self, settled: _Optional[_Union[Settled, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("namespace", "claim")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim: bytes
    def __init__(self, namespace: _Optional[str] = ..., claim: _Optional[bytes] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("settled",)
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    settled: Settled
    def __init__(self, settled: _Optional[_Union[Settled, _Mapping]] = ...) -> None: ...

class StreamClaimsRequest(_message.Message):
    __slots__ = ("claim", "renew", "complete", "release", "ack")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    claim: ClaimRequest
    renew: RenewRequest
    complete: CompleteRequest
    release: ReleaseRequest
    ack: AckRequest
    def __init__(self, claim: _Optional[_Union[ClaimRequest, _Mapping]] = ..., renew: _Optional[_Union[RenewRequest, _Mapping]] = ..., complete: _Optional[_Union[CompleteRequest, _Mapping]] = ..., release: _Optional[_Union[ReleaseRequest, _Mapping]] = ..., ack: _Optional[_Union[AckRequest, _Mapping]] = ...) -> None: ...

class StreamClaimsResponse(_message.Message):
    __slots__ = ("claim", "renew", "complete", "release", "ack", "refusal", "mark")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    claim: ClaimResponse
    renew: RenewResponse
    complete: CompleteResponse
    release: ReleaseResponse
    ack: AckResponse
    refusal: bytes
    mark: str
    def __init__(self, claim: _Optional[_Union[ClaimResponse, _Mapping]] = ..., renew: _Optional[_Union[RenewResponse, _Mapping]] = ..., complete: _Optional[_Union[CompleteResponse, _Mapping]] = ..., release: _Optional[_Union[ReleaseResponse, _Mapping]] = ..., ack: _Optional[_Union[AckResponse, _Mapping]] = ..., refusal: _Optional[bytes] = ..., mark: _Optional[str] = ...) -> None: ...

class PartitionOffset(_message.Message):
    __slots__ = ("partition", "first_offset", "rows", "topic")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    partition: int
    first_offset: int
    rows: int
    topic: str
    def __init__(self, partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., rows: _Optional[int] = ..., topic: _Optional[str] = ...) -> None: ...

class ProduceRequest(_message.Message):
    __slots__ = ("namespace", "topic", "token", "call", "arrow", "id_col", "key_col", "digest_col", "id_set", "driver", "batch", "producer", "epoch", "sequence_col", "prev_sequence", "spilled_ms")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    ID_COL_FIELD_NUMBER: _ClassVar[int]
    KEY_COL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_COL_FIELD_NUMBER: _ClassVar[int]
    ID_SET_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_COL_FIELD_NUMBER: _ClassVar[int]
    PREV_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SPILLED_MS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    token: bytes
    call: int
    arrow: bytes
    id_col: _containers.RepeatedScalarFieldContainer[str]
    key_col: _containers.RepeatedScalarFieldContainer[str]
    digest_col: _containers.RepeatedScalarFieldContainer[str]
    id_set: str
    driver: str
    batch: int
    producer: str
    epoch: int
    sequence_col: str
    prev_sequence: int
    spilled_ms: int
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ..., token: _Optional[bytes] = ..., call: _Optional[int] = ..., arrow: _Optional[bytes] = ..., id_col: _Optional[_Iterable[str]] = ..., key_col: _Optional[_Iterable[str]] = ..., digest_col: _Optional[_Iterable[str]] = ..., id_set: _Optional[str] = ..., driver: _Optional[str] = ..., batch: _Optional[int] = ..., producer: _Optional[str] = ..., epoch: _Optional[int] = ..., sequence_col: _Optional[str] = ..., prev_sequence: _Optional[int] = ..., spilled_ms: _Optional[int] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("rows", "offsets", "verdicts", "numbers", "id_set", "offsets_before", "shadow_verdicts")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ID_SET_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    SHADOW_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    verdicts: bytes
    numbers: bytes
    id_set: str
    offsets_before: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    shadow_verdicts: bytes
    def __init__(self, rows: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., verdicts: _Optional[bytes] = ..., numbers: _Optional[bytes] = ..., id_set: _Optional[str] = ..., offsets_before: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., shadow_verdicts: _Optional[bytes] = ...) -> None: ...

class BatchName(_message.Message):
    __slots__ = ("app", "version", "topic", "write_id")
    APP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    WRITE_ID_FIELD_NUMBER: _ClassVar[int]
    app: str
    version: str
    topic: str
    write_id: str
    def __init__(self, app: _Optional[str] = ..., version: _Optional[str] = ..., topic: _Optional[str] = ..., write_id: _Optional[str] = ...) -> None: ...

class StageRequest(_message.Message):
    __slots__ = ("namespace", "name", "owner", "token", "chunk", "sha256", "arrow", "key_col")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    KEY_COL_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: BatchName
    owner: str
    token: bytes
    chunk: int
    sha256: bytes
    arrow: bytes
    key_col: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[_Union[BatchName, _Mapping]] = ..., owner: _Optional[str] = ..., token: _Optional[bytes] = ..., chunk: _Optional[int] = ..., sha256: _Optional[bytes] = ..., arrow: _Optional[bytes] = ..., key_col: _Optional[_Iterable[str]] = ...) -> None: ...

class StageResponse(_message.Message):
    __slots__ = ("outcome", "rows", "fingerprint", "chunk")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    outcome: StageOutcome
    rows: int
    fingerprint: bytes
    chunk: int
    def __init__(self, outcome: _Optional[_Union[StageOutcome, str]] = ..., rows: _Optional[int] = ..., fingerprint: _Optional[bytes] = ..., chunk: _Optional[int] = ...) -> None: ...

class Winner(_message.Message):
    __slots__ = ("token", "chunks", "rows", "fingerprint")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    token: bytes
    chunks: int
    rows: int
    fingerprint: bytes
    def __init__(self, token: _Optional[bytes] = ..., chunks: _Optional[int] = ..., rows: _Optional[int] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("namespace", "name", "nonce", "winners", "run", "digest", "previous_digest", "on_replay_mismatch", "source_offsets", "reads_digest")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ON_REPLAY_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    READS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: BatchName
    nonce: bytes
    winners: _containers.RepeatedCompositeFieldContainer[Winner]
    run: str
    digest: bytes
    previous_digest: bytes
    on_replay_mismatch: ReplayMismatch
    source_offsets: str
    reads_digest: bytes
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[_Union[BatchName, _Mapping]] = ..., nonce: _Optional[bytes] = ..., winners: _Optional[_Iterable[_Union[Winner, _Mapping]]] = ..., run: _Optional[str] = ..., digest: _Optional[bytes] = ..., previous_digest: _Optional[bytes] = ..., on_replay_mismatch: _Optional[_Union[ReplayMismatch, str]] = ..., source_offsets: _Optional[str] = ..., reads_digest: _Optional[bytes] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("outcome", "rows", "offsets", "suppressed_rows", "takeover_rows", "first_of_app", "warning", "higher_version")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    SUPPRESSED_ROWS_FIELD_NUMBER: _ClassVar[int]
    TAKEOVER_ROWS_FIELD_NUMBER: _ClassVar[int]
    FIRST_OF_APP_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    HIGHER_VERSION_FIELD_NUMBER: _ClassVar[int]
    outcome: CommitOutcome
    rows: int
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    suppressed_rows: int
    takeover_rows: int
    first_of_app: bool
    warning: str
    higher_version: str
    def __init__(self, outcome: _Optional[_Union[CommitOutcome, str]] = ..., rows: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., suppressed_rows: _Optional[int] = ..., takeover_rows: _Optional[int] = ..., first_of_app: _Optional[bool] = ..., warning: _Optional[str] = ..., higher_version: _Optional[str] = ...) -> None: ...

class RegisterProducerRequest(_message.Message):
    __slots__ = ("namespace", "producer", "token", "driver", "lease_ms", "gaps", "source_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    producer: str
    token: bytes
    driver: str
    lease_ms: int
    gaps: Gaps
    source_id: str
    def __init__(self, namespace: _Optional[str] = ..., producer: _Optional[str] = ..., token: _Optional[bytes] = ..., driver: _Optional[str] = ..., lease_ms: _Optional[int] = ..., gaps: _Optional[_Union[Gaps, str]] = ..., source_id: _Optional[str] = ...) -> None: ...

class Interval(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class RegisterProducerResponse(_message.Message):
    __slots__ = ("producer", "producer_id", "epoch", "lease_ms", "watermark", "claimed_to", "resume_after", "done", "truncated")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_TO_FIELD_NUMBER: _ClassVar[int]
    RESUME_AFTER_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    producer: str
    producer_id: int
    epoch: int
    lease_ms: int
    watermark: int
    claimed_to: int
    resume_after: int
    done: _containers.RepeatedCompositeFieldContainer[Interval]
    truncated: bool
    def __init__(self, producer: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., lease_ms: _Optional[int] = ..., watermark: _Optional[int] = ..., claimed_to: _Optional[int] = ..., resume_after: _Optional[int] = ..., done: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class RegisterDriverRequest(_message.Message):
    __slots__ = ("namespace", "driver", "token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    driver: str
    token: bytes
    def __init__(self, namespace: _Optional[str] = ..., driver: _Optional[str] = ..., token: _Optional[bytes] = ...) -> None: ...

class RegisterDriverResponse(_message.Message):
    __slots__ = ("driver", "epoch", "batch")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    driver: str
    epoch: int
    batch: int
    def __init__(self, driver: _Optional[str] = ..., epoch: _Optional[int] = ..., batch: _Optional[int] = ...) -> None: ...

class AckedProducer(_message.Message):
    __slots__ = ("producer", "sequence")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    producer: str
    sequence: int
    def __init__(self, producer: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class AckRequest(_message.Message):
    __slots__ = ("namespace", "driver", "token", "epoch", "upto", "batch", "topic", "source_offsets")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    driver: str
    token: bytes
    epoch: int
    upto: _containers.RepeatedCompositeFieldContainer[AckedProducer]
    batch: int
    topic: str
    source_offsets: str
    def __init__(self, namespace: _Optional[str] = ..., driver: _Optional[str] = ..., token: _Optional[bytes] = ..., epoch: _Optional[int] = ..., upto: _Optional[_Iterable[_Union[AckedProducer, _Mapping]]] = ..., batch: _Optional[int] = ..., topic: _Optional[str] = ..., source_offsets: _Optional[str] = ...) -> None: ...

class Watermark(_message.Message):
    __slots__ = ("producer", "watermark")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    producer: str
    watermark: int
    def __init__(self, producer: _Optional[str] = ..., watermark: _Optional[int] = ...) -> None: ...

class RefusedPart(_message.Message):
    __slots__ = ("code", "action", "detail", "producer", "batch", "not_done", "open_ids", "claims")
    CODE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    NOT_DONE_FIELD_NUMBER: _ClassVar[int]
    OPEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    code: str
    action: str
    detail: str
    producer: str
    batch: int
    not_done: _containers.RepeatedCompositeFieldContainer[Interval]
    open_ids: int
    claims: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, code: _Optional[str] = ..., action: _Optional[str] = ..., detail: _Optional[str] = ..., producer: _Optional[str] = ..., batch: _Optional[int] = ..., not_done: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ..., open_ids: _Optional[int] = ..., claims: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AckResponse(_message.Message):
    __slots__ = ("driver", "watermarks", "batch", "refused")
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    driver: str
    watermarks: _containers.RepeatedCompositeFieldContainer[Watermark]
    batch: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedPart]
    def __init__(self, driver: _Optional[str] = ..., watermarks: _Optional[_Iterable[_Union[Watermark, _Mapping]]] = ..., batch: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedPart, _Mapping]]] = ...) -> None: ...

class OpenLaneRequest(_message.Message):
    __slots__ = ("namespace", "topic", "producer", "source_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    producer: str
    source_id: str
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ..., producer: _Optional[str] = ..., source_id: _Optional[str] = ...) -> None: ...

class OpenLaneResponse(_message.Message):
    __slots__ = ("producer", "lane", "ledger", "brokers", "topic", "partition", "transactional_id")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    producer: str
    lane: int
    ledger: bytes
    brokers: str
    topic: str
    partition: int
    transactional_id: str
    def __init__(self, producer: _Optional[str] = ..., lane: _Optional[int] = ..., ledger: _Optional[bytes] = ..., brokers: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., transactional_id: _Optional[str] = ...) -> None: ...

class AskLaneRequest(_message.Message):
    __slots__ = ("namespace", "topic", "producer", "first", "last", "acked", "topic_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    topic: str
    producer: str
    first: int
    last: int
    acked: int
    topic_id: str
    def __init__(self, namespace: _Optional[str] = ..., topic: _Optional[str] = ..., producer: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., acked: _Optional[int] = ..., topic_id: _Optional[str] = ...) -> None: ...

class AskLaneResponse(_message.Message):
    __slots__ = ("producer", "duplicates")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    producer: str
    duplicates: _containers.RepeatedCompositeFieldContainer[Interval]
    def __init__(self, producer: _Optional[str] = ..., duplicates: _Optional[_Iterable[_Union[Interval, _Mapping]]] = ...) -> None: ...

class ForgetIdSetRequest(_message.Message):
    __slots__ = ("namespace", "id_set", "confirm", "token", "why", "who")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ID_SET_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    id_set: str
    confirm: str
    token: bytes
    why: str
    who: str
    def __init__(self, namespace: _Optional[str] = ..., id_set: _Optional[str] = ..., confirm: _Optional[str] = ..., token: _Optional[bytes] = ..., why: _Optional[str] = ..., who: _Optional[str] = ...) -> None: ...

class ForgetIdSetResponse(_message.Message):
    __slots__ = ("id_set", "times")
    ID_SET_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    id_set: str
    times: int
    def __init__(self, id_set: _Optional[str] = ..., times: _Optional[int] = ...) -> None: ...
