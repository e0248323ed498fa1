"""The JSON messages: what is read, what is answered. OpenAPI's schemas are made from these types.

Identifiers on the wire: token and nonce 32 hex digits, claim 26 characters of Crockford's base32, digests and
fingerprints hex. Unknown members are refused, so that a misspelt option is an error and not a default.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from oncegate.core.verdicts import VERDICTS, Flag, VerdictRow
from oncegate.transports.decode.ids import Id
from oncegate.transports.decode.names import TOPIC
from oncegate.transports.decode.payloads import Payload
from oncegate.transports.decode.sequences import SEQUENCE_MAX


def _hex(digits: int, description: str) -> Meta:
    """For the document only: `identifiers` reads it, and says better what is wrong."""
    pattern = f"^(-*[0-9a-fA-F]){{{digits}}}-*$"
    return Meta(description=description, extra_json_schema={"pattern": pattern})


Token = Annotated[str, _hex(32, "128 random bits as 32 hex digits, dashes allowed: one per attempt")]
Hex32 = Annotated[str, _hex(32, "16 bytes as 32 hex digits")]
Hex64 = Annotated[str, _hex(64, "32 bytes as 64 hex digits")]
Named = Annotated[str, Meta(extra_json_schema={"minLength": 1})]
Topic = Annotated[str, Meta(extra_json_schema={"pattern": f"^{TOPIC.pattern}$"})]
U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# `maximum` is for the document only: the engine checks it, since bounds here end at 2^63.
Sequence = Annotated[
    int, Meta(ge=0, description="a place in the source, in its order", extra_json_schema={"maximum": SEQUENCE_MAX})
]
Ids = Annotated[
    list[Id],
    Meta(description="strings, or lists of strings where several columns are the id; null and empty are refused"),
]
Payloads = Annotated[
    list[Payload],
    Meta(description="what each id comes with, as many as ids: strings, lists of strings, or null"),
]


class Read(Struct, forbid_unknown_fields=True):
    """Base of what is read."""


class ClaimRequest(Read):
    token: Token
    call: U32
    ids: Ids
    lease_ms: U32 | None = None
    driver: Named | None = None
    batch: Offset | None = None
    payloads: Payloads | None = None


def verdict_members(row: VerdictRow) -> dict[str, object]:
    """The fixed members of a verdict; a flag that only says which number follows is the number's own member."""
    flags = {str(flag.name).lower(): True for flag in Flag if flag in row.flags}
    return {"verdict": row.verdict.name} | {name: on for name, on in flags.items() if name != row.number}


def _verdict_struct() -> Any:
    names = tuple(dict.fromkeys(row.verdict.name for row in VERDICTS))
    flags = dict.fromkeys(name for row in VERDICTS for name in verdict_members(row) if name != "verdict")
    numbers = dict.fromkeys(row.number for row in VERDICTS if row.number is not None)
    fields: list[Any] = [("verdict", Literal[names])]
    fields += [(name, bool, False) for name in flags]
    fields += [(name, U32 | UnsetType, UNSET) for name in numbers]
    return defstruct("VerdictMessage", fields, omit_defaults=True, frozen=True, module=__name__)


# Made from core's table: a verdict added there is a member here.
if TYPE_CHECKING:
    VerdictMessage = Any
else:
    VerdictMessage = _verdict_struct()


class ClaimReply(Struct, frozen=True):
    claim: str | None
    lease_ms: int
    verdicts: list[VerdictMessage]


class TakeReply(Struct, frozen=True):
    verdicts: list[VerdictMessage]


class SettleReply(Struct, frozen=True):
    claim: str
    state: Literal["OPEN", "DONE", "RELEASED"]
    settled: int
    taken_over: int
    lease_ms: int


class TakeRequest(Read):
    owner: Named
    ids: Ids
    driver: Named | None = None
    batch: Offset | None = None


class PartitionOffset(Struct, frozen=True):
    partition: int
    first_offset: int
    rows: int


class ProduceRequest(Read):
    token: Token
    call: U32
    records: list[dict[str, Any]]
    id_col: list[str] | None = None
    key_col: list[str] | None = None
    driver: Named | None = None
    batch: Offset | None = None
    producer: Named | None = None
    epoch: Offset | None = None
    sequence_col: Named | None = None
    prev_sequence: Sequence | None = None
    digest_col: list[str] | None = None


class ProduceQuery(Read):
    """`id_col`: the columns that are a row's id, comma separated, none: `plain`. `key_col` chooses the partition."""

    id_col: Annotated[str, Meta(description="columns that are a row's id, comma separated; none: `plain`")] = ""
    key_col: Annotated[str, Meta(description="columns that choose the partition, comma separated")] = ""
    producer: Named | None = None
    epoch: Offset | None = None
    sequence_col: Named | None = None
    prev_sequence: Sequence | None = None
    digest_col: Annotated[str, Meta(description="columns that are the payload of a row's id, comma separated")] = ""


