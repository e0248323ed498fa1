"""One request over HTTP: its head, its query as a message, and once it is let in what answers it and its body."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from re import Pattern
from typing import Any, TypeVar, cast

import msgspec
from fastapi import Response

from oncegate.core.errors import BadRequest, Recovering
from oncegate.engine.admission import SMALL_ANSWER_BYTES
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.limits import Limits
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.producer_requests import Note
from oncegate.engine.requests import ClaimResult, Scope
from oncegate.transports.access.keys import bearer
from oncegate.transports.access.principal import Principal
from oncegate.transports.decode import identifiers, names
from oncegate.transports.decode.identifiers import shortened, whole_number
from oncegate.transports.http.bodies import Coming, Wire, body_length
from oncegate.transports.http.messages.fields import HEADER_NUMBERS, ID_SET
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.parameters import ARROW, JSON, PACKED, Parameters, accepted, content_type, negotiated
from oncegate.transports.incoming import Admitted, RequestHead, admit, check_draining, require_marks, sharer_of
from oncegate.transports.offload import offload
from oncegate.transports.writers import HEADER
from oncegate.transports.writes import noted

T = TypeVar("T")

# Whose request it is, in its scope, where the gateway asks for keys.
PRINCIPAL = "oncegate.principal"
# Parameters of calls whose bodies are of several kinds, for none of their messages.
LOCATE, SHADOW = "locate", "shadow"
_JSON_WEIGHT = 8
_SCOPE = {"oncegate-driver", "oncegate-batch"}
_WRITER, _ID_SET, _TIMEOUT = HEADER.lower(), ID_SET.lower(), "oncegate-timeout-ms"


Endpoint = Callable[["Call"], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """Holds one method of one path, and what answers it.

    call: its name in the OpenAPI document and in `access.rights.CALLS`. tags: None: it is no part of the document.
    admits: it is let in as `incoming` says, with a body of one of the types `reads` (`optional`: or none) and an answer
    of one of `writes`; `claims`: as of `admit`.
    """

    method: str
    path: str
    pattern: Pattern[str]
    endpoint: Endpoint
    parameters: Parameters
    call: str
    tags: Sequence[str] | None
    admits: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    optional: bool = False
    claims: bool = False


class Call:
    """One request of a route. The attributes from `media` on are set by `admit`.

    path: the parameters of its path. headers: by name in lower case, the first of each. query: by name, all values; set
    by the check of its parameters. media: the body's type, "" where there is none. wanted: the answer's. serving:
    as of `Admitted`. body: bytes, but where it is Arrow. weight: the work that the body is, in bytes of Arrow:
    JSON is read eight times slower.
    """

    __slots__ = (
        *("admitted", "body", "deadline", "headers", "limits", "media", "path", "query", "route", "scope"),
        *("serving", "state", "wanted", "weight", "wire"),
    )
    media: str
    wanted: str
    admitted: Admitted
    serving: Namespace | Unchecked
    deadline: Deadline
    body: bytes | memoryview
    weight: int
    limits: Limits

    def __init__(self, scope: Any, route: Route, path: dict[str, str], state: Any, wire: Wire) -> None:
        self.scope, self.route, self.path, self.state, self.wire = scope, route, path, state, wire
        self.headers: dict[str, str] = {}
        for name, value in reversed(scope["headers"]):
            self.headers[name.decode("latin-1")] = value.decode("latin-1")
        self.query: Mapping[str, list[str]] = {}

    def check(self) -> None:
        """Refuses who may not call it, then what the route does not take, or got twice; what is no UTF-8.

        Notes whose request it is, and its query. Raises Unauthenticated, Forbidden, Stopping, BadRequest.
        """
        name, access, scope = self.route.call, self.state.access, self.scope
        if access is not None:
            credential = bearer(self.headers.get("authorization"))
            scope[PRINCIPAL] = access.permit(name, self.path.get("namespace"), credential)
        check_draining(name, self.state.gateway)
        self.query = self.route.parameters.checked(scope, self.headers.get("content-type", ""))

    async def admit(self) -> None:
        """Lets the request in, in the order of `incoming`; before that come its content type and `Accept`: 415, 406.

        Raises as `admit` there, LengthRequired, UnsupportedMedia, NotAcceptable. `admitted.release` has to follow.
        """
        route, headers, scope = self.route, self.headers, self.scope
        reads = () if route.optional and _is_bodiless(headers) else route.reads
        told = headers.get("content-type"), headers.get("content-encoding"), headers.get("accept")
        media, self.wanted = negotiated(*told, reads, route.writes)
        gateway: Gateway = self.state.gateway or self.gateway
        self.media, self.limits = media, (limits := gateway.limits)
        head = RequestHead(
            route.call,
            self.path["namespace"],
            self.number("Oncegate-Timeout-Ms") if _TIMEOUT in headers else None,
            size_bytes := body_length(headers, bool(reads)),
            min(limits.json_bytes, limits.body_bytes) if media == JSON else limits.body_bytes,
            scope.get(PRINCIPAL),
            scope["client"][0] if scope["client"] else "",
            headers.get("user-agent"),
            headers.get("oncegate-ledger"),
            (headers[_WRITER],) if _WRITER in headers else (),
        )
        body = self.wire.take_body() if size_bytes else b""
        read = Coming(self.wire, size_bytes, limits, media == ARROW).read if body is None else body
        self.admitted = admitted = await admit(head, read, gateway, route.claims)
        self.serving, self.deadline, self.body = admitted.serving, admitted.deadline, admitted.body
        self.weight = size_bytes * (_JSON_WEIGHT if media == JSON else 1)

    @property
    def gateway(self) -> Gateway:
        """The gateway behind this server. Raises Recovering while it is being opened."""
        gateway: Gateway | None = self.state.gateway
        if gateway is None:
            raise Recovering("the gateway is starting: its ledgers are being opened; nothing was written")
        return gateway

    @property
    def namespace(self) -> Namespace:
        """The path's namespace. Raises NotFound, Recovering, LedgerDown, LedgerBehind, BadRequest.

        An admitted request keeps the namespace that admission has looked up, and nothing is raised.
        """
        if self.route.admits:
            return self.admitted.namespace
        namespace = self.gateway.namespace(self.path["namespace"])
        if (marks := self.headers.get("oncegate-ledger")) is not None:
            require_marks(namespace, marks)
        return namespace

    @property
    def principal(self) -> Principal | None:
        """The holder of the credential; None: none was asked for."""
        principal: Principal | None = self.scope.get(PRINCIPAL)
        return principal

    def note(self, who: str | None, why: str) -> Note:
        """Returns who asks for an operator's action, and why: the credential's name, and beside it `who`.

        Raises BadRequest: neither names anybody.
        """
        return noted("" if self.principal is None else self.principal.name, who, why)

    def accepted(self, *writes: str) -> str:
        """Returns which of these types the answer has. Raises NotAcceptable."""
        return accepted(self.headers.get("accept"), writes)

    def check_type(self, *reads: str) -> None:
        """Refuses a body that is none of these types. Raises UnsupportedMedia."""
        content_type(self.headers.get("content-type"), self.headers.get("content-encoding"), reads)

    def begin(self) -> Deadline:
        """Returns the deadline of a request that is not let in as others are. Raises BadRequest."""
        return Deadline(self.gateway.clock, self.number("Oncegate-Timeout-Ms"))

    def read_deadline(self) -> Deadline | None:
        """Returns the deadline of a request that only reads; None: it has none, or nothing is open yet that would last.

        Raises BadRequest.
        """
        wait_ms = self.number("Oncegate-Timeout-Ms")
        return None if wait_ms is None or self.state.gateway is None else Deadline(self.gateway.clock, wait_ms)

    async def read_body(self, size_bytes: int, deadline: Deadline, arrived: Callable[[int], None]) -> bytes:
        """Reads exactly `size_bytes`. Raises BadRequest, DeadlinePassed, BodyTooSlow, and what `arrived` raises."""
        return bytes(await Coming(self.wire, size_bytes, self.gateway.limits, False).read(deadline, arrived))

    async def answer(self, weight: int, make: Callable[..., Response], *arguments: object) -> Response:
        """Makes an answer of `weight` bytes, estimated, once there is room for it; in a thread where it is large.

        A caller that does not read what it asked for holds its own share of that room, and waits for it here.
        """
        if weight < SMALL_ANSWER_BYTES:
            return make(*arguments)
        room = await self.gateway.admission.answers.room(sharer_in(self.scope), weight)
        made = await offload(weight, make, *arguments)
        room.resize(len(made.body))
        made.room = room  # type: ignore[attr-defined]
        return made

    def header(self, name: str) -> str:
        """Returns a header that must be there. Raises BadRequest when it is not."""
        value = self.headers.get(name.lower())
        if value is None:
            raise _missing(name)
        return value

    def number(self, name: str) -> int | None:
        """Reads a header as a whole number, within its bounds; None where it is not there. Raises BadRequest."""
        text = self.headers.get(name.lower())
        if text is None:
            return None
        least, largest = HEADER_NUMBERS[name]
        return whole_number(text, name, largest, least)

    def wanted_number(self, name: str) -> int:
        """Reads a header that must be there as a whole number, within its bounds. Raises BadRequest."""
        number = self.number(name)
        if number is None:
            raise _missing(name)
        return number

    async def message(self, decoder: "msgspec.json.Decoder[T]") -> T:
        """Reads the JSON body as a message, in a thread where it is large. Raises BadRequest, TooLarge."""
        return await offload(self.weight, decoded, self.whole, decoder, self.limits)

    @property
    def whole(self) -> bytes:
        """The body as bytes; only one that is Arrow can be anything else, and is copied."""
        return bytes(self.body)

    @property
    def caller(self) -> str:
        """The name of the credential of a request that was let in; empty: none was asked for."""
        return self.admitted.caller

    @property
    def lease_ms(self) -> int | None:
        """The lease that a packed or Arrow body asks for; None: the default. Raises BadRequest."""
        return self.number("Oncegate-Lease-Ms")

    @property
    def token(self) -> bytes:
        """The 16 bytes of the attempt's token, of a packed or Arrow body. Raises BadRequest."""
        return identifiers.hex_bytes(self.header("Oncegate-Token"), 16, "Oncegate-Token")

    @property
    def call_number(self) -> int:
        """The number of the attempt's request, of a packed or Arrow body. Raises BadRequest."""
        return self.wanted_number("Oncegate-Call")

    @property
    def id_set(self) -> str | None:
        """The set of the ids of a packed or Arrow body; None: that of its call. Raises BadRequest."""
        name = self.headers.get(_ID_SET)
        return None if name is None else identifiers.percent_decoded(name, ID_SET)

    @property
    def batch_scope(self) -> Scope | None:
        """The batch that the ids of a packed or Arrow body belong to; None: the namespace. Raises BadRequest."""
        if not self.headers.keys() & _SCOPE:
            return None
        driver = self.headers.get("oncegate-driver")
        name = None if driver is None else identifiers.percent_decoded(driver, "Oncegate-Driver")
        return names.scope_of(name, self.number("Oncegate-Batch"))

    @property
    def locate(self) -> bool:
        """Whether the caller wants to know of each duplicate where its first is. Raises BadRequest."""
        return LOCATE in self.query and self._is_true(LOCATE)

    def without_shadow(self, answer: ClaimResult, media: str) -> ClaimResult:
        """Returns a packed answer without its verdicts of shadow mode, unless the caller asked for these.

        Raises BadRequest.
        """
        asked = SHADOW in self.query and self._is_true(SHADOW)
        return answer if asked or media != PACKED or answer.shadow is None else replace(answer, shadow=None)

    def _is_true(self, name: str) -> bool:
        text = self.query[name][-1]
        if text not in ("true", "false"):
            raise _misfit(name, f"true or false is wanted, not {shortened(text)}")
        return text == "true"

    def query_as(self, kind: type[T]) -> T:
        """Reads the query parameters as a message. Raises BadRequest for one that is missing or does not fit."""
        values: dict[str, Any] = {name: texts[-1] for name, texts in self.query.items() if name not in (LOCATE, SHADOW)}
        for name in _integers(cast(Any, kind)) & values.keys():
            try:
                values[name] = whole_number(values[name], name, 2**64 - 1)
            except BadRequest as error:
                raise _misfit(name, error.detail) from None
        try:
            return msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at `$.")
            raise _misfit(place.rstrip("`"), what) from error


def sharer_in(scope: Any) -> str:
    """Returns whose share of the answers in flight a request's is, by its scope."""
    return sharer_of(scope.get(PRINCIPAL), scope["client"][0] if scope["client"] else "")


def _is_bodiless(headers: Mapping[str, str]) -> bool:
    return headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers


def _missing(header: str) -> BadRequest:
    return BadRequest(f"the header {header} is missing")


def _misfit(name: str, what: str) -> BadRequest:
    pointer = f"query/{name}".rstrip("/")
    return BadRequest(f"{pointer}: {what}", errors=[{"pointer": pointer, "detail": what}])


@cache
def _integers(kind: Any) -> frozenset[str]:
    """The members of a message that are whole numbers."""
    found = msgspec.inspect.type_info(kind)
    assert isinstance(found, msgspec.inspect.StructType)
    return frozenset(field.name for field in found.fields if _is_integer(field.type))


def _bare(kind: Any) -> Any:
    return _bare(kind.type) if isinstance(kind, msgspec.inspect.Metadata) else kind


def _is_integer(kind: Any) -> bool:
    kind = _bare(kind)
    options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return any(isinstance(option, msgspec.inspect.IntType) for option in map(_bare, options))
