"""Messages of the gateway itself: namespaces, promises, versions, health, problems."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oncegate.transports.http.messages.fields import Hex64, Int64, Offset, Read
from oncegate.transports.pages import LIMIT, LIMIT_MAX

LeaseExpiry = Literal["takeover", "hold", "fail"]
IdTime = Literal["none", "event_id", "uuid7"]
OnLedgerDown = Literal["reject", "pass_marked"]


class NamespaceRequest(Read):
    """What is left out stays as it is, or is as by default: ids kept for ever, topics made by their first write, no
    headers of the gateway's in records, ids taken over whose lease ran out, no time in ids, verdicts told as they
    are, and claims refused while the ledger is down."""

    horizon_ms: Annotated[Offset, Meta(description="how long a done id is known; 0: for ever")] | None = None
    auto_create_topics: bool | None = None
    record_headers: bool | None = None
    lease_expiry: LeaseExpiry | None = None
    id_time: IdTime | None = None
    shadow: bool | None = None
    on_ledger_down: OnLedgerDown | None = None
    key: (
        Annotated[Hex64, Meta(description="of another namespace, whose ids are to be known here; none: a new one")]
        | None
    ) = None


class NamespaceDeletion(Read):
    """The query of a deletion."""

    confirm: str | None = None


class DeletedReply(Struct, frozen=True):
    """Names the namespace that was deleted."""

    namespace: str


class WayMessage(Struct, frozen=True):
    """Holds what one write mode promises. lowered_by: the namespace's setting that leaves less of it."""

    promise: str
    means: str
    lowered_by: str | UnsetType = UNSET


class NamespaceReply(Struct, frozen=True):
    """Describes a namespace: its ledger, its settings, what does not succeed in it, its counters, what it promises."""

    namespace: str
    ledger: str
    horizon_ms: Int64
    auto_create_topics: bool
    record_headers: bool
    lease_expiry: LeaseExpiry
    id_time: IdTime
    shadow: bool
    on_ledger_down: OnLedgerDown
    failing: dict[str, str]
    counters: dict[str, Int64]
    writes: Annotated[dict[str, WayMessage], Meta(description="by write mode, what it promises in this namespace")]
    topics_at: str | UnsetType = UNSET
    durability: str | UnsetType = UNSET


class PageQuery(Read):
    """Says which page of a list of names is wanted."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="names in one answer, at most")] = LIMIT
    after: Annotated[str, Meta(description="`next` of the page before; none: the first page")] = ""


class NamespacesReply(Struct, frozen=True):
    """Lists one page of the namespaces, by their names."""

    namespaces: list[str]
    next: str | None


class CapabilitiesQuery(Read):
    """Names the namespace that is asked about."""

    namespace: Annotated[
        str | None,
        Meta(
            description="what its settings leave of each promise; without it, what a namespace promises whose settings "
            "are as by default. With keys it needs a role there"
        ),
    ] = None


class CapabilitiesReply(Struct, frozen=True):
    """Holds what each write mode promises, and which encodings are read. namespace: whose promises these are."""

    writes: dict[str, WayMessage]
    ids: list[str]
    rows: list[str]
    ledger: str
    credentials: str
    namespace: str | UnsetType = UNSET


class VersionReply(Struct, frozen=True):
    """Names the program's version, and a fingerprint of the settings that owners of one ledger must share."""

    version: str
    api: str
    semantics: str


class HealthReply(Struct, frozen=True):
    """Answers a probe: the state of each namespace; `detail`: which of them do not serve, and why."""

    status: str
    namespaces: dict[str, str]
    detail: str | UnsetType = UNSET


class ReadyQuery(Read):
    """Says of which namespace a probe asks."""

    namespace: Annotated[
        str | None,
        Meta(description="whether this one serves; without it, whether any does. With keys it needs a role there"),
    ] = None


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
    """Explains one code of a problem."""

    code: str
    title: str
    status: int
    action: Literal["retry", "fix", "stop"]
    effect: Literal["none", "unknown"]
