"""The table of all paths: which function answers a request, after its head is checked and, if it writes, it is let in.

A route that reads is stopped at its caller's deadline, or when its caller disconnects.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from importlib.resources import files
from typing import Any

import msgspec
from fastapi import Response
from starlette.routing import compile_path

from oncegate.core.errors import BadRequest
from oncegate.transports.http.bodies import body_length
from oncegate.transports.http.call import Call, Endpoint, Route
from oncegate.transports.http.parameters import Parameters

# Of each call, as `make generate` compiles it of the document.
_TABLE: dict[str, dict[str, Any]] = msgspec.json.decode((files(__package__) / "parameters.json").read_bytes())
PARAMETERS = {call: Parameters(kinds) for call, kinds in _TABLE.items()}


class Routes:
    """Collects the routes of one module, whose paths have a common prefix."""

    def __init__(self, prefix: str = "", *tags: str) -> None:
        self._prefix, self._tags, self.all = prefix, tags, list[Route]()

    def get(self, path: str, call: str, *tags: str, listed: bool = True) -> Callable[[Endpoint], Endpoint]:
        """Registers a function that only reads; `listed`: in the document."""
        return self._add("GET", path, call, tags or self._tags if listed else None)

    def bare(self, method: str, path: str, call: str, *tags: str) -> Callable[[Endpoint], Endpoint]:
        """Registers a function that reads its own body, for what is of no namespace that serves already."""
        return self._add(method, path, call, tags or self._tags)

    def post(
        self,
        path: str,
        call: str,
        reads: Sequence[str],
        writes: Sequence[str],
        *,
        method: str = "POST",
        optional: bool = False,
        claims: bool = False,
    ) -> Callable[[Endpoint], Endpoint]:
        """Registers a function that is called once its request is let in."""
        return self._add(
            method, path, call, self._tags, True, tuple(reads), tuple(writes), optional=optional, claims=claims
        )

    def _add(
        self,
        method: str,
        path: str,
        call: str,
        tags: Sequence[str] | None,
        *more: Any,
        **named: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        path = self._prefix + path

        def register(endpoint: Endpoint) -> Endpoint:
            pattern, parameters = compile_path(path)[0], PARAMETERS[call]
            self.all.append(Route(method, path, pattern, endpoint, parameters, call, tags, *more, **named))
            return endpoint

        return register


class RouteTable:
    """Finds the route of a request; of several that match the first. routes: all; by_method: those of each method."""

    def __init__(self, routes: Iterable[Routes]) -> None:
        self.routes = [route for part in routes for route in part.all]
        self.by_method: dict[str, list[Route]] = {}
        for route in self.routes:
            self.by_method.setdefault(route.method, []).append(route)

    def route_of(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """Returns the route and its path parameters; None: there is none."""
        for route in self.by_method.get(method, ()):
            if (match := route.pattern.match(path)) is not None:
                return route, match.groupdict()
        return None

    def methods_of(self, path: str) -> list[str]:
        """Returns every method of the path, sorted; HEAD where there is GET."""
        methods = {route.method for route in self.routes if route.pattern.match(path)}
        return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def respond(call: Call) -> Response:
    """Answers a request by its route. Raises what it is refused for."""
    route = call.route
    call.check()
    if route.admits:
        await call.admit()
        try:
            return await route.endpoint(call)
        finally:
            call.admitted.release()
    if route.method != "GET":
        return await route.endpoint(call)
    body_length(call.headers, wanted=False)
    deadline, work = call.read_deadline(), route.endpoint(call)
    return await _unless_gone(call, work if deadline is None else deadline.reading(work))


async def _unless_gone(call: Call, work: Coroutine[Any, Any, Response]) -> Response:
    """Awaits what only reads, and cancels it when its caller disconnects. Raises BadRequest then, which is not sent."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(call))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise BadRequest("the caller has gone away; nothing was changed")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _gone(call: Call) -> None:
    while (await call.wire.receive())["type"] != "http.disconnect":
        pass
