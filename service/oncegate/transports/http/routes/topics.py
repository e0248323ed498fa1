"""Topics: made, produced to, read back by offset."""

from dataclasses import replace
from typing import Annotated, Any

import msgspec
import numpy as np
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, NotFound
from oncegate.engine.requests import ClaimResult, ProduceRequest, ProduceResult, Rows, Schema, TopicRequest, TopicView
from oncegate.transports.decode import (
    arrow_ipc,
    batch_scopes,
    identifiers,
    ids,
    json_rows,
    payloads,
    records,
    sequences,
)
from oncegate.transports.http import codecs
from oncegate.transports.http.inbound import (
    Inbound,
    admitted,
    aside,
    decoded,
    gateway_of,
    query,
    shard_of,
    whole_number,
)
from oncegate.transports.http.messages import claims as messages
from oncegate.transports.http.negotiation import ARROW, JSON, PACKED, accepted
from oncegate.transports.http.openapi import operations
from oncegate.transports.http.outbound import DOORS, json_reply, reply, verdicts_reply

router = APIRouter(default_response_class=Response, prefix="/v1/namespaces/{namespace}/topics", tags=["topics"])

MAX_ROWS_DEFAULT = 100_000


_PRODUCE = msgspec.json.Decoder(messages.ProduceRequest)
_TOPIC = msgspec.json.Decoder(messages.TopicRequest)


@router.post("/{topic}/records:produce", openapi_extra=operations.PRODUCE)
async def produce(request: Request) -> Response:
    """Write rows at once. With ids each takes effect once; without (`plain`) a repeat is written again."""
    async with admitted(request, (ARROW, JSON), DOORS) as inbound:
        topic = identifiers.topic_name(request.path_params["topic"])
        if inbound.media == JSON:
            ask = await _ask_json(inbound, topic)
        else:
            ask = await aside(len(inbound.body), _ask_arrow, inbound, topic)
        is_plain = ask.ids is None and ask.sequenced is None
        wanted = accepted(request, [JSON] if is_plain else [JSON, PACKED, ARROW])
        answer = await inbound.shard.produce(ask, inbound.deadline)
        if is_plain:
            note_plain(request, topic)
        return _produced(answer, wanted, inbound)


def names(text: str) -> list[str]:
    """Column names from a comma separated list; BadRequest when one is there twice."""
    return ids.once([name.strip() for name in text.split(",") if name.strip()], "a column")


def _ask_arrow(inbound: Inbound, topic: str) -> ProduceRequest:
    asked, token, call = query(inbound.request, messages.ProduceQuery), inbound.token, inbound.call
    rows = arrow_ipc.read_rows(inbound.body, inbound.limits)
    columns = (names(asked.id_col), names(asked.key_col), names(asked.digest_col))
    ask = _ask(inbound, topic, token, call, rows, columns)
    scope = batch_scopes.of_headers(inbound.request, inbound.limits)
    return replace(ask, scope=scope, sequenced=sequences.of_rows(rows, asked, token, call))


async def _ask_json(inbound: Inbound, topic: str) -> ProduceRequest:
    message = decoded(inbound.body, _PRODUCE)
    token = identifiers.hex_bytes(message.token, 16, "token")
    try:
        schema = (await inbound.shard.topic(topic)).schema
    except NotFound:  # its first write makes it
        schema = None
    return await aside(len(inbound.body), _ask_records, inbound, topic, token, message, schema)


def _ask_records(
    inbound: Inbound, topic: str, token: bytes, message: messages.ProduceRequest, schema: Schema | None
) -> ProduceRequest:
    rows = json_rows.rows_of(message.records, schema, inbound.limits)
    columns = (message.id_col or [], message.key_col or [], message.digest_col or [])
    ask = _ask(inbound, topic, token, message.call, rows, columns)
    scope = batch_scopes.of_members(message.driver, message.batch, inbound.limits)
    return replace(ask, scope=scope, sequenced=sequences.of_rows(rows, message, token, message.call))


