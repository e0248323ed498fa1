"""Routes of producers and drivers: register, claim sequences, renew, complete, release, close, acknowledge, explain."""

from typing import Any

import msgspec
from fastapi import Response

from oncegate.core.claims import Verb
from oncegate.core.errors import OncegateError
from oncegate.core.producers import Gaps
from oncegate.engine.producer_requests import AckRequest, DriverRequest, ProducerRequest, ProducerView, ResolveRequest
from oncegate.engine.requests import ClaimResult, SequenceRequest
from oncegate.transports.decode import identifiers, sequences
from oncegate.transports.http import answers, messages
from oncegate.transports.http.answers import ENCODINGS, RAW, answer_weight, json_reply, verdicts_reply
from oncegate.transports.http.call import Call
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.parameters import JSON, PACKED
from oncegate.transports.http.routing import Routes
from oncegate.transports.offload import offload
from oncegate.transports.pages import page_of_intervals
from oncegate.transports.writes import source_of_ack

# A producer's name may contain slashes (it may be a file's path): the path up to the verb is the name.
routes = Routes("/v1/namespaces/{namespace}", "producers")

_DRIVER = msgspec.json.Decoder(messages.DriverRequest)
_ACK = msgspec.json.Decoder(messages.AckRequest)
_PRODUCER = msgspec.json.Decoder(messages.ProducerRequest)
_CLAIM = msgspec.json.Decoder(messages.SequencesRequest)
_SETTLE = msgspec.json.Decoder(messages.SettleSequencesRequest)
_RESOLVE = msgspec.json.Decoder(messages.ResolveSequencesRequest)
_CLOSE = msgspec.json.Decoder(messages.CloseRequest)


@routes.post("/drivers/{driver:path}:register", "registerDriver", [JSON], [JSON])
async def register_driver(call: Call) -> Response:
    """Register a driver as the owner of retries: later acks of an older one are FENCED."""
    message, driver = await call.message(_DRIVER), call.path["driver"]
    engine_request = DriverRequest(driver, identifiers.hex_bytes(message.token, 16, "token"))
    result = await call.namespace.drivers.register(engine_request, call.deadline)
    reply = messages.DriverReply(driver, result.epoch, result.batch)
    return json_reply(reply, call.wanted, serving=call.namespace)


@routes.post("/drivers/{driver:path}:ack", "ackProducers", [JSON], [JSON])
async def ack(call: Call) -> Response:
    """Acknowledge sequences and batches that will not be retried: STALE for ever. Parts are refused independently."""
    message, driver = await call.message(_ACK), call.path["driver"]
    upto = [(one.producer, one.sequence) for one in message.upto]
    sequences.of_numbers([sequence for _, sequence in upto], "sequence")
    token = identifiers.hex_bytes(message.token, 16, "token")
    engine_request = AckRequest(
        driver,
        message.epoch,
        token,
        tuple(upto),
        message.batch,
        *source_of_ack(message.topic, message.source_offsets, call.limits),
    )
    result = await call.namespace.drivers.ack(engine_request, call.deadline)
    moved = [messages.WatermarkMessage(*pair) for pair in result.watermarks]
    refused = [_refused(error) for error in result.refused]
    return json_reply(messages.AckReply(driver, moved, result.batch, refused), call.wanted, serving=call.namespace)


def _refused(error: OncegateError) -> messages.RefusedPart:
    code: Any = error.code
    action: Any = error.action
    extra: Any = dict(error.extra)
    claims = [identifiers.claim_text(claim) for claim in extra.pop("claims", ())]
    return messages.RefusedPart(code, action, error.detail, claims=claims, **extra)


@routes.post("/producers/{producer:path}:register", "registerProducer", [JSON], [JSON])
async def register(call: Call) -> Response:
    """Make this attempt a producer's holder under a new epoch, unless another lease is live; return its state."""
    message, producer = await call.message(_PRODUCER), call.path["producer"]
    token, driver = identifiers.hex_bytes(message.token, 16, "token"), message.driver
    gaps, source_id = Gaps[message.gaps.upper()], message.source_id
    engine_request = ProducerRequest(producer, token, driver, message.lease_ms, gaps, call.admitted.sender, source_id)
    result = await call.namespace.producers.register(engine_request, call.deadline)
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
    return json_reply(reply, call.wanted, serving=call.namespace)


@routes.post("/producers/{producer:path}:claim", "claimSequences", ENCODINGS, ENCODINGS)
async def claim(call: Call) -> Response:
    """Decide which sequences may be written: one verdict per sequence, in order; a duplicate is a success."""
    read = _request_of_json if call.media == JSON else _request_of_raw
    engine_request = await offload(call.weight, read, call)
    result = await call.namespace.producers.claim(engine_request, call.deadline)
    return await call.answer(answer_weight(result), _claimed, result, engine_request.call, call)


