"""Routes for operators: forget or import ids, fence a producer, drain the gateway, read the audit trail."""

import msgspec
from fastapi import Response

from oncegate.engine.gateway import Gateway
from oncegate.engine.names import CLAIMED, check_name
from oncegate.engine.usecases.operations.actions import AuditRecord
from oncegate.transports.decode import identifiers, ids
from oncegate.transports.decode.ids import read_known
from oncegate.transports.http import messages
from oncegate.transports.http.answers import json_reply, reply
from oncegate.transports.http.bodies import body_length
from oncegate.transports.http.call import Call
from oncegate.transports.http.console import HEADERS, HTML, PAGE
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.parameters import ARROW, JSON
from oncegate.transports.http.routing import Routes
from oncegate.transports.incoming import body_room
from oncegate.transports.offload import offload

routes = Routes("", "operators")

_NAMESPACE = "/v1/namespaces/{namespace}"
_FORGET = msgspec.json.Decoder(messages.ForgetRequest)
_FORGET_ALL = msgspec.json.Decoder(messages.ForgetAllRequest)
_FENCE = msgspec.json.Decoder(messages.FenceRequest)
_NOTE = msgspec.json.Decoder(messages.NoteRequest)
_DRAIN = msgspec.json.Decoder(messages.DrainRequest)


@routes.post(_NAMESPACE + "/ids:forget", "forgetIds", [JSON], [JSON])
async def forget(call: Call) -> Response:
    """Forget done or taken ids: the next claim of one is granted. All of them are forgotten, or none."""
    message, namespace, limits = await call.message(_FORGET), call.namespace, call.limits
    printer = namespace.fingerprints(message.id_set, CLAIMED)
    found = await offload(call.weight, ids.of_json, message.ids, printer, limits)
    note = call.note(message.who, message.why)
    forgotten = await namespace.operations.actions.forget(
        found, message.id_set, note, call.deadline, call.admitted.sender.tenant
    )
    return json_reply(messages.ForgetReply(forgotten), call.wanted, serving=namespace)


@routes.post(_NAMESPACE + "/ids:forget_all", "forgetIdSet", [JSON], [JSON])
async def forget_all(call: Call) -> Response:
    """Forget every id of a dedup scope, confirmed by its name. Idempotent under the same token."""
    message, namespace = await call.message(_FORGET_ALL), call.namespace
    note, token = call.note(message.who, message.why), identifiers.hex_bytes(message.token, 16, "token")
    asked = message.id_set, message.confirm, token, note
    times = await namespace.operations.actions.forget_all(*asked, call.deadline)
    return json_reply(messages.ForgetAllReply(message.id_set, times), call.wanted, serving=namespace)


@routes.post(_NAMESPACE + "/ids:import", "importIds", [ARROW], [JSON])
async def take_in(call: Call) -> Response:
    """Import ids known to another ledger with the same key: all of them, or none. Idempotent."""
    asked = call.query_as(messages.ImportQuery)
    known = await offload(call.weight, read_known, call.body, call.limits)
    note = call.note(asked.who, asked.why)
    imported = await call.namespace.operations.carrying.take_in(known, note, call.deadline, call.admitted.sender.tenant)
    return json_reply(messages.ImportReply(imported), call.wanted, serving=call.namespace)


@routes.post(_NAMESPACE + "/producers/{producer:path}:fence", "fenceProducer", [JSON], [JSON])
async def fence(call: Call) -> Response:
    """Fence the holder of a producer, even if its lease is live: its later requests are FENCED."""
    message, producer = await call.message(_FENCE), call.path["producer"]
    note = call.note(message.who, message.why)
    epoch = await call.namespace.operations.actions.fence(producer, note, call.deadline)
    return json_reply(messages.FenceReply(producer, epoch), call.wanted, serving=call.namespace)


