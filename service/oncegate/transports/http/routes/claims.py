"""Free ids: claim, renew, complete, release, take, look up, explain."""

from typing import Any

import msgspec
from fastapi import Request, Response

from oncegate.core.claims import IdState, Verb
from oncegate.core.errors import BadRequest
from oncegate.engine import id_sets
from oncegate.engine.producer_requests import ResolveRequest
from oncegate.engine.requests import ClaimRequest, ClaimResult, LookUpRequest, TakeRequest
from oncegate.engine.retention import Explained, kept_until_ms
from oncegate.transports.decode import identifiers, ids, names, payloads
from oncegate.transports.decode.batch_scopes import scope_of
from oncegate.transports.http import codecs, messages
from oncegate.transports.http.head import gateway_of, note_of, shard_of
from oncegate.transports.http.inbound import Inbound, admitted
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.negotiation import JSON, PACKED, accepted
from oncegate.transports.http.openapi import operations, operations_producers
from oncegate.transports.http.outbound import ENCODINGS, RAW, answer_weight, json_reply, reply, verdicts_reply
from oncegate.transports.http.query import located, without_shadow
from oncegate.transports.http.taking import Routes
from oncegate.transports.incoming import offload

router = Routes(default_response_class=Response, prefix="/v1/namespaces/{namespace}", tags=["claims"])

_CLAIM = msgspec.json.Decoder(messages.ClaimRequest)
_ANSWERS = (JSON,)
_Told = messages.TakeReply | messages.LookUpReply
_COMPLETE = msgspec.json.Decoder(messages.CompleteRequest)
_TAKE = msgspec.json.Decoder(messages.TakeRequest)
_LOOK_UP = msgspec.json.Decoder(messages.LookUpRequest)
_RESOLVE = msgspec.json.Decoder(messages.ResolveRequest)


@router.post("/ids:claim", openapi_extra=operations.CLAIM)
async def claim(request: Request) -> Response:
    """Decide which ids this attempt may write: one verdict per id, in order; a duplicate is a success."""
    async with admitted(request, ENCODINGS, ENCODINGS, claims=True) as inbound:
        read = _request_of_json if inbound.media == JSON else _request_of_raw
        engine_request = await offload(inbound.weight, read, inbound)
        result = await inbound.claims.claim(engine_request, inbound.deadline)
        id_set = engine_request.id_set or id_sets.CLAIMED
        result = without_shadow(request, result, inbound.wanted)
        return await inbound.answer(
            answer_weight(result), verdicts_reply, result, inbound.wanted, inbound.claims, id_set
        )


def _request_of_json(inbound: Inbound) -> ClaimRequest:
    message = decoded(inbound.whole, _CLAIM, inbound.limits)
    token, locate = identifiers.hex_bytes(message.token, 16, "token"), located(inbound.request)
    printer = inbound.claims.fingerprints(message.id_set, id_sets.CLAIMED)
    fingerprints = ids.of_json(message.ids, printer, inbound.limits)
    scope = scope_of(message.driver, message.batch)
    digests = None
    if message.payloads is not None:
        digests = payloads.of_json(message.payloads, len(fingerprints), inbound.claims.payloads, inbound.limits)
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
    )


def _request_of_raw(inbound: Inbound) -> ClaimRequest:
    lease_ms, token, call, scope = inbound.lease_ms, inbound.token, inbound.call, inbound.scope
    printer = inbound.claims.fingerprints(inbound.id_set, id_sets.CLAIMED)
    found, digests = _raw_ids_and_payloads(inbound, printer)
    return ClaimRequest(
        token,
        call,
        found,
        lease_ms=lease_ms,
        scope=scope,
        digests=digests,
        id_set=inbound.id_set,
        locate=located(inbound.request),
        made_ms=printer.made_ms,
    )


def _raw_ids_and_payloads(inbound: Inbound, printer: ids.Printer) -> tuple[ids.Fingerprints, payloads.Digests | None]:
    """Payloads stand in the body where a header says so."""
    claims, limits, headers = inbound.claims, inbound.limits, inbound.request.headers
    if inbound.media == PACKED:
        if payloads.wants_packed(headers.get(payloads.PACKED_HEADER)):
            alone, beside = payloads.split_packed(inbound.whole)
            return ids.of_packed(alone, printer, limits), claims.payloads.of_packed(beside)
    elif columns := payloads.column_names(headers.get(payloads.COLUMNS_HEADER)):
        return payloads.of_arrow(inbound.whole, columns, printer, claims.payloads, limits)
    return _raw_ids(inbound, printer), None


def _raw_ids(inbound: Inbound, printer: ids.Printer) -> ids.Fingerprints:
    read = ids.of_packed if inbound.media == PACKED else ids.of_arrow
    return read(inbound.whole, printer, inbound.limits)


@router.post("/ids:take", openapi_extra=operations.TAKE)
async def take(request: Request) -> Response:
    """Decide which ids are this owner's: an id belongs to the first owner that asks; repeating is harmless."""
    async with admitted(request, ENCODINGS, ENCODINGS) as inbound:
        engine_request = await offload(inbound.weight, _take_request, inbound)
        id_set = id_sets.chosen(engine_request.id_set, id_sets.TAKEN, inbound.limits)
        result = await inbound.shard.take(engine_request, inbound.deadline)
        return await inbound.answer(answer_weight(result), _without_claim, result, inbound, id_set, messages.TakeReply)


def _without_claim(result: ClaimResult, inbound: Inbound, id_set: str, message: type[_Told]) -> Response:
    if inbound.wanted in RAW:
        result = without_shadow(inbound.request, result, inbound.wanted)
        return verdicts_reply(result, inbound.wanted, inbound.shard, id_set)
    verdicts = codecs.verdict_messages(result)
    return json_reply(message(verdicts, id_set), inbound.wanted, shard=inbound.shard)


