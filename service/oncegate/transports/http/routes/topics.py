"""Routes of topics: create, describe, list, produce to, fetch by offset."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import Response
from msgspec import UNSET

from oncegate.core.errors import BadRequest, NotFound
from oncegate.engine.names import chosen, produced
from oncegate.engine.requests import (
    ClaimResult,
    ProduceRequest,
    ProduceResult,
    Rows,
    TopicRequest,
    TopicView,
)
from oncegate.ports import RowRange
from oncegate.transports.decode import arrow_ipc, identifiers, json_rows, names, records
from oncegate.transports.decode.columns import split_names
from oncegate.transports.decode.names import scope_of
from oncegate.transports.decode.sequences import SequenceColumn
from oncegate.transports.http import answers, messages
from oncegate.transports.http.answers import ENCODINGS, RAW, json_reply, reply, verdicts_reply
from oncegate.transports.http.call import Call, sharer_in
from oncegate.transports.http.parameters import ARROW, JSON, JSON_TEXTS, PACKED
from oncegate.transports.http.routing import Routes
from oncegate.transports.offload import offload
from oncegate.transports.pages import page
from oncegate.transports.writes import NamedColumns, ProduceAsked, produce_request, spilled_at

routes = Routes("/v1/namespaces/{namespace}/topics", "topics")

# Longest wait for room in the caller's share of answers in flight. In that time an earlier page is read or its slow
# reader disconnected, and a client retries a refused fetch before its own timeout.
ROOM_WAIT_S = 5.0
_PRODUCE = msgspec.json.Decoder(messages.ProduceRequest)
_TOPIC = msgspec.json.Decoder(messages.TopicRequest)


@routes.post("/{topic}/records:produce", "produceRecords", (ARROW, JSON), ENCODINGS)
async def produce(call: Call) -> Response:
    """Write rows to a topic. With ids, each row takes effect once; without (`plain`), a repeat is written again."""
    topic = names.topic_name(call.path["topic"])
    if call.media == JSON:
        engine_request = await _request_of_json(call, topic)
    else:
        engine_request = await offload(len(call.body), _request_of_arrow, call, topic)
    is_plain = engine_request.ids is None and engine_request.sequenced is None
    wanted = call.accepted(JSON) if is_plain else call.accepted(JSON, PACKED, ARROW)
    result = await call.namespace.records.produce(engine_request, call.deadline)
    weight = 0 if result.verdicts is None else 32 * len(result.verdicts)
    return await call.answer(weight, _produced, engine_request, result, wanted, call)


def _request_of_arrow(call: Call, topic: str) -> ProduceRequest:
    asked, token, number = call.query_as(messages.ProduceQuery), call.token, call.call_number
    rows = arrow_ipc.read_rows(call.body, call.limits)
    named = NamedColumns(*map(split_names, (asked.id_col, asked.key_col, asked.digest_col)))
    where, spilled = call.locate, spilled_at(asked.spilled_ms, call.caller)
    sequences = _sequence_column(asked)
    beside = ProduceAsked(topic, token, number, named, asked.id_set, sequences, call.batch_scope, where, spilled)
    return produce_request(rows, beside, call.admitted)


async def _request_of_json(call: Call, topic: str) -> ProduceRequest:
    message = await call.message(_PRODUCE)
    token = identifiers.hex_bytes(message.token, 16, "token")
    # The worst case: each record has the columns of all records together.
    weight = len(call.body) * len(message.records)
    if (types := call.namespace.topics.record_columns) is not None:
        rows = await offload(weight, json_rows.records_of, message.records, types, call.limits)
    else:
        try:
            schema = (await call.namespace.topics.remembered(topic)).schema
        except NotFound:  # the first write creates the topic
            schema = None
        rows = await offload(weight, json_rows.rows_of, message.records, schema, call.limits)
    return await offload(weight, _request_of_rows, call, topic, token, message, rows)


def _request_of_rows(
    call: Call, topic: str, token: bytes, message: messages.ProduceRequest, rows: Rows
) -> ProduceRequest:
    named = NamedColumns(message.id_col or [], message.key_col or [], message.digest_col or [])
    sequences, scope = _sequence_column(message), scope_of(message.driver, message.batch)
    where, spilled = call.locate, spilled_at(message.spilled_ms, call.caller)
    beside = ProduceAsked(topic, token, message.call, named, message.id_set, sequences, scope, where, spilled)
    return produce_request(rows, beside, call.admitted)


def _sequence_column(asked: messages.ProduceRequest | messages.ProduceQuery) -> SequenceColumn:
    return SequenceColumn(asked.producer, asked.epoch, asked.sequence_col, asked.prev_sequence)


def _produced(request: ProduceRequest, result: ProduceResult, media: str, call: Call) -> Response:
    offsets = messages.partition_offsets(result.spans, request.topic)
    if result.verdicts is None or result.numbers is None:
        return json_reply(messages.ProduceReply(result.rows, offsets), media, serving=call.namespace)
    id_set = None if request.ids is None else chosen(request.id_set, produced(request.topic), call.limits)
    verdicts_alone = ClaimResult(None, 0, result.verdicts, result.numbers, result.located, result.shadow)
    if media not in RAW:
        verdicts = answers.verdict_messages(verdicts_alone)
        named = UNSET if id_set is None else id_set
        before = messages.partition_offsets(result.before, request.topic) or UNSET
        return json_reply(
            messages.ProduceReply(result.rows, offsets, verdicts, named, before), media, serving=call.namespace
        )
    headers = {"Oncegate-Rows": str(result.rows), **_offset_headers("Oncegate-Offsets", result.spans, request.topic)}
    if result.before:
        headers |= _offset_headers("Oncegate-Offsets-Before", result.before, request.topic)
    shown = call.without_shadow(verdicts_alone, media)
    return verdicts_reply(shown, media, call.namespace, id_set, headers)


def _offset_headers(name: str, ranges: Sequence[RowRange], topic: str) -> dict[str, str]:
    """Returns a header of the row ranges, and one of their topics if any differs from the request's topic."""
    headers = {name: ",".join(f"{one.partition}:{one.first_offset}:{one.rows}" for one in ranges)}
    if any(one.topic != topic for one in ranges):
        headers[f"{name}-Topics"] = ",".join(quote(one.topic, safe="") for one in ranges)
    return headers


