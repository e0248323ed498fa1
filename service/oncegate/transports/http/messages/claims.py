"""Messages of free ids: claim, take, look up, settle, explain."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oncegate.transports.http.messages.fields import (
    U32,
    Ids,
    IdSet,
    Int64,
    Lease,
    Named,
    Offset,
    Payloads,
    Read,
    Result,
    Token,
)
from oncegate.transports.http.messages.verdicts import VerdictMessage


class ClaimRequest(Read):
    """Asks which ids this attempt may write; a claim of what is granted is held for `lease_ms`."""

    token: Token
    call: U32
    ids: Ids
    lease_ms: Lease | None = None
    driver: Named | None = None
    batch: Offset | None = None
    payloads: Payloads | None = None
    id_set: IdSet | None = None


class ClaimReply(Struct, frozen=True):
    """Answers a claim: one verdict per id, in the order asked, and the set that the ids were looked up in."""

    claim: str | None
    lease_ms: int
    verdicts: list[VerdictMessage]
    id_set: str


class TakeRequest(Read):
    """Asks which ids belong to an owner; an id belongs to the first that asks."""

    owner: Named
    ids: Ids
    driver: Named | None = None
    batch: Offset | None = None
    id_set: IdSet | None = None


class TakeReply(Struct, frozen=True):
    """Answers a take: one verdict per id, in the order asked; repeating the request is harmless."""

    verdicts: list[VerdictMessage]
    id_set: str


class LookUpRequest(Read):
    """Asks what is known of ids, and wants none of them granted."""

    ids: Ids
    id_set: IdSet | None = None


class LookUpReply(Struct, frozen=True):
    """Answers a look-up: one verdict per id, in the order asked: DUPLICATE, BUSY, FREE, or SAME as an id before."""

    verdicts: list[VerdictMessage]
    id_set: str


class CompleteRequest(Read):
    """Brings what whoever is told DUPLICATE may want to know; the first complete of a claim decides it."""

    result: Result


class SettleReply(Struct, frozen=True):
    """Answers renew, complete and release, which may be repeated. A claim is settled whole."""

    claim: str
    state: Literal["OPEN", "DONE", "RELEASED"]
    settled: int
    taken_over: int
    lease_ms: int
    result: bytes | UnsetType = UNSET
    other_result: bool | UnsetType = UNSET
    shadow_taken_over: int | UnsetType = UNSET


class ExplainReply(Struct, frozen=True, omit_defaults=True):
    """Says what is known of one id in one set."""

    state: Literal["ABSENT", "CLAIMED_LIVE", "CLAIMED_OVER", "DONE", "TAKEN"]
    id_set: str
    claim: str | None = None
    token: str | None = None
    call: int | None = None
    lease_left_ms: int | None = None
    position: Int64 | None = None
    wall_ms: Int64 | None = None
    takeover: bool = False
    owner: Annotated[str, Meta(description="of a taken id: a hash of its owner's name")] | None = None
    topic: str | None = None
    partition: int | None = None
    first_offset: Annotated[Int64, Meta(description="of the rows it was written with; in Kafka its own")] | None = None
    digest_kept: Annotated[bool, Meta(description="another payload would be told from its own")] = False
    kept_until_ms: Annotated[Int64, Meta(description="by the wall clock, at least; absent: for ever")] | None = None
    fingerprint: Annotated[
        str, Meta(description="of the id in its set, 32 hex digits: records of duplicates name it so")
    ] = ""
