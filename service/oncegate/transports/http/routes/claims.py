"""Routes of free ids: claim, renew, complete, release, take, look up, resolve, explain."""

from typing import Any

import msgspec
from fastapi import Response

from oncegate.core.claims import IdState, Verb
from oncegate.core.errors import BadRequest
from oncegate.engine.names import CLAIMED, TAKEN, chosen
from oncegate.engine.producer_requests import ResolveRequest
from oncegate.engine.requests import ClaimRequest, ClaimResult, LookUpRequest, TakeRequest
from oncegate.engine.retention import Explained, kept_until_ms
from oncegate.transports.decode import identifiers, ids, names, payloads
from oncegate.transports.decode.names import scope_of
from oncegate.transports.http import answers, messages
from oncegate.transports.http.answers import ENCODINGS, RAW, answer_weight, json_reply, reply, verdicts_reply
from oncegate.transports.http.call import Call
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.parameters import JSON, PACKED
from oncegate.transports.http.routing import Routes
from oncegate.transports.offload import offload

routes = Routes("/v1/namespaces/{namespace}", "claims")

_CLAIM = msgspec.json.Decoder(messages.ClaimRequest)
_ANSWERS = (JSON,)
_Told = messages.TakeReply | messages.LookUpReply
_COMPLETE = msgspec.json.Decoder(messages.CompleteRequest)
_TAKE = msgspec.json.Decoder(messages.TakeRequest)
_LOOK_UP = msgspec.json.Decoder(messages.LookUpRequest)
_RESOLVE = msgspec.json.Decoder(messages.ResolveRequest)


@routes.post("/ids:claim", "claimIds", ENCODINGS, ENCODINGS, claims=True)
async def claim(call: Call) -> Response:
    """Decide which ids this attempt may write: one verdict per id, in order; a duplicate is a success."""
    read = _request_of_json if call.media == JSON else _request_of_raw
    engine_request = await offload(call.weight, read, call)
    result = await call.serving.claims.claim(engine_request, call.deadline)
    id_set = engine_request.id_set or CLAIMED
    result = call.without_shadow(result, call.wanted)
    return await call.answer(answer_weight(result), verdicts_reply, result, call.wanted, call.serving, id_set)


def _request_of_json(call: Call) -> ClaimRequest:
    message = decoded(call.whole, _CLAIM, call.limits)
    token, locate = identifiers.hex_bytes(message.token, 16, "token"), call.locate
    printer = call.serving.fingerprints(message.id_set, CLAIMED)
    fingerprints = ids.of_json(message.ids, printer, call.limits)
    scope = scope_of(message.driver, message.batch)
    digests = None
    if message.payloads is not None:
        digests = payloads.of_json(message.payloads, len(fingerprints), call.serving.payloads, call.limits)
    return ClaimRequest(
        token,
        message.call,
        fingerprints,
        lease_ms=message.lease_ms,
        scope=scope,
        digests=digests,
        id_set=message.id_set,
        locate=locate,
        made_ms=printer.made_ms,
        sender=call.admitted.sender,
    )


def _request_of_raw(call: Call) -> ClaimRequest:
    lease_ms, token, number, scope = call.lease_ms, call.token, call.call_number, call.batch_scope
    id_set = call.id_set
    printer = call.serving.fingerprints(id_set, CLAIMED)
    found, digests = _raw_ids_and_payloads(call, printer)
    return ClaimRequest(
        token,
        number,
        found,
        lease_ms=lease_ms,
        scope=scope,
        digests=digests,
        id_set=id_set,
        locate=call.locate,
        made_ms=printer.made_ms,
        sender=call.admitted.sender,
    )


def _raw_ids_and_payloads(call: Call, printer: ids.Printer) -> tuple[ids.Fingerprints, payloads.PayloadDigests | None]:
    """Decodes the ids, and the digests of their payloads if a header declares that the body has payloads."""
    serving, limits, headers = call.serving, call.limits, call.headers
    if call.media == PACKED:
        if payloads.wants_packed(headers.get(payloads.PACKED_HEADER.lower())):
            alone, beside = payloads.split_packed(call.whole)
            return ids.of_packed(alone, printer, limits), serving.payloads.of_packed(beside)
    elif columns := payloads.column_names(headers.get(payloads.COLUMNS_HEADER.lower())):
        return payloads.of_arrow(call.whole, columns, printer, serving.payloads, limits)
    return _raw_ids(call, printer), None


def _raw_ids(call: Call, printer: ids.Printer) -> ids.Fingerprints:
    read = ids.of_packed if call.media == PACKED else ids.of_arrow
    return read(call.whole, printer, call.limits)


@routes.post("/ids:take", "takeIds", ENCODINGS, ENCODINGS)
async def take(call: Call) -> Response:
    """Assign ids to this owner without a lease: an id belongs to the first owner that takes it; idempotent."""
    engine_request = await offload(call.weight, _take_request, call)
    id_set = chosen(engine_request.id_set, TAKEN, call.limits)
    result = await call.namespace.claims.take(engine_request, call.deadline)
    return await call.answer(answer_weight(result), _without_claim, result, call, id_set, messages.TakeReply)


def _without_claim(result: ClaimResult, call: Call, id_set: str, message: type[_Told]) -> Response:
    if call.wanted in RAW:
        result = call.without_shadow(result, call.wanted)
        return verdicts_reply(result, call.wanted, call.namespace, id_set)
    verdicts = answers.verdict_messages(result)
    return json_reply(message(verdicts, id_set), call.wanted, serving=call.namespace)


