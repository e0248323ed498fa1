"""Generates the OpenAPI 3.1 document, openapi.json, from openapi.yaml, the routes and the message schemas.

openapi.yaml has the words, the parameters and each operation's answers and errors; `<<name>>` in it stands for a value
that the code knows. Nothing here is imported to serve: `make generate` writes openapi.json and parameters.json.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import msgspec
import yaml
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.models import OpenAPI

import oncegate
from oncegate.core import errors
from oncegate.core.verdicts import BY_BYTE, VERDICT_MASK, VERDICTS, Flag
from oncegate.engine import counters
from oncegate.engine.limits import Limits
from oncegate.transports import outcomes
from oncegate.transports.access.rights import CALLS, Right
from oncegate.transports.decode.columns import COLUMNS_MAX
from oncegate.transports.decode.identifiers import ALPHABET, CLAIM_CHARS, PARTITION, claim_text
from oncegate.transports.decode.names import TOPIC
from oncegate.transports.http import messages, problems
from oncegate.transports.http.call import Route
from oncegate.transports.http.messages.fields import HEADER_NUMBERS, LEASE_BOUNDS
from oncegate.transports.http.parameters import ARROW, JSON, PACKED
from oncegate.transports.metrics import OPENMETRICS, TEXT
from oncegate.transports.promises import CREDENTIALS, promised

Json = dict[str, Any]
Error = type[errors.OncegateError]

# In an operation: the roles of which a key needs one; none: any key will do.
ROLES = "x-oncegate-roles"
# In a parameter: the media types of the bodies that it is for; absent: all, and none. WANTED: those bodies need it.
BODIES, WANTED = "x-oncegate-bodies", "x-oncegate-required"
# The bytes of packed bodies, claim ids and fingerprints as tables; `tests/contract` makes a client of them.
TABLES = "x-oncegate"
KEY_SCHEME = "key"
SECURITY_SCHEMES = {
    KEY_SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "a key of `oncegate keys add`, where the gateway has the setting `keys`; or a token "
        "(JWT) of its issuer, where it has `jwt_issuer`",
    }
}
_MEDIA = {"json": JSON, "packed": PACKED, "arrow": ARROW, "text": TEXT, "openmetrics": OPENMETRICS}
_WORDS = {JSON: "JSON", PACKED: "packed", ARROW: "Arrow"}
_EXAMPLE = bytes(range(1, 17))
_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_RETRY_AFTER = {
    "Retry-After": {"description": "retry_after_ms in whole seconds, rounded up", "schema": {"type": "integer"}}
}
_PLACEHOLDER = re.compile(r"<<([\w-]+)>>")


def _values(packed: Json, texts: Json) -> Json:
    """The values of openapi.yaml's placeholders."""
    flagged = ((row, [row.verdict.name, *(str(flag.name).lower() for flag in row.flags)]) for row in VERDICTS)
    rows = ((item, ", ".join([item["verdict"], *item["flags"]])) for item in _verdicts())
    return {
        "claim_alphabet": ALPHABET,
        "claim_bytes": _EXAMPLE.hex(),
        "claim_text": claim_text(_EXAMPLE),
        "columns_max": COLUMNS_MAX,
        "counters": counters.description(),
        "credentials": CREDENTIALS,
        "lease": {"type": "integer", **LEASE_BOUNDS},
        "limits": asdict(Limits()),
        "packed_layout": "\n".join(f"| {' | '.join(map(str, part.values()))} |" for part in packed["answer"]),
        "packed_verdicts": "\n".join(
            f"| 0x{item['byte']:02x} | {named} | {item['number'] or ''} | {item['meaning']} |" for item, named in rows
        ),
        "partition": PARTITION.pattern,
        "promises": {name: {"promise": p.promise, "means": p.meaning} for name, p in promised("log:./data").items()},
        "topic": TOPIC.pattern,
        "verdicts": "What to do with one id:\n"
        + "\n".join(f"* {', '.join(named)}: {row.meaning}" for row, named in flagged),
        **texts,
    }


def filled(value: Any, values: Json) -> Any:
    """Returns the value with its placeholders replaced. Raises KeyError for one that is unknown."""
    if isinstance(value, dict):
        return {key: filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, values) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _PLACEHOLDER.fullmatch(value):
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), value)


