"""Handles claims of ids over gRPC: claim, renew, complete, release."""

from typing import Any

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import BadRequest
from oncegate.engine.names import CLAIMED
from oncegate.engine.requests import ClaimRequest, SettleResult
from oncegate.transports.decode import ids
from oncegate.transports.decode.names import scope_of
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.calls import GrpcMethod
from oncegate.transports.grpc.fields import given, sized
from oncegate.transports.incoming import Admitted
from oncegate.transports.numbers import numbers_packed
from oncegate.transports.offload import offload

_STATES = {
    ClaimState.OPEN: pb.CLAIM_STATE_OPEN,
    ClaimState.DONE: pb.CLAIM_STATE_DONE,
    ClaimState.RELEASED: pb.CLAIM_STATE_RELEASED,
}


async def claim(message: pb.ClaimRequest, admitted: Admitted) -> pb.ClaimResponse:
    """Claims ids for this attempt; returns one verdict per id, in order."""
    request = await offload(len(admitted.body), _claim_request, message, admitted)
    result = await admitted.serving.claims.claim(request, admitted.deadline)
    return pb.ClaimResponse(
        claim=result.claim or b"",
        lease_ms=result.lease_ms,
        verdicts=result.verdicts.tobytes(),
        numbers=numbers_packed(result),
        shadow_verdicts=b"" if result.shadow is None else result.shadow.tobytes(),
        id_set=request.id_set or CLAIMED,
    )


def _claim_request(message: pb.ClaimRequest, admitted: Admitted) -> ClaimRequest:
    form = message.WhichOneof("ids")
    if form is None:
        raise BadRequest("the message has no ids: packed or arrow is wanted; nothing was written")
    token = sized(message.token, "token")
    driver, batch, id_set = (given(message, name) for name in ("driver", "batch", "id_set"))
    limits = admitted.gateway.limits
    printer = admitted.serving.fingerprints(id_set, CLAIMED)
    read = ids.of_packed if form == "packed" else ids.of_arrow
    found = read(getattr(message, form), printer, limits)
    return ClaimRequest(
        token,
        message.call,
        found,
        lease_ms=given(message, "lease_ms"),
        scope=scope_of(driver, batch),
        id_set=id_set,
        made_ms=printer.made_ms,
        sender=admitted.sender,
    )


async def renew(message: pb.RenewRequest, admitted: Admitted) -> pb.RenewResponse:
    """Renews a claim with a full lease from now."""
    return pb.RenewResponse(settled=await _settled(Verb.RENEW, message, admitted))


async def complete(message: pb.CompleteRequest, admitted: Admitted) -> pb.CompleteResponse:
    """Completes a claim whose ids are written."""
    result = given(message, "result")
    return pb.CompleteResponse(settled=await _settled(Verb.COMPLETE, message, admitted, result))


async def release(message: pb.ReleaseRequest, admitted: Admitted) -> pb.ReleaseResponse:
    """Releases a claim whose ids were not written."""
    return pb.ReleaseResponse(settled=await _settled(Verb.RELEASE, message, admitted))


async def _settled(verb: Verb, message: Any, admitted: Admitted, result: bytes | None = None) -> pb.Settled:
    claim_id = sized(message.claim, "claim")
    return _settled_message(await admitted.serving.claims.settle(verb, claim_id, admitted.deadline, result))


def _settled_message(settled: SettleResult) -> pb.Settled:
    return pb.Settled(
        claim=settled.claim,
        state=_STATES[settled.state],
        settled=settled.settled,
        taken_over=settled.taken_over,
        lease_ms=settled.lease_ms,
        result=settled.result,
        other_result=settled.other_result,
        shadow_taken_over=settled.shadow_taken_over or None,
    )


METHODS: dict[str, GrpcMethod] = {
    "Claim": GrpcMethod(pb.ClaimRequest, claim, "claimIds", claims=True),
    "Renew": GrpcMethod(pb.RenewRequest, renew, "renewClaim", claims=True),
    "Complete": GrpcMethod(pb.CompleteRequest, complete, "completeClaim", claims=True),
    "Release": GrpcMethod(pb.ReleaseRequest, release, "releaseClaim", claims=True),
}
