"""Parts of which the OpenAPI document's operations are made: parameters, bodies, answers, examples, errors.

The routes read their own requests, so that no validation layer stands before the batch path; their
descriptions are here, the schemas are those of `messages`.
"""

from collections.abc import Sequence
from typing import Any

from oncegate.core import errors as e
from oncegate.transports.decode.identifiers import ALPHABET
from oncegate.transports.decode.names import TOPIC
from oncegate.transports.http import messages, problems
from oncegate.transports.http.negotiation import ARROW, JSON, PACKED
from oncegate.transports.http.openapi import descriptions, examples
from oncegate.transports.outcomes import Internal, public_errors

Json = dict[str, Any]
Errors = Sequence[type[e.OncegateError]]

EVERY: Errors = (e.NotAcceptable, Internal)
NAMESPACED: Errors = (*EVERY, e.NotFound, e.Recovering, e.LedgerDown, e.LedgerBehind, e.BadRequest)
WRITES: Errors = (*NAMESPACED, e.Overloaded, e.DeadlinePassed, e.LedgerFull)
BODIES: Errors = (*WRITES, e.LengthRequired, e.TooLarge, e.UnsupportedMedia)
STAGES: Errors = (e.SchemaMismatch, e.ChunkAltered, e.QuotaExceeded)
COMMITS: Errors = (e.MissingStage, e.SecondWrite, e.Conflict, e.BatchForgotten, e.SchemaMismatch)


def ref(message: Any) -> Json:
    """Refers to a message's schema."""
    return {"$ref": f"#/components/schemas/{message.__name__}"}


def _parameter(name: str, where: str, description: str, example: object, **more: Any) -> Json:
    schema = more.pop("schema", {"type": "string"})
    return {"name": name, "in": where, "description": description, "schema": schema, "example": example, **more}


_U32 = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_U64 = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
_TOKEN = {"type": "string", "pattern": "^(-*[0-9a-fA-F]){32}-*$"}
TOKEN = _parameter(
    "Oncegate-Token", "header", "128 random bits as hex: one per attempt", examples.TOKEN, required=True, schema=_TOKEN
)
CALL = _parameter("Oncegate-Call", "header", "n-th request of the attempt", 0, required=True, schema=_U32)
# JSON carries them in the body, so for a route that takes both they are not required.
TOKEN_RAW = {**TOKEN, "required": False, "description": "for packed and Arrow bodies: " + str(TOKEN["description"])}
CALL_RAW = {**CALL, "required": False, "description": "for packed and Arrow bodies: " + str(CALL["description"])}
LEASE_RAW = _parameter("Oncegate-Lease-Ms", "header", "for packed and Arrow bodies: the lease", 30_000, schema=_U32)
PAYLOADS_RAW = [
    _parameter(
        "Oncegate-Payloads",
        "header",
        "for packed bodies: 1 where each id of 16 bytes is followed by its payload of 16 bytes",
        "1",
        schema={"type": "string", "enum": ["0", "1"]},
    ),
    _parameter(
        "Oncegate-Digest-Cols",
        "header",
        "for Arrow bodies: the columns that are the ids' payloads, comma separated, each percent-encoded; the others "
        "are the ids",
        "cents",
    ),
]
OWNER_RAW = _parameter(
    "Oncegate-Owner", "header", "for packed and Arrow bodies: the owner's name, percent-encoded", "daily-2026-11-20"
)


def raw(name: str, description: str, example: object) -> Json:
    """Makes a header that stands for a member of the JSON body."""
    return _parameter(name, "header", f"for packed and Arrow bodies: {description}", example, schema=_U64)


SCOPE_RAW = [
    _parameter(
        "Oncegate-Driver",
        "header",
        "for packed and Arrow bodies: whose batch the ids belong to, percent-encoded; none: the namespace",
        "b2c1f0de-0000-4000-8000-1234567890ab",
    ),
    raw("Oncegate-Batch", "the number of that batch", 18),
]
TIMEOUT = _parameter(
    "Oncegate-Timeout-Ms",
    "header",
    "how long the caller waits: what is not decided by then is refused (DEADLINE), what is decided is answered late",
    5_000,
    schema={**_U32, "minimum": 1},
)
_MARK = "[0-9a-f]{32}:[0-9]{1,20}:[0-9a-f]{16}"
_MARKS = {"type": "string", "pattern": f"^{_MARK}(, *{_MARK})*$"}
MARKS = _parameter(
    "Oncegate-Ledger",
    "header",
    "the newest mark that answers of this namespace gave, or several, comma separated: "
    "refused (LEDGER_BEHIND) by a gateway that does not know each of them",
    examples.MARK,
    schema=_MARKS,
)
DIGEST = _parameter(
    "Content-Digest", "header", "SHA-256 of the body (RFC 9530)", examples.CONTENT_DIGEST, required=True
)
MARK_OUT = {
    "Oncegate-Ledger": {
        "description": "a mark: ledger id, last durable position, its chain; bring it back with the next request",
        "schema": {"type": "string", "pattern": f"^{_MARK}$"},
        "example": examples.MARK,
    }
}
_RETRY_AFTER: Json = {
    "Retry-After": {"description": "retry_after_ms in whole seconds, rounded up", "schema": {"type": "integer"}}
}