def _verdicts() -> list[Json]:
    return [
        {
            "byte": byte,
            "verdict": row.verdict.name,
            "flags": [str(flag.name).lower() for flag in Flag if flag in row.flags],
            "number": row.number,
            "may_write": row.may_write,
            "meaning": row.meaning,
        }
        for byte, row in sorted(BY_BYTE.items())
    ]


def _source() -> Json:
    source = yaml.safe_load((files(__package__) / "openapi.yaml").read_text())
    made: Json = filled(source, _values(source["packed"], source["texts"]))
    return made


SOURCE = _source()


def _ref(message: str) -> Json:
    return {"$ref": f"#/components/schemas/{message}"}


def _content(body: Mapping[str, Any], example: Json) -> Json:
    """Returns the content of a request or response by media type; `example` overrides members of the message's
    example.
    """
    made = {}
    for kind, name in body.items():
        if kind in ("text", "openmetrics"):
            made[_MEDIA[kind]] = {"schema": {"type": "string"}, "example": SOURCE["examples"][name]}
        elif kind == "json":
            made[JSON] = {"schema": _ref(name), "example": {**SOURCE["examples"][name], **example}}
        elif kind in _MEDIA:
            schema = {"type": "string", "format": "binary", "description": SOURCE["bodies"][name]}
            made[_MEDIA[kind]] = {"schema": schema}
    return made


def _answer(answer: Json) -> Json:
    headers = {name: SOURCE["headers"][name] for name in answer.get("headers", ("Oncegate-Ledger",))}
    made = {"description": answer["description"], "content": _content(answer, answer.get("example", {}))}
    return {**made, "headers": headers} if headers else made


def _link(link: Json) -> Json:
    made = {"operationId": link["to"], "description": link["description"], "parameters": link["parameters"]}
    return {**made, "requestBody": link["body"]} if "body" in link else made


def _parameters(names: Iterable[str], media: Sequence[str]) -> Iterator[Json]:
    """Yields the parameters of an operation; media: the media types of its bodies.

    A name is that of a group, a message of which each member is one, or a parameter.
    """
    others = [kind for kind in media if kind != JSON] if JSON in media else []
    for name in names:
        if name in SOURCE["parameter_groups"]:
            yield from _parameters(SOURCE["parameter_groups"][name], media)
        elif name in SOURCE["parameters"]:
            yield _parameter(name, others)
        else:
            yield from (_only(parameter, others) for parameter in _query(name))


def _parameter(name: str, others: Sequence[str]) -> Json:
    given = SOURCE["parameters"][name]
    made = {"name": given.get("name", name), "in": given["in"], "description": given["description"]}
    if "message" in given:  # one with content instead of a schema, as OpenAPI has parameters that are JSON
        content = {"schema": _ref(given["message"]), "example": SOURCE["examples"][given["message"]]}
        return {**made, "content": {JSON: content}}
    schema = given.get("schema", {"type": "string"})
    if "schema" not in given and made["name"] in HEADER_NUMBERS:
        least, largest = HEADER_NUMBERS[made["name"]]
        schema = {"type": "integer", "minimum": least, "maximum": largest}
    made |= {"schema": schema, "example": given["example"]}
    if given.get("required"):
        made["required"] = True
    bodies = [_MEDIA[kind] for kind in given.get("bodies", ())]
    return _only(made, bodies or (others if given.get("json_member") else ()))


def _query(name: str) -> Iterator[Json]:
    """Yields a query parameter for each member of a message."""
    message = getattr(messages, name)
    schema = msgspec.json.schema_components([message])[1][name]
    words = SOURCE["members"].get(name, {})
    for member, kind in schema["properties"].items():
        made = {"name": member, "in": "query", "description": kind.get("description") or words.get(member, member)}
        example = SOURCE["examples"][name][member]
        yield {**made, "schema": kind, "example": example, "required": member in schema.get("required", ())}


