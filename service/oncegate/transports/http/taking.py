"""What each route takes beside its body, held against what came: anything else is refused, whatever route it is.

A read stops at its caller's deadline, which is one of them.

The document is the table. A route is made with its operation; the parameters that the operation names, each for the
bodies that it is for, are those the route takes, and every other one is a BadRequest. So a new parameter is one line in
`openapi`, and a new route cannot forget the check.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response

from oncegate.core.errors import BadRequest
from oncegate.transports import draining
from oncegate.transports.access.access import Access
from oncegate.transports.access.keys import bearer
from oncegate.transports.decode.identifiers import percent_decoded, shortened
from oncegate.transports.http.head import CALL, PRINCIPAL, body_length, deadline_of
from oncegate.transports.http.negotiation import media_of

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]
# In a parameter of the document: the media types of the bodies that it is for; absent: all, and none.
BODIES = "x-oncegate-bodies"

_OURS = b"oncegate-"
# Who sends these relies on them; they would be passed over where no route reads them.
_RELIED_ON = frozenset({b"content-digest", b"idempotency-key"})
# Which of two would count is anybody's guess.
_ONCE = frozenset({b"accept", b"content-type", b"content-encoding", b"authorization", *_RELIED_ON})
# More than any route has, and fewer than would take long to take apart.
_PAIRS_MAX = 64


class Taken:
    """The parameters of one route, by the media type of the body; "" where there is none. `route`: its path."""

    def __init__(self, operation: Mapping[str, Any], route: str = "") -> None:
        self.route = route
        body, parameters = operation.get("requestBody", {}), operation.get("parameters", ())
        self._has_body = bool(body)
        self._call = operation["operationId"]
        kinds = [*body.get("content", {}), *([] if body.get("required") else [""])]
        self._headers = {kind: frozenset(_names(parameters, "header", kind)) for kind in kinds}
        self._query = {kind: _query(parameters, kind) for kind in kinds}
        # By kind, the last fields that were good: a client's next request has the same ones, as a rule.
        self._good: dict[str, object] = {}

    def check(self, request: Request) -> None:
        """Refuses who may not call it, then what the route does not take, or got twice; what is no UTF-8.

        Raises Unauthenticated, Forbidden, Stopping, BadRequest.
        """
        request.scope[CALL] = self._call
        access: Access | None = request.app.state.access
        if access is not None:
            credential = bearer(request.headers.get("Authorization"))
            request.scope[PRINCIPAL] = access.permit(self._call, request.path_params.get("namespace"), credential)
        draining.check(self._call, request.app.state.gateway)
        scope, kind = request.scope, media_of(request) if self._has_body else ""
        if kind in self._headers:  # else its Content-Type is refused
            if scope["headers"] != self._good.get(kind):
                self._check_headers(scope["headers"], kind)
                self._good[kind] = scope["headers"]
            if scope["query_string"]:
                self._check_query(scope["query_string"], kind)
        if b"%" in scope["raw_path"] or not scope["raw_path"].isascii():
            percent_decoded(scope["raw_path"].decode("latin-1"), "the path")

    def _check_headers(self, fields: Sequence[tuple[bytes, bytes]], kind: str) -> None:
        taken, seen = self._headers[kind], set()
        for name, value in fields:
            if not name.startswith(_OURS) and name not in _ONCE:
                continue
            if name in seen:
                raise BadRequest(f"the header {_shown(name)} is there twice")
            seen.add(name)
            if name not in taken and (name not in _ONCE or name in _RELIED_ON):
                known = _there_are(map(_shown, taken))
                raise BadRequest(f"the header {_shown(name)} is not taken here{_for(kind)}; {known}")
            if not value.isascii():
                raise BadRequest(f"the header {_shown(name)} is not ASCII: percent-encode it")

    def _check_query(self, text: bytes, kind: str) -> None:
        percent_decoded(text.decode("latin-1"), "the query")
        taken, seen = self._query[kind], set()
        for name in pairs(text):
            if name not in taken:
                raise BadRequest(f"the parameter {shortened(name)} is not taken here{_for(kind)}; {_there_are(taken)}")
            if name in seen and not taken[name]:
                raise BadRequest(f"the parameter {name} is there twice")
            seen.add(name)


class Routes(APIRouter):
    """Makes routes that take what their operation, `openapi_extra`, names, and nothing else."""

    def api_route(self, path: str, **told: Any) -> Callable[[Any], Any]:
        """Registers a function for a path, as the framework does, with the check before it."""
        register, taken = super().api_route(path, **told), Taken(told["openapi_extra"], self.prefix + path)
        reads = told["methods"] == ["GET"]

        def checked(endpoint: Endpoint) -> Any:
            return register(_checked(_reading(endpoint) if reads else endpoint, taken))

        return checked


def _checked(endpoint: Endpoint, taken: Taken) -> Endpoint:
    @wraps(endpoint)
    async def call(request: Request) -> Response:
        taken.check(request)
        return await endpoint(request)

    call.taken = taken  # type: ignore[attr-defined]
    return call


def _reading(endpoint: Endpoint) -> Endpoint:
    """A route that only reads: it takes no body, and is stopped at the deadline, or when its caller has gone."""

    @wraps(endpoint)
    async def call(request: Request) -> Response:
        body_length(request, wanted=False)
        deadline = deadline_of(request)
        return await _unless_gone(
            request, endpoint(request) if deadline is None else deadline.reading(endpoint(request))
        )

    return call


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Awaits what only reads, and cancels it when its caller has gone. Raises BadRequest then, which nobody gets."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise BadRequest("the caller has gone away; nothing was changed")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def unchecked(route: Any) -> tuple[Taken, Endpoint]:
    """Returns a registered route's check and its bare function, for a dispatch that calls one after the other."""
    return route.taken, route.__wrapped__


def pairs(text: bytes) -> list[str]:
    """Returns the names of a query's parameters, in their order. Raises BadRequest where it is not made of pairs."""
    try:
        return [name for name, _ in _split(text)]
    except ValueError as error:
        raise BadRequest(f"the query is not made of name=value, {_PAIRS_MAX} at most") from error


def _split(text: bytes) -> list[tuple[str, str]]:
    return parse_qsl(
        text.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_PAIRS_MAX
    )


def _names(parameters: Sequence[Mapping[str, Any]], where: str, kind: str) -> list[bytes]:
    found = (item for item in parameters if item["in"] == where and _is_for(item, kind))
    return [item["name"].lower().encode() for item in found]


def _query(parameters: Sequence[Mapping[str, Any]], kind: str) -> dict[str, bool]:
    """Each parameter of the query, and whether it may be there several times."""
    found = (item for item in parameters if item["in"] == "query" and _is_for(item, kind))
    return {item["name"]: item["schema"].get("type") == "array" for item in found}


def _is_for(parameter: Mapping[str, Any], kind: str) -> bool:
    return kind in parameter.get(BODIES, (kind,))


def _for(kind: str) -> str:
    return f" with a body of {kind}" if kind else ""


def _shown(name: bytes) -> str:
    return "-".join(part.capitalize() for part in name.decode("latin-1")[:80].split("-"))


def _there_are(taken: Iterable[str]) -> str:
    return f"taken are {names}" if (names := ", ".join(sorted(taken))) else "none is taken"
