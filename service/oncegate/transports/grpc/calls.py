"""Handles gRPC calls: parses metadata and messages, runs methods, maps errors. `incoming` admits the requests."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from google.protobuf.message import DecodeError

from oncegate.core.errors import BadRequest, OncegateError, Recovering, Stop
from oncegate.engine.admission import SMALL_ANSWER_BYTES, Room
from oncegate.engine.gateway import Gateway
from oncegate.ports import Observer
from oncegate.ports.tracing import Tracer, TraceSpan
from oncegate.transports.access.access import Access
from oncegate.transports.access.keys import bearer
from oncegate.transports.access.principal import Principal
from oncegate.transports.decode import identifiers
from oncegate.transports.grpc.errors import DETAILS, code_of, detail_of, details_of
from oncegate.transports.incoming import Admitted, RequestHead, admit, check_draining, sharer_of
from oncegate.transports.outcomes import internal
from oncegate.transports.tracing import note_refusal, request_span, trace_id_of
from oncegate.transports.writers import HEADER

LEDGER, WRITER = "oncegate-ledger", HEADER.lower()
_METADATA = frozenset({LEDGER, WRITER, "user-agent"})


class OpenStream(Protocol):
    """The state that calls share: the gateway once it is open, access rights, the tracer, and the running requests."""

    gateway: Gateway | None
    access: Access | None
    tracer: Tracer | None
    begun: set[asyncio.Future[Any]]


@dataclass(frozen=True)
class GrpcMethod:
    """One method: the type of its request, its function, and its name in `CALLS`, the table of required roles.

    claims: it claims ids or settles such a claim, so it may pass unchecked while the ledger is down.
    """

    message: Any
    work: Callable[[Any, Admitted], Awaitable[Any]]
    call: str
    claims: bool = False


@dataclass(frozen=True)
class GrpcAnswer:
    """A response: its message, the ledger position, and the in-flight bytes reserved until it is sent."""

    message: Any
    mark: str
    room: Room | None = None

    def sent(self, *_: object) -> None:
        """Releases the reserved bytes."""
        if self.room is not None:
            self.room.release()


@dataclass(frozen=True)
class GrpcRefusal:
    """The error that ends a call, and the trace id under which the log has it."""

    error: OncegateError
    trace_id: str


# Parses a request into its method and message; raises BadRequest for invalid bytes.
RequestReader = Callable[[bytes], tuple[GrpcMethod, Any]]


def head_of(
    call: str, message: Any, body: bytes, bytes_max: int, context: Any, principal: Principal | None
) -> RequestHead:
    """Builds the head of a fully received request from its deadline and metadata."""
    left_s, texts = context.time_remaining(), dict[str, list[str]]()
    for name, value in context.invocation_metadata() or ():
        if name in _METADATA:
            texts.setdefault(name, []).append(str(value))
    marks = texts.get(LEDGER)
    return RequestHead(
        call,
        str(message.namespace),
        None if left_s is None else max(0, int(left_s * 1_000)),
        len(body),
        bytes_max,
        principal,
        str(context.peer()).rpartition(":")[0],
        texts.get("user-agent", [None])[0],
        None if marks is None else ",".join(marks),
        texts.get(WRITER, ()),
    )


def handler(
    opened: OpenStream, observer: Observer, method: GrpcMethod, name: str
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    """Returns the handler of one method's calls. A response carries the newest ledger position."""

    def read(body: bytes) -> tuple[GrpcMethod, Any]:
        return method, parsed(method.message, body)

    async def answer(body: bytes, context: Any) -> bytes:
        # grpcio cancels the handler when its client disconnects; the engine finishes the request, as over HTTP.
        end = await asyncio.shield(begin(opened, observer, name, read, body, context))
        if isinstance(end, GrpcRefusal):
            await refuse(context, end)
        context.set_trailing_metadata(((LEDGER, end.mark),))
        if end.room is not None:  # the call ends once its client has received the message or disconnected
            context.add_done_callback(end.sent)
        found: bytes = end.message.SerializeToString()
        return found

    return answer


def begin(
    opened: OpenStream, observer: Observer, name: str, read: RequestReader, body: bytes, context: Any
) -> "asyncio.Task[GrpcAnswer | GrpcRefusal]":
    """Starts the request in `body` as a task; `GrpcServer.drain` waits for it."""

    async def ended() -> GrpcAnswer | GrpcRefusal:
        with _span(opened.tracer, name, context) as span:
            try:
                return await _answered(opened, *read(body), body, context, span)
            except Exception as error:
                trace_id = trace_id_of(context.invocation_metadata() or ())
                told = _told(error, trace_id, name, observer)
                note_refusal(told)
                return GrpcRefusal(told, trace_id)

    begun = asyncio.ensure_future(ended())
    opened.begun.add(begun)
    begun.add_done_callback(opened.begun.discard)
    return begun


async def refuse(context: Any, end: GrpcRefusal) -> NoReturn:
    """Ends a call, or a stream, with a status."""
    metadata = ((DETAILS, details_of(end.error, end.trace_id)),)
    await context.abort(code_of(type(end.error)), detail_of(end.error), metadata)
    raise AssertionError from end.error  # `abort` raises


def parsed(kind: Any, body: bytes) -> Any:
    """Parses a message. Raises BadRequest."""
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise BadRequest(f"this is no {kind.DESCRIPTOR.full_name}; nothing was written") from error


def _span(tracer: Tracer | None, name: str, context: Any) -> AbstractContextManager[TraceSpan | None]:
    if tracer is None:
        return nullcontext()
    attributes = {"rpc.system.name": "grpc", "rpc.method": name[1:]}
    return request_span(tracer, name[1:], context.invocation_metadata() or (), attributes)


async def _answered(
    opened: OpenStream, method: GrpcMethod, message: Any, body: bytes, context: Any, span: TraceSpan | None
) -> GrpcAnswer:
    if span is not None:
        span.note({"oncegate.namespace": str(message.namespace)[:64]})
    principal = None
    if opened.access is not None:
        principal = opened.access.permit(method.call, str(message.namespace), credential_of(context))
    gateway = opened.gateway
    if gateway is None:
        raise Recovering("the gateway is starting: its ledgers are being opened; nothing was written")
    check_draining(method.call, gateway)
    head = head_of(method.call, message, body, gateway.limits.body_bytes, context, principal)
    admitted = await admit(head, body, gateway, method.claims)
    try:
        found, room = await method.work(message, admitted), None
        if (size_bytes := found.ByteSize()) > SMALL_ANSWER_BYTES:
            room = gateway.admission.answers.hold(sharer_of(principal, head.address), size_bytes)
        return GrpcAnswer(found, identifiers.mark_text(admitted.serving.mark), room)
    finally:
        admitted.release()


def credential_of(context: Any) -> str | None:
    """Returns the credential of the metadata; None if there is none, or more than one."""
    given = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    return bearer(str(given[0])) if len(given) == 1 else None


def _told(error: Exception, trace_id: str, name: str, observer: Observer) -> OncegateError:
    """Returns the error for the caller. Logs bugs, and errors that end an attempt."""
    if not isinstance(error, OncegateError):
        observer.event("request_failed", trace_id=trace_id, path=name, error=error)
        return internal(error)
    if isinstance(error, Stop):
        observer.event("attempt_refused", code=error.code, path=name, detail=error.detail, trace_id=trace_id)
    return error
