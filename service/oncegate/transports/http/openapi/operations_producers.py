"""Each producer's and driver's operation, as its part of the OpenAPI document."""

from oncegate.core import errors as e
from oncegate.transports.http import messages
from oncegate.transports.http.openapi import examples_producers, parts
from oncegate.transports.http.openapi.operations import NS
from oncegate.transports.http.openapi.parts import answer, message, operation, reading, writes, writes_as

_PACKED: parts.Json = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "the sequences, 8 bytes each, unsigned, little-endian, strictly increasing",
    }
}
_ARROW: parts.Json = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "one Arrow IPC stream with one column of whole numbers: the sequences, strictly increasing",
    }
}
_HELD = (e.UnknownProducer, e.Fenced)
_EPOCH = parts.raw("Oncegate-Epoch", "as registering answered", 7, required=True)
_PREV = parts.raw("Oncegate-Prev-Sequence", "the source holds nothing between it and the first of these", 16)

REGISTER_DRIVER = operation(
    "registerDriver",
    {
        200: answer(
            "the driver from now on; the same token again has the same epoch",
            json=message(messages.DriverReply, examples_producers.DRIVER_REPLY),
        )
    },
    (*parts.BODIES, e.Fenced),
    writes(NS, "driver"),
    parts.body(json=message(messages.DriverRequest, examples_producers.DRIVER_REQUEST)),
)
ACK = operation(
    "ackProducers",
    {
        200: answer(
            "nobody retries this any more: STALE for ever, durable before anything is forgotten. But for `refused`",
            json=message(messages.AckReply, examples_producers.ACK_REPLY),
        )
    },
    (*parts.BODIES, e.UnknownDriver, e.Fenced, e.NotDriver, e.OlderBatch),
    writes(NS, "driver"),
    parts.body(json=message(messages.AckRequest, examples_producers.ACK_REQUEST)),
)
REGISTER = operation(
    "registerProducer",
    {
        200: answer(
            "this attempt's from now on, and where it stands; the same token again has the same epoch",
            json=message(messages.ProducerReply, examples_producers.PRODUCER_REPLY),
        )
    },
    (*parts.BODIES, e.ProducerBusy, e.OtherDriver, e.SourceReplaced, e.Fenced),
    writes_as(NS, "producer"),
    parts.body(json=message(messages.ProducerRequest, examples_producers.PRODUCER_REQUEST)),
)
CLAIM = operation(
    "claimSequences",
    {
        200: answer(
            "a verdict per sequence, in order; a duplicate is a success",
            json=message(messages.SequencesReply, examples_producers.SEQUENCES_REPLY),
            packed=parts.PACKED_REPLY,
            arrow=parts.ARROW_VERDICTS,
        )
    },
    (*parts.BODIES, *_HELD, e.Gap, e.OutOfOrder, e.TokenReused),
    [*writes_as(NS, "producer"), parts.SHADOW, parts.TOKEN_RAW, parts.CALL_RAW, _EPOCH, _PREV, parts.LEASE_RAW],
    parts.body(
        json=message(messages.SequencesRequest, examples_producers.SEQUENCES_REQUEST),
        packed=_PACKED,
        arrow=_ARROW,
    ),
)


def _settle(operation_id: str, state: str, lease_ms: int = 0) -> parts.Json:
    reply = message(messages.SettleSequencesReply, examples_producers.settled(state, lease_ms))
    return operation(
        operation_id,
        {200: answer("how many of its sequences still named the claim", json=reply)},
        (*parts.BODIES, *_HELD, e.UnknownClaim, e.ReleasedClaim),
        writes(NS, "producer"),
        parts.body(json=message(messages.SettleSequencesRequest, examples_producers.SETTLE)),
    )


RENEW = _settle("renewSequences", "OPEN", 30_000)
COMPLETE = _settle("completeSequences", "DONE")
RELEASE = _settle("releaseSequences", "RELEASED")
CLOSE = operation(
    "closeProducer",
    {
        200: answer(
            "the lease is over: the next attempt may register at once",
            json=message(messages.CloseReply, examples_producers.CLOSE_REPLY),
        )
    },
    (*parts.BODIES, *_HELD),
    writes(NS, "producer"),
    parts.body(json=message(messages.CloseRequest, examples_producers.CLOSE)),
)
EXPLAIN = operation(
    "explainProducer",
    {
        200: answer(
            "what is known about the producer",
            json=message(messages.ProducerExplained, examples_producers.EXPLAINED),
        )
    },
    parts.READS,
    [*reading(NS, "producer"), *parts.query(messages.IntervalsQuery, **examples_producers.INTERVALS_QUERY)],
)


OPEN_LANE = operation(
    "openLane",
    {
        200: answer(
            "with what a client writes this producer's rows itself; the same for ever",
            json=message(messages.OpenLaneReply, examples_producers.OPEN_LANE_REPLY),
        )
    },
    (*parts.BODIES, e.NotFound, e.SourceReplaced),
    writes(NS, "topic"),
    parts.body(json=message(messages.OpenLaneRequest, examples_producers.OPEN_LANE)),
)
ASK_LANE = operation(
    "askLane",
    {
        200: answer(
            "what of it is written; who asked writes the rest, under the transactional id that it has started before",
            json=message(messages.AskLaneReply, examples_producers.ASK_LANE_REPLY),
        )
    },
    (*parts.BODIES, e.NotFound, e.LedgerDamaged),
    writes_as(NS, "topic"),
    parts.body(json=message(messages.AskLaneRequest, examples_producers.ASK_LANE)),
)


def _resolve(
    operation_id: str, place: str, request: type, example: parts.Json, *refusals: type[e.OncegateError]
) -> parts.Json:
    reply = message(messages.ResolveReply, examples_producers.RESOLVE_REPLY)
    return operation(
        operation_id,
        {200: answer("how many ids or sequences are so from now on; 0: nothing was left", json=reply)},
        (*parts.BODIES, e.LeaseLive, *refusals),
        writes(NS, place),
        parts.body(json=message(request, example)),
    )


RESOLVE = _resolve(
    "resolveProducer",
    "producer",
    messages.ResolveSequencesRequest,
    examples_producers.RESOLVE_SEQUENCES,
    e.UnknownProducer,
)
RESOLVE_CLAIM = _resolve(
    "resolveClaim",
    "claim",
    messages.ResolveRequest,
    examples_producers.RESOLVE,
    e.UnknownClaim,
    e.ReleasedClaim,
)
