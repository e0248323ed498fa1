"""Topics: produce without ids, read back by offset."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from oncegate.engine.requests import ProduceAsk, TopicView
from oncegate.transports.http import arrow, identifiers, messages, operations, records
from oncegate.transports.http.inbound import admitted, aside, gateway_of, shard_of, whole_number
from oncegate.transports.http.negotiation import ARROW, JSON, accepted
from oncegate.transports.http.outbound import json_reply, reply

router = APIRouter(default_response_class=Response, prefix="/v1/namespaces/{namespace}/topics", tags=["topics"])

MAX_ROWS_DEFAULT = 100_000


@router.post("/{topic}/records:produce", openapi_extra=operations.PRODUCE)
async def produce(request: Request) -> Response:
    """Write rows at once, without ids (`plain`): at least once on purpose, a repeat is written again."""
    async with admitted(request, [ARROW], [JSON]) as inbound:
        topic = identifiers.topic_name(request.path_params["topic"])
        token, call = inbound.token, inbound.call
        rows = await aside(len(inbound.body), arrow.read_rows, inbound.body, inbound.limits.record_bytes)
        answer = await inbound.shard.produce(ProduceAsk(topic, token, call, rows), inbound.deadline)
        note_plain(request, topic)
        offsets = [messages.PartitionOffset(0, answer.first_offset)]
        return json_reply(messages.ProduceReply(answer.rows, offsets), shard=inbound.shard)


def note_plain(request: Request, topic: str) -> None:
    """Say it aloud, once a process for each topic: rows without ids are written again when they are repeated."""
    key = (request.path_params["namespace"], topic)
    if key not in request.app.state.plain_topics:
        request.app.state.plain_topics.add(key)
        gateway_of(request).observer.event("plain_write", namespace=key[0], topic=topic, promise="at least once")


@router.get("/{topic}/partitions/{partition}/records", openapi_extra=operations.FETCH)
async def fetch(
    request: Request,
    offset: Annotated[int, Query(ge=0, le=2**63 - 1, description="of the first row wanted")] = 0,
    max_rows: Annotated[int, Query(ge=1, le=2**31 - 1, description="fewer may come")] = MAX_ROWS_DEFAULT,
) -> Response:
    """Rows by offset, as Arrow or JSON; only what is durable is ever seen."""
    media = accepted(request, [ARROW, JSON])
    partition = whole_number(request.path_params["partition"], "partition")
    shard, limits = shard_of(request), gateway_of(request).limits
    with gateway_of(request).admission.hold(0):
        rows = min(max_rows, limits.fetch_rows)
        found = await records.read(shard, request.path_params["topic"], partition, offset, rows, limits.body_bytes)
        body = records.as_arrow(found) if media == ARROW else records.as_json(found)
    headers = {
        "Oncegate-Next-Offset": str(found.next_offset),
        "Oncegate-High-Offset": str(found.high_offset),
    }
    return reply(body, media, shard, headers)


@router.get("/{topic}", openapi_extra=operations.TOPIC)
async def topic(request: Request) -> Response:
    """A topic's schema and ends."""
    accepted(request, [JSON])
    shard = shard_of(request)
    return json_reply(_shown(await shard.topic(request.path_params["topic"])), shard=shard)


@router.get("", openapi_extra=operations.TOPICS)
async def topics(request: Request) -> Response:
    """The topics that something was written to."""
    accepted(request, [JSON])
    shard = shard_of(request)
    return json_reply(messages.TopicsReply(shard.topics()), shard=shard)


def _shown(view: TopicView) -> messages.TopicReply:
    schema = ", ".join(f"{field.name} {field.type}" for field in view.schema)
    return messages.TopicReply(view.name, view.partitions, schema, [view.low_offset], [view.high_offset])
