"""The way out: bodies with their type, and the mark of the ledger that the answer rests on."""

from collections.abc import Mapping

from fastapi import Response

from oncegate.engine.requests import ClaimAnswer
from oncegate.engine.shard import Shard
from oncegate.transports.http import codecs, identifiers
from oncegate.transports.http.negotiation import ARROW, JSON, PACKED

# What ids come in as, and verdicts go out as.
DOORS = (JSON, PACKED, ARROW)
_VERDICTS = {JSON: codecs.claim_json, PACKED: codecs.claim_packed, ARROW: codecs.claim_arrow}


class Answer(Response):
    """A body with its type, the header fields made at once: the framework's own constructor takes longer."""

    def __init__(self, body: bytes, status: int, media: str, fields: Mapping[str, str]) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        self.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        self.raw_headers += ((b"content-length", b"%d" % len(body)), (b"content-type", media.encode("latin-1")))


def json_reply(message: object, status: int = 200, shard: Shard | None = None) -> Response:
    """A message as JSON; with `shard`, its mark."""
    return reply(codecs.encode(message), JSON, shard, status=status)


def reply(
    body: bytes, media: str, shard: Shard | None, headers: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    """A body as it is; with `shard`, the last durable place of its ledger, at or after what was answered."""
    sent = dict(headers or {})
    if shard is not None:
        sent["Oncegate-Ledger"] = identifiers.mark_text(shard.mark)
    return Answer(body, status, media, sent)


def verdicts_reply(answer: ClaimAnswer, media: str, shard: Shard, headers: Mapping[str, str] | None = None) -> Response:
    """A verdict per id in the form asked for."""
    return reply(_VERDICTS[media](answer), media, shard, headers)
