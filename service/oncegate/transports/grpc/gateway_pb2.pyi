from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClaimState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLAIM_STATE_UNSPECIFIED: _ClassVar[ClaimState]
    CLAIM_STATE_OPEN: _ClassVar[ClaimState]
    CLAIM_STATE_DONE: _ClassVar[ClaimState]
    CLAIM_STATE_RELEASED: _ClassVar[ClaimState]
CLAIM_STATE_UNSPECIFIED: ClaimState
CLAIM_STATE_OPEN: ClaimState
CLAIM_STATE_DONE: ClaimState
CLAIM_STATE_RELEASED: ClaimState

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
    __slots__ = ("claim", "lease_ms", "verdicts", "numbers", "id_set")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ID_SET_FIELD_NUMBER: _ClassVar[int]
    claim: bytes
    lease_ms: int
    verdicts: bytes
    numbers: bytes
    id_set: str
    def __init__(self, claim: _Optional[bytes] = ..., lease_ms: _Optional[int] = ..., verdicts: _Optional[bytes] = ..., numbers: _Optional[bytes] = ..., id_set: _Optional[str] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("claim", "state", "settled", "taken_over", "lease_ms", "result", "other_result")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    TAKEN_OVER_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    OTHER_RESULT_FIELD_NUMBER: _ClassVar[int]
    claim: bytes
    state: ClaimState
    settled: int
    taken_over: int
    lease_ms: int
    result: bytes
    other_result: bool
    def __init__(self, claim: _Optional[bytes] = ..., state: _Optional[_Union[ClaimState, str]] = ..., settled: _Optional[int] = ..., taken_over: _Optional[int] = ..., lease_ms: _Optional[int] = ..., result: _Optional[bytes] = ..., other_result: _Optional[bool] = ...) -> None: ...

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
