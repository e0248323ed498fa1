"""What of one answer the next call needs: claim → complete, stage → commit, register → claim → ack."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_NS = {"namespace": "$request.path.namespace"}
_PRODUCER = {**_NS, "producer": "$response.body#/producer"}
_SAME_PRODUCER = {**_NS, "producer": "$request.path.producer"}
_CALL = {name: f"$request.body#/{name}" for name in ("token", "epoch", "call")}
_TOPIC = {**_NS, "topic": "$response.body#/topic"}
_NAME = {
    "app": "$request.query.app",
    "version": "$request.query.version",
    "topic": "$request.query.topic",
    "write_id": "$request.query.write_id",
}
_WINNER = {
    "token": "$request.header.Oncegate-Token",
    "chunks": 1,
    "rows": "$response.body#/rows",
    "fingerprint": "$response.body#/fingerprint",
}


def _link(target: str, what: str, parameters: Json, body: Json | None = None) -> Json:
    found = {"operationId": target, "description": what, "parameters": parameters}
    return found if body is None else {**found, "requestBody": body}


def _of_claim(target: str, what: str) -> Json:
    return _link(target, what, {**_NS, "claim": "$response.body#/claim"})


LINKS: dict[str, dict[str, Json]] = {
    "claimIds": {
        "complete": _of_claim("completeClaim", "what was granted is written, durably"),
        "renew": _of_claim("renewClaim", "writing takes longer than a third of lease_ms"),
        "release": _of_claim("releaseClaim", "nothing of it was written, nor will be"),
    },
    "stageChunk": {
        "commit": _link(
            "commitBatch",
            "one task with one chunk; of several chunks rows and fingerprints are added up, and each task is a winner",
            _NS,
            {"name": _NAME, "nonce": "$request.header.Oncegate-Token", "winners": [_WINNER]},
        ),
        "abort": _link(
            "abortBatch", "the batch is not to be", _NS, {"name": _NAME, "tokens": ["$request.header.Oncegate-Token"]}
        ),
    },
    "registerProducer": {
        "claim": _link(
            "claimSequences",
            "the first call of this attempt",
            _PRODUCER,
            {"token": "$request.body#/token", "epoch": "$response.body#/epoch", "call": 0},
        ),
        "close": _link(
            "closeProducer",
            "the attempt is over",
            _PRODUCER,
            {"token": "$request.body#/token", "epoch": "$response.body#/epoch"},
        ),
        "explain": _link("explainProducer", "what is known of it", _PRODUCER),
    },
    "claimSequences": {
        "complete": _link("completeSequences", "what was granted is written, durably", _SAME_PRODUCER, _CALL),
        "renew": _link("renewSequences", "writing takes longer than a third of lease_ms", _SAME_PRODUCER, _CALL),
        "release": _link("releaseSequences", "nothing of it was written, nor will be", _SAME_PRODUCER, _CALL),
    },
    "registerDriver": {
        "ack": _link(
            "ackProducers",
            "nobody retries what is named any more",
            {**_NS, "driver": "$response.body#/driver"},
            {"token": "$request.body#/token", "epoch": "$response.body#/epoch"},
        )
    },
    "createNamespace": {
        "describe": _link(
            "getNamespace", "its ledger, settings and counters", {"namespace": "$response.body#/namespace"}
        )
    },
    "listNamespaces": {
        "next": _link("listNamespaces", "the page behind; none where `next` is null", {"after": "$response.body#/next"})
    },
    "listTopics": {
        "next": _link(
            "listTopics", "the page behind; none where `next` is null", {**_NS, "after": "$response.body#/next"}
        )
    },
    "explainProducer": {
        "next": _link(
            "explainProducer",
            "the page behind; none where `next` is null",
            {**_PRODUCER, "after": "$response.body#/next"},
        )
    },
    "createTopic": {
        "describe": _link("getTopic", "its schema and ends", _TOPIC),
        "read": _link("fetchRecords", "its rows from the beginning", {**_TOPIC, "partition": "0"}),
    },
}


def added(operation: Mapping[str, Any]) -> Json:
    """Returns an operation with its links in each of its successes."""
    if (links := LINKS.get(operation["operationId"])) is None:
        return dict(operation)
    responses = {
        status: {**response, "links": links} if status.startswith("2") else response
        for status, response in operation["responses"].items()
    }
    return {**operation, "responses": responses}
