"""Each operation's part of the OpenAPI document."""

from oncegate.core import errors as e
from oncegate.engine.limits import Limits
from oncegate.transports.http import messages
from oncegate.transports.http.openapi import examples, parts
from oncegate.transports.http.openapi.parts import (
    answer,
    answer_by_id,
    message,
    operation,
    path,
    reading,
    writes,
    writes_as,
)
from oncegate.transports.http.parameters import ARROW, JSON

NS = "namespace"
_NAMES = "names, sorted; `next` leads to the page behind"
_PAGE = parts.query(messages.PageQuery, **examples.PAGE_QUERY)

CLAIM = operation(
    "claimIds",
    {
        200: answer_by_id(
            "a verdict per id, in order; a duplicate is a success",
            json=message(messages.ClaimReply, examples.CLAIM_REPLY),
            packed=parts.PACKED_REPLY,
            arrow=parts.ARROW_VERDICTS,
        )
    },
    (*parts.BODIES, e.NullId, e.TokenReused),
    [
        *writes_as(NS),
        parts.LOCATE,
        parts.SHADOW,
        parts.TOKEN_RAW,
        parts.CALL_RAW,
        parts.LEASE_RAW,
        parts.ID_SET_RAW,
        *parts.SCOPE_RAW,
        *parts.PAYLOADS_RAW,
    ],
    parts.body(
        json=message(messages.ClaimRequest, examples.CLAIM_REQUEST), packed=parts.PACKED_IDS, arrow=parts.ARROW_ROWS
    ),
)
TAKE = operation(
    "takeIds",
    {
        200: answer_by_id(
            "GRANTED: the id is this owner's, from now on or already; DUPLICATE: another's, or written",
            json=message(messages.TakeReply, examples.TAKE_REPLY),
            packed=parts.PACKED_REPLY,
            arrow=parts.ARROW_VERDICTS,
        )
    },
    (*parts.BODIES, e.NullId),
    [*writes_as(NS), parts.LOCATE, parts.SHADOW, parts.OWNER_RAW, parts.ID_SET_RAW, *parts.SCOPE_RAW],
    parts.body(
        json=message(messages.TakeRequest, examples.TAKE_REQUEST), packed=parts.PACKED_IDS, arrow=parts.ARROW_ROWS
    ),
)

LOOK_UP = operation(
    "lookUpIds",
    {
        200: answer_by_id(
            "what is known of each id, in order; nothing is granted and nothing written",
            json=message(messages.LookUpReply, examples.LOOK_UP_REPLY),
            packed=parts.PACKED_REPLY,
            arrow=parts.ARROW_VERDICTS,
        )
    },
    (*parts.BODIES, e.NullId),
    [*writes(NS), parts.LOCATE, parts.ID_SET_RAW],
    parts.body(
        json=message(messages.LookUpRequest, examples.LOOK_UP_REQUEST), packed=parts.PACKED_IDS, arrow=parts.ARROW_ROWS
    ),
)


def _settle(operation_id: str, state: str, lease_ms: int = 0, reads: parts.Json | None = None) -> parts.Json:
    reply = message(messages.SettleReply, examples.settled(state, lease_ms))
    return operation(
        operation_id,
        {200: answer("how many of its ids still named the claim, and how many were taken over", json=reply)},
        (*(parts.WRITES if reads is None else parts.BODIES), e.UnknownClaim, e.ReleasedClaim),
        writes(NS, "claim"),
        reads,
    )


RENEW = _settle("renewClaim", "OPEN", 30_000)
_RESULT = parts.body(json=message(messages.CompleteRequest, examples.COMPLETE_REQUEST))
COMPLETE = _settle("completeClaim", "DONE", reads={**_RESULT, "required": False})
RELEASE = _settle("releaseClaim", "RELEASED")
EXPLAIN = operation(
    "explainId",
    {200: answer("what is known about the id", json=message(messages.ExplainReply, examples.EXPLAIN_REPLY))},
    (*parts.READS, e.NullId, e.TooLarge),
    [*reading(NS), parts.ID, parts.ID_SET_OF],
)

