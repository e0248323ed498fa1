"""Producers and drivers: register, claim sequences, settle, close, ack, explain."""

from typing import Any

import msgspec
from fastapi import Request, Response

from oncegate.core.claims import Verb
from oncegate.core.errors import OncegateError
from oncegate.core.producers import Gaps
from oncegate.engine.producer_requests import AckRequest, DriverRequest, ProducerRequest, ProducerView, ResolveRequest
from oncegate.engine.requests import ClaimResult, SequenceRequest
from oncegate.transports.decode import identifiers, sequences
from oncegate.transports.http import codecs, messages
from oncegate.transports.http.head import note_of, shard_of
from oncegate.transports.http.inbound import Inbound, admitted
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.negotiation import JSON, PACKED, accepted
from oncegate.transports.http.openapi import operations_producers
from oncegate.transports.http.outbound import ENCODINGS, RAW, answer_weight, json_reply, verdicts_reply
from oncegate.transports.http.query import query, without_shadow
from oncegate.transports.http.taking import Routes
from oncegate.transports.incoming import offload
from oncegate.transports.pages import page_of_intervals
from oncegate.transports.writes import source_of_ack

# A name may hold slashes (a file's path is one): everything up to the verb is the name.
router = Routes(default_response_class=Response, prefix="/v1/namespaces/{namespace}", tags=["producers"])

_DRIVER = msgspec.json.Decoder(messages.DriverRequest)
_ACK = msgspec.json.Decoder(messages.AckRequest)
_PRODUCER = msgspec.json.Decoder(messages.ProducerRequest)
_CLAIM = msgspec.json.Decoder(messages.SequencesRequest)
_SETTLE = msgspec.json.Decoder(messages.SettleSequencesRequest)
_RESOLVE = msgspec.json.Decoder(messages.ResolveSequencesRequest)
_CLOSE = msgspec.json.Decoder(messages.CloseRequest)


@router.post("/drivers/{driver:path}:register", openapi_extra=operations_producers.REGISTER_DRIVER)
async def register_driver(request: Request) -> Response:
    """Register a driver, who owns the retries from now on: an older one's acks are FENCED."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, driver = await inbound.message(_DRIVER), inbound.request.path_params["driver"]
        engine_request = DriverRequest(driver, identifiers.hex_bytes(message.token, 16, "token"))
        result = await inbound.shard.register_driver(engine_request, inbound.deadline)
        reply = messages.DriverReply(driver, result.epoch, result.batch)
        return json_reply(reply, inbound.wanted, shard=inbound.shard)


@router.post("/drivers/{driver:path}:ack", openapi_extra=operations_producers.ACK)
async def ack(request: Request) -> Response:
    """Take note that nobody retries these any more: STALE for ever. Each part is refused, or takes effect, alone."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, driver = await inbound.message(_ACK), inbound.request.path_params["driver"]
        upto = [(one.producer, one.sequence) for one in message.upto]
        sequences.of_numbers([sequence for _, sequence in upto], "sequence")
        token = identifiers.hex_bytes(message.token, 16, "token")
        engine_request = AckRequest(
            driver,
            message.epoch,
            token,
            tuple(upto),
            message.batch,
            *source_of_ack(message.topic, message.source_offsets, inbound.limits),
        )
        result = await inbound.shard.ack(engine_request, inbound.deadline)
        moved = [messages.WatermarkMessage(*pair) for pair in result.watermarks]
        refused = [_refused(error) for error in result.refused]
        return json_reply(messages.AckReply(driver, moved, result.batch, refused), inbound.wanted, shard=inbound.shard)


def _refused(error: OncegateError) -> messages.RefusedPart:
    code: Any = error.code
    action: Any = error.action
    extra: Any = dict(error.extra)
    claims = [identifiers.claim_text(claim) for claim in extra.pop("claims", ())]
    return messages.RefusedPart(code, action, error.detail, claims=claims, **extra)


