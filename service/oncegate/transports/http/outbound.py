"""Responses: bodies with their type, and the mark of the ledger that they rest on."""

from collections.abc import Mapping
from urllib.parse import quote

from fastapi import Response
from starlette.types import Receive, Scope, Send

from oncegate.engine.admission import Room
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.requests import ClaimResult
from oncegate.engine.shard import Shard
from oncegate.transports.decode import identifiers
from oncegate.transports.http import codecs
from oncegate.transports.http.int64 import as_texts
from oncegate.transports.http.messages.fields import ID_SET
from oncegate.transports.http.parameters import ARROW, JSON, JSON_TEXTS, PACKED

# What ids come in as, and verdicts go out as.
ENCODINGS = (JSON, PACKED, ARROW)
# As JSON, with its number.
_VERDICT_WEIGHT = 32
# What verdicts are written by that are no JSON.
RAW = {PACKED: codecs.claim_packed, ARROW: codecs.claim_arrow}


class Answer(Response):
    """A response: a body with its type; `lines`: the header fields as they are sent, made at once."""

    # What is held for it in the admission until it is written.
    room: Room | None = None

    def __init__(self, body: bytes, status: int, media: str, fields: Mapping[str, str], mark: str | None) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        more = "".join(f"{name}: {value}\r\n" for name, value in fields.items()) if fields else ""
        if mark is not None:
            more += f"oncegate-ledger: {mark}\r\n"
        self.lines = f"content-type: {media}\r\ncontent-length: {len(body)}\r\n{more}".encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response; from then on the connection counts what is not read of it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.written()

    def written(self) -> None:
        """Gives back the room that was held for it."""
        if self.room is not None:
            self.room.release()

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]
        """The same fields in pairs, for responses that the framework sends."""
        pairs = (line.partition(b": ") for line in self.lines.splitlines())
        return [(name.lower(), value) for name, _, value in pairs]


def json_reply(
    message: object, media: str = JSON, status: int = 200, shard: Shard | Unchecked | None = None
) -> Response:
    """Makes a response of a message as JSON, of the kind that was asked for; with `shard`, its mark."""
    body = codecs.encode(message)
    return reply(body if media == JSON else as_texts(body, type(message)), media, shard, status=status)


def reply(
    body: bytes,
    media: str,
    shard: Shard | Unchecked | None,
    headers: Mapping[str, str] | None = None,
    status: int = 200,
    room: Room | None = None,
) -> Response:
    """Makes a response of a body as it is; with `shard`, the last durable mark of its ledger, which covers it.

    `room`: held for it, and released once it is written.
    """
    answer = Answer(body, status, media, headers or {}, None if shard is None else identifiers.mark_text(shard.mark))
    answer.room = room
    return answer


def answer_weight(answer: ClaimResult) -> int:
    """How much work it is to write the verdicts, in bytes of a body that is read."""
    return len(answer.verdicts) * _VERDICT_WEIGHT


def verdicts_reply(
    answer: ClaimResult,
    media: str,
    shard: Shard | Unchecked,
    id_set: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Makes a response of one verdict per id, in the encoding that was asked for; `id_set` None: per sequence."""
    if media == JSON:
        return reply(codecs.claim_json(answer, id_set or ""), media, shard, headers)
    if media == JSON_TEXTS:
        return json_reply(codecs.claim_message(answer, id_set or ""), media, shard=shard)
    named = {} if id_set is None else {ID_SET: quote(id_set, safe="")}
    return reply(RAW[media](answer), media, shard, {**named, **(headers or {})})
