"""Parts of which the OpenAPI document's operations are made: parameters, bodies, answers, examples, errors.

The routes read their own requests, so that no validation layer stands before the batch path; their
descriptions are here, the schemas are those of `messages`.
"""

from collections.abc import Sequence
from typing import Any

from oncegate.core import errors as e
from oncegate.transports.access.rights import CALLS, Right
from oncegate.transports.decode.columns import COLUMNS_MAX
from oncegate.transports.decode.identifiers import ALPHABET, PARTITION
from oncegate.transports.decode.names import TOPIC
from oncegate.transports.http import messages, problems
from oncegate.transports.http.messages.fields import HEADER_NUMBERS, LEASE_BOUNDS
from oncegate.transports.http.openapi import descriptions, examples
from oncegate.transports.http.openapi.encodings import BODIES as FOR_BODIES
from oncegate.transports.http.parameters import ARROW, JSON, PACKED
from oncegate.transports.metrics import OPENMETRICS, TEXT
from oncegate.transports.outcomes import Internal, public_errors
from oncegate.transports.writers import HEADER as WRITER_HEADER

# In an operation: the roles of which a key needs one; none: any key will do.
ROLES = "x-oncegate-roles"
KEY_SCHEME = "key"
SECURITY_SCHEMES = {
    KEY_SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "a key of `oncegate keys add`, where the gateway has the setting `keys`; or a token "
        "(JWT) of its issuer, where it has `jwt_issuer`",
    }
}

Json = dict[str, Any]
Errors = Sequence[type[e.OncegateError]]

PUBLIC: Errors = (
    e.NotAcceptable,
    Internal,
    e.BadRequest,
    e.Misdirected,
    e.ForeignOrigin,
    e.TargetTooLong,
    e.HeadTooLarge,
)
EVERY: Errors = (*PUBLIC, e.Unauthenticated, e.Forbidden, e.KeysUnread)
# Of a namespace that does not serve: what ended it is the answer to every call.
DOWN: Errors = (e.Recovering, e.LedgerDown, e.LedgerFenced, e.LedgerDamaged, e.LedgerBusy, e.KeyMismatch)
NAMESPACED: Errors = (*EVERY, e.NotFound, *DOWN, e.LedgerBehind, e.BadRequest)
READS: Errors = (*NAMESPACED, e.DeadlinePassed)
WRITES: Errors = (*NAMESPACED, e.QuotaExceeded, e.Overloaded, e.DeadlinePassed, e.LedgerFull)
BODIES: Errors = (*WRITES, e.LengthRequired, e.TooLarge, e.UnsupportedMedia, e.BodyTooSlow, e.Stopping)
STAGES: Errors = (e.SchemaMismatch, e.ChunkAltered)
COMMITS: Errors = (e.MissingStage, e.SecondWrite, e.BatchConflict, e.BatchForgotten, e.SchemaMismatch)


def ref(message: Any) -> Json:
    """Refers to a message's schema."""
    return {"$ref": f"#/components/schemas/{message.__name__}"}


def _parameter(name: str, where: str, description: str, example: object, **more: Any) -> Json:
    schema = more.pop("schema", {"type": "string"})
    return {"name": name, "in": where, "description": description, "schema": schema, "example": example, **more}


def only(parameter: Json, *bodies: str) -> Json:
    """Makes a parameter one that is taken beside these bodies alone, by their media types, and says so."""
    words = " and ".join(_WORDS[media] for media in bodies)
    wanted = {WANTED: True} if parameter.get("required") else {}
    description = f"for {words} bodies{', which need it' if wanted else ''}: {parameter['description']}"
    return {**parameter, "required": False, "description": description, FOR_BODIES: list(bodies), **wanted}


# In a parameter that is for some bodies alone: those need it; `required` would say that every body does.
WANTED = "x-oncegate-required"
_WORDS = {JSON: "JSON", PACKED: "packed", ARROW: "Arrow"}
_RAW = (PACKED, ARROW)
_TEXT = {"type": "string", "minLength": 1}


def _number(name: str, description: str, example: int, **more: Any) -> Json:
    """A header that is a whole number, within the bounds that it is read with."""
    least, largest = HEADER_NUMBERS[name]
    schema = {"type": "integer", "minimum": least, "maximum": largest}
    return _parameter(name, "header", description, example, schema=schema, **more)