@routes.post("/ids:lookup", "lookUpIds", ENCODINGS, ENCODINGS)
async def look_up(call: Call) -> Response:
    """Look up ids without granting any: one verdict per id, in order; nothing is written."""
    asked, id_set = await offload(call.weight, _look_up_request, call)
    result = await call.namespace.claims.look_up(asked, call.deadline)
    return await call.answer(answer_weight(result), _without_claim, result, call, id_set, messages.LookUpReply)


def _look_up_request(call: Call) -> tuple[LookUpRequest, str]:
    message = decoded(call.whole, _LOOK_UP, call.limits) if call.media == JSON else None
    id_set = call.id_set if message is None else message.id_set
    printer = call.namespace.fingerprints(id_set, CLAIMED)
    found = _raw_ids(call, printer) if message is None else ids.of_json(message.ids, printer, call.limits)
    asked = LookUpRequest(found, call.locate, printer.made_ms, call.admitted.sender)
    return asked, chosen(id_set, CLAIMED, call.limits)


def _take_request(call: Call) -> TakeRequest:
    if call.media == JSON:
        message = decoded(call.whole, _TAKE, call.limits)
        owner, scope, id_set = message.owner, scope_of(message.driver, message.batch), message.id_set
        printer = call.namespace.fingerprints(id_set, TAKEN)
        taken = ids.of_json(message.ids, printer, call.limits)
    else:
        owner = identifiers.percent_decoded(call.header("Oncegate-Owner"), "Oncegate-Owner")
        scope, id_set = call.batch_scope, call.id_set
        printer = call.namespace.fingerprints(id_set, TAKEN)
        taken = _raw_ids(call, printer)
    return TakeRequest(
        names.owner_bytes(owner, call.limits),
        taken,
        scope=scope,
        id_set=id_set,
        locate=call.locate,
        made_ms=printer.made_ms,
        sender=call.admitted.sender,
    )


@routes.post("/claims/{claim}:renew", "renewClaim", (), _ANSWERS, claims=True)
async def renew(call: Call) -> Response:
    """Extend a claim: a full lease from now."""
    return await _settle(call, Verb.RENEW)


@routes.post("/claims/{claim}:complete", "completeClaim", _ANSWERS, _ANSWERS, optional=True, claims=True)
async def complete(call: Call) -> Response:
    """Complete a claim whose ids are written: they are DUPLICATE from now on; the body may contain a result."""
    return await _settle(call, Verb.COMPLETE, (await call.message(_COMPLETE)).result if call.media else None)


@routes.post("/claims/{claim}:release", "releaseClaim", (), _ANSWERS, claims=True)
async def release(call: Call) -> Response:
    """Release a claim whose ids were not written and will not be: they can be claimed again at once."""
    return await _settle(call, Verb.RELEASE)


async def _settle(call: Call, verb: Verb, result: bytes | None = None) -> Response:
    claim_id = identifiers.claim_bytes(call.path["claim"])
    settled = await call.serving.claims.settle(verb, claim_id, call.deadline, result)
    return reply(answers.settle_json(settled), call.wanted, call.serving)


@routes.post("/claims/{claim}:resolve", "resolveClaim", [JSON], _ANSWERS)
async def resolve(call: Call) -> Response:
    """Resolve the claim of a dead task; an operator states whether its ids were written."""
    message, claim_id = await call.message(_RESOLVE), identifiers.claim_bytes(call.path["claim"])
    note = call.note(message.who, message.why)
    is_done = message.outcome == "done"
    if is_done and message.verb is not None:
        raise BadRequest(f"verb {message.verb} is of what is not done, and outcome is done; nothing was changed")
    asked = ResolveRequest(is_done, note.who, note.why, message.holder_gone, message.verb or "")
    resolved = await call.namespace.operations.leftovers.of_claim(claim_id, asked, call.deadline)
    return json_reply(messages.ResolveReply(message.outcome, resolved), call.wanted, serving=call.namespace)


@routes.get("/ids:explain", "explainId")
async def explain(call: Call) -> Response:
    """Explain an id: its state, its holder, the time of its claim, and the remaining lease."""
    media = call.accepted(JSON)
    columns = call.query.get("id")
    if not columns:
        raise BadRequest("the parameter id is missing: it is there once per column of the id")
    namespace, limits = call.namespace, call.gateway.limits
    id_set = call.query.get("id_set", [CLAIMED])[0]
    asked: ids.Id = columns[0] if len(columns) == 1 else [*columns]
    fingerprint = ids.of_json([asked], namespace.fingerprints(id_set, CLAIMED), limits)
    known = await namespace.claims.explain(fingerprint.tobytes())
    reply = _explained(known, id_set, namespace.settings.horizon_ms, fingerprint.tobytes())
    return json_reply(reply, media, serving=namespace)


def _explained(known: Explained, id_set: str, horizon_ms: int, fingerprint: bytes) -> messages.ExplainReply:
    held = known.state is not IdState.ABSENT
    state: Any = known.state.name
    topic, partition, first_offset = known.written_at or (None, None, None)
    return messages.ExplainReply(
        state=state,
        id_set=id_set,
        fingerprint=fingerprint.hex(),
        claim=None if known.claim is None else identifiers.claim_text(known.claim),
        token=None if known.token is None else known.token.hex(),
        call=None if known.claim is None else known.call,
        lease_left_ms=known.lease_left_ms if known.state is IdState.CLAIMED_LIVE else None,
        position=known.position if held else None,
        wall_ms=known.wall_ms if held else None,
        takeover=known.takeover,
        owner=None if known.owner is None else known.owner.hex(),
        topic=topic,
        partition=partition,
        first_offset=first_offset,
        digest_kept=known.digest_kept,
        kept_until_ms=kept_until_ms(known, horizon_ms),
    )
