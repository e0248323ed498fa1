"""The gRPC server: methods, the standard health check, optional reflection, and connection limits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection

from oncegate.clock import now_s
from oncegate.core.errors import OncegateError
from oncegate.engine.gateway import Gateway
from oncegate.engine.limits import KIB, Limits
from oncegate.ports import Observer
from oncegate.ports.tracing import Tracer
from oncegate.transports import health
from oncegate.transports.access.access import Access
from oncegate.transports.grpc import streams
from oncegate.transports.grpc.calls import credential_of, handler
from oncegate.transports.grpc.errors import code_of, detail_of
from oncegate.transports.grpc.methods import SERVICES, STREAMS
from oncegate.transports.tls import Pem, Tls

HEALTH = "grpc.health.v1.Health"
# Limit of concurrent calls per connection: all streams, and unary calls in addition; the client queues the rest. The
# limit also bounds the calls that wait from a peer that starts and cancels calls in a loop (CVE-2023-44487). With a
# thousand waiting calls, grpcio cancels random ones, of any client.
CALLS_PER_CONNECTION = streams.STREAMS + 128
# Room in a message for names and tags, besides a body of the maximum size. grpcio refuses longer messages unread.
MESSAGE_BESIDE_BYTES = 64 * KIB
# Long enough to make connecting cheap, short enough to give new replicas their share within the hour.
CONNECTION_AGE_MS = 30 * 60_000
# As long as a large request takes on a slow disk. Calls still running after that are cancelled.
CONNECTION_GRACE_MS = 60_000


class GrpcServer:
    """The gRPC server of a gateway. Until `gateway` is set, every call gets Recovering."""

    def __init__(self, server: Any, port: int, access: Access | None, tracer: Tracer | None) -> None:
        self._server = server
        self.port, self.access, self.tracer = port, access, tracer
        self.gateway: Gateway | None = None
        self.begun: set[asyncio.Future[Any]] = set()
        self.streams: set[streams.Stream] = set()
        self.stopping = False

    async def drain(self, within_s: float) -> None:
        """Stops accepting calls and waits for those in flight; cancels them after `within_s`. Idempotent."""
        end_s = now_s() + within_s
        self.stopping = True
        for stream in list(self.streams):
            stream.stop()
        await self._server.stop(within_s)
        if self.begun:  # requests whose clients have disconnected
            await asyncio.wait(self.begun, timeout=max(0, end_s - now_s()))


@asynccontextmanager
async def listening(
    address: str,
    observer: Observer,
    limits: Limits,
    access: Access | None,
    reflected: bool,
    shutdown_ms: int,
    tls: Tls | None = None,
    tracer: Tracer | None = None,
) -> AsyncIterator[GrpcServer]:
    """Serves on an address, over TLS if `tls` is given, and drains the server at the end.

    Raises RuntimeError if the port cannot be bound.
    """
    calls = limits.requests_in_flight + streams.STREAMS
    server = grpc.aio.server(options=_options(limits), maximum_concurrent_rpcs=calls)
    added = server.add_insecure_port(address) if tls is None else server.add_secure_port(address, _secured(tls))
    found = GrpcServer(server, added, access, tracer)
    probe = grpc.unary_unary_rpc_method_handler(
        _probe(found), health_pb2.HealthCheckRequest.FromString, health_pb2.HealthCheckResponse.SerializeToString
    )
    for service, methods in SERVICES.items():
        served = {
            name: grpc.unary_unary_rpc_method_handler(handler(found, observer, method, f"/{service}/{name}"))
            for name, method in methods.items()
        }
        for name in STREAMS.get(service, ()):
            served[name] = grpc.stream_stream_rpc_method_handler(streams.handler(found, observer, f"/{service}/{name}"))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, served),))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(HEALTH, {"Check": probe}),))
    if reflected:
        reflection.enable_server_reflection((*SERVICES, HEALTH, reflection.SERVICE_NAME), server)
    await server.start()
    try:
        yield found
    finally:
        await found.drain(shutdown_ms / 1_000)


def _secured(tls: Tls) -> Any:
    """Returns a port's credentials: TLS 1.3 only, without session resumption, as over HTTP.

    grpcio has an option for neither. The package's `__init__` excludes older versions. For each connection, grpcio
    calls back for certificates; from new ones it makes a new context, with session keys that no other connection has.
    Hence the callback returns a new configuration each time.
    """

    def newest() -> Any:
        return _configuration(tls.pem())

    return grpc.dynamic_ssl_server_credentials(newest(), newest, tls.asks_callers)


def _configuration(pem: Pem) -> Any:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.client_ca)


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # a second gateway on this port is refused instead of sharing the calls
        ("grpc.max_receive_message_length", limits.body_bytes + MESSAGE_BESIDE_BYTES),
        ("grpc.max_concurrent_streams", CALLS_PER_CONNECTION),
        # A peer that does not read its socket answers no ping and is disconnected within `unread_answer_ms`.
        ("grpc.keepalive_time_ms", limits.unread_answer_ms * 2 // 3),
        ("grpc.keepalive_timeout_ms", limits.unread_answer_ms // 3),
        ("grpc.max_connection_age_ms", CONNECTION_AGE_MS),
        ("grpc.max_connection_age_grace_ms", CONNECTION_GRACE_MS),
    ]


def _probe(server: GrpcServer) -> Callable[[Any, Any], Awaitable[Any]]:
    async def check(request: Any, context: Any) -> Any:
        service, slash, namespace = request.service.partition("/")
        if service and service not in SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:80]}")
        states = health_pb2.HealthCheckResponse
        try:
            if slash and server.access is not None:  # only callers with access may learn of a namespace
                server.access.permit("getNamespace", namespace, credential_of(context))
            ok = health.ready(server.gateway, namespace if slash else None).ok
        except OncegateError as error:
            await context.abort(code_of(type(error)), detail_of(error))
        return states(status=states.SERVING if ok else states.NOT_SERVING)

    return check