_TOKEN = {"type": "string", "pattern": "^(-*[0-9a-fA-F]){32}-*$"}
TOKEN = _parameter(
    "Oncegate-Token", "header", "128 random bits as hex: one per attempt", examples.TOKEN, required=True, schema=_TOKEN
)
CALL = _number("Oncegate-Call", "n-th request of the attempt", 0, required=True)
# JSON carries them in the body, so for a route that takes both they are not required.
TOKEN_RAW, CALL_RAW = only(TOKEN, *_RAW), only(CALL, *_RAW)
TOKEN_ARROW, CALL_ARROW = only(TOKEN, ARROW), only(CALL, ARROW)
LEASE_RAW = only(
    _parameter("Oncegate-Lease-Ms", "header", "the lease", 30_000, schema={"type": "integer", **LEASE_BOUNDS}),
    *_RAW,
)
PAYLOADS_RAW = [
    only(
        _parameter(
            "Oncegate-Payloads",
            "header",
            "1 where each id of 16 bytes is followed by its payload of 16 bytes",
            "1",
            schema={"type": "string", "enum": ["0", "1"]},
        ),
        PACKED,
    ),
    only(
        _parameter(
            "Oncegate-Digest-Cols",
            "header",
            "the columns that are the ids' payloads, comma separated, each percent-encoded; the others are the ids",
            "cents",
        ),
        ARROW,
    ),
]
ID_SET = "invoices"
ID_SET_RAW = only(_parameter("Oncegate-Id-Set", "header", "the set of the ids, percent-encoded", ID_SET), *_RAW)
ID_SET_OF = _parameter("id_set", "query", "the set that the id is looked for in; none: that of claims", ID_SET)
LOCATE = _parameter(
    "locate",
    "query",
    "true: each DUPLICATE says where its first was written here, or that this is not known, and what its claim was "
    "completed with, if that is known",
    "true",
    schema={"type": "string", "enum": ["true", "false"]},
)
SHADOW = _parameter(
    "shadow",
    "query",
    "true: a packed answer of a namespace in shadow mode has a byte for each verdict behind the numbers, what it would "
    "have been; JSON and Arrow have it always",
    "true",
    schema={"type": "string", "enum": ["true", "false"]},
)
_FIRSTS_PACKED = (
    "; with locate then n u32 | n topics: length u32, UTF-8 | per DUPLICATE, in order: topic u32, partition u32, "
    "offset u64 | n u32 | n results: length u32, bytes | per DUPLICATE: result u32; a topic or result of 2^32 - 1 is "
    "unknown"
)
_FIRSTS_ARROW = (
    "; with locate topic string, partition uint32, offset uint64, result binary, null where unknown; topic and result "
    "as dictionaries"
)
ID_SET_OUT = {
    "Oncegate-Id-Set": {
        "description": "packed and Arrow: the set that the ids were looked up in, percent-encoded",
        "schema": {"type": "string"},
    }
}
OWNER_RAW = only(
    _parameter(
        "Oncegate-Owner", "header", "the owner's name, percent-encoded", "daily-2026-11-20", required=True, schema=_TEXT
    ),
    *_RAW,
)


def raw(name: str, description: str, example: int, *bodies: str, **more: Any) -> Json:
    """Makes a header that is a number and stands for a member of the JSON body; `bodies`: all but JSON."""
    return only(_number(name, description, example, **more), *(bodies or _RAW))


def scope(*bodies: str) -> list[Json]:
    """Makes the headers that say which batch the ids of such a body belong to."""
    driver = _parameter(
        "Oncegate-Driver",
        "header",
        "whose batch the ids belong to, percent-encoded; none: the namespace",
        "b2c1f0de-0000-4000-8000-1234567890ab",
        schema=_TEXT,
    )
    return [only(driver, *bodies), raw("Oncegate-Batch", "the number of that batch", 18, *bodies)]


