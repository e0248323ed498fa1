"""Each operation's part of the OpenAPI document."""

from oncegate.core import errors as e
from oncegate.engine.limits import Limits
from oncegate.transports.http import docs, examples, messages
from oncegate.transports.http.docs import answer, message, operation, path, reading, writes
from oncegate.transports.http.negotiation import ARROW, JSON

NS = "namespace"

CLAIM = operation(
    "claimIds",
    {
        200: answer(
            "a verdict per id, in order; a duplicate is a success",
            json=message(messages.ClaimReply, examples.CLAIM_REPLY),
            packed=docs.PACKED_REPLY,
            arrow=docs.ARROW_VERDICTS,
        )
    },
    (*docs.BODIES, e.NullId, e.TokenReused),
    [*writes(NS), docs.TOKEN_RAW, docs.CALL_RAW, docs.LEASE_RAW, *docs.SCOPE_RAW, *docs.PAYLOADS_RAW],
    docs.body(
        json=message(messages.ClaimRequest, examples.CLAIM_REQUEST), packed=docs.PACKED_IDS, arrow=docs.ARROW_ROWS
    ),
)
TAKE = operation(
    "takeIds",
    {
        200: answer(
            "GRANTED: the id is this owner's, from now on or already; DUPLICATE: another's, or written",
            json=message(messages.TakeReply, examples.TAKE_REPLY),
            packed=docs.PACKED_REPLY,
            arrow=docs.ARROW_VERDICTS,
        )
    },
    (*docs.BODIES, e.NullId),
    [*writes(NS), docs.OWNER_RAW, *docs.SCOPE_RAW],
    docs.body(json=message(messages.TakeRequest, examples.TAKE_REQUEST), packed=docs.PACKED_IDS, arrow=docs.ARROW_ROWS),
)


def _settle(operation_id: str, state: str, lease_ms: int = 0) -> docs.Json:
    reply = message(messages.SettleReply, examples.settled(state, lease_ms))
    return operation(
        operation_id,
        {200: answer("how many of its ids still named the claim, and how many were taken over", json=reply)},
        (*docs.WRITES, e.UnknownClaim, e.ReleasedClaim),
        writes(NS, "claim"),
    )


RENEW = _settle("renewClaim", "OPEN", 30_000)
COMPLETE = _settle("completeClaim", "DONE")
RELEASE = _settle("releaseClaim", "RELEASED")
EXPLAIN = operation(
    "explainId",
    {200: answer("what is known about the id", json=message(messages.ExplainReply, examples.EXPLAIN_REPLY))},
    (*docs.NAMESPACED, e.NullId, e.TooLarge),
    reading(NS),
)

PRODUCE = operation(
    "produceRecords",
    {
        200: {
            **answer(
                "where the rows are; with ids a verdict per row: GRANTED was written by this request",
                json=message(messages.ProduceReply, examples.PRODUCE_REPLY),
                packed=docs.PACKED_REPLY,
                arrow=docs.ARROW_VERDICTS,
            ),
            "headers": {
                **docs.MARK_OUT,
                "Oncegate-Offsets": {
                    "description": "packed and Arrow: partition:first offset:rows, comma separated",
                    "schema": {"type": "string"},
                },
            },
        }
    },
    (*docs.BODIES, e.SchemaMismatch, e.NullId, e.TokenReused, e.UnknownProducer, e.Fenced, e.Gap, e.OutOfOrder),
    [
        *writes(NS, "topic"),
        *docs.query(messages.ProduceQuery, **examples.PRODUCE_QUERY),
        docs.TOKEN_RAW,
        docs.CALL_RAW,
        *docs.SCOPE_RAW,
    ],
    docs.body(arrow=docs.ARROW_ROWS, json=message(messages.ProduceRequest, examples.PRODUCE_REQUEST)),
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
            "headers": {**docs.MARK_OUT, **_OFFSETS},
            "content": {
                ARROW: docs.ARROW_ROWS,
                JSON: message(messages.RecordsReply, examples.RECORDS_REPLY),
            },
        }
    },
    (*docs.NAMESPACED, e.Overloaded, e.OffsetTrimmed, e.LedgerDamaged),
    reading(NS, "topic", "partition"),
)
TOPIC = operation(
    "getTopic",
    {200: answer("schema and ends", json=message(messages.TopicReply, examples.TOPIC_REPLY))},
    docs.NAMESPACED,
    reading(NS, "topic"),
)
_TOPIC = message(messages.TopicReply, examples.TOPIC_REPLY)
CREATE_TOPIC = operation(
    "createTopic",
    {201: answer("it is new", json=_TOPIC), 200: answer("it was there; its retention is as asked", json=_TOPIC)},
    (*docs.BODIES, e.SchemaMismatch),
    writes(NS, "topic"),
    docs.body(json=message(messages.TopicRequest, examples.TOPIC_REQUEST)),
)
TOPICS = operation(
    "listTopics",
    {200: answer("names", json=message(messages.TopicsReply, examples.TOPICS_REPLY))},
    docs.NAMESPACED,
    reading(NS),
)

