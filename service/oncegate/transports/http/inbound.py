"""Requests over HTTP: what their heads and bodies say. `incoming` has the order in which they are let in.

Before that order come the content type and `Accept`: 415, 406. A body's length is its Content-Length, or 411.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar, cast

import msgspec
from fastapi import Request

from oncegate.core.errors import BadRequest, LengthRequired, Recovering
from oncegate.engine.counts.tenants import Whose
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.limits import Limits
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.producer_requests import Note
from oncegate.engine.requests import ClaimResult, Scope
from oncegate.engine.shard import Shard
from oncegate.ports import Mark
from oncegate.transports.access.principal import Principal
from oncegate.transports.decode import batch_scopes, identifiers, json_scan
from oncegate.transports.decode.identifiers import shortened, whole_number
from oncegate.transports.http.bodies import read_body
from oncegate.transports.http.messages.fields import HEADER_NUMBERS, ID_SET
from oncegate.transports.http.negotiation import ARROW, JSON, PACKED, negotiated
from oncegate.transports.incoming import Admitted, admit, offload, shard_at

T = TypeVar("T")

_JSON_WEIGHT = 8
# Whose request it is, in its scope, where the gateway asks for keys.
PRINCIPAL = "oncegate.principal"
# The parameter of calls whose bodies are of several kinds, for none of their messages.
LOCATE = "locate"
SHADOW = "shadow"


@dataclass(slots=True)
class Inbound:
    """One admitted request: what answers its claims, what is left of its time, its whole body.

    media: the body's type, "" where there is none. wanted: the answer's. body: bytes, but where it is Arrow.
    """

    request: Request
    gateway: Gateway
    claims: Shard | Unchecked
    deadline: Deadline
    media: str
    wanted: str
    body: bytes | memoryview

    @property
    def shard(self) -> Shard:
        """The shard, as of `Admitted`."""
        assert isinstance(self.claims, Shard)
        return self.claims

    def header(self, name: str) -> str:
        """Returns a header that must be there. Raises BadRequest when it is not."""
        value = self.request.headers.get(name)
        if value is None:
            raise BadRequest(f"the header {name} is missing")
        return value

    def number(self, name: str) -> int | None:
        """Reads a header that may be there as a whole number, within its bounds. Raises BadRequest."""
        return header_number(self.request, name)

    def wanted_number(self, name: str) -> int:
        """Reads a header that must be there as a whole number, within its bounds. Raises BadRequest."""
        self.header(name)
        found = self.number(name)
        assert found is not None
        return found

    async def message(self, decoder: "msgspec.json.Decoder[T]") -> T:
        """Reads the JSON body as a message, in a thread where it is large. Raises BadRequest, TooLarge."""
        return await offload(self.weight, decoded, self.whole, decoder, self.limits)

    @property
    def whole(self) -> bytes:
        """The body as bytes; only one that is Arrow can be anything else, and is copied."""
        return bytes(self.body)

    @property
    def weight(self) -> int:
        """How much work the body is, in bytes of Arrow: JSON is read eight times slower."""
        return len(self.body) * (_JSON_WEIGHT if self.media == JSON else 1)

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.gateway.limits

    @property
    def lease_ms(self) -> int | None:
        """The lease that a packed or Arrow body asks for; None: the default. Raises BadRequest."""
        return self.number("Oncegate-Lease-Ms")

    @property
    def token(self) -> bytes:
        """The 16 bytes of the attempt's token, of a packed or Arrow body. Raises BadRequest."""
        return identifiers.hex_bytes(self.header("Oncegate-Token"), 16, "Oncegate-Token")

    @property
    def call(self) -> int:
        """The number of the attempt's request, of a packed or Arrow body. Raises BadRequest."""
        return self.wanted_number("Oncegate-Call")

    @property
    def id_set(self) -> str | None:
        """The set of the ids of a packed or Arrow body; None: that of its call. Raises BadRequest."""
        named = self.request.headers.get(ID_SET)
        return None if named is None else identifiers.percent_decoded(named, ID_SET)

    @property
    def scope(self) -> Scope | None:
        """The batch that the ids of a packed or Arrow body belong to; None: the namespace. Raises BadRequest."""
        driver = self.request.headers.get("Oncegate-Driver")
        name = None if driver is None else identifiers.percent_decoded(driver, "Oncegate-Driver")
        return batch_scopes.scope_of(name, self.number("Oncegate-Batch"))