SCOPE_RAW, SCOPE_ARROW = scope(*_RAW), scope(ARROW)
# One with content instead of a schema, as OpenAPI has parameters that are JSON.
WRITER: Json = {
    "name": WRITER_HEADER,
    "in": "header",
    "description": "who writes, as JSON in ASCII: kept beside what is written, and never part of an id. A duplicate is "
    "counted by the cause that its writer and that of the first tell (`duplicates_*` of the namespace); without, most "
    "are `unknown`",
    "content": {JSON: {"schema": ref(messages.WriterMessage), "example": examples.WRITER}},
}
TIMEOUT = _number(
    "Oncegate-Timeout-Ms",
    "how long the caller waits: what is not decided by then is refused (DEADLINE), what is decided is answered late",
    5_000,
)
TIMEOUT_OF_READS = {
    **TIMEOUT,
    "description": "how long the caller waits: what is not read by then is given up (DEADLINE); nothing was changed",
}
_MARK = "[0-9a-f]{32}:[0-9]{1,20}:[0-9a-f]{16}"
_MARKS = {"type": "array", "items": {"type": "string", "pattern": f"^{_MARK}$"}, "minItems": 1}
MARKS = _parameter(
    "Oncegate-Ledger",
    "header",
    "the newest mark that answers of this namespace gave, or several, comma separated: "
    "refused (LEDGER_BEHIND) by a gateway that does not know each of them",
    [examples.MARK],
    schema=_MARKS,
)
ID = _parameter(
    "id",
    "query",
    "once per column of the id",
    ["a"],
    required=True,
    schema={
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": COLUMNS_MAX,
        "contains": {"type": "string", "minLength": 1},
    },
)
DIGEST = _parameter(
    "Content-Digest",
    "header",
    "SHA-256 of the body (RFC 9530)",
    examples.CONTENT_DIGEST,
    required=True,
    schema={"type": "string", "pattern": "^sha-256=:[A-Za-z0-9+/]{43}=:$"},
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
    "partition": ("from 0 on", "0", PARTITION.pattern),
    "claim": ("from the answer of ids:claim", examples.CLAIM, f"[0-7][{ALPHABET}]{{25}}"),
    "producer": (
        "an ordered partition of a source, in the namespace; any text, slashes too, percent-encoded",
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


def query(message: Any, *bodies: str, **shown: object) -> list[Json]:
    """Makes query parameters from a message's fields; `bodies`: they are for these alone, by media type."""
    schema = examples.schema_of(message)
    required = set(schema.get("required", ()))
    found = [
        _parameter(name, "query", kind.get("description") or descriptions.of(message.__name__, name), shown[name])
        | {"required": name in required, "schema": kind}
        for name, kind in schema["properties"].items()
    ]
    return [only(parameter, *bodies) for parameter in found] if bodies else found


def body(**media: Json) -> Json:
    """Makes a request's body, by encoding: json, packed, arrow."""
    return {"required": True, "content": {_MEDIA[name]: content for name, content in media.items()}}


_MEDIA = {"json": JSON, "packed": PACKED, "arrow": ARROW, "text": TEXT, "openmetrics": OPENMETRICS}
_BINARY: Json = {"schema": {"type": "string", "format": "binary"}}
METRICS: Json = {
    "schema": {"type": "string"},
    "example": '# TYPE oncegate_open_claims gauge\noncegate_open_claims{namespace="default"} 3.0\n',
}
PACKED_IDS: Json = {**_BINARY, "schema": {**_BINARY["schema"], "description": "16 raw bytes an id"}}
PACKED_REPLY: Json = {
    **_BINARY,
    "schema": {
        **_BINARY["schema"],
        "description": "claim 16 bytes (zeros: none) | lease_ms u32 | n u32 | n verdict bytes | "
        f"per verdict with a number, in order: place u32, number u32; little-endian{_FIRSTS_PACKED}",
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
        f"lease_left_ms uint32 or null; schema metadata: lease_ms, claim (absent: none){_FIRSTS_ARROW}",
    },
}


def message(kind: Any, example: object) -> Json:
    """Makes the content of a JSON message, with its example."""
    return {"schema": ref(kind), "example": example}


def answer(description: str, marked: bool = True, **media: Json) -> Json:
    """Makes a success, by encoding; `marked`: it brings a mark of the ledger."""
    found: Json = {"description": description, "content": {_MEDIA[name]: content for name, content in media.items()}}
    return {**found, "headers": MARK_OUT} if marked else found


def answer_by_id(description: str, **media: Json) -> Json:
    """Makes a success with verdicts on ids, as `answer`."""
    return {**answer(description, True, **media), "headers": {**MARK_OUT, **ID_SET_OUT}}


def operation(
    operation_id: str,
    answers: dict[int, Json],
    errors: Errors = EVERY,
    parameters: Sequence[Json] = (),
    reads: Json | None = None,
) -> Json:
    """Makes one operation's part of the document, as FastAPI's `openapi_extra`."""
    responses = {str(status): answers[status] for status in sorted(answers)} | _refusals(errors)
    extra: Json = {"operationId": operation_id, "responses": responses, "parameters": list(parameters)}
    extra |= _security(CALLS[operation_id])
    return extra if reads is None else {**extra, "requestBody": reads}


def _security(right: Right) -> Json:
    """What a gateway with keys asks for; `{}`: one without asks for nothing."""
    if right.public:
        return {"security": []}
    return {"security": [{KEY_SCHEME: []}, {}], ROLES: sorted(role.value for role in right.roles)}


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


def writes_as(*names: str) -> list[Json]:
    """Makes the parameters of every call that writes rows or ids, and keeps who did: as `writes`."""
    return [*writes(*names), WRITER]


def reading(*names: str) -> list[Json]:
    """Makes the parameters of every call that reads, after those of its path."""
    return [*path(*names), TIMEOUT_OF_READS, MARKS]
