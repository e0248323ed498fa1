"""The gRPC server: the methods, the standard probe, reflection where it is wanted, and the limits of connections."""

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
# Calls of one connection at once: as many as streams may be open, and others beside; a client keeps what is beyond. No
# more of a peer that begins and cancels without end (CVE-2023-44487) wait to be taken: from a thousand on the library
# cancels calls by chance, whosever they are.
CALLS_PER_CONNECTION = streams.STREAMS + 128
# What a message may have beside a body of the largest size: names, tags; longer ones the library refuses unread.
MESSAGE_BESIDE_BYTES = 64 * KIB
# Long enough that connecting costs nothing, short enough that new replicas get their share within the hour.
CONNECTION_AGE_MS = 30 * 60_000
# As long as a large request takes on a slow disk; what is not answered then is cut off.
CONNECTION_GRACE_MS = 60_000


class GrpcServer:
    """Serves the gateway over gRPC; until `gateway` is set, every call is answered Recovering."""

    def __init__(self, server: Any, port: int, access: Access | None, tracer: Tracer | None) -> None:
        self._server = server
        self.port, self.access, self.tracer = port, access, tracer
        self.gateway: Gateway | None = None
        self.begun: set[asyncio.Future[Any]] = set()
        self.streams: set[streams.Stream] = set()
        self.stopping = False

    async def drain(self, within_s: float) -> None:
        """Accepts no more calls, and returns when those in flight are answered; cuts off the rest. Idempotent."""
        end_s = now_s() + within_s
        self.stopping = True
        for stream in list(self.streams):
            stream.stop()
        await self._server.stop(within_s)
        if self.begun:  # their callers are gone
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
    """Serves on an address, over TLS where there are certificates, and drains it at the end.

    Raises RuntimeError: the port cannot be had.
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
    """What a port takes: TLS 1.3 alone, and no session that goes on in a later connection, as over HTTP.

    The library has an option for neither: what keeps older versions out is in the package's `__init__`. For each
    connection it asks for the certificates, and makes a context of those that it gets, whose keys of sessions no other
    connection has: so they are given each time, as they are then.
    """

    def newest() -> Any:
        return _configuration(tls.pem())

    return grpc.dynamic_ssl_server_credentials(newest(), newest, tls.asks_callers)


def _configuration(pem: Pem) -> Any:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.client_ca)


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # a second gateway on this port is refused, and takes no calls from the first
        ("grpc.max_receive_message_length", limits.body_bytes + MESSAGE_BESIDE_BYTES),
        ("grpc.max_concurrent_streams", CALLS_PER_CONNECTION),
        # A peer that does not read from its socket answers no ping: it is cut off within `unread_answer_ms`.
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
            if slash and server.access is not None:  # its name is no secret to who may call it
                server.access.permit("getNamespace", namespace, credential_of(context))
            ok = health.ready(server.gateway, namespace if slash else None).ok
        except OncegateError as error:
            await context.abort(code_of(type(error)), detail_of(error))
        return states(status=states.SERVING if ok else states.NOT_SERVING)

    return check
