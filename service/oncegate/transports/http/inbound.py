"""The way in, the same for every route that writes. In this order, all before any effect:

1. content type, `Accept`      415, 406
2. body length against limits  411, 413: before a byte of it is read
3. namespace, marks            404, 503, 409
4. admission                   503: requests and bytes are reserved from Content-Length
5. the body itself             400 when it ends early, 504 when it does not come
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from fastapi import Request

from oncegate.core.errors import (
    BadRequest,
    DeadlinePassed,
    LengthRequired,
    Recovering,
    TooLarge,
)
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.limits import Limits
from oncegate.engine.shard import Shard
from oncegate.transports.decode import identifiers
from oncegate.transports.http.negotiation import negotiated

# Reading a body above this takes longer than handing it to a thread does.
ASIDE_BYTES = 256 << 10

T = TypeVar("T")

# A body that does not come holds its reservation; nobody's network needs longer for 32 MiB.
BODY_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Inbound:
    """One admitted request: its shard, what is left of its time, its whole body.

    media: the body's type, "" where there is none. wanted: the answer's.
    """

    request: Request
    gateway: Gateway
    shard: Shard
    deadline: Deadline
    media: str
    wanted: str
    body: bytes

    def header(self, name: str) -> str:
        """A header that must be there."""
        value = self.request.headers.get(name)
        if value is None:
            raise BadRequest(f"the header {name} is missing")
        return value

    @property
    def limits(self) -> Limits:
        return self.gateway.limits

    def number(self, name: str, largest: int = 2**32 - 1) -> int | None:
        """A header that may be there, as a whole number."""
        given = self.request.headers.get(name)
        return None if given is None else whole_number(given, name, largest)

    @property
    def lease_ms(self) -> int | None:
        return self.number("Oncegate-Lease-Ms")

    @property
    def token(self) -> bytes:
        return identifiers.hex_bytes(self.header("Oncegate-Token"), 16, "Oncegate-Token")

    @property
    def call(self) -> int:
        return whole_number(self.header("Oncegate-Call"), "Oncegate-Call")


def gateway_of(request: Request) -> Gateway:
    """The gateway behind this door; Recovering while it is being opened."""
    gateway: Gateway | None = request.app.state.gateway
    if gateway is None:
        raise Recovering("the gateway is starting: its ledgers are being opened; nothing was written")
    return gateway


def shard_of(request: Request) -> Shard:
    """The shard of the path's namespace, if it stands where the request's marks say.

    Raises NotFound, Recovering, LedgerBehind.
    """
    return _shard_of(request, gateway_of(request))


def _shard_of(request: Request, gateway: Gateway) -> Shard:
    shard = gateway.shard(request.path_params["namespace"])
    given = request.headers.get("Oncegate-Ledger")
    for mark in identifiers.marks(given) if given else ():
        shard.require(mark)
    return shard


class admitted:
    """The request with its body, holding its share of what may be in flight until the answer is made.

    `reads`: content types it takes; none: no body at all. `writes`: content types it can answer with.
    """

    __slots__ = ("_admission", "_reads", "_request", "_size_bytes", "_writes")

    def __init__(self, request: Request, reads: Sequence[str], writes: Sequence[str]) -> None:
        self._request = request
        self._reads = reads
        self._writes = writes

    async def __aenter__(self) -> Inbound:
        request = self._request
        media, wanted = negotiated(request, self._reads, self._writes)
        gateway = gateway_of(request)
        deadline = _deadline_of(request, gateway)
        self._size_bytes = size_bytes = body_length(request, bool(self._reads))
        if size_bytes > gateway.limits.body_bytes:
            raise TooLarge(f"a body of {size_bytes} bytes; at most {gateway.limits.body_bytes} are read")
        shard = _shard_of(request, gateway)
        self._admission = gateway.admission
        self._admission.take(size_bytes)
        try:
            body = await read_body(request, size_bytes, deadline)
        except BaseException:
            self._admission.give(size_bytes)
            raise
        return Inbound(request, gateway, shard, deadline, media, wanted, body)

    async def __aexit__(self, *_: object) -> None:
        self._admission.give(self._size_bytes)


def deadline_of(request: Request) -> Deadline:
    """The time this request has, from the moment it is here."""
    return _deadline_of(request, gateway_of(request))


def _deadline_of(request: Request, gateway: Gateway) -> Deadline:
    given = request.headers.get("Oncegate-Timeout-Ms")
    return Deadline(gateway.clock, None if given is None else whole_number(given, "Oncegate-Timeout-Ms"))


def body_length(request: Request, wanted: bool, allowed: bool = False) -> int:
    """The body's length as declared; refused when unknown, and when a body is neither wanted nor allowed."""
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


async def read_body(request: Request, size_bytes: int, deadline: Deadline) -> bytes:
    """Exactly `size_bytes`; BadRequest when the caller goes away before, DeadlinePassed when it takes too long."""
    if size_bytes == 0:
        return b""
    whole: bytes | None = getattr(request, "whole_body", None)
    parts = [whole] if whole is not None else await _received(request, size_bytes, deadline)
    if _size(parts) != size_bytes:
        raise BadRequest(f"the body has {_size(parts)} bytes, Content-Length said {size_bytes}; nothing was written")
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _received(request: Request, size_bytes: int, deadline: Deadline) -> list[bytes]:
    """The body's parts as they come."""
    left_ms = deadline.left_ms
    timeout_s = BODY_TIMEOUT_S if left_ms is None else min(BODY_TIMEOUT_S, max(left_ms, 0) / 1000)
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(timeout_s):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise BadRequest(f"the body ended after {_size(parts)} of {size_bytes} bytes; nothing was written")
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        raise DeadlinePassed(
            f"{_size(parts)} of {size_bytes} bytes of the body came in {timeout_s:g} s; nothing was written"
        ) from None
    return parts


async def aside(size_bytes: int, work: Callable[..., T], *arguments: object) -> T:
    """`work(*arguments)`, in a thread where its input is large, so that renewals do not wait for it."""
    if size_bytes < ASIDE_BYTES:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts))


def whole_number(text: str, what: str, largest: int = 2**32 - 1) -> int:
    """A decimal number from 0 to `largest`; no sign, no spaces."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20) or int(text) > largest:
        raise BadRequest(f"{what}: a whole number from 0 to {largest} is wanted, not {text[:40]!r}")
    return int(text)


def query(request: Request, kind: type[T]) -> T:
    """The query parameters as a message; BadRequest for one that is unknown, missing, or there twice."""
    given = request.query_params
    if len(given.multi_items()) != len(given):
        raise BadRequest("a query parameter is there twice")
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"query parameters: {error}") from error


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """The JSON body as a message; BadRequest with the place where it does not fit."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the JSON body cannot be read: {error}") from error
