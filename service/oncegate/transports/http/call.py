"""An HTTP request: its head and query and, once it is admitted, its namespace, deadline and body."""

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

# Key of the ASGI scope for the authenticated principal; set only if the gateway requires credentials.
PRINCIPAL = "oncegate.principal"
# Query parameters that `query_as` leaves out: they are members of no message.
LOCATE, SHADOW = "locate", "shadow"
_JSON_WEIGHT = 8
_SCOPE = {"oncegate-driver", "oncegate-batch"}
_WRITER, _ID_SET, _TIMEOUT = HEADER.lower(), ID_SET.lower(), "oncegate-timeout-ms"


Endpoint = Callable[["Call"], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """A method of a path, and the function that handles it.

    call: its name in the OpenAPI document and in `access.rights.CALLS`.
    tags: those in the document; None: the document leaves the route out.
    admits: requests go through `incoming.admit`; `claims` is passed to it.
    reads: media types of the body; `optional`: a request may have no body. writes: media types of the response.
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
    """A request of a route.

    path: the path parameters. headers: the first value of each header, by name in lower case.
    query: all values of each query parameter, by name; set by `check`.

    `admit` sets the rest.
    media: media type of the body; "" without a body. wanted: media type of the response. serving: as in `Admitted`.
    body: bytes; a memoryview only if it is Arrow.
    weight: cost of decoding the body, in bytes of Arrow; JSON is eight times slower.
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
        """Checks the caller's rights, then the headers and query; records the principal and the query.

        Raises:
            Unauthenticated: the credential is missing or invalid.
            Forbidden: the caller lacks the right.
            Stopping: the gateway is drained.
            BadRequest: a parameter is undeclared, repeated or not UTF-8.
        """
        name, access, scope = self.route.call, self.state.access, self.scope
        if access is not None:
            credential = bearer(self.headers.get("authorization"))
            scope[PRINCIPAL] = access.permit(name, self.path.get("namespace"), credential)
        check_draining(name, self.state.gateway)
        self.query = self.route.parameters.checked(scope, self.headers.get("content-type", ""))

    async def admit(self) -> None:
        """Checks Content-Type (415) and Accept (406), then admits the request through `incoming.admit`.

        The caller must call `admitted.release`. Raises UnsupportedMedia, NotAcceptable, LengthRequired, BadRequest, and
        the errors of `incoming.admit`; nothing was written then.
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
        """Returns the gateway. Raises Recovering while it is starting."""
        gateway: Gateway | None = self.state.gateway
        if gateway is None:
            raise Recovering("the gateway is starting: its ledgers are being opened; nothing was written")
        return gateway

    @property
    def namespace(self) -> Namespace:
        """Returns the namespace named in the path.

        An admitted request reuses the namespace looked up by its admission, and nothing is raised.
        Otherwise raises NotFound, Recovering, LedgerDown, LedgerBehind, BadRequest.
        """
        if self.route.admits:
            return self.admitted.namespace
        namespace = self.gateway.namespace(self.path["namespace"])
        if (marks := self.headers.get("oncegate-ledger")) is not None:
            require_marks(namespace, marks)
        return namespace

    @property
    def principal(self) -> Principal | None:
        """Returns the credential's holder; None if the gateway requires no credentials."""
        principal: Principal | None = self.scope.get(PRINCIPAL)
        return principal

    def note(self, who: str | None, why: str) -> Note:
        """Returns the audit note of an operator action: the credential's name with `who`, and the reason.

        Raises BadRequest if there is neither a credential nor `who`.
        """
        return noted("" if self.principal is None else self.principal.name, who, why)

    def accepted(self, *writes: str) -> str:
        """Returns the media type for the response, one of `writes`. Raises NotAcceptable."""
        return accepted(self.headers.get("accept"), writes)

    def check_type(self, *reads: str) -> None:
        """Raises UnsupportedMedia unless the body has one of these media types."""
        content_type(self.headers.get("content-type"), self.headers.get("content-encoding"), reads)

    def begin(self) -> Deadline:
        """Returns the deadline of a request that bypasses `admit`. Raises BadRequest."""
        return Deadline(self.gateway.clock, self.number("Oncegate-Timeout-Ms"))

    def read_deadline(self) -> Deadline | None:
        """Returns the deadline of a read; None if it has none or the gateway is not open yet. Raises BadRequest."""
        wait_ms = self.number("Oncegate-Timeout-Ms")
        return None if wait_ms is None or self.state.gateway is None else Deadline(self.gateway.clock, wait_ms)

    async def read_body(self, size_bytes: int, deadline: Deadline, arrived: Callable[[int], None]) -> bytes:
        """Reads exactly `size_bytes`. Raises BadRequest, DeadlinePassed, BodyTooSlow, and any error of `arrived`."""
        return bytes(await Coming(self.wire, size_bytes, self.gateway.limits, False).read(deadline, arrived))

    async def answer(self, weight: int, make: Callable[..., Response], *arguments: object) -> Response:
        """Waits until memory for a response of about `weight` bytes is available, then builds it; in a thread if it is
        large.

        Room is shared by caller: a caller that leaves responses unread exhausts only its own share, and waits here.
        """
        if weight < SMALL_ANSWER_BYTES:
            return make(*arguments)
        room = await self.gateway.admission.answers.room(sharer_in(self.scope), weight)
        made = await offload(weight, make, *arguments)
        room.resize(len(made.body))
        made.room = room  # type: ignore[attr-defined]
        return made

    def header(self, name: str) -> str:
        """Returns a required header. Raises BadRequest if it is missing."""
        value = self.headers.get(name.lower())
        if value is None:
            raise _missing(name)
        return value

    def number(self, name: str) -> int | None:
        """Returns a header as an integer within its bounds; None if it is missing. Raises BadRequest."""
        text = self.headers.get(name.lower())
        if text is None:
            return None
        least, largest = HEADER_NUMBERS[name]
        return whole_number(text, name, largest, least)

    def wanted_number(self, name: str) -> int:
        """Returns a required header as an integer within its bounds. Raises BadRequest."""
        number = self.number(name)
        if number is None:
            raise _missing(name)
        return number

    async def message(self, decoder: "msgspec.json.Decoder[T]") -> T:
        """Decodes the JSON body, in a thread if it is large. Raises BadRequest, TooLarge."""
        return await offload(self.weight, decoded, self.whole, decoder, self.limits)

    @property
    def whole(self) -> bytes:
        """Returns the body as bytes; copies it if it is a memoryview, as only Arrow bodies are."""
        return bytes(self.body)

    @property
    def caller(self) -> str:
        """Returns the credential's name of an admitted request; empty: the gateway requires no credential."""
        return self.admitted.caller

    @property
    def lease_ms(self) -> int | None:
        """Returns the lease requested with a packed or Arrow body; None: the default. Raises BadRequest."""
        return self.number("Oncegate-Lease-Ms")

    @property
    def token(self) -> bytes:
        """Returns the attempt's token, 16 bytes, for a packed or Arrow body. Raises BadRequest."""
        return identifiers.hex_bytes(self.header("Oncegate-Token"), 16, "Oncegate-Token")

    @property
    def call_number(self) -> int:
        """Returns the attempt's call number for a packed or Arrow body. Raises BadRequest."""
        return self.wanted_number("Oncegate-Call")

    @property
    def id_set(self) -> str | None:
        """Returns the dedup scope of the ids in a packed or Arrow body; None: the default. Raises BadRequest."""
        name = self.headers.get(_ID_SET)
        return None if name is None else identifiers.percent_decoded(name, ID_SET)

    @property
    def batch_scope(self) -> Scope | None:
        """Returns the batch to which the ids of a packed or Arrow body belong; None if there is no batch. Raises
        BadRequest.
        """
        if not self.headers.keys() & _SCOPE:
            return None
        driver = self.headers.get("oncegate-driver")
        name = None if driver is None else identifiers.percent_decoded(driver, "Oncegate-Driver")
        return names.scope_of(name, self.number("Oncegate-Batch"))

    @property
    def locate(self) -> bool:
        """Returns whether the response locates the first occurrence of each duplicate. Raises BadRequest."""
        return LOCATE in self.query and self._is_true(LOCATE)

    def without_shadow(self, answer: ClaimResult, media: str) -> ClaimResult:
        """Removes the shadow verdicts from a packed response unless the caller requested them. Raises BadRequest."""
        asked = SHADOW in self.query and self._is_true(SHADOW)
        return answer if asked or media != PACKED or answer.shadow is None else replace(answer, shadow=None)

    def _is_true(self, name: str) -> bool:
        text = self.query[name][-1]
        if text not in ("true", "false"):
            raise _misfit(name, f"true or false is wanted, not {shortened(text)}")
        return text == "true"

    def query_as(self, kind: type[T]) -> T:
        """Decodes the query parameters. Raises BadRequest if one is missing or invalid."""
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
    """Returns the caller, from the request's scope, whose share of the in-flight responses this response uses."""
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
    """Returns the names of a message's integer members."""
    found = msgspec.inspect.type_info(kind)
    assert isinstance(found, msgspec.inspect.StructType)
    return frozenset(field.name for field in found.fields if _is_integer(field.type))


def _bare(kind: Any) -> Any:
    return _bare(kind.type) if isinstance(kind, msgspec.inspect.Metadata) else kind


def _is_integer(kind: Any) -> bool:
    kind = _bare(kind)
    options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return any(isinstance(option, msgspec.inspect.IntType) for option in map(_bare, options))