def _ask(
    inbound: Inbound, topic: str, token: bytes, call: int, rows: Rows, columns: tuple[list[str], list[str], list[str]]
) -> ProduceRequest:
    """`columns`: the id's, the key's and the payload's."""
    id_col, key_col, digest_col = columns
    named = ids.key_names(id_col, "id_col")
    found = ids.of_rows(rows, named, inbound.shard.fingerprints, inbound.limits) if named else None
    keys, digests = keys_of(inbound, rows, key_col), None
    if beside := ids.key_names(digest_col, "digest_col"):
        if found is None:
            raise BadRequest("digest_col tells payloads of one id apart, and without id_col no row has an id")
        digests = payloads.of_rows(rows, beside, inbound.shard.payloads, inbound.limits)
    return ProduceRequest(topic, token, call, rows, found, keys, digests=digests)


def keys_of(inbound: Inbound, rows: Rows, key_col: list[str]) -> NDArray[np.uint64] | None:
    """A hash of each row's key; None without key columns."""
    missing = [name for name in ids.key_names(key_col, "key_col") if name not in rows.schema.names]
    if missing:
        raise BadRequest(f"key_col names {missing[0]!r}, and the rows have {', '.join(rows.schema.names)}")
    if not key_col:
        return None
    found = [inbound.shard.row_fingerprints.keys_of(batch, key_col) for batch in rows.batches]
    return np.concatenate([np.zeros(0, np.uint64), *found])


def _produced(answer: ProduceResult, media: str, inbound: Inbound) -> Response:
    offsets = [messages.PartitionOffset(span.partition, span.first_offset, span.rows) for span in answer.spans]
    text = ",".join(f"{span.partition}:{span.first_offset}:{span.rows}" for span in answer.spans)
    if answer.verdicts is None or answer.numbers is None:
        return json_reply(messages.ProduceReply(answer.rows, offsets), shard=inbound.shard)
    if media == JSON:
        verdicts = codecs.verdict_messages(answer.verdicts, answer.numbers)
        return json_reply(messages.ProduceReply(answer.rows, offsets, verdicts), shard=inbound.shard)
    told = ClaimResult(None, 0, answer.verdicts, answer.numbers)
    return verdicts_reply(told, media, inbound.shard, {"Oncegate-Offsets": text})


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
    columns: Annotated[str, Query(description="only these, comma separated; none: all")] = "",
) -> Response:
    """Rows by offset, as Arrow or JSON; only what is durable is ever seen."""
    media = accepted(request, [ARROW, JSON])
    partition = whole_number(request.path_params["partition"], "partition")
    shard, limits = shard_of(request), gateway_of(request).limits
    with gateway_of(request).admission.hold(0):
        rows = min(max_rows, limits.fetch_rows)
        found = await records.read(
            shard, request.path_params["topic"], partition, offset, rows, limits.body_bytes, names(columns)
        )
        made = records.as_arrow if media == ARROW else records.as_json
        body = await aside(sum(batch.nbytes for batch in found.batches), made, found)
    headers = {
        "Oncegate-Next-Offset": str(found.next_offset),
        "Oncegate-High-Offset": str(found.high_offset),
    }
    return reply(body, media, shard, headers)


@router.put("/{topic}", openapi_extra=operations.CREATE_TOPIC)
async def create_topic(request: Request) -> Response:
    """Make a topic with its partitions and retention, or change its retention: 201 when it is new, 200 when not."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message = decoded(inbound.body, _TOPIC)
        name = identifiers.topic_name(request.path_params["topic"])
        schema = None if message.schema_ipc is None else arrow_ipc.read_schema(message.schema_ipc)
        ask = TopicRequest(name, message.partitions, message.retention_ms, message.retention_bytes, schema)
        view, created = await inbound.shard.create_topic(ask, inbound.deadline)
        return json_reply(_shown(view), 201 if created else 200, inbound.shard)


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
    schema: Any = view.schema
    return messages.TopicReply(
        topic=view.name,
        partitions=view.partitions,
        schema=", ".join(f"{field.name} {field.type}" for field in schema or ()),
        schema_ipc=None if schema is None else schema.serialize().to_pybytes(),
        low_offsets=view.low_offsets,
        high_offsets=view.high_offsets,
        retention_ms=view.retention_ms,
        retention_bytes=view.retention_bytes,
    )
