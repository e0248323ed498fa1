"""Lanes, by which clients write a producer's rows into Kafka themselves: open, ask."""

import msgspec
from fastapi import Request, Response

from oncegate.transports.http import messages
from oncegate.transports.http.inbound import admitted
from oncegate.transports.http.negotiation import JSON
from oncegate.transports.http.openapi import operations_producers
from oncegate.transports.http.outbound import json_reply
from oncegate.transports.http.taking import Routes
from oncegate.transports.writes import lane_question

router = Routes(default_response_class=Response, prefix="/v1/namespaces/{namespace}/topics/{topic}", tags=["producers"])

_OPEN = msgspec.json.Decoder(messages.OpenLaneRequest)
_ASK = msgspec.json.Decoder(messages.AskLaneRequest)


@router.post("/lanes:open", openapi_extra=operations_producers.OPEN_LANE)
async def open_lane(request: Request) -> Response:
    """Make or find the lane by which a client writes a producer's rows into a topic of Kafka itself."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, topic = await inbound.message(_OPEN), inbound.request.path_params["topic"]
        opened = await inbound.shard.open_lane(topic, message.producer, inbound.deadline, message.source_id)
        place = opened.place
        reply = messages.OpenLaneReply(
            message.producer,
            opened.lane,
            place.ledger.hex(),
            place.brokers,
            place.topic,
            place.partition,
            place.transactional_id,
        )
        return json_reply(reply, inbound.wanted, shard=inbound.shard)


@router.post("/lanes:ask", openapi_extra=operations_producers.ASK_LANE)
async def ask_lane(request: Request) -> Response:
    """Tell which sequences of a lane are written. Whoever asks has started its transactional id before."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message, topic = await inbound.message(_ASK), inbound.request.path_params["topic"]
        span = message.first, message.last
        question = lane_question(topic, message.producer, span, message.acked, message.topic_id)
        answer = await inbound.shard.ask_lane(question, inbound.deadline)
        found = [(first, last) for first, last in answer.duplicates.tolist()]
        return json_reply(messages.AskLaneReply(message.producer, found), inbound.wanted, shard=inbound.shard)