class admitted:
    """Holds a request's share of what may be in flight until its answer is made: `async with` gives an Inbound.

    `reads`: content types it takes; none: no body at all. `writes`: content types it can answer with. `claims`: it
    claims ids, or settles such a claim, and may pass unchecked. It is the `Incoming` of its request.
    """

    __slots__ = ("_admitted", "_claims", "_gateway", "_media", "_reads", "_request", "_writes")

    def __init__(self, request: Request, reads: Sequence[str], writes: Sequence[str], claims: bool = False) -> None:
        self._request = request
        self._claims = claims
        self._reads = reads
        self._writes = writes

    async def __aenter__(self) -> Inbound:
        media, wanted = negotiated(self._request, self._reads, self._writes)
        self._media, self._gateway = media, gateway_of(self._request)
        found: Admitted = await admit(self, self._gateway, _caller(self._request) if self._claims else None)
        self._admitted = found
        return Inbound(self._request, found.gateway, found.claims, found.deadline, media, wanted, found.body)

    async def __aexit__(self, *_: object) -> None:
        self._admitted.release()

    def timeout_ms(self) -> int | None:
        """Returns how long the caller waits, by Oncegate-Timeout-Ms; None: for ever. Raises BadRequest."""
        return timeout_ms(self._request)

    def size_bytes(self) -> int:
        """Returns the body's length by Content-Length. Raises LengthRequired, BadRequest."""
        return body_length(self._request, bool(self._reads))

    def bytes_max(self, limits: Limits) -> int:
        """Returns how long a body of this media type may be: JSON has a limit of its own."""
        return min(limits.json_bytes, limits.body_bytes) if self._media == JSON else limits.body_bytes

    def namespace(self) -> str:
        """Returns the path's namespace."""
        return namespace_of(self._request)

    def whose(self) -> Whose | None:
        """Returns the tenant whose credential was shown; None: none was asked for."""
        return whose_is(self._request)

    def marks(self) -> Sequence[Mark]:
        """Returns the marks of Oncegate-Ledger. Raises BadRequest."""
        return marks_of(self._request)

    async def read(self, size_bytes: int, deadline: Deadline, arrived: Callable[[int], None]) -> bytes | memoryview:
        """Reads the whole body. Raises BadRequest, DeadlinePassed, BodyTooSlow, and what `arrived` raises."""
        fill = getattr(self._request, "fill", None) if self._media == ARROW else None
        return await read_body(self._request, size_bytes, deadline, arrived, self._gateway.limits, fill)


def whose_is(request: Request) -> Whose | None:
    """Returns the tenant whose credential a request has shown; None: none was asked for."""
    principal: Principal | None = request.scope.get(PRINCIPAL)
    return None if principal is None else principal.whose


def _caller(request: Request) -> str:
    """The name of the credential; empty where this gateway asks for none."""
    principal: Principal | None = request.scope.get(PRINCIPAL)
    return "" if principal is None else principal.name


def note_of(request: Request, who: str | None, why: str) -> Note:
    """Says who asks for an operator's action, and why: the credential's name, and beside it what the caller says.

    Raises BadRequest: neither names anybody.
    """
    principal: Principal | None = request.scope.get(PRINCIPAL)
    if principal is None:
        if not who:
            raise BadRequest(
                "who is missing: this gateway asks for no key, so nothing else says it; nothing was changed"
            )
        return Note(who, why)
    return Note(f"{principal.name} ({who})" if who and who != principal.name else principal.name, why)


def gateway_of(request: Request) -> Gateway:
    """Returns the gateway behind this server. Raises Recovering while it is being opened."""
    gateway: Gateway | None = request.app.state.gateway
    if gateway is None:
        raise Recovering("the gateway is starting: its ledgers are being opened; nothing was written")
    return gateway