@router.post("/ids:lookup", openapi_extra=operations.LOOK_UP)
async def look_up(request: Request) -> Response:
    """Tell what is known of ids and grant none: one verdict per id, in order; nothing is written."""
    async with admitted(request, ENCODINGS, ENCODINGS) as inbound:
        asked, id_set = await offload(inbound.weight, _look_up_request, inbound)
        result = await inbound.shard.look_up(asked, inbound.deadline)
        return await inbound.answer(
            answer_weight(result), _without_claim, result, inbound, id_set, messages.LookUpReply
        )


def _look_up_request(inbound: Inbound) -> tuple[LookUpRequest, str]:
    message = decoded(inbound.whole, _LOOK_UP, inbound.limits) if inbound.media == JSON else None
    id_set = inbound.id_set if message is None else message.id_set
    printer = inbound.shard.fingerprints(id_set, id_sets.CLAIMED)
    found = _raw_ids(inbound, printer) if message is None else ids.of_json(message.ids, printer, inbound.limits)
    asked = LookUpRequest(found, located(inbound.request), printer.made_ms)
    return asked, id_sets.chosen(id_set, id_sets.CLAIMED, inbound.limits)


def _take_request(inbound: Inbound) -> TakeRequest:
    if inbound.media == JSON:
        message = decoded(inbound.whole, _TAKE, inbound.limits)
        owner, scope, id_set = message.owner, scope_of(message.driver, message.batch), message.id_set
        printer = inbound.shard.fingerprints(id_set, id_sets.TAKEN)
        taken = ids.of_json(message.ids, printer, inbound.limits)
    else:
        owner = identifiers.percent_decoded(inbound.header("Oncegate-Owner"), "Oncegate-Owner")
        scope, id_set = inbound.scope, inbound.id_set
        printer = inbound.shard.fingerprints(id_set, id_sets.TAKEN)
        taken = _raw_ids(inbound, printer)
    return TakeRequest(
        names.owner_bytes(owner, inbound.limits),
        taken,
        scope=scope,
        id_set=id_set,
        locate=located(inbound.request),
        made_ms=printer.made_ms,
    )


@router.post("/claims/{claim}:renew", openapi_extra=operations.RENEW)
async def renew(request: Request) -> Response:
    """Extend a claim: a full lease from now."""
    return await _settle(request, Verb.RENEW)


@router.post("/claims/{claim}:complete", openapi_extra=operations.COMPLETE)
async def complete(request: Request) -> Response:
    """Settle a claim whose ids are written: DUPLICATE for everyone from now on; a body may bring a result."""
    if request.headers.get("Content-Length", "0") == "0" and "Transfer-Encoding" not in request.headers:
        return await _settle(request, Verb.COMPLETE)
    async with admitted(request, _ANSWERS, _ANSWERS, claims=True) as inbound:
        message, claim_id = await inbound.message(_COMPLETE), identifiers.claim_bytes(request.path_params["claim"])
        result = await inbound.claims.settle(Verb.COMPLETE, claim_id, inbound.deadline, message.result)
        return reply(codecs.settle_json(result), inbound.wanted, inbound.claims)


@router.post("/claims/{claim}:release", openapi_extra=operations.RELEASE)
async def release(request: Request) -> Response:
    """Give a claim back whose ids were not written and will not be: free for everyone at once."""
    return await _settle(request, Verb.RELEASE)


async def _settle(request: Request, verb: Verb) -> Response:
    async with admitted(request, (), _ANSWERS, claims=True) as inbound:
        claim_id = identifiers.claim_bytes(request.path_params["claim"])
        result = await inbound.claims.settle(verb, claim_id, inbound.deadline)
        return reply(codecs.settle_json(result), inbound.wanted, inbound.claims)


@router.post("/claims/{claim}:resolve", openapi_extra=operations_producers.RESOLVE_CLAIM)
async def resolve(request: Request) -> Response:
    """Clear the claim that a dead task has left; a person says whether its ids were written."""
    async with admitted(request, [JSON], _ANSWERS) as inbound:
        message, claim_id = await inbound.message(_RESOLVE), identifiers.claim_bytes(request.path_params["claim"])
        note = note_of(request, message.who, message.why)
        is_done = message.outcome == "done"
        if is_done and message.verb is not None:
            raise BadRequest(f"verb {message.verb} is of what is not done, and outcome is done; nothing was changed")
        asked = ResolveRequest(is_done, note.who, note.why, message.holder_gone, message.verb or "")
        resolved = await inbound.shard.resolve_claim(claim_id, asked, inbound.deadline)
        return json_reply(messages.ResolveReply(message.outcome, resolved), inbound.wanted, shard=inbound.shard)


@router.get("/ids:explain", openapi_extra=operations.EXPLAIN)
async def explain(request: Request) -> Response:
    """Tell what is known about one id: its state, who holds it, since when, how long the lease still runs."""
    media = accepted(request, [JSON])
    columns = request.query_params.getlist("id")
    if not columns:
        raise BadRequest("the parameter id is missing: it is there once per column of the id")
    shard, limits = shard_of(request), gateway_of(request).limits
    id_set = request.query_params.get("id_set", id_sets.CLAIMED)
    asked: ids.Id = columns[0] if len(columns) == 1 else [*columns]
    fingerprint = ids.of_json([asked], shard.fingerprints(id_set, id_sets.CLAIMED), limits)
    known = await shard.explain(fingerprint.tobytes())
    reply = _explained(known, id_set, shard.settings.horizon_ms, fingerprint.tobytes())
    return json_reply(reply, media, shard=shard)


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
