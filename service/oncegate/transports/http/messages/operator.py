"""Messages of what operators do by hand: forget, fence, drain, and the trail of all of it."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from oncegate.transports.http.messages.fields import Ids, IdSet, Int64, Named, Read, Token, UInt64
from oncegate.transports.pages import LIMIT, LIMIT_MAX


class ForgetRequest(Read):
    """Asks for ids to be forgotten that are done or taken."""

    ids: Ids
    why: Named
    who: Named | None = None
    id_set: IdSet = ""


class ForgetReply(Struct, frozen=True):
    """Says how many ids are not known any more."""

    forgotten: UInt64


class ForgetAllRequest(Read):
    """Asks for every id of a set to be forgotten. The same token again forgets nothing more."""

    id_set: IdSet
    confirm: IdSet
    token: Token
    why: Named
    who: Named | None = None


class ForgetAllReply(Struct, frozen=True):
    """Says how often the set was forgotten by now, this time included."""

    id_set: str
    times: UInt64


class ImportQuery(Read):
    """The query of an import: who asks for it, and why."""

    why: Annotated[str, Meta(description="for whoever reads the trail")]
    who: Annotated[str | None, Meta(description="who asks, where no credential says it")] = None


class ImportReply(Struct, frozen=True):
    """Says how many ids are known from now on that were not before."""

    imported: UInt64


class FenceRequest(Read):
    """Asks for a producer's holder to be fenced."""

    why: Named
    who: Named | None = None


class FenceReply(Struct, frozen=True):
    """Names a producer's new epoch, which nobody holds."""

    producer: str
    epoch: Int64


class DrainRequest(Read):
    """Asks that the gateway take no new work any more, or take it again."""

    draining: bool
    why: Named
    who: Named | None = None


class GatewayReply(Struct, frozen=True):
    """Says whether the gateway is drained, and what it has yet to finish."""

    draining: bool
    who: str
    why: str
    open: dict[str, dict[str, Int64]]


class NoteRequest(Read):
    """Asks for an action to be noted that an operator begins, and that goes through other calls."""

    action: Literal["replay"]
    subject: Named
    why: Named
    who: Named | None = None


class NoteReply(Struct, frozen=True):
    """Says under whose name an action stands in the trail."""

    who: str


class AuditQuery(Read):
    """Says which page of the trail is wanted."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="actions in one answer, at most")] = LIMIT
    before: Annotated[UInt64 | None, Meta(description="`next` of the page before; none: the newest actions")] = None


class AuditMessage(Struct, frozen=True):
    """Tells one action of an operator."""

    position: UInt64
    wall_ms: Int64
    action: str
    subject: str
    changed: UInt64
    who: str
    why: str


class AuditReply(Struct, frozen=True):
    """Lists one page of what operators did, the newest first."""

    actions: list[AuditMessage]
    next: UInt64 | None


class OverviewQuery(Read):
    """Says how many are wanted."""

    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="in one answer, at most")] = LIMIT


class ProducerSummary(Struct, frozen=True):
    """Tells where one producer stands."""

    producer: str
    driver: str
    epoch: Int64
    claimed_to: UInt64 | None
    watermark: UInt64 | None
    unacked: UInt64
    lease_left_ms: Int64


class ProducersReply(Struct, frozen=True):
    """Lists the producers that were active last."""

    producers: list[ProducerSummary]
    total: int


class LeftClaim(Struct, frozen=True):
    """Tells one open claim whose lease is over."""

    claim: str
    token: str
    call: int
    ids: int
    over_ms: Int64
    wall_ms: Int64


class LeftClaimsReply(Struct, frozen=True):
    """Lists claims in doubt, the longest first."""

    claims: list[LeftClaim]
    total: int