def _only(parameter: Json, bodies: Sequence[str]) -> Json:
    """Returns the parameter, restricted to bodies of these media types; unrestricted if none are given."""
    if not bodies:
        return parameter
    needed = {WANTED: True} if parameter.get("required") else {}
    words = " and ".join(_WORDS[media] for media in bodies)
    description = f"for {words} bodies{', which need it' if needed else ''}: {parameter['description']}"
    return {**parameter, "required": False, "description": description, BODIES: list(bodies), **needed}


def _errors(names: Iterable[str]) -> Iterator[Error]:
    for name in names:
        if name in SOURCE["errors"]:
            yield from _errors(SOURCE["errors"][name])
        else:
            yield outcomes.Internal if name == outcomes.Internal.__name__ else getattr(errors, name)


def _refusals(kinds: Iterable[Error]) -> Json:
    by_status: dict[int, list[Error]] = {}
    for kind in dict.fromkeys(kinds):
        by_status.setdefault(problems.status_of(kind), []).append(kind)
    return {str(status): _refusal(by_status[status]) for status in sorted(by_status)}


def _refusal(kinds: Sequence[Error]) -> Json:
    examples = {kind.code: {"$ref": f"#/components/examples/{kind.code}"} for kind in kinds}
    made: Json = {
        "description": "; ".join(f"{kind.code} ({kind.action}): {kind.title}" for kind in kinds),
        "content": {problems.PROBLEM: {"schema": _ref("Problem"), "examples": examples}},
    }
    return {**made, "headers": _RETRY_AFTER} if any(kind.retry_after_ms for kind in kinds) else made


def _security(right: Right) -> Json:
    """Returns the security requirement of a gateway with keys; `{}` means that a gateway without keys requires none."""
    if right.public:
        return {"security": []}
    return {"security": [{KEY_SCHEME: []}, {}], ROLES: sorted(role.value for role in right.roles)}


def _operation(name: str, source: Json) -> Json:
    body = dict(source.get("body", {}))
    optional = body.pop("optional", False)
    content = _content(body, {})
    responses = {str(status): _answer(answer) for status, answer in sorted(source.get("answers", {}).items())}
    if "links" in source:
        links = {name: _link(link) for name, link in source["links"].items()}
        responses = {status: {**response, "links": links} for status, response in responses.items()}
    made: Json = {
        "operationId": name,
        "responses": responses | _refusals(_errors(source["errors"])),
        "parameters": list(_parameters(source.get("parameters", ()), list(content))),
        **_security(CALLS[name]),
    }
    return {**made, "requestBody": {"required": not optional, "content": content}} if content else made


OPERATIONS: dict[str, Json] = {name: _operation(name, source) for name, source in SOURCE["operations"].items()}


def document(routes: Iterable[Route]) -> Json:
    """Returns the whole document as plain values, in a fixed order."""
    made: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Oncegate",
            "summary": "Retried writes take effect once",
            "description": SOURCE["description"],
            "version": oncegate.__version__,
        },
        "servers": [{"url": "http://127.0.0.1:8080", "description": "loopback, unless the gateway has keys"}],
        "tags": [{"name": name, "description": words} for name, words in SOURCE["tags"].items()],
        "paths": {},
    }
    for route in routes:
        if route.tags is not None:
            path = route.path.replace(":path}", "}")
            made["paths"].setdefault(path, {})[route.method.lower()] = _of_route(route, path)
    # The framework's model checks its parts, and leaves out those that are None.
    made = jsonable_encoder(OpenAPI(**made), by_alias=True, exclude_none=True)
    made["info"]["contact"] = {"name": "The developers of Oncegate"}
    examples = {
        kind.code: {"summary": kind.title, "value": problems.document(kind(kind.title), _TRACE)}
        for kind in outcomes.public_errors()
    }
    made["components"] = {"schemas": schemas(), "examples": examples}
    made[TABLES] = _tables()
    _drop_unused(made)
    made["components"]["securitySchemes"] = SECURITY_SCHEMES
    return made


def _of_route(route: Route, path: str) -> Json:
    name = route.endpoint.__name__
    words = {"summary": name.replace("_", " ").title(), "description": inspect.getdoc(route.endpoint)}
    operation = OPERATIONS[route.call]
    of_path = []
    for part in re.findall(r"\{(\w+)\}", path):
        known = SOURCE["path"][part]
        schema = {"type": "string", "pattern": f"^{known['pattern']}$"}
        made = {"name": part, "in": "path", "description": known["description"], "schema": schema}
        of_path.append({**made, "example": known["example"], "required": True})
    parameters = [*of_path, *operation["parameters"]]
    return {"tags": list(route.tags or ()), **words, **operation, "parameters": parameters}