PRODUCE = operation(
    "produceRecords",
    {
        200: {
            **answer(
                "where the rows are; with ids a verdict per row: GRANTED was written by this request",
                json=message(messages.ProduceReply, examples.PRODUCE_REPLY),
                packed=parts.PACKED_REPLY,
                arrow=parts.ARROW_VERDICTS,
            ),
            "headers": {
                **parts.MARK_OUT,
                **parts.ID_SET_OUT,
                "Oncegate-Rows": {
                    "description": "packed and Arrow: how many rows this request has written",
                    "schema": {"type": "integer", "minimum": 0},
                },
                "Oncegate-Offsets": {
                    "description": "packed and Arrow: partition:first offset:rows, comma separated",
                    "schema": {"type": "string"},
                },
                "Oncegate-Offsets-Topics": {
                    "description": "the topic of each range of Oncegate-Offsets, percent-encoded, comma separated; "
                    "absent: all are in the request's",
                    "schema": {"type": "string"},
                },
                "Oncegate-Offsets-Before": {
                    "description": "the same of what earlier tries of this request wrote; absent: none is known",
                    "schema": {"type": "string"},
                },
                "Oncegate-Offsets-Before-Topics": {
                    "description": "the topics of those ranges",
                    "schema": {"type": "string"},
                },
            },
        }
    },
    (*parts.BODIES, e.SchemaMismatch, e.NullId, e.TokenReused, e.UnknownProducer, e.Fenced, e.Gap, e.OutOfOrder),
    [
        *writes_as(NS, "topic"),
        parts.LOCATE,
        parts.SHADOW,
        *parts.query(messages.ProduceQuery, ARROW, **examples.PRODUCE_QUERY),
        parts.TOKEN_ARROW,
        parts.CALL_ARROW,
        *parts.SCOPE_ARROW,
    ],
    parts.body(arrow=parts.ARROW_ROWS, json=message(messages.ProduceRequest, examples.PRODUCE_REQUEST)),
)
_OFFSETS = {
    name: {"description": what, "schema": {"type": "integer"}}
    for name, what in {
        "Oncegate-Next-Offset": "where to read on",
        "Oncegate-High-Offset": "the topic's end",
    }.items()
}
FETCH = operation(
    "fetchRecords",
    {
        200: {
            "description": "rows from the offset on, none at the topic's end",
            "headers": {**parts.MARK_OUT, **_OFFSETS},
            "content": {
                ARROW: parts.ARROW_ROWS,
                JSON: message(messages.RecordsReply, examples.RECORDS_REPLY),
            },
        }
    },
    (*parts.READS, e.Overloaded, e.OffsetTrimmed, e.OffsetBeyondEnd),
    [*reading(NS, "topic", "partition"), *parts.query(messages.FetchQuery, **examples.FETCH_QUERY)],
)
TOPIC = operation(
    "getTopic",
    {200: answer("schema and ends", json=message(messages.TopicReply, examples.TOPIC_REPLY))},
    parts.READS,
    reading(NS, "topic"),
)
_TOPIC = message(messages.TopicReply, examples.TOPIC_REPLY)
CREATE_TOPIC = operation(
    "createTopic",
    {201: answer("it is new", json=_TOPIC), 200: answer("it was there; its retention is as asked", json=_TOPIC)},
    (*parts.BODIES, e.SchemaMismatch, e.OtherPartitions),
    writes(NS, "topic"),
    parts.body(json=message(messages.TopicRequest, examples.TOPIC_REQUEST)),
)
TOPICS = operation(
    "listTopics",
    {200: answer(_NAMES, json=message(messages.TopicsReply, examples.TOPICS_REPLY))},
    parts.READS,
    [*reading(NS), *_PAGE],
)

