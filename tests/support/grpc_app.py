"""The whole program with HTTP and gRPC open, and gRPC calls to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.http_app import Served, served

# The path of each method.
PATHS = {
    method.name: f"/{service.full_name}/{method.name}"
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


@dataclass(frozen=True)
class Refusal:
    """The details of a gRPC error."""

    code: grpc.StatusCode
    info: ErrorInfo
    retry: RetryInfo | None

    @property
    def members(self) -> tuple[str, str, str, int | None]:
        """Returns the members that HTTP's problem document has too: code, action, effect and retry delay."""
        retry_ms = None if self.retry is None else self.retry.retry_delay.ToMilliseconds()
        return self.info.reason, self.info.metadata["action"], self.info.metadata["effect"], retry_ms


@dataclass(frozen=True)
class Both:
    """A program, its gRPC server, and a channel to it."""

    http: Served
    door: Any
    channel: Any

    async def accepts(self) -> bool:
        """Returns whether a health check is answered. Earlier messages on the channel have been read by then."""
        try:
            await self.channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def call(self, name: str, message: Any, **more: Any) -> Any:
        answer = getattr(pb, f"{name}Response")
        method = self.channel.unary_unary(PATHS[name], lambda sent: sent.SerializeToString(), answer.FromString)
        return await method(message, timeout=more.pop("timeout", 20), **more)

    async def claim(self, *ids: bytes, token: bytes = bytes(16), call: int = 0, **more: Any) -> Any:
        message = pb.ClaimRequest(namespace="default", token=token, call=call, packed=b"".join(ids), **more)
        return await self.call("Claim", message)

    async def refused(self, name: str, message: Any, **more: Any) -> Refusal:
        try:
            await self.call(name, message, **more)
        except grpc.aio.AioRpcError as error:
            return refusal_of(error)
        raise AssertionError(f"{name} was not refused")


def refusal_of(error: Any) -> Refusal:
    sent = dict(error.trailing_metadata())
    status = Status.FromString(sent["grpc-status-details-bin"])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    info, retry = ErrorInfo(), RetryInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "oncegate"
    assert len(info.metadata["trace_id"]) == 32
    return Refusal(error.code(), info, retry if any(item.Unpack(retry) for item in status.details[1:]) else None)


@asynccontextmanager
async def both(**flags: Any) -> AsyncIterator[Both]:
    async with served(grpc_port=0, **flags) as program:
        door = program.program.grpc
        assert door is not None
        async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
            yield Both(program, door, channel)