class ProduceReply(Struct, frozen=True):
    rows: int
    offsets: list[PartitionOffset]
    verdicts: list[VerdictMessage] | UnsetType = UNSET


class BatchName(Read):
    app: Named
    version: Named
    topic: Topic
    write_id: str = ""


class StageQuery(BatchName, kw_only=True):
    owner: Named
    chunk: U32
    key_col: str = ""


class StageReply(Struct, frozen=True):
    outcome: Literal["STAGED", "COMMITTED"]
    rows: int
    fingerprint: Hex32
    chunk: int


class WinnerMessage(Read):
    token: Token
    chunks: U32
    rows: Offset
    fingerprint: Hex32


class CommitRequest(Read):
    name: BatchName
    nonce: Hex32
    winners: list[WinnerMessage]
    run: Named | None = None
    digest: Hex64 | None = None
    previous_digest: Hex64 | None = None
    on_replay_mismatch: Literal["fail", "first_wins"] = "fail"


class CommitReply(Struct, frozen=True):
    outcome: Literal["COMMITTED", "DUPLICATE"]
    rows: int
    offsets: list[PartitionOffset]
    suppressed_rows: int
    takeover_rows: int
    warning: str | UnsetType = UNSET


class AbortRequest(Read):
    name: BatchName
    tokens: list[Token]


class AbortReply(Struct, frozen=True):
    outcome: Literal["ABORTED", "COMMITTED"]
    removed: int


class TopicRequest(Read):
    """What is left out stays as it is, or is as by default: one partition, kept for ever, the first write's schema."""

    partitions: Annotated[int, Meta(ge=1)] | None = None
    retention_ms: Offset | None = None
    retention_bytes: Offset | None = None
    schema_ipc: Annotated[bytes, Meta(description="an Arrow schema message, base64")] | None = None


class TopicReply(Struct, frozen=True):
    topic: str
    partitions: int
    schema: str
    schema_ipc: Annotated[bytes | None, Meta(description="an Arrow schema message, base64; null: nothing written yet")]
    low_offsets: list[int]
    high_offsets: list[int]
    retention_ms: int
    retention_bytes: int


class TopicsReply(Struct, frozen=True):
    topics: list[str]


class RecordsReply(Struct, frozen=True):
    records: list[dict[str, Any]]
    first_offset: int
    next_offset: int
    high_offset: int


class NamespaceRequest(Read):
    """What is left out stays as it is, or is as by default: ids kept for ever, topics made by their first write."""

    horizon_ms: Annotated[Offset, Meta(description="how long a done id is known; 0: for ever")] | None = None
    auto_create_topics: bool | None = None


class NamespaceReply(Struct, frozen=True):
    namespace: str
    ledger: str
    horizon_ms: int
    auto_create_topics: bool
    counters: dict[str, int]


class NamespacesReply(Struct, frozen=True):
    namespaces: list[str]


class ExplainReply(Struct, frozen=True, omit_defaults=True):
    state: Literal["ABSENT", "CLAIMED_LIVE", "CLAIMED_OVER", "DONE", "TAKEN"]
    claim: str | None = None
    token: str | None = None
    call: int | None = None
    lease_left_ms: int | None = None
    position: int | None = None
    wall_ms: int | None = None
    takeover: bool = False
    owner: Annotated[str, Meta(description="of a taken id: a hash of its owner's name")] | None = None
    topic: str | None = None
    partition: int | None = None
    first_offset: Annotated[int, Meta(description="of the rows it was written with")] | None = None
    digest_kept: Annotated[bool, Meta(description="another payload would be told from its own")] = False
    kept_until_ms: Annotated[int, Meta(description="by the wall clock, at least; absent: for ever")] | None = None


class WayMessage(Struct, frozen=True):
    promise: str
    means: str


class CapabilitiesReply(Struct, frozen=True):
    writes: dict[str, WayMessage]
    ids: list[str]
    rows: list[str]
    ledger: str
    credentials: str


class VersionReply(Struct, frozen=True):
    version: str
    api: str
    semantics: str


class HealthReply(Struct, frozen=True):
    status: str
    namespaces: dict[str, str]


class Problem(Struct, frozen=True):
    """RFC 9457, with what to do (`action`) and what is known of the effect. Further members depend on the code."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    action: Literal["retry", "fix", "stop"]
    effect: Literal["none", "unknown"]
    trace_id: str
    retry_after_ms: int | UnsetType = UNSET


class ErrorReply(Struct, frozen=True):
    code: str
    title: str
    status: int
    action: Literal["retry", "fix", "stop"]
    effect: Literal["none", "unknown"]