_PATH = {
    "namespace": (
        "one deduplication domain, made by PUT before its first use; `default` is there",
        "mail",
        "[a-z0-9][a-z0-9_.-]{0,62}",
    ),
    "topic": ("created by its first write", "departures", TOPIC.pattern),
    "partition": ("from 0 on", "0", "[0-9]{1,9}"),
    "claim": ("from the answer of ids:claim", examples.CLAIM, f"[0-7][{ALPHABET}]{{25}}"),
    "producer": (
        "a lane of a source, in the namespace; any text, slashes too, percent-encoded",
        "events-3",
        ".+",
    ),
    "driver": ("who owns the retries: a job, not a run of it; any text, percent-encoded", "load-events", ".+"),
    "code": ("an error's code in lower case with dashes: the end of a problem's `type`", "null-id", "[a-z-]+"),
}


def path(*names: str) -> list[Json]:
    """Makes parameters of the path, by their names."""
    found = []
    for name in names:
        description, example, pattern = _PATH[name]
        schema = {"type": "string", "pattern": f"^{pattern}$"}
        found.append(_parameter(name, "path", description, example, required=True, schema=schema))
    return found


def query(message: Any, **shown: object) -> list[Json]:
    """Makes query parameters from a message's fields."""
    schema = examples.schema_of(message)
    required = set(schema.get("required", ()))
    return [
        _parameter(name, "query", kind.get("description") or descriptions.of(message.__name__, name), shown[name])
        | {"required": name in required, "schema": kind}
        for name, kind in schema["properties"].items()
    ]


def body(**media: Json) -> Json:
    """Makes a request's body, by encoding: json, packed, arrow."""
    return {"required": True, "content": {_MEDIA[name]: content for name, content in media.items()}}


_MEDIA = {"json": JSON, "packed": PACKED, "arrow": ARROW}
_BINARY: Json = {"schema": {"type": "string", "format": "binary"}}
PACKED_IDS: Json = {**_BINARY, "schema": {**_BINARY["schema"], "description": "16 raw bytes an id"}}
PACKED_REPLY: Json = {
    **_BINARY,
    "schema": {
        **_BINARY["schema"],
        "description": "claim 16 bytes (zeros: none) | lease_ms u32 | n u32 | n verdict bytes | "
        "per verdict with a number, in order: place u32, number u32; little-endian",
    },
}
ARROW_ROWS: Json = {
    **_BINARY,
    "schema": {**_BINARY["schema"], "description": "one Arrow IPC stream; buffers may be compressed (LZ4, ZSTD)"},
}
ARROW_VERDICTS: Json = {
    **_BINARY,
    "schema": {
        **_BINARY["schema"],
        "description": "one Arrow IPC stream: verdict string, takeover bool, own bool, of_index, of_call, "
        "lease_left_ms uint32 or null; schema metadata: lease_ms, claim (absent: none)",
    },
}


def message(kind: Any, example: object) -> Json:
    """Makes the content of a JSON message, with its example."""
    return {"schema": ref(kind), "example": example}


def answer(description: str, marked: bool = True, **media: Json) -> Json:
    """Makes a success, by encoding; `marked`: it brings a mark of the ledger."""
    found: Json = {"description": description, "content": {_MEDIA[name]: content for name, content in media.items()}}
    return {**found, "headers": MARK_OUT} if marked else found


def operation(
    operation_id: str,
    answers: dict[int, Json],
    errors: Errors = EVERY,
    parameters: Sequence[Json] = (),
    reads: Json | None = None,
) -> Json:
    """Makes one operation's part of the document, as FastAPI's `openapi_extra`."""
    responses = {str(status): content for status, content in answers.items()} | _refusals(errors)
    extra: Json = {"operationId": operation_id, "parameters": list(parameters), "responses": responses}
    return extra if reads is None else {**extra, "requestBody": reads}


def _refusals(errors: Errors) -> Json:
    by_status: dict[int, list[type[e.OncegateError]]] = {}
    for kind in dict.fromkeys(errors):
        by_status.setdefault(problems.status_of(kind), []).append(kind)
    return {str(status): _refusal(kinds) for status, kinds in sorted(by_status.items())}


def _refusal(kinds: Errors) -> Json:
    found: Json = {
        "description": "; ".join(f"{kind.code} ({kind.action}): {kind.title}" for kind in kinds),
        "content": {
            problems.PROBLEM: {
                "schema": ref(messages.Problem),
                "examples": {kind.code: {"$ref": f"#/components/examples/{kind.code}"} for kind in kinds},
            }
        },
    }
    return {**found, "headers": _RETRY_AFTER} if any(kind.retry_after_ms for kind in kinds) else found


def refusal_examples() -> Json:
    """Makes one problem document for each error, by its code."""
    return {
        kind.code: {"summary": kind.title, "value": problems.document(kind(kind.title), examples.TRACE)}
        for kind in public_errors()
    }


def writes(*names: str) -> list[Json]:
    """Makes the parameters of every call that writes, after those of its path."""
    return [*path(*names), TIMEOUT, MARKS]


def reading(*names: str) -> list[Json]:
    """Makes the parameters of every call that reads, after those of its path."""
    return [*path(*names), MARKS]