@router.post("/producers/{producer:path}:register", openapi_extra=operations_producers.REGISTER)
async def register(request: Request) -> Response:
    """Make a producer this attempt's, under a new epoch, once no other's lease lives; tell where it stands."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, producer = await inbound.message(_PRODUCER), inbound.request.path_params["producer"]
        token, driver = identifiers.hex_bytes(message.token, 16, "token"), message.driver
        gaps, source_id = Gaps[message.gaps.upper()], message.source_id
        engine_request = ProducerRequest(producer, token, driver, message.lease_ms, gaps, source_id=source_id)
        result = await inbound.shard.register(engine_request, inbound.deadline)
        reply = messages.ProducerReply(
            producer,
            result.producer_id,
            result.epoch,
            result.lease_ms,
            result.watermark,
            result.claimed_to,
            result.resume_after,
            result.done.tolist(),
            result.truncated,
        )
        return json_reply(reply, inbound.wanted, shard=inbound.shard)


@router.post("/producers/{producer:path}:claim", openapi_extra=operations_producers.CLAIM)
async def claim(request: Request) -> Response:
    """Decide which sequences may be written: one verdict per sequence, in order; a duplicate is a success."""
    async with admitted(request, ENCODINGS, ENCODINGS) as inbound:
        read = _request_of_json if inbound.media == JSON else _request_of_raw
        engine_request = await offload(inbound.weight, read, inbound)
        result = await inbound.shard.claim_sequences(engine_request, inbound.deadline)
        return await inbound.answer(answer_weight(result), _claimed, result, engine_request.call, inbound)


def _claimed(result: ClaimResult, call: int, inbound: Inbound) -> Response:
    if inbound.wanted in RAW:
        return verdicts_reply(without_shadow(inbound.request, result, inbound.wanted), inbound.wanted, inbound.shard)
    verdicts = codecs.verdict_messages(result)
    return json_reply(messages.SequencesReply(call, result.lease_ms, verdicts), inbound.wanted, shard=inbound.shard)


def _request_of_json(inbound: Inbound) -> SequenceRequest:
    message = decoded(inbound.whole, _CLAIM, inbound.limits)
    token = identifiers.hex_bytes(message.token, 16, "token")
    found = sequences.of_json(message.sequences, message.first, message.last, inbound.limits)
    if message.prev_sequence is not None:
        sequences.of_numbers([message.prev_sequence], "prev_sequence")
    return SequenceRequest(
        inbound.request.path_params["producer"],
        message.epoch,
        token,
        message.call,
        found,
        message.prev_sequence,
        message.lease_ms,
    )


def _request_of_raw(inbound: Inbound) -> SequenceRequest:
    token, call = inbound.token, inbound.call
    epoch = inbound.wanted_number("Oncegate-Epoch")
    prev, lease_ms = inbound.number("Oncegate-Prev-Sequence"), inbound.lease_ms
    is_packed, body = inbound.media == PACKED, inbound.whole
    found = sequences.of_packed(body) if is_packed else sequences.of_arrow(body, inbound.limits)
    return SequenceRequest(inbound.request.path_params["producer"], epoch, token, call, found, prev, lease_ms)


@router.post("/producers/{producer:path}:renew", openapi_extra=operations_producers.RENEW)
async def renew(request: Request) -> Response:
    """Extend the producer's lease: a full one from now."""
    return await _settle(request, Verb.RENEW)


@router.post("/producers/{producer:path}:complete", openapi_extra=operations_producers.COMPLETE)
async def complete(request: Request) -> Response:
    """Settle a call whose sequences are written: DUPLICATE for everyone from now on."""
    return await _settle(request, Verb.COMPLETE)


@router.post("/producers/{producer:path}:release", openapi_extra=operations_producers.RELEASE)
async def release(request: Request) -> Response:
    """Give sequences back that were not written and will not be: they may be claimed again at once."""
    return await _settle(request, Verb.RELEASE)


async def _settle(request: Request, verb: Verb) -> Response:
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, producer = await inbound.message(_SETTLE), inbound.request.path_params["producer"]
        token, epoch = identifiers.hex_bytes(message.token, 16, "token"), message.epoch
        shard = inbound.shard
        result = await shard.settle_sequences(verb, producer, epoch, token, message.call, inbound.deadline)
        state: Any = result.state.name
        reply = messages.SettleSequencesReply(producer, result.call, state, result.settled, result.lease_ms)
        return json_reply(reply, inbound.wanted, shard=shard)


@router.post("/producers/{producer:path}:resolve", openapi_extra=operations_producers.RESOLVE)
async def resolve(request: Request) -> Response:
    """Clear what a dead task has claimed of a producer and not settled; a person says whether it was done."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, producer = await inbound.message(_RESOLVE), inbound.request.path_params["producer"]
        given = [number for number in (message.first, message.last) if number is not None]
        sequences.of_numbers(given, "first, last")
        note = note_of(request, message.who, message.why)
        asked = ResolveRequest(message.outcome == "done", note.who, note.why)
        span = (message.first, message.last)
        resolved = await inbound.shard.resolve_producer(producer, span, asked, inbound.deadline)
        return json_reply(messages.ResolveReply(message.outcome, resolved), inbound.wanted, shard=inbound.shard)


@router.post("/producers/{producer:path}:close", openapi_extra=operations_producers.CLOSE)
async def close(request: Request) -> Response:
    """End the lease: whoever registers next need not wait. What is open may be taken over."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, producer = await inbound.message(_CLOSE), inbound.request.path_params["producer"]
        token, epoch = identifiers.hex_bytes(message.token, 16, "token"), message.epoch
        await inbound.shard.close_producer(producer, epoch, token)
        return json_reply(messages.CloseReply(producer, epoch), inbound.wanted, shard=inbound.shard)


@router.get("/producers/{producer:path}", openapi_extra=operations_producers.EXPLAIN)
async def explain(request: Request) -> Response:
    """Tell what is known about a producer: who holds it, its watermark, what is claimed and what is done."""
    media = accepted(request, [JSON])
    shard = shard_of(request)
    asked = query(request, messages.IntervalsQuery)
    known = await shard.explain_producer(request.path_params["producer"])
    return json_reply(_explained(known, asked), media, shard=shard)


def _explained(known: ProducerView, asked: messages.IntervalsQuery) -> messages.ProducerExplained:
    (done, unfinished), following = page_of_intervals((known.done, known.open), asked.after, asked.limit)
    return messages.ProducerExplained(
        producer=known.producer,
        producer_id=known.producer_id,
        driver=known.driver,
        epoch=known.epoch,
        token=known.token.hex(),
        lease_ms=known.lease_ms,
        lease_left_ms=known.lease_left_ms,
        watermark=known.watermark,
        claimed_to=known.claimed_to,
        resume_after=known.resume_after,
        done=done.tolist(),
        open=unfinished.tolist(),
        next=following,
    )
