"""What operators do by hand: forget ids, fence a producer, drain the gateway; and the trail of all of it."""

import msgspec
from fastapi import Request, Response

from oncegate.engine import id_sets
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.names import check_name
from oncegate.engine.usecases.operations.actions import AuditRecord
from oncegate.transports.decode import identifiers, ids
from oncegate.transports.decode.known_ids import read_known
from oncegate.transports.http import messages
from oncegate.transports.http.bodies import read_body
from oncegate.transports.http.console import HEADERS, HTML, PAGE
from oncegate.transports.http.head import body_length, gateway_of, note_of, shard_of, timeout_ms
from oncegate.transports.http.inbound import admitted
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.negotiation import ARROW, JSON, accepted, negotiated
from oncegate.transports.http.openapi import operator
from oncegate.transports.http.outbound import json_reply, reply
from oncegate.transports.http.query import query
from oncegate.transports.http.taking import Routes
from oncegate.transports.incoming import body_room, offload

router = Routes(default_response_class=Response, tags=["operators"])

_NAMESPACE = "/v1/namespaces/{namespace}"
_FORGET = msgspec.json.Decoder(messages.ForgetRequest)
_FORGET_ALL = msgspec.json.Decoder(messages.ForgetAllRequest)
_FENCE = msgspec.json.Decoder(messages.FenceRequest)
_NOTE = msgspec.json.Decoder(messages.NoteRequest)
_DRAIN = msgspec.json.Decoder(messages.DrainRequest)


@router.post(_NAMESPACE + "/ids:forget", openapi_extra=operator.FORGET)
async def forget(request: Request) -> Response:
    """Forget ids that are done or taken: the next that writes one is granted it. All of them, or none."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, shard, limits = await inbound.message(_FORGET), inbound.shard, inbound.limits
        printer = shard.fingerprints(message.id_set, id_sets.CLAIMED)
        found = await offload(inbound.weight, ids.of_json, message.ids, printer, limits)
        note = note_of(request, message.who, message.why)
        forgotten = await shard.operations.actions.forget(found, message.id_set, note, inbound.deadline)
        return json_reply(messages.ForgetReply(forgotten), inbound.wanted, shard=shard)


@router.post(_NAMESPACE + "/ids:forget_all", openapi_extra=operator.FORGET_ALL)
async def forget_all(request: Request) -> Response:
    """Forget every id of a set, confirmed by its name. Repeating it under the same token forgets nothing more."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, shard = await inbound.message(_FORGET_ALL), inbound.shard
        note, token = note_of(request, message.who, message.why), identifiers.hex_bytes(message.token, 16, "token")
        asked = message.id_set, message.confirm, token, note
        times = await shard.operations.actions.forget_all(*asked, inbound.deadline)
        return json_reply(messages.ForgetAllReply(message.id_set, times), inbound.wanted, shard=shard)


@router.post(_NAMESPACE + "/ids:import", openapi_extra=operator.IMPORT)
async def take_in(request: Request) -> Response:
    """Make ids known here that another ledger of the same key knows: all of them, or none. Repeating is harmless."""
    async with admitted(request, [ARROW], [JSON]) as inbound:
        asked = query(request, messages.ImportQuery)
        known = await offload(inbound.weight, read_known, inbound.body, inbound.limits)
        note = note_of(request, asked.who, asked.why)
        imported = await inbound.shard.operations.carrying.take_in(known, note, inbound.deadline)
        return json_reply(messages.ImportReply(imported), inbound.wanted, shard=inbound.shard)


@router.post(_NAMESPACE + "/producers/{producer:path}:fence", openapi_extra=operator.FENCE)
async def fence(request: Request) -> Response:
    """Fence whoever holds a producer, its lease or not: what they ask from now on is FENCED."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, producer = await inbound.message(_FENCE), inbound.request.path_params["producer"]
        note = note_of(request, message.who, message.why)
        epoch = await inbound.shard.operations.actions.fence(producer, note, inbound.deadline)
        return json_reply(messages.FenceReply(producer, epoch), inbound.wanted, shard=inbound.shard)


@router.post(_NAMESPACE + "/audit", openapi_extra=operator.NOTE)
async def note(request: Request) -> Response:
    """Note that an operator begins something that other calls do: it stands in the trail, with who and why."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, shard = await inbound.message(_NOTE), inbound.shard
        check_name("subject", message.subject, inbound.limits)
        said = note_of(request, message.who, message.why)
        await shard.operations.actions.note(message.action, message.subject, 0, said, inbound.deadline)
        return json_reply(messages.NoteReply(said.who), inbound.wanted, shard=shard)


