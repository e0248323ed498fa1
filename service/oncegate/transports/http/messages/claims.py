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
    """Claims ids for this attempt; granted ids are leased for `lease_ms`."""

    token: Token
    call: U32
    ids: Ids
    lease_ms: Lease | None = None
    driver: Named | None = None
    batch: Offset | None = None
    payloads: Payloads | None = None
    id_set: IdSet | None = None


class ClaimReply(Struct, frozen=True):
    """Returns one verdict per id, in the order of the request, and the dedup scope of the ids."""

    claim: str | None
    lease_ms: int
    verdicts: list[VerdictMessage]
    id_set: str


class TakeRequest(Read):
    """Claims ids for an owner without a lease; an id belongs to the first owner that takes it."""

    owner: Named
    ids: Ids
    driver: Named | None = None
    batch: Offset | None = None
    id_set: IdSet | None = None


class TakeReply(Struct, frozen=True):
    """Returns one verdict per id, in the order of the request. A take is idempotent."""

    verdicts: list[VerdictMessage]
    id_set: str


class LookUpRequest(Read):
    """Looks up the state of ids and grants none."""

    ids: Ids
    id_set: IdSet | None = None


class LookUpReply(Struct, frozen=True):
    """Returns one verdict per id, in the order of the request: DUPLICATE, BUSY, FREE, or SAME as an earlier id."""

    verdicts: list[VerdictMessage]
    id_set: str


class CompleteRequest(Read):
    """Completes a claim with a result, which later DUPLICATE verdicts return. The first complete of a claim sets it."""

    result: Result


class SettleReply(Struct, frozen=True):
    """Returns the state of a claim after renew, complete or release. All three are idempotent and apply to the whole
    claim."""

    claim: str
    state: Literal["OPEN", "DONE", "RELEASED"]
    settled: int
    taken_over: int
    lease_ms: int
    result: bytes | UnsetType = UNSET
    other_result: bool | UnsetType = UNSET
    shadow_taken_over: int | UnsetType = UNSET


class ExplainReply(Struct, frozen=True, omit_defaults=True):
    """Returns the state of one id in one dedup scope."""

    state: Literal["ABSENT", "CLAIMED_LIVE", "CLAIMED_OVER", "DONE", "TAKEN"]
    id_set: str
    claim: str | None = None
    token: str | None = None
    call: int | None = None
    lease_left_ms: int | None = None
    position: Int64 | None = None
    wall_ms: Int64 | None = None
    takeover: bool = False
    owner: Annotated[str, Meta(description="hash of the owner's name, for a taken id")] | None = None
    topic: str | None = None
    partition: int | None = None
    first_offset: Annotated[Int64, Meta(description="of the rows written with it; in Kafka, of its own row")] | None = (
        None
    )
    digest_kept: Annotated[bool, Meta(description="whether another payload would be a CONFLICT")] = False
    kept_until_ms: (
        Annotated[Int64, Meta(description="earliest time of expiry by the wall clock; absent: never")] | None
    ) = None
    fingerprint: Annotated[
        str, Meta(description="of the id in its dedup scope, 32 hex digits, as in records of duplicates")
    ] = ""
