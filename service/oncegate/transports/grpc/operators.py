"""Handles operator actions over gRPC: forgetting a dedup scope."""

from oncegate.core.errors import BadRequest
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.calls import GrpcMethod
from oncegate.transports.grpc.fields import given, sized
from oncegate.transports.incoming import Admitted
from oncegate.transports.writes import noted


async def forget_id_set(message: pb.ForgetIdSetRequest, admitted: Admitted) -> pb.ForgetIdSetResponse:
    """Forgets every id of a dedup scope; the request repeats its name as confirmation."""
    confirm = given(message, "confirm")
    if confirm is None:
        raise BadRequest("confirm is missing: the name of the set once more; nothing was forgotten")
    asked = message.id_set, confirm, sized(message.token, "token")
    note = noted(admitted.caller, given(message, "who"), message.why)
    times = await admitted.namespace.operations.actions.forget_all(*asked, note, admitted.deadline)
    return pb.ForgetIdSetResponse(id_set=message.id_set, times=times)


METHODS: dict[str, GrpcMethod] = {
    "ForgetIdSet": GrpcMethod(pb.ForgetIdSetRequest, forget_id_set, "forgetIdSet"),
}
