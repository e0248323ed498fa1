"""Routes of the gateway itself: namespaces, limits, capabilities, metrics, health, error pages."""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from fastapi import Response
from msgspec import UNSET

import oncegate
from oncegate.core.claims import IdTime, LeaseExpiry, OnLedgerDown
from oncegate.core.errors import NotFound, Recovering, Stopping, TooLarge
from oncegate.engine.namespace import Namespace
from oncegate.engine.requests import SettingsRequest
from oncegate.transports import health, promises
from oncegate.transports.access.keys import bearer
from oncegate.transports.decode import identifiers
from oncegate.transports.decode.identifiers import hex_bytes
from oncegate.transports.http import messages, openapi, problems
from oncegate.transports.http.answers import json_reply, reply
from oncegate.transports.http.bodies import body_length
from oncegate.transports.http.call import Call
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.parameters import ARROW, JSON, PACKED, accepted
from oncegate.transports.http.routing import Routes
from oncegate.transports.incoming import body_room
from oncegate.transports.metrics import CONTENT_TYPES, OPENMETRICS, TEXT, written
from oncegate.transports.offload import offload
from oncegate.transports.outcomes import outcome_of, public_errors
from oncegate.transports.pages import page

routes = Routes()
# Length of a namespace's key.
KEY_BYTES = 32
# Cost of formatting one series, in bytes of request body whose decoding takes as long.
_SERIES_BYTES = 256
_SETTINGS = msgspec.json.Decoder(messages.NamespaceRequest)


@routes.bare("PUT", "/v1/namespaces/{namespace}", "createNamespace", "namespaces")
async def create_namespace(call: Call) -> Response:
    """Create a namespace with its own key and ledger (201), or change the settings of an existing one (200)."""
    media = call.accepted(JSON)
    gateway = call.gateway
    deadline = call.begin()
    size_bytes = body_length(call.headers, wanted=False, allowed=True)
    if size_bytes > gateway.limits.json_bytes:
        raise TooLarge(f"a body of {size_bytes} bytes; at most {gateway.limits.json_bytes} are read of this kind")
    if size_bytes:
        call.check_type(JSON)
    with body_room(gateway.admission, size_bytes) as room:
        body = await call.read_body(size_bytes, deadline, room.arrived)
        settings = await offload(size_bytes * 8, decoded, body or b"{}", _SETTINGS, gateway.limits)
        key = None if settings.key is None else hex_bytes(settings.key, KEY_BYTES, "key")
        tenant = gateway.tenants.of(None if call.principal is None else call.principal.whose)
        created = await gateway.create(call.path["namespace"], key, tenant)
        await call.namespace.settings.configure(_settings(settings), deadline)
        return _namespace(call, media, 201 if created else 200)


@routes.bare("DELETE", "/v1/namespaces/{namespace}", "deleteNamespace", "namespaces")
async def delete_namespace(call: Call) -> Response:
    """Delete a namespace; unless it is empty, `confirm` must be its name. Its data is set aside."""
    media = call.accepted(JSON)
    gateway, name = call.gateway, call.path["namespace"]
    deadline = call.begin()
    confirm = call.query_as(messages.NamespaceDeletion).confirm
    body_length(call.headers, wanted=False)
    with gateway.admission.hold(0):
        marks = call.headers.get("oncegate-ledger")
        await gateway.delete(name, confirm, () if marks is None else identifiers.marks(marks), deadline)
    return json_reply(messages.DeletedReply(name), media)


@routes.get("/v1/namespaces/{namespace}", "getNamespace", "namespaces")
async def namespace(call: Call) -> Response:
    """Describe a namespace: its ledger, settings and counters."""
    media = call.accepted(JSON)
    return _namespace(call, media, 200)


def _settings(asked: messages.NamespaceRequest) -> SettingsRequest:
    expiry = None if asked.lease_expiry is None else LeaseExpiry[asked.lease_expiry.upper()]
    id_time = None if asked.id_time is None else IdTime[asked.id_time.upper()]
    on_down = None if asked.on_ledger_down is None else OnLedgerDown[asked.on_ledger_down.upper()]
    return SettingsRequest(
        asked.horizon_ms, asked.auto_create_topics, asked.record_headers, expiry, id_time, asked.shadow, on_down
    )


def _namespace(call: Call, media: str, status: int) -> Response:
    namespace = call.namespace
    settings = namespace.settings
    expiry: Any = settings.lease_expiry.name.lower()
    id_time: Any = settings.id_time.name.lower()
    on_ledger_down: Any = settings.on_ledger_down.name.lower()
    reply = messages.NamespaceReply(
        namespace.name,
        namespace.mark.ledger.hex(),
        settings.horizon_ms,
        settings.auto_create_topics,
        settings.record_headers,
        expiry,
        id_time,
        settings.shadow,
        on_ledger_down,
        namespace.home.failing(),
        namespace.home.counters(),
        _writes(call, namespace),
        namespace.topics_at or UNSET,
        namespace.home.opened.storage.durability() or UNSET,
    )
    return json_reply(reply, media, status, namespace)