def shard_of(request: Request) -> Shard:
    """Returns the shard of the path's namespace, if it stands where the request's marks say.

    Raises NotFound, Recovering, LedgerDown, LedgerBehind, BadRequest.
    """
    return shard_at(gateway_of(request), namespace_of(request), partial(marks_of, request))


def namespace_of(request: Request) -> str:
    """Returns the path's namespace."""
    return str(request.path_params["namespace"])


def marks_of(request: Request) -> Sequence[Mark]:
    """Returns the marks of Oncegate-Ledger; none where there is no such header. Raises BadRequest."""
    given = request.headers.get("Oncegate-Ledger")
    return () if given is None else identifiers.marks(given)


def timeout_ms(request: Request) -> int | None:
    """Returns how long the caller waits, by Oncegate-Timeout-Ms; None: for ever. Raises BadRequest."""
    return header_number(request, "Oncegate-Timeout-Ms")


def deadline_of(request: Request) -> Deadline | None:
    """Returns the deadline of a request that only reads; None: it has none, or nothing is open yet that would last.

    Raises BadRequest.
    """
    wait_ms, gateway = timeout_ms(request), request.app.state.gateway
    return None if wait_ms is None or gateway is None else Deadline(gateway.clock, wait_ms)


def header_number(request: Request, name: str) -> int | None:
    """Reads a header as a whole number, within its bounds; None where it is not there. Raises BadRequest."""
    given = request.headers.get(name)
    if given is None:
        return None
    least, largest = HEADER_NUMBERS[name]
    return whole_number(given, name, largest, least)


def body_length(request: Request, wanted: bool, allowed: bool = False) -> int:
    """Returns the body's length as declared.

    Raises LengthRequired: it is unknown; BadRequest: a body is neither wanted nor allowed.
    """
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired("chunked bodies are not read: room is reserved from Content-Length before reading")
    given = request.headers.get("Content-Length")
    if given is None:
        if wanted:
            raise LengthRequired("the header Content-Length is missing")
        return 0
    length = whole_number(given, "Content-Length", 2**63 - 1)
    if length and not wanted and not allowed:
        raise BadRequest(f"this call takes no body, {length} bytes were announced")
    return length


def located(request: Request) -> bool:
    """Tells whether the caller wants to know of each duplicate where its first is. Raises BadRequest."""
    return _is_true(request, LOCATE)


def without_shadow(request: Request, answer: ClaimResult, media: str) -> ClaimResult:
    """Returns a packed answer as a caller reads it that did not ask for what verdicts would have been; else as it is.

    Raises BadRequest.
    """
    asked = _is_true(request, SHADOW)
    return answer if asked or media != PACKED or answer.shadow is None else replace(answer, shadow=None)


def _is_true(request: Request, name: str) -> bool:
    if not request.scope["query_string"]:
        return False
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise _misfit(name, f"true or false is wanted, not {shortened(given)}")
    return given == "true"


def query(request: Request, kind: type[T]) -> T:
    """Reads the query parameters as a message. Raises BadRequest for one that is missing or does not fit."""
    others = (LOCATE, SHADOW)
    given: dict[str, Any] = {name: value for name, value in request.query_params.items() if name not in others}
    for name in _integers(cast(Any, kind)) & given.keys():
        try:
            given[name] = whole_number(given[name], name, 2**64 - 1)
        except BadRequest as error:
            raise _misfit(name, error.detail) from None
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        raise _misfit(place.rstrip("`"), what) from error


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


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]", limits: Limits) -> T:
    """Reads a JSON body as a message.

    Raises BadRequest with the member that does not fit, or is there twice; TooLarge before anything is built.
    """
    json_scan.check(body, limits)
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            return msgspec.convert(_with_integers(msgspec.json.decode(body)), decoder.type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the JSON body cannot be read: {error}") from error


# Values of callers, which stay as they are.
_THEIRS = frozenset({"records"})
# From here on a float's neighbours are other integers.
_EXACT_MAX = 2.0**53


def _with_integers(value: Any) -> Any:
    """The same with 1023 for 1023.0: to JSON Schema both are the same integer, to the reader one is a float."""
    if isinstance(value, dict):
        return {name: item if name in _THEIRS else _with_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_MAX
    return int(value) if is_whole else value