@routes.get("/{topic}/partitions/{partition}/records", "fetchRecords")
async def fetch(call: Call) -> Response:
    """Read rows by offset, as Arrow or JSON; only durable rows are returned."""
    media = call.accepted(ARROW, JSON)
    partition = identifiers.partition_number(call.path["partition"])
    asked = call.query_as(messages.FetchQuery)
    namespace, limits = call.namespace, call.gateway.limits
    columns, rows = split_names(asked.columns), min(asked.max_rows, limits.fetch_rows)
    page_bytes, admission = min(limits.page_bytes, limits.body_bytes), call.gateway.admission
    with admission.hold(0):
        # Twice a page: the rows as read from the ledger and as encoded.
        room = await admission.answers.room(sharer_in(call.scope), 2 * page_bytes, ROOM_WAIT_S)
        where = call.path["topic"], partition, asked.offset
        found = await records.read(namespace, *where, rows, limits.body_bytes, columns, page_bytes)
        if media == ARROW:
            body, next_offset = await offload(found.size_bytes, records.as_arrow, found), found.next_offset
        else:
            asking = (found, page_bytes, media == JSON_TEXTS)
            body, next_offset = await offload(found.size_bytes, answers.records_json, *asking)
        room.resize(len(body))
    headers = {
        "Oncegate-Next-Offset": str(next_offset),
        "Oncegate-High-Offset": str(found.high_offset),
    }
    return reply(body, media, namespace, headers, room=room)


@routes.post("/{topic}", "createTopic", [JSON], [JSON], method="PUT")
async def create_topic(call: Call) -> Response:
    """Create a topic with partitions and retention (201), or change an existing one's retention or columns (200)."""
    message = await call.message(_TOPIC)
    name = names.topic_name(call.path["topic"])
    schema = (
        None
        if message.schema_ipc is None
        else arrow_ipc.read_schema(message.schema_ipc, call.limits.columns_per_request)
    )
    if message.merge_schema and schema is None:
        raise BadRequest("merge_schema adds the columns of schema_ipc: give that too; nothing was changed")
    retention = message.retention_ms, message.retention_bytes
    engine_request = TopicRequest(name, message.partitions, *retention, schema, message.merge_schema)
    view, created = await call.namespace.topics.create(engine_request, call.deadline)
    return json_reply(_shown(view), call.wanted, 201 if created else 200, call.namespace)


@routes.get("/{topic}", "getTopic")
async def topic(call: Call) -> Response:
    """Describe a topic: its schema and ends."""
    media = call.accepted(JSON)
    namespace = call.namespace
    return json_reply(_shown(await namespace.topics.view(call.path["topic"])), media, serving=namespace)


@routes.get("", "listTopics")
async def topics(call: Call) -> Response:
    """List the topics, sorted, a page at a time."""
    media = call.accepted(JSON)
    asked, namespace = call.query_as(messages.PageQuery), call.namespace
    return json_reply(
        messages.TopicsReply(*page(namespace.home.journal.index.topics.names(), asked.after, asked.limit)),
        media,
        serving=namespace,
    )


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