STAGE = operation(
    "stageChunk",
    {
        200: answer(
            "STAGED; or COMMITTED: the batch was committed before, nothing was stored",
            json=message(messages.StageReply, examples.STAGE_REPLY),
        )
    },
    (*docs.BODIES, *docs.STAGES),
    [*writes(NS), *docs.query(messages.StageQuery, **examples.STAGE), docs.TOKEN, docs.DIGEST],
    docs.body(arrow=docs.ARROW_ROWS),
)
COMMIT = operation(
    "commitBatch",
    {
        200: answer(
            "COMMITTED; or DUPLICATE: it was committed before, the first output stays",
            json=message(messages.CommitReply, examples.COMMIT_REPLY),
        )
    },
    (*docs.BODIES, *docs.COMMITS),
    writes(NS),
    docs.body(json=message(messages.CommitRequest, examples.COMMIT)),
)
ABORT = operation(
    "abortBatch",
    {200: answer("how many stages were removed", json=message(messages.AbortReply, examples.ABORT_REPLY))},
    docs.BODIES,
    writes(NS),
    docs.body(json=message(messages.AbortRequest, examples.ABORT)),
)

_NAMESPACE = message(messages.NamespaceReply, examples.NAMESPACE_REPLY)
CREATE_NAMESPACE = operation(
    "createNamespace",
    {
        201: answer("it is new", json=_NAMESPACE),
        200: answer("it was there; its settings are as asked", json=_NAMESPACE),
    },
    docs.BODIES,
    path(NS),
    {**docs.body(json=message(messages.NamespaceRequest, examples.NAMESPACE_REQUEST)), "required": False},
)
NAMESPACE = operation(
    "getNamespace", {200: answer("its ledger and counters", json=_NAMESPACE)}, docs.NAMESPACED, reading(NS)
)
NAMESPACES = operation(
    "listNamespaces",
    {200: answer("names", marked=False, json=message(messages.NamespacesReply, examples.NAMESPACES_REPLY))},
    (*docs.EVERY, e.Recovering),
)
LIMITS = operation(
    "getLimits",
    {200: answer("every limit in force", marked=False, json=message(Limits, examples.LIMITS_REPLY))},
    (*docs.EVERY, e.Recovering),
)
CAPABILITIES = operation(
    "getCapabilities",
    {
        200: answer(
            "what each way to write promises",
            marked=False,
            json=message(messages.CapabilitiesReply, examples.CAPABILITIES_REPLY),
        )
    },
)
VERSION = operation(
    "getVersion",
    {200: answer("the version", marked=False, json=message(messages.VersionReply, examples.VERSION_REPLY))},
)
ERROR = operation(
    "getError",
    {200: answer("the error", marked=False, json=message(messages.ErrorReply, examples.ERROR_REPLY))},
    (*docs.EVERY, e.NotFound),
    path("code"),
)


def health(word: str) -> docs.Json:
    reply = message(messages.HealthReply, {**examples.HEALTH_REPLY, "status": word})
    return operation(f"{word}Probe", {200: answer(word, marked=False, json=reply)}, (*docs.EVERY, e.Recovering))