STAGE = operation(
    "stageChunk",
    {
        200: answer(
            "STAGED; or COMMITTED: the batch was committed before, nothing was stored",
            json=message(messages.StageReply, examples.STAGE_REPLY),
        )
    },
    (*parts.BODIES, *parts.STAGES),
    [*writes_as(NS), *parts.query(messages.StageQuery, **examples.STAGE), parts.TOKEN, parts.DIGEST],
    parts.body(arrow=parts.ARROW_ROWS),
)
COMMIT = operation(
    "commitBatch",
    {
        200: answer(
            "COMMITTED; or DUPLICATE: it was committed before, the first output stays",
            json=message(messages.CommitReply, examples.COMMIT_REPLY),
        )
    },
    (*parts.BODIES, *parts.COMMITS),
    writes_as(NS),
    parts.body(json=message(messages.CommitRequest, examples.COMMIT)),
)
OFFSETS = operation(
    "getSourceOffsets",
    {200: answer("as they came", json=message(messages.OffsetsReply, examples.OFFSETS_REPLY))},
    (*parts.READS, e.TooLarge),
    [*reading(NS), *parts.query(messages.OffsetsQuery, **examples.OFFSETS_QUERY)],
)
ABORT = operation(
    "abortBatch",
    {200: answer("how many stages were removed", json=message(messages.AbortReply, examples.ABORT_REPLY))},
    parts.BODIES,
    writes(NS),
    parts.body(json=message(messages.AbortRequest, examples.ABORT)),
)

_NAMESPACE = message(messages.NamespaceReply, examples.NAMESPACE_REPLY)
CREATE_NAMESPACE = operation(
    "createNamespace",
    {
        201: answer("it is new", json=_NAMESPACE),
        200: answer("it was there; its settings are as asked", json=_NAMESPACE),
    },
    (*parts.BODIES, e.TooManyNamespaces),
    writes(NS),
    {**parts.body(json=message(messages.NamespaceRequest, examples.NAMESPACE_REQUEST)), "required": False},
)
DELETE_NAMESPACE = operation(
    "deleteNamespace",
    {200: answer("its name is free", marked=False, json=message(messages.DeletedReply, examples.DELETED_REPLY))},
    (*parts.WRITES, e.NotEmpty),
    [*writes(NS), *parts.query(messages.NamespaceDeletion, **examples.DELETION)],
)
NAMESPACE = operation(
    "getNamespace", {200: answer("its ledger and counters", json=_NAMESPACE)}, parts.READS, reading(NS)
)
NAMESPACES = operation(
    "listNamespaces",
    {
        200: answer(
            _NAMES,
            marked=False,
            json=message(messages.NamespacesReply, examples.NAMESPACES_REPLY),
        )
    },
    (*parts.EVERY, e.Recovering),
    _PAGE,
)
LIMITS = operation(
    "getLimits",
    {200: answer("every limit in force", marked=False, json=message(Limits, examples.LIMITS_REPLY))},
    (*parts.EVERY, e.Recovering),
)
CAPABILITIES = operation(
    "getCapabilities",
    {
        200: answer(
            "what each write mode promises, in the namespace that is named",
            marked=False,
            json=message(messages.CapabilitiesReply, examples.CAPABILITIES_REPLY),
        )
    },
    (*parts.EVERY, e.NotFound, e.Recovering, e.LedgerDown),
    parts.query(messages.CapabilitiesQuery, **examples.CAPABILITIES_QUERY),
)
VERSION = operation(
    "getVersion",
    {200: answer("the version", marked=False, json=message(messages.VersionReply, examples.VERSION_REPLY))},
)
METRICS = operation(
    "getMetrics",
    {200: answer("every metric, as of now", marked=False, text=parts.METRICS, openmetrics=parts.METRICS)},
    (*parts.EVERY,),
)
DOCUMENT = operation("getDocument", {}, parts.PUBLIC)
ERROR = operation(
    "getError",
    {200: answer("the error", marked=False, json=message(messages.ErrorReply, examples.ERROR_REPLY))},
    (*parts.PUBLIC, e.NotFound),
    path("code"),
)


def _probed(probe: str) -> dict[int, parts.Json]:
    reply = message(messages.HealthReply, {**examples.HEALTH_REPLY, "status": probe})
    return {200: answer(probe, marked=False, json=reply)}


LIVE = operation("liveProbe", _probed("live"), (*parts.PUBLIC, e.Recovering))
STARTUP = operation("startupProbe", _probed("startup"), (*parts.PUBLIC, e.Recovering))
READY = operation(
    "readyProbe",
    _probed("ready"),
    (*parts.PUBLIC, e.Recovering, e.Stopping, e.NotFound, e.Unauthenticated, e.Forbidden, e.KeysUnread),
    parts.query(messages.ReadyQuery, **examples.READY_QUERY),
)