def _claimed(result: ClaimResult, number: int, call: Call) -> Response:
    if call.wanted in RAW:
        return verdicts_reply(call.without_shadow(result, call.wanted), call.wanted, call.namespace)
    verdicts = answers.verdict_messages(result)
    return json_reply(messages.SequencesReply(number, result.lease_ms, verdicts), call.wanted, serving=call.namespace)


def _request_of_json(call: Call) -> SequenceRequest:
    message = decoded(call.whole, _CLAIM, call.limits)
    token = identifiers.hex_bytes(message.token, 16, "token")
    found = sequences.of_json(message.sequences, message.first, message.last, call.limits)
    if message.prev_sequence is not None:
        sequences.of_numbers([message.prev_sequence], "prev_sequence")
    return SequenceRequest(
        call.path["producer"],
        message.epoch,
        token,
        message.call,
        found,
        message.prev_sequence,
        message.lease_ms,
        sender=call.admitted.sender,
    )


def _request_of_raw(call: Call) -> SequenceRequest:
    token, number = call.token, call.call_number
    epoch = call.wanted_number("Oncegate-Epoch")
    prev, lease_ms = call.number("Oncegate-Prev-Sequence"), call.lease_ms
    is_packed, body = call.media == PACKED, call.whole
    found = sequences.of_packed(body) if is_packed else sequences.of_arrow(body, call.limits)
    return SequenceRequest(
        call.path["producer"], epoch, token, number, found, prev, lease_ms, sender=call.admitted.sender
    )


@routes.post("/producers/{producer:path}:renew", "renewSequences", [JSON], [JSON])
async def renew(call: Call) -> Response:
    """Renew the producer's lease: a full lease from now."""
    return await _settle(call, Verb.RENEW)


@routes.post("/producers/{producer:path}:complete", "completeSequences", [JSON], [JSON])
async def complete(call: Call) -> Response:
    """Complete a call whose sequences are written: they are DUPLICATE from now on."""
    return await _settle(call, Verb.COMPLETE)


@routes.post("/producers/{producer:path}:release", "releaseSequences", [JSON], [JSON])
async def release(call: Call) -> Response:
    """Release sequences that were not written and will not be: they can be claimed again at once."""
    return await _settle(call, Verb.RELEASE)


async def _settle(call: Call, verb: Verb) -> Response:
    message, producer = await call.message(_SETTLE), call.path["producer"]
    token, epoch = identifiers.hex_bytes(message.token, 16, "token"), message.epoch
    namespace = call.namespace
    result = await namespace.producers.settle(verb, producer, epoch, token, message.call, call.deadline)
    state: Any = result.state.name
    reply = messages.SettleSequencesReply(producer, result.call, state, result.settled, result.lease_ms)
    return json_reply(reply, call.wanted, serving=namespace)


@routes.post("/producers/{producer:path}:resolve", "resolveProducer", [JSON], [JSON])
async def resolve(call: Call) -> Response:
    """Resolve the open sequences of a dead task; an operator states whether they were written."""
    message, producer = await call.message(_RESOLVE), call.path["producer"]
    given = [number for number in (message.first, message.last) if number is not None]
    sequences.of_numbers(given, "first, last")
    note = call.note(message.who, message.why)
    asked = ResolveRequest(message.outcome == "done", note.who, note.why)
    span = (message.first, message.last)
    resolved = await call.namespace.operations.leftovers.of_producer(producer, span, asked, call.deadline)
    return json_reply(messages.ResolveReply(message.outcome, resolved), call.wanted, serving=call.namespace)


@routes.post("/producers/{producer:path}:close", "closeProducer", [JSON], [JSON])
async def close(call: Call) -> Response:
    """End the lease, so that the next attempt can register at once. Open sequences may be taken over."""
    message, producer = await call.message(_CLOSE), call.path["producer"]
    token, epoch = identifiers.hex_bytes(message.token, 16, "token"), message.epoch
    await call.namespace.producers.close(producer, epoch, token)
    return json_reply(messages.CloseReply(producer, epoch), call.wanted, serving=call.namespace)


@routes.get("/producers/{producer:path}", "explainProducer")
async def explain(call: Call) -> Response:
    """Explain a producer: its holder, its watermark, and its claimed and done sequences."""
    media = call.accepted(JSON)
    namespace = call.namespace
    asked = call.query_as(messages.IntervalsQuery)
    known = await namespace.producers.explain(call.path["producer"])
    return json_reply(_explained(known, asked), media, serving=namespace)


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
