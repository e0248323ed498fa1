"""Routes of named batches: stage, commit and abort, and the source offsets at which a job resumes."""

from typing import Any

import msgspec
from fastapi import Response

from oncegate.core.entries.kinds import Name
from oncegate.engine.limits import Limits
from oncegate.engine.names import check_length, check_name
from oncegate.engine.requests import AbortRequest, CommitRequest, StageRequest, Winner
from oncegate.transports.decode import columns, names, records
from oncegate.transports.decode.identifiers import hex_bytes, sha256_of
from oncegate.transports.http import messages
from oncegate.transports.http.answers import json_reply
from oncegate.transports.http.call import Call
from oncegate.transports.http.parameters import ARROW, JSON
from oncegate.transports.http.routing import Routes
from oncegate.transports.offload import offload

routes = Routes("/v1/namespaces/{namespace}", "batches")

_COMMIT = msgspec.json.Decoder(messages.CommitRequest)
_ABORT = msgspec.json.Decoder(messages.AbortRequest)


@routes.post("/batches:stage", "stageChunk", [ARROW], [JSON])
async def stage(call: Call) -> Response:
    """Stage a chunk of an attempt until its batch is committed; durable when this returns."""
    engine_request = await offload(len(call.body), _stage_request, call)
    result = await call.namespace.batches.stage(engine_request, call.deadline)
    outcome: Any = "COMMITTED" if result.committed else "STAGED"
    reply = messages.StageReply(outcome, result.rows, result.fingerprint.hex(), engine_request.chunk)
    return json_reply(reply, call.wanted, serving=call.namespace)


def _stage_request(call: Call) -> StageRequest:
    asked = call.query_as(messages.StageQuery)
    sha256 = sha256_of(call.header("Content-Digest"))
    rows = records.read_chunk(call.body, sha256, call.limits)
    check_name("owner", asked.owner, call.limits)
    name, fingerprinter = _name(asked, call.limits), call.namespace.row_fingerprints
    keys = columns.key_hashes(rows, columns.split_names(asked.key_col), fingerprinter)
    fingerprint = records.fingerprint_of(rows, fingerprinter)
    return StageRequest(
        name, asked.owner, call.token, asked.chunk, sha256, rows, fingerprint, keys, call.admitted.sender
    )


@routes.post("/batches:commit", "commitBatch", [JSON], [JSON])
async def commit(call: Call) -> Response:
    """Publish the winners' rows under the batch's name, all or nothing; a replay is answered DUPLICATE."""
    message = await call.message(_COMMIT)
    engine_request = _commit_request(message, call)
    result = await call.namespace.batches.commit(engine_request, call.deadline)
    outcome: Any = result.outcome
    reply = messages.CommitReply(
        outcome,
        result.rows,
        messages.partition_offsets(result.spans, message.name.topic),
        result.suppressed_rows,
        result.takeover_rows,
        result.first_of_app,
        msgspec.UNSET if result.warning is None else result.warning,
        msgspec.UNSET if result.higher_version is None else result.higher_version,
    )
    return json_reply(reply, call.wanted, serving=call.namespace)


def _commit_request(message: messages.CommitRequest, call: Call) -> CommitRequest:
    limits = call.limits
    if message.run is not None:
        check_name("run", message.run, limits)
    winners = tuple(
        Winner(hex_bytes(w.token, 16, "token"), w.chunks, w.rows, hex_bytes(w.fingerprint, 16, "fingerprint"))
        for w in message.winners
    )
    return CommitRequest(
        _name(message.name, limits),
        message.run,
        hex_bytes(message.nonce, 16, "nonce"),
        winners,
        _optional_digest(message.digest, "digest"),
        _optional_digest(message.previous_digest, "previous_digest"),
        message.on_replay_mismatch == "first_wins",
        (message.source_offsets or "").encode(),
        _optional_digest(message.reads_digest, "reads_digest"),
        call.admitted.sender,
    )


def _optional_digest(text: str | None, what: str) -> bytes | None:
    return None if text is None else hex_bytes(text, 32, what)


@routes.post("/batches:abort", "abortBatch", [JSON], [JSON])
async def abort(call: Call) -> Response:
    """Remove the chunks staged by these tokens, and no others; no effect on a committed batch."""
    message = await call.message(_ABORT)
    tokens = tuple(hex_bytes(token, 16, "token") for token in message.tokens)
    result = await call.namespace.batches.abort(AbortRequest(_name(message.name, call.limits), tokens), call.deadline)
    outcome: Any = "COMMITTED" if result.committed else "ABORTED"
    return json_reply(messages.AbortReply(outcome, result.removed), call.wanted, serving=call.namespace)


@routes.get("/batches:offsets", "getSourceOffsets")
async def offsets(call: Call) -> Response:
    """Return the source offsets at which a job resumes, from its newest batch or its driver's newest ack."""
    media = call.accepted(JSON)
    namespace, limits = call.namespace, call.gateway.limits
    asked = call.query_as(messages.OffsetsQuery)
    check_name("app", asked.app, limits)
    check_name("topic", asked.topic, limits)
    check_length("write_id", asked.write_id, limits)
    found = await namespace.batches.source_offsets(asked.app, asked.topic, asked.write_id)
    reply = messages.OffsetsReply(asked.app, asked.topic, asked.write_id, found.decode())
    return json_reply(reply, media, serving=namespace)


def _name(message: messages.BatchName, limits: Limits) -> Name:
    return names.batch_name(message.app, message.version, message.topic, message.write_id, limits)
