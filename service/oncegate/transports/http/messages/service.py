"""Messages of the gateway itself: namespaces, promises, versions, health, problems."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oncegate.transports.http.messages.fields import Hex64, Int64, Offset, Read
from oncegate.transports.pages import LIMIT, LIMIT_MAX

LeaseExpiry = Literal["takeover", "hold", "fail"]
IdTime = Literal["none", "event_id", "uuid7"]
OnLedgerDown = Literal["reject", "pass_marked"]


class NamespaceRequest(Read):
    """Sets up a namespace. Omitted settings stay unchanged; a new namespace gets the defaults.

    Defaults: ids are kept forever; the first write creates a topic; records have no headers of the gateway; ids with an
    expired lease are taken over; ids carry no time; shadow mode is off; claims are refused while the ledger is down.
    """

    horizon_ms: Annotated[Offset, Meta(description="how long a done id is known; 0: forever")] | None = None
    auto_create_topics: bool | None = None
    record_headers: bool | None = None
    lease_expiry: LeaseExpiry | None = None
    id_time: IdTime | None = None
    shadow: bool | None = None
    on_ledger_down: OnLedgerDown | None = None
    key: (
        Annotated[Hex64, Meta(description="the key of another namespace, to share its ids; none: a new key")] | None
    ) = None


class NamespaceDeletion(Read):
    """The query of a deletion."""

    confirm: str | None = None


class DeletedReply(Struct, frozen=True):
    """Returns the name of the deleted namespace."""

    namespace: str


class WayMessage(Struct, frozen=True):
    """The promise of one write mode. lowered_by: the namespace's setting that weakens it."""

    promise: str
    means: str
    lowered_by: str | UnsetType = UNSET


class NamespaceReply(Struct, frozen=True):
    """Describes a namespace: its ledger, settings, failing tasks, counters and promises."""

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
    writes: Annotated[dict[str, WayMessage], Meta(description="the promise of each write mode in this namespace")]
    topics_at: str | UnsetType = UNSET
    durability: str | UnsetType = UNSET


class PageQuery(Read):
    """Selects a page of a list of names."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="maximum number of names in the response")] = LIMIT
    after: Annotated[str, Meta(description="`next` of the previous page; none: the first page")] = ""


class NamespacesReply(Struct, frozen=True):
    """Lists one page of the namespaces, sorted by name."""

    namespaces: list[str]
    next: str | None


class CapabilitiesQuery(Read):
    """Selects the namespace whose promises are returned."""

    namespace: Annotated[
        str | None,
        Meta(
            description="the namespace whose settings may weaken the promises; none: the promises under default "
            "settings. With keys, the caller needs a role in it"
        ),
    ] = None


class CapabilitiesReply(Struct, frozen=True):
    """Returns the promise of each write mode, and the accepted encodings. namespace: the one they apply to."""

    writes: dict[str, WayMessage]
    ids: list[str]
    rows: list[str]
    ledger: str
    credentials: str
    namespace: str | UnsetType = UNSET


class VersionReply(Struct, frozen=True):
    """Returns the program's version, and a fingerprint of the settings that all owners of a ledger must share."""

    version: str
    api: str
    semantics: str


class HealthReply(Struct, frozen=True):
    """Returns the state of each namespace. detail: the namespaces that do not serve, and why."""

    status: str
    namespaces: dict[str, str]
    detail: str | UnsetType = UNSET


class ReadyQuery(Read):
    """Selects the namespace that a probe checks."""

    namespace: Annotated[
        str | None,
        Meta(description="the namespace to check; none: any one. With keys, the caller needs a role in it"),
    ] = None


class Problem(Struct, frozen=True):
    """An RFC 9457 problem, with the `action` to take and its `effect`. Further members depend on the code."""

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
    """Describes one problem code."""

    code: str
    title: str
    status: int
    action: Literal["retry", "fix", "stop"]
    effect: Literal["none", "unknown"]
