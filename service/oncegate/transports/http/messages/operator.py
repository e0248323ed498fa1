"""Messages of operators' actions: forget, fence, drain; and of the audit trail."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from oncegate.transports.http.messages.fields import Ids, IdSet, Int64, Named, Read, Token, UInt64
from oncegate.transports.pages import LIMIT, LIMIT_MAX


class ForgetRequest(Read):
    """Forgets ids that are done or taken."""

    ids: Ids
    why: Named
    who: Named | None = None
    id_set: IdSet = ""


class ForgetReply(Struct, frozen=True):
    """Returns the number of ids that were forgotten."""

    forgotten: UInt64


class ForgetAllRequest(Read):
    """Forgets every id of a dedup scope. A repeat with the same token forgets nothing more."""

    id_set: IdSet
    confirm: IdSet
    token: Token
    why: Named
    who: Named | None = None


class ForgetAllReply(Struct, frozen=True):
    """Returns how many times the dedup scope has been forgotten, this request included."""

    id_set: str
    times: UInt64


class ImportQuery(Read):
    """The query of an import: who imports, and why."""

    why: Annotated[str, Meta(description="the reason, for the audit trail")]
    who: Annotated[str | None, Meta(description="the caller's name, where no credential names it")] = None


class ImportReply(Struct, frozen=True):
    """Returns the number of ids that were not known before the import."""

    imported: UInt64


class FenceRequest(Read):
    """Fences a producer's holder."""

    why: Named
    who: Named | None = None


class FenceReply(Struct, frozen=True):
    """Returns a producer's new epoch, which has no holder."""

    producer: str
    epoch: Int64


class DrainRequest(Read):
    """Drains the gateway, or has it accept new work again."""

    draining: bool
    why: Named
    who: Named | None = None


class GatewayReply(Struct, frozen=True):
    """Returns whether the gateway is drained, and its open work."""

    draining: bool
    who: str
    why: str
    open: dict[str, dict[str, Int64]]


class NoteRequest(Read):
    """Records an operator's action that consists of other calls."""

    action: Literal["replay"]
    subject: Named
    why: Named
    who: Named | None = None


class NoteReply(Struct, frozen=True):
    """Returns the name under which the audit trail has the action."""

    who: str


class AuditQuery(Read):
    """Selects a page of the audit trail."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="maximum number of actions in the response")] = LIMIT
    before: Annotated[UInt64 | None, Meta(description="`next` of the previous page; none: the newest actions")] = None


class AuditMessage(Struct, frozen=True):
    """One action of an operator."""

    position: UInt64
    wall_ms: Int64
    action: str
    subject: str
    changed: UInt64
    who: str
    why: str


class AuditReply(Struct, frozen=True):
    """Lists one page of operators' actions, the newest first."""

    actions: list[AuditMessage]
    next: UInt64 | None


class OverviewQuery(Read):
    """Limits the length of a list."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="maximum number of items in the response")] = LIMIT


class ProducerSummary(Struct, frozen=True):
    """The state of one producer."""

    producer: str
    driver: str
    epoch: Int64
    claimed_to: UInt64 | None
    watermark: UInt64 | None
    unacked: UInt64
    lease_left_ms: Int64


class ProducersReply(Struct, frozen=True):
    """Lists the most recently active producers."""

    producers: list[ProducerSummary]
    total: int


class LeftClaim(Struct, frozen=True):
    """One open claim with an expired lease."""

    claim: str
    token: str
    call: int
    ids: int
    over_ms: Int64
    wall_ms: Int64


class LeftClaimsReply(Struct, frozen=True):
    """Lists claims in doubt, the longest expired first."""

    claims: list[LeftClaim]
    total: int
