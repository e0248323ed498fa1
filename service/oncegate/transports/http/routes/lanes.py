"""Routes of lanes, through which clients write a producer's rows to Kafka directly: open, ask."""

import msgspec
from fastapi import Response

from oncegate.transports.http import messages
from oncegate.transports.http.answers import json_reply
from oncegate.transports.http.call import Call
from oncegate.transports.http.parameters import JSON
from oncegate.transports.http.routing import Routes
from oncegate.transports.writes import lane_question

routes = Routes("/v1/namespaces/{namespace}/topics/{topic}", "producers")

_OPEN = msgspec.json.Decoder(messages.OpenLaneRequest)
_ASK = msgspec.json.Decoder(messages.AskLaneRequest)


@routes.post("/lanes:open", "openLane", [JSON], [JSON])
async def open_lane(call: Call) -> Response:
    """Create or return the lane through which a client writes a producer's rows to a Kafka topic directly."""
    message, topic = await call.message(_OPEN), call.path["topic"]
    opened = await call.namespace.direct.open(topic, message.producer, call.deadline, message.source_id)
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
    return json_reply(reply, call.wanted, serving=call.namespace)


@routes.post("/lanes:ask", "askLane", [JSON], [JSON])
async def ask_lane(call: Call) -> Response:
    """Return the written sequences of a lane. The caller must have initialized its transactional id before."""
    message, topic = await call.message(_ASK), call.path["topic"]
    span = message.first, message.last
    question = lane_question(topic, message.producer, span, message.acked, message.topic_id)
    answer = await call.namespace.direct.ask(question, call.deadline)
    found = [(first, last) for first, last in answer.duplicates.tolist()]
    return json_reply(messages.AskLaneReply(message.producer, found), call.wanted, serving=call.namespace)
