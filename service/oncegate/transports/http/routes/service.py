"""The gateway itself: namespaces, limits, what is promised, health."""

from typing import Any

import msgspec
from fastapi import Request, Response
from msgspec import UNSET

import oncegate
from oncegate.core.claims import IdTime, LeaseExpiry, OnLedgerDown
from oncegate.core.errors import NotFound, Recovering, Stopping, TooLarge
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import SettingsRequest
from oncegate.engine.shard import Shard
from oncegate.transports import health, promises
from oncegate.transports.access.keys import bearer
from oncegate.transports.decode.identifiers import hex_bytes
from oncegate.transports.http import messages, problems
from oncegate.transports.http.bodies import read_body
from oncegate.transports.http.head import (
    PRINCIPAL,
    body_length,
    gateway_of,
    marks_of,
    namespace_of,
    shard_of,
    timeout_ms,
    whose_is,
)
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.negotiation import (
    ARROW,
    JSON,
    PACKED,
    accepted,
    accepted_of_any_version,
    content_type,
)
from oncegate.transports.http.openapi import operations
from oncegate.transports.http.outbound import json_reply, reply
from oncegate.transports.http.query import query
from oncegate.transports.http.taking import Routes
from oncegate.transports.incoming import body_room, offload
from oncegate.transports.metrics import CONTENT_TYPES, OPENMETRICS, TEXT, written
from oncegate.transports.outcomes import outcome_of, public_errors
from oncegate.transports.pages import page

router = Routes(default_response_class=Response)
# Of a namespace.
KEY_BYTES = 32
# What writing one series takes, as bytes of a body that is read.
_SERIES_BYTES = 256
_SETTINGS = msgspec.json.Decoder(messages.NamespaceRequest)


@router.put("/v1/namespaces/{namespace}", tags=["namespaces"], openapi_extra=operations.CREATE_NAMESPACE)
async def create_namespace(request: Request) -> Response:
    """Make a namespace with its own key and ledger, or set it up: 201 when it is new, 200 when it was there."""
    media = accepted(request, [JSON])
    gateway = gateway_of(request)
    deadline = Deadline(gateway.clock, timeout_ms(request))
    size_bytes = body_length(request, wanted=False, allowed=True)
    if size_bytes > gateway.limits.json_bytes:
        raise TooLarge(f"a body of {size_bytes} bytes; at most {gateway.limits.json_bytes} are read of this kind")
    if size_bytes:
        content_type(request, [JSON])
    with body_room(gateway.admission, size_bytes) as room:
        body = await read_body(request, size_bytes, deadline, room.arrived, gateway.limits)
        settings = await offload(size_bytes * 8, decoded, body or b"{}", _SETTINGS, gateway.limits)
        key = None if settings.key is None else hex_bytes(settings.key, KEY_BYTES, "key")
        tenant = gateway.tenants.of(whose_is(request))
        created = await gateway.create(request.path_params["namespace"], key, tenant)
        await shard_of(request).configure(_settings(settings), deadline)
        return _namespace(request, media, 201 if created else 200)


@router.delete("/v1/namespaces/{namespace}", tags=["namespaces"], openapi_extra=operations.DELETE_NAMESPACE)
async def delete_namespace(request: Request) -> Response:
    """Delete a namespace; one that holds anything only where `confirm` says its name. What it held is set aside."""
    media = accepted(request, [JSON])
    gateway, name = gateway_of(request), namespace_of(request)
    deadline = Deadline(gateway.clock, timeout_ms(request))
    confirm = query(request, messages.NamespaceDeletion).confirm
    body_length(request, wanted=False)
    with gateway.admission.hold(0):
        await gateway.delete(name, confirm, marks_of(request), deadline)
    return json_reply(messages.DeletedReply(name), media)


@router.get("/v1/namespaces/{namespace}", tags=["namespaces"], openapi_extra=operations.NAMESPACE)
async def namespace(request: Request) -> Response:
    """Describe a namespace: its ledger, settings and counters."""
    media = accepted(request, [JSON])
    return _namespace(request, media, 200)


def _settings(asked: messages.NamespaceRequest) -> SettingsRequest:
    expiry = None if asked.lease_expiry is None else LeaseExpiry[asked.lease_expiry.upper()]
    id_time = None if asked.id_time is None else IdTime[asked.id_time.upper()]
    on_down = None if asked.on_ledger_down is None else OnLedgerDown[asked.on_ledger_down.upper()]
    return SettingsRequest(
        asked.horizon_ms, asked.auto_create_topics, asked.record_headers, expiry, id_time, asked.shadow, on_down
    )


def _namespace(request: Request, media: str, status: int) -> Response:
    shard = shard_of(request)
    settings = shard.settings
    expiry: Any = settings.lease_expiry.name.lower()
    id_time: Any = settings.id_time.name.lower()
    on_ledger_down: Any = settings.on_ledger_down.name.lower()
    reply = messages.NamespaceReply(
        shard.namespace,
        shard.mark.ledger.hex(),
        settings.horizon_ms,
        settings.auto_create_topics,
        settings.record_headers,
        expiry,
        id_time,
        settings.shadow,
        on_ledger_down,
        shard.failing(),
        shard.counters(),
        _writes(request, shard),
        shard.topics_at or UNSET,
        shard.durability() or UNSET,
    )
    return json_reply(reply, media, status, shard)


