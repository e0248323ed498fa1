"""The route table, and the steps of each request: check its head, admit it if it writes, call its route.

A read is cancelled at its deadline, or when its caller disconnects.
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

# Parameters of each call, compiled from the OpenAPI document by `make generate`.
_TABLE: dict[str, dict[str, Any]] = msgspec.json.decode((files(__package__) / "parameters.json").read_bytes())
PARAMETERS = {call: Parameters(kinds) for call, kinds in _TABLE.items()}


class Routes:
    """Collects the routes of one module, whose paths have a common prefix."""

    def __init__(self, prefix: str = "", *tags: str) -> None:
        self._prefix, self._tags, self.all = prefix, tags, list[Route]()

    def get(self, path: str, call: str, *tags: str, listed: bool = True) -> Callable[[Endpoint], Endpoint]:
        """Registers a function that only reads; `listed`: the OpenAPI document contains it."""
        return self._add("GET", path, call, tags or self._tags if listed else None)

    def bare(self, method: str, path: str, call: str, *tags: str) -> Callable[[Endpoint], Endpoint]:
        """Registers a function that reads its own body, for calls that need no serving namespace."""
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
        """Registers a function that is called once its request is admitted."""
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
    """The routes of all modules; the first that matches a request handles it. by_method: the routes of each method."""

    def __init__(self, routes: Iterable[Routes]) -> None:
        self.routes = [route for part in routes for route in part.all]
        self.by_method: dict[str, list[Route]] = {}
        for route in self.routes:
            self.by_method.setdefault(route.method, []).append(route)

    def route_of(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """Returns the matching route and its path parameters; None if no route matches."""
        for route in self.by_method.get(method, ()):
            if (match := route.pattern.match(path)) is not None:
                return route, match.groupdict()
        return None

    def methods_of(self, path: str) -> list[str]:
        """Returns the methods of the path, sorted; GET implies HEAD."""
        methods = {route.method for route in self.routes if route.pattern.match(path)}
        return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def respond(call: Call) -> Response:
    """Handles a request by its route. Raises the error for which it is refused."""
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
    """Awaits a read and cancels it if the caller disconnects; then raises BadRequest, which is never sent."""
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