@routes.get("/v1/namespaces", "listNamespaces", "namespaces")
async def namespaces(call: Call) -> Response:
    """List the namespaces, sorted, a page at a time."""
    media = call.accepted(JSON)
    asked = call.query_as(messages.PageQuery)
    return json_reply(messages.NamespacesReply(*page(_seen(call), asked.after, asked.limit)), media)


def _seen(call: Call) -> list[str]:
    """Returns the namespaces that the caller's credential names; all if the gateway requires no credential."""
    names, principal = call.gateway.namespaces(), call.principal
    return list(names) if principal is None else [name for name in names if principal.sees(name)]


@routes.get("/v1/limits", "getLimits", "service")
async def limits(call: Call) -> Response:
    """List every limit in force."""
    media = call.accepted(JSON)
    return json_reply(call.gateway.limits, media)


@routes.get("/v1/capabilities", "getCapabilities", "service")
async def capabilities(call: Call) -> Response:
    """Return the promise of each write mode, in a namespace or by default, and the accepted encodings."""
    media = call.accepted(JSON)
    named, access = call.query_as(messages.CapabilitiesQuery).namespace, call.state.access
    if named is not None and access is not None:
        access.permit("getNamespace", named, bearer(call.headers.get("authorization")))
    namespace = None if named is None else call.gateway.namespace(named)
    about = call.state.about
    reply = messages.CapabilitiesReply(
        _writes(call, namespace),
        [JSON, PACKED, ARROW],
        [ARROW, JSON],
        about.ledger,
        about.credentials,
        UNSET if named is None else named,
    )
    return json_reply(reply, media)


def _writes(call: Call, namespace: Namespace | None) -> dict[str, messages.WayMessage]:
    """Returns the promise of each write mode in a namespace; None: in one with default settings."""
    ledger, of = call.state.about.ledger, () if namespace is None else namespace.settings.lowering
    modes = promises.promised(ledger, *of)
    return {
        name: messages.WayMessage(mode.promise, mode.meaning, mode.lowered_by or UNSET) for name, mode in modes.items()
    }


@routes.get("/version", "getVersion", "service")
async def version(call: Call) -> Response:
    """Return the program's version, and a fingerprint of the settings that define a duplicate."""
    media = call.accepted(JSON)
    return json_reply(messages.VersionReply(oncegate.__version__, "v1", call.state.about.semantics), media)


@routes.get("/metrics", "getMetrics", "service")
async def metrics(call: Call) -> Response:
    """Return all metrics, in Prometheus's text format or as OpenMetrics; also while namespaces recover."""
    media = accepted(call.headers.get("accept"), (TEXT, OPENMETRICS), any_version=True)
    families = await call.state.metrics.read(call.state.gateway)
    series = sum(len(family.values) for family in families)
    return reply(await offload(series * _SERIES_BYTES, written, families, media), CONTENT_TYPES[media], None)


@routes.get("/healthz/live", "liveProbe", "health")
async def live(call: Call) -> Response:
    """Report that the event loop is running."""
    return json_reply(messages.HealthReply("live", {}))


@routes.get("/healthz/startup", "startupProbe", "health")
async def startup(call: Call) -> Response:
    """Report whether kernels are compiled and a namespace was opened; 503 until then."""
    return _health("started", health.started(call.state.gateway), call)


@routes.get("/healthz/ready", "readyProbe", "health")
async def ready(call: Call) -> Response:
    """Report whether any namespace, or the named one, serves; 503 while none does or the gateway is drained."""
    namespace, access = call.query_as(messages.ReadyQuery).namespace, call.state.access
    if namespace is not None and access is not None:  # callers with this right may learn the name
        access.permit("getNamespace", namespace, bearer(call.headers.get("authorization")))
    answer = health.ready(call.state.gateway, namespace)
    return _health("ready", answer, call, named=namespace is not None)


def _health(status: str, answer: health.HealthAnswer, call: Call, named: bool = False) -> Response:
    if call.state.access is not None and not named:  # probes need no key and must not disclose names
        answer = health.without_names(answer)
    if not answer.ok:
        raise (Stopping if answer.is_drained else Recovering)(answer.detail, namespaces=answer.namespaces)
    return json_reply(messages.HealthReply(status, answer.namespaces, answer.detail or UNSET))


@cache
def _document() -> Any:
    return msgspec.json.decode((files(openapi) / "openapi.json").read_bytes())


@routes.get("/openapi.json", "getDocument", listed=False)
async def document(call: Call) -> Response:
    """Return the OpenAPI document."""
    media = call.accepted(JSON)
    return json_reply(_document(), media)


@routes.get("/errors/{code}", "getError", "service")
async def error(call: Call) -> Response:
    """Explain a problem's `type`: the error, its status, the action to take, and its effect."""
    media = call.accepted(JSON)
    wanted = problems.type_of(call.path["code"])
    for kind in public_errors():
        if problems.type_of(kind.code) == wanted:
            status, effect = problems.status_of(kind), outcome_of(kind).effect
            return json_reply(messages.ErrorReply(kind.code, kind.title, status, kind.action, effect), media)
    known = ", ".join(kind.code for kind in public_errors())
    raise NotFound(f"no error {call.path['code']}; there are {known}")