@router.get("/v1/namespaces", tags=["namespaces"], openapi_extra=operations.NAMESPACES)
async def namespaces(request: Request) -> Response:
    """List the namespaces, sorted, a page at a time."""
    media = accepted(request, [JSON])
    asked = query(request, messages.PageQuery)
    return json_reply(messages.NamespacesReply(*page(_seen(request), asked.after, asked.limit)), media)


def _seen(request: Request) -> list[str]:
    """The namespaces that the caller's credential names; all of them where none is asked for."""
    names, principal = gateway_of(request).namespaces(), request.scope.get(PRINCIPAL)
    return list(names) if principal is None else [name for name in names if principal.sees(name)]


@router.get("/v1/limits", tags=["service"], openapi_extra=operations.LIMITS)
async def limits(request: Request) -> Response:
    """List every limit in force."""
    media = accepted(request, [JSON])
    return json_reply(gateway_of(request).limits, media)


@router.get("/v1/capabilities", tags=["service"], openapi_extra=operations.CAPABILITIES)
async def capabilities(request: Request) -> Response:
    """Return what each write mode promises, in a namespace or by default, and which encodings are read."""
    media = accepted(request, [JSON])
    named, access = query(request, messages.CapabilitiesQuery).namespace, request.app.state.access
    if named is not None and access is not None:
        access.permit("getNamespace", named, bearer(request.headers.get("Authorization")))
    shard = None if named is None else gateway_of(request).shard(named)
    about = request.app.state.about
    reply = messages.CapabilitiesReply(
        _writes(request, shard),
        [JSON, PACKED, ARROW],
        [ARROW, JSON],
        about.ledger,
        about.credentials,
        UNSET if named is None else named,
    )
    return json_reply(reply, media)


def _writes(request: Request, shard: Shard | None) -> dict[str, messages.WayMessage]:
    """Returns what each write mode promises in a namespace; None: in one whose settings are as by default."""
    ledger, of = request.app.state.about.ledger, () if shard is None else shard.settings.lowering
    modes = promises.promised(ledger, *of)
    return {
        name: messages.WayMessage(mode.promise, mode.meaning, mode.lowered_by or UNSET) for name, mode in modes.items()
    }


@router.get("/version", tags=["service"], openapi_extra=operations.VERSION)
async def version(request: Request) -> Response:
    """Tell the program's version, and a fingerprint of the settings that change what a duplicate is."""
    media = accepted(request, [JSON])
    return json_reply(messages.VersionReply(oncegate.__version__, "v1", request.app.state.about.semantics), media)


@router.get("/metrics", tags=["service"], openapi_extra=operations.METRICS)
async def metrics(request: Request) -> Response:
    """Give all metrics, in the text format of Prometheus or as OpenMetrics; also while namespaces recover."""
    media = accepted_of_any_version(request, [TEXT, OPENMETRICS])
    families = await request.app.state.metrics.read(request.app.state.gateway)
    series = sum(len(family.values) for family in families)
    return reply(await offload(series * _SERIES_BYTES, written, families, media), CONTENT_TYPES[media], None)


@router.get("/healthz/live", tags=["health"], openapi_extra=operations.health("live"))
async def live(request: Request) -> Response:
    """Tell that the event loop answers."""
    return json_reply(messages.HealthReply("live", {}))


@router.get("/healthz/startup", tags=["health"], openapi_extra=operations.health("startup"))
async def startup(request: Request) -> Response:
    """Tell whether kernels are compiled and a namespace was opened; 503 until then."""
    return _health("started", health.started(request.app.state.gateway), request)


@router.get("/healthz/ready", tags=["health"], openapi_extra=operations.READY)
async def ready(request: Request) -> Response:
    """Tell whether any namespace serves, or this one; 503 while none does, or the gateway is drained."""
    namespace, access = query(request, messages.ReadyQuery).namespace, request.app.state.access
    if namespace is not None and access is not None:  # its name is no secret to who may call it
        access.permit("getNamespace", namespace, bearer(request.headers.get("Authorization")))
    answer = health.ready(request.app.state.gateway, namespace)
    return _health("ready", answer, request, named=namespace is not None)


def _health(status: str, answer: health.Answer, request: Request, named: bool = False) -> Response:
    if request.app.state.access is not None and not named:  # anybody may probe, and without a key learns no name
        answer = health.without_names(answer)
    if not answer.ok:
        raise (Stopping if answer.is_drained else Recovering)(answer.detail, namespaces=answer.namespaces)
    return json_reply(messages.HealthReply(status, answer.namespaces, answer.detail or UNSET))


@router.get("/openapi.json", include_in_schema=False, openapi_extra=operations.DOCUMENT)
async def document(request: Request) -> Response:
    """Give the document that describes all of this."""
    media = accepted(request, [JSON])
    return json_reply(request.app.openapi(), media)


@router.get("/errors/{code}", tags=["service"], openapi_extra=operations.ERROR)
async def error(request: Request) -> Response:
    """Explain a problem's `type`: the error, its status, what to do and what is known of its effect."""
    media = accepted(request, [JSON])
    wanted = problems.type_of(request.path_params["code"])
    for kind in public_errors():
        if problems.type_of(kind.code) == wanted:
            status, effect = problems.status_of(kind), outcome_of(kind).effect
            return json_reply(messages.ErrorReply(kind.code, kind.title, status, kind.action, effect), media)
    known = ", ".join(kind.code for kind in public_errors())
    raise NotFound(f"no error {request.path_params['code']}; there are {known}")