@router.get(_NAMESPACE + "/audit", openapi_extra=operator.AUDIT)
async def trail(request: Request) -> Response:
    """Tell what operators did in a namespace, who it was and why, the newest first."""
    media, shard = accepted(request, [JSON]), shard_of(request)
    asked = query(request, messages.AuditQuery)
    found = await shard.operations.actions.trail(asked.before, asked.limit + 1)
    following = found[asked.limit - 1].position if len(found) > asked.limit else None
    told = [_told(record) for record in found[: asked.limit]]
    return json_reply(messages.AuditReply(told, following), media, shard=shard)


def _told(record: AuditRecord) -> messages.AuditMessage:
    subject = f"claim {identifiers.claim_text(record.claim)}" if record.claim else record.subject
    what = record.action, subject, record.changed
    return messages.AuditMessage(record.position, record.wall_ms, *what, record.who, record.why)


@router.get(_NAMESPACE + "/producers", openapi_extra=operator.PRODUCERS)
async def producers(request: Request) -> Response:
    """List producers, that which was active last first: what is claimed, what is acked, and how far that is behind."""
    media, shard = accepted(request, [JSON]), shard_of(request)
    found, total = await shard.operations.overview.producers(query(request, messages.OverviewQuery).limit)
    told = [
        messages.ProducerSummary(
            one.producer, one.driver, one.epoch, one.claimed_to, one.watermark, one.unacked, one.lease_left_ms
        )
        for one in found
    ]
    return json_reply(messages.ProducersReply(told, total), media, shard=shard)


@router.get(_NAMESPACE + "/claims", openapi_extra=operator.LEFT_CLAIMS)
async def left_claims(request: Request) -> Response:
    """List open claims whose lease is over, the longest first: whether their ids are written is in doubt."""
    media, shard = accepted(request, [JSON]), shard_of(request)
    found, total = await shard.operations.overview.left_claims(query(request, messages.OverviewQuery).limit)
    told = [
        messages.LeftClaim(
            identifiers.claim_text(one.claim), one.token.hex(), one.call, one.ids, one.over_ms, one.wall_ms
        )
        for one in found
    ]
    return json_reply(messages.LeftClaimsReply(told, total), media, shard=shard)


@router.get("/console", include_in_schema=False, openapi_extra=operator.CONSOLE)
async def console(request: Request) -> Response:
    """Give the page of the console: it shows nothing itself, and asks the other routes with the key of who reads it."""
    return reply(PAGE, HTML, None, HEADERS)


@router.get("/v1/gateway", openapi_extra=operator.GATEWAY)
async def gateway(request: Request) -> Response:
    """Tell whether the gateway is drained, and what it has yet to finish."""
    media = accepted(request, [JSON])
    return json_reply(_gateway(gateway_of(request)), media)


@router.post("/v1/gateway:drain", openapi_extra=operator.DRAIN)
async def drain(request: Request) -> Response:
    """Take no new work from now on, and be ready no more; or take it again."""
    _, media = negotiated(request, [JSON], [JSON])
    found = gateway_of(request)
    deadline = Deadline(found.clock, timeout_ms(request))
    size_bytes = body_length(request, wanted=True)
    with body_room(found.admission, size_bytes) as room:
        body = await read_body(request, size_bytes, deadline, room.arrived, found.limits)
        message = decoded(bytes(body), _DRAIN, found.limits)
        await found.drain(note_of(request, message.who, message.why), message.draining, deadline)
    return json_reply(_gateway(found), media)


def _gateway(found: Gateway) -> messages.GatewayReply:
    note = found.draining
    who, why = ("", "") if note is None else (note.who, note.why)
    return messages.GatewayReply(note is not None, who, why, found.open_work())