def _tables() -> Json:
    """Returns the tables that describe packed bodies; all numbers in bodies are little-endian."""
    packed = SOURCE["packed"]
    return {
        "byte_order": "little",
        "verdict_mask": VERDICT_MASK,
        "verdicts": _verdicts(),
        "numbers": packed["numbers"],
        "packed_requests": packed["requests"],
        "packed_answer": packed["answer"],
        "claim_id": {
            "bytes": 16,
            "characters": CLAIM_CHARS,
            "alphabet": ALPHABET,
            "bits_a_character": 5,
            "byte_order": "big",
            "example": {"bytes": _EXAMPLE.hex(), "text": claim_text(_EXAMPLE)},
        },
        "fingerprint": {"bytes": 16, "byte_order": "little", "add": "modulo 2^128"},
    }


def schemas() -> Json:
    """Returns the schema of every message, by its name, with its members' descriptions."""
    last = messages.producers.__name__, messages.operator.__name__
    kinds = [kind for _, kind in inspect.getmembers(messages, inspect.isclass)]
    kinds.sort(key=lambda kind: kind.__module__ in last)
    _, components = msgspec.json.schema_components([*kinds, Limits], ref_template="#/components/schemas/{name}")
    for schema in components.values():
        if "description" in schema:  # a docstring, whose lines Python 3.13 indents no more
            schema["description"] = " ".join(schema["description"].split())
    described: Json = _with_tuples(with_words(components))
    return described


def with_words(components: Json) -> Json:
    """Adds the members' descriptions, and the rules that relate several members.

    Raises KeyError for a description of a member that does not exist.
    """
    for name, words in SOURCE["members"].items():
        for member, description in words.items():
            components[name]["properties"][member]["description"] = description
    for name, rule in SOURCE["rules"].items():
        components[name].update(rule)
    return components


def _with_tuples(value: Any) -> Any:
    """Replaces each `prefixItems` list, whose schemas must all be equal, with one `items` schema."""
    if isinstance(value, list):
        return [_with_tuples(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: _with_tuples(item) for name, item in value.items()}
    if "prefixItems" in made:
        [made["items"]] = {str(item): item for item in made.pop("prefixItems")}.values()
    return made


def _drop_unused(document: Json) -> None:
    """Drops unreferenced components: messages that are listed as parameters, and errors that no call returns."""
    components = document["components"]
    reached: set[str] = set()
    waiting = list(_references(document["paths"]))
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            _, _, kind, name = reference.split("/")
            waiting += _references(components[kind][name])
    for kind, named in components.items():
        components[kind] = {name: part for name, part in named.items() if f"#/components/{kind}/{name}" in reached}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _references(item)


def text(made: object) -> str:
    """Formats a generated value as it is committed: JSON, indented by one space."""
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode() + "\n"


def parameters() -> Json:
    """Returns the parameters of each call, by the media type of its body; "" for calls without a body."""
    return {call: _parameters_of(operation) for call, operation in OPERATIONS.items()}


def _parameters_of(operation: Mapping[str, Any]) -> Json:
    body, named = operation.get("requestBody", {}), operation["parameters"]
    kinds = [*body.get("content", {}), *([] if body.get("required") else [""])]
    return {kind: {"headers": _headers(named, kind), "query": _query_of(named, kind)} for kind in kinds}


def _headers(parameters: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    return [item["name"].lower() for item in parameters if item["in"] == "header" and _is_for(item, kind)]


def _query_of(parameters: Sequence[Mapping[str, Any]], kind: str) -> dict[str, bool]:
    """Returns each query parameter, and whether it may be repeated."""
    of_query = (item for item in parameters if item["in"] == "query" and _is_for(item, kind))
    return {item["name"]: item["schema"].get("type") == "array" for item in of_query}


def _is_for(parameter: Mapping[str, Any], kind: str) -> bool:
    return kind in parameter.get(BODIES, (kind,))
