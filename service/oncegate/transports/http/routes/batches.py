"""Named batches: stage, commit, abort. All or nothing, when the driver says so."""

import hashlib
from functools import reduce
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.requests import AbortRequest, CommitRequest, CommitResult, StageRequest, Winner
from oncegate.hashing.rows import EMPTY, add
from oncegate.transports.decode import arrow_ipc
from oncegate.transports.decode.identifiers import hex_bytes, sha256_of, topic_name
from oncegate.transports.http.inbound import Inbound, admitted, aside, decoded, gateway_of, query
from oncegate.transports.http.messages import claims as messages
from oncegate.transports.http.negotiation import ARROW, JSON
from oncegate.transports.http.openapi import operations
from oncegate.transports.http.outbound import json_reply
from oncegate.transports.http.routes.topics import keys_of, names

router = APIRouter(default_response_class=Response, prefix="/v1/namespaces/{namespace}", tags=["batches"])

_COMMIT = msgspec.json.Decoder(messages.CommitRequest)
_ABORT = msgspec.json.Decoder(messages.AbortRequest)


@router.post("/batches:stage", openapi_extra=operations.STAGE)
async def stage(request: Request) -> Response:
    """Keep one chunk of one attempt until its batch is committed; durable when this returns."""
    async with admitted(request, [ARROW], [JSON]) as inbound:
        ask = await aside(len(inbound.body), _stage_ask, inbound)
        answer = await inbound.shard.stage(ask, inbound.deadline)
        outcome: Any = "COMMITTED" if answer.committed else "STAGED"
        reply = messages.StageReply(outcome, answer.rows, answer.fingerprint.hex(), ask.chunk)
        return json_reply(reply, shard=inbound.shard)


def _stage_ask(inbound: Inbound) -> StageRequest:
    asked = query(inbound.request, messages.StageQuery)
    sha256 = sha256_of(inbound.header("Content-Digest"))
    if hashlib.sha256(inbound.body).digest() != sha256:
        raise BadRequest("Content-Digest is not the body's SHA-256: it changed on its way; nothing was written")
    _check_texts({"owner": asked.owner}, inbound.limits)
    rows = arrow_ipc.read_rows(inbound.body, inbound.limits)
    name, keys = _name(asked, inbound.limits), keys_of(inbound, rows, names(asked.key_col))
    fingerprint = reduce(add, map(inbound.shard.row_fingerprints.of_batch, rows.batches), EMPTY)
    return StageRequest(name, asked.owner, inbound.token, asked.chunk, sha256, rows, fingerprint, keys)


@router.post("/batches:commit", openapi_extra=operations.COMMIT)
async def commit(request: Request) -> Response:
    """Publish the winners' rows under the batch's name, all or nothing; a replay is answered DUPLICATE."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message = decoded(inbound.body, _COMMIT)
        ask = _commit_ask(message, inbound.limits)
        answer = await inbound.shard.commit(ask, inbound.deadline)
        _note(request, ask, answer)
        outcome: Any = answer.outcome
        reply = messages.CommitReply(
            outcome,
            answer.rows,
            [messages.PartitionOffset(span.partition, span.first_offset, span.rows) for span in answer.spans],
            answer.suppressed_rows,
            answer.takeover_rows,
            msgspec.UNSET if answer.warning is None else answer.warning,
        )
        return json_reply(reply, shard=inbound.shard)


def _note(request: Request, ask: CommitRequest, answer: CommitResult) -> None:
    """One line in the log for each batch that was answered."""
    name = ask.name
    gateway_of(request).observer.event(
        "batch",
        namespace=request.path_params["namespace"],
        app=name.app,
        version=name.version,
        topic=name.topic,
        outcome=answer.outcome,
        rows=answer.rows,
        suppressed_rows=answer.suppressed_rows,
        takeover_rows=answer.takeover_rows,
    )


def _commit_ask(message: messages.CommitRequest, limits: Limits) -> CommitRequest:
    _check_texts({"run": message.run or "null"}, limits)
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
    )


def _optional_digest(text: str | None, what: str) -> bytes | None:
    return None if text is None else hex_bytes(text, 32, what)


@router.post("/batches:abort", openapi_extra=operations.ABORT)
async def abort(request: Request) -> Response:
    """Remove what these tokens staged, and only that; no effect on a committed batch."""
    async with admitted(request, [JSON], [JSON]) as inbound:
        message = decoded(inbound.body, _ABORT)
        tokens = tuple(hex_bytes(token, 16, "token") for token in message.tokens)
        answer = await inbound.shard.abort(AbortRequest(_name(message.name, inbound.limits), tokens), inbound.deadline)
        outcome: Any = "COMMITTED" if answer.committed else "ABORTED"
        return json_reply(messages.AbortReply(outcome, answer.removed), shard=inbound.shard)


def _name(message: messages.BatchName, limits: Limits) -> Name:
    """No identity, no write: app and version must say something."""
    _check_texts({"app": message.app, "version": message.version}, limits)
    if len(message.write_id.encode()) > limits.name_bytes:
        raise BadRequest(f"write_id: at most {limits.name_bytes} bytes")
    return Name(message.app, message.version, topic_name(message.topic), message.write_id)


def _check_texts(texts: dict[str, str], limits: Limits) -> None:
    for what, text in texts.items():
        if not 0 < len(text.encode("utf-8", "replace")) <= limits.name_bytes:
            raise BadRequest(f"{what}: from 1 to {limits.name_bytes} bytes of text are wanted")