@routes.post(_NAMESPACE + "/audit", "noteAction", [JSON], [JSON])
async def note(call: Call) -> Response:
    """Record in the audit trail that an operator begins an action made of other calls, with operator and reason."""
    message, namespace = await call.message(_NOTE), call.namespace
    check_name("subject", message.subject, call.limits)
    said = call.note(message.who, message.why)
    await namespace.operations.actions.note(message.action, message.subject, 0, said, call.deadline)
    return json_reply(messages.NoteReply(said.who), call.wanted, serving=namespace)


@routes.get(_NAMESPACE + "/audit", "getAudit")
async def trail(call: Call) -> Response:
    """List the operators' actions in a namespace, with operator and reason, newest first."""
    media, namespace = call.accepted(JSON), call.namespace
    asked = call.query_as(messages.AuditQuery)
    found = await namespace.operations.actions.trail(asked.before, asked.limit + 1)
    following = found[asked.limit - 1].position if len(found) > asked.limit else None
    told = [_told(record) for record in found[: asked.limit]]
    return json_reply(messages.AuditReply(told, following), media, serving=namespace)


def _told(record: AuditRecord) -> messages.AuditMessage:
    subject = f"claim {identifiers.claim_text(record.claim)}" if record.claim else record.subject
    what = record.action, subject, record.changed
    return messages.AuditMessage(record.position, record.wall_ms, *what, record.who, record.why)


@routes.get(_NAMESPACE + "/producers", "listProducers")
async def producers(call: Call) -> Response:
    """List producers, most recently active first: claimed and acknowledged sequences, and the lag between them."""
    media, namespace = call.accepted(JSON), call.namespace
    found, total = await namespace.operations.overview.producers(call.query_as(messages.OverviewQuery).limit)
    told = [
        messages.ProducerSummary(
            one.producer, one.driver, one.epoch, one.claimed_to, one.watermark, one.unacked, one.lease_left_ms
        )
        for one in found
    ]
    return json_reply(messages.ProducersReply(told, total), media, serving=namespace)


@routes.get(_NAMESPACE + "/claims", "listLeftClaims")
async def left_claims(call: Call) -> Response:
    """List open claims with an expired lease, longest expired first; whether their ids are written is unknown."""
    media, namespace = call.accepted(JSON), call.namespace
    found, total = await namespace.operations.overview.left_claims(call.query_as(messages.OverviewQuery).limit)
    told = [
        messages.LeftClaim(
            identifiers.claim_text(one.claim), one.token.hex(), one.call, one.ids, one.over_ms, one.wall_ms
        )
        for one in found
    ]
    return json_reply(messages.LeftClaimsReply(told, total), media, serving=namespace)


@routes.get("/console", "getConsole", listed=False)
async def console(call: Call) -> Response:
    """Return the page of the console, which contains no data: it calls the other routes with the reader's key."""
    return reply(PAGE, HTML, None, HEADERS)


@routes.get("/v1/gateway", "getGateway")
async def gateway(call: Call) -> Response:
    """Return whether the gateway is drained, and its open work."""
    media = call.accepted(JSON)
    return json_reply(_gateway(call.gateway), media)


@routes.bare("POST", "/v1/gateway:drain", "drainGateway")
async def drain(call: Call) -> Response:
    """Drain the gateway, which then refuses new work and is not ready; or make it accept work again."""
    call.check_type(JSON)
    media, gateway, deadline = call.accepted(JSON), call.gateway, call.begin()
    size_bytes = body_length(call.headers, wanted=True)
    with body_room(gateway.admission, size_bytes) as room:
        body = await call.read_body(size_bytes, deadline, room.arrived)
        message = decoded(body, _DRAIN, gateway.limits)
        await gateway.drain(call.note(message.who, message.why), message.draining, deadline)
    return json_reply(_gateway(gateway), media)


def _gateway(found: Gateway) -> messages.GatewayReply:
    note = found.draining
    who, why = ("", "") if note is None else (note.who, note.why)
    return messages.GatewayReply(note is not None, who, why, found.open_work())
