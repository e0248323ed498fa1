"""The OpenAPI 3.1 document: the routes' paths, our messages' schemas. Committed as openapi.json (`make generate`)."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.models import OpenAPI

import oncegate
from oncegate.engine.limits import Limits
from oncegate.transports.http import messages
from oncegate.transports.http.call import Route
from oncegate.transports.http.openapi import (
    descriptions,
    encodings,
    links,
    operations,
    operations_producers,
    operator,
    parts,
)

TAGS = [
    {"name": "claims", "description": "Free ids: ask, write to your own sink, complete"},
    {"name": "producers", "description": "Ordered partitions of a source, by sequence; their driver acks what is over"},
    {"name": "batches", "description": "Named batches: staged by tasks, committed by their driver"},
    {"name": "topics", "description": "Rows written at once, and rows read back by offset"},
    {"name": "namespaces", "description": "Deduplication domains, each with its own key and ledger"},
    {"name": "service", "description": "Limits, promises, versions, errors"},
    {"name": "operators", "description": "What people do by hand: each action stands in the ledger, with who and why"},
    {"name": "health", "description": "Live, started, ready"},
]


OPERATIONS: dict[str, dict[str, Any]] = {
    part["operationId"]: part
    for module in (operations, operations_producers, operator)
    for part in vars(module).values()
    if isinstance(part, dict) and "operationId" in part
}
# Messages that stand last in the document.
_LAST = messages.producers.__name__, messages.operator.__name__


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Makes the whole document as plain values, in one order."""
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Oncegate",
            "summary": "Retried writes take effect once",
            "description": descriptions.DESCRIPTION,
            "version": oncegate.__version__,
        },
        "servers": [{"url": "http://127.0.0.1:8080", "description": "loopback, unless the gateway has keys"}],
        "tags": TAGS,
        "paths": {},
    }
    for route in routes:
        if route.tags is not None:
            path = route.path.replace(":path}", "}")
            found["paths"].setdefault(path, {})[route.method.lower()] = _operation(route)
    # The framework's model checks what stands in it, and leaves out what is None.
    found = jsonable_encoder(OpenAPI(**found), by_alias=True, exclude_none=True)
    found["info"]["contact"] = {"name": "The developers of Oncegate"}
    found["components"] = {"schemas": schemas(), "examples": parts.refusal_examples()}
    found[encodings.TABLES] = encodings.tables()
    _drop_unused(found)
    found["components"]["securitySchemes"] = parts.SECURITY_SCHEMES
    return found


def _operation(route: Route) -> dict[str, Any]:
    name = route.endpoint.__name__
    said = {"summary": name.replace("_", " ").title(), "description": inspect.getdoc(route.endpoint)}
    return {"tags": list(route.tags or ()), **said, **links.added(OPERATIONS[route.call])}


# Members that need another member; the types of the messages cannot express it.
_WITH = {"AckRequest": ("source_offsets", "topic")}


def schemas() -> dict[str, Any]:
    """Returns the schema of every message, by its name, with its members' descriptions."""
    kinds = [kind for _, kind in inspect.getmembers(messages, inspect.isclass)]
    kinds.sort(key=lambda kind: kind.__module__ in _LAST)
    _, components = msgspec.json.schema_components([*kinds, Limits], ref_template="#/components/schemas/{name}")
    for schema in components.values():
        if "description" in schema:  # a docstring, whose lines Python 3.13 indents no more
            schema["description"] = " ".join(schema["description"].split())
    for name, (member, other) in _WITH.items():
        components[name]["if"] = {"required": [member], "properties": {member: {"type": "string"}}}
        components[name]["then"] = {"required": [other], "properties": {other: {"type": "string"}}}
    found: dict[str, Any] = _with_tuples(descriptions.described(components))
    return found


def _with_tuples(value: Any) -> Any:
    """The same with one schema for the items of each pair: OpenAPI 3.1 has none by place under this name."""
    if isinstance(value, list):
        return [_with_tuples(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _with_tuples(item) for name, item in value.items()}
    if "prefixItems" in found:
        [found["items"]] = {str(item): item for item in found.pop("prefixItems")}.values()
    return found


def _drop_unused(document: dict[str, Any]) -> None:
    """Messages that are spelt out as parameters, and errors that no call is answered with, are no part of it."""
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
    """Writes what is made here as it is committed: JSON, indented by one."""
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode() + "\n"


def parameters() -> dict[str, Any]:
    """Returns the parameters that each call takes, by the media type of its body; "" where there is none."""
    return {call: _parameters_of(operation) for call, operation in OPERATIONS.items()}


def _parameters_of(operation: Mapping[str, Any]) -> dict[str, Any]:
    body, named = operation.get("requestBody", {}), operation["parameters"]
    kinds = [*body.get("content", {}), *([] if body.get("required") else [""])]
    return {kind: {"headers": _headers(named, kind), "query": _query(named, kind)} for kind in kinds}


def _headers(parameters: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    return [item["name"].lower() for item in parameters if item["in"] == "header" and _is_for(item, kind)]


def _query(parameters: Sequence[Mapping[str, Any]], kind: str) -> dict[str, bool]:
    """Each parameter of the query, and whether it may be there several times."""
    of_query = (item for item in parameters if item["in"] == "query" and _is_for(item, kind))
    return {item["name"]: item["schema"].get("type") == "array" for item in of_query}


def _is_for(parameter: Mapping[str, Any], kind: str) -> bool:
    return kind in parameter.get(encodings.BODIES, (kind,))
