"""Requests over HTTP: what their heads and bodies say. `incoming` has the order in which they are let in.

Before that order come the content type and `Accept`: 415, 406. A body's length is its Content-Length, or 411.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from fastapi import Request, Response

from oncegate.core.errors import BadRequest
from oncegate.engine.admission import SMALL_ANSWER_BYTES
from oncegate.engine.counts.tenants import Whose
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.limits import Limits
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.requests import Scope
from oncegate.engine.shard import Shard
from oncegate.ports import Mark
from oncegate.transports.decode import batch_scopes, identifiers
from oncegate.transports.http.bodies import read_body
from oncegate.transports.http.head import (
    body_length,
    call_of,
    caller_of,
    gateway_of,
    header_number,
    marks_of,
    namespace_of,
    sharer_of,
    timeout_ms,
    whose_is,
)
from oncegate.transports.http.messages.fields import ID_SET
from oncegate.transports.http.messages.json_body import decoded
from oncegate.transports.http.negotiation import ARROW, JSON, negotiated
from oncegate.transports.incoming import Admitted, admit, offload
from oncegate.transports.writers import HEADER, writer_bytes

T = TypeVar("T")

_JSON_WEIGHT = 8


@dataclass(slots=True)
class Inbound:
    """One admitted request: what answers its claims, what is left of its time, its whole body.

    media: the body's type, "" where there is none. wanted: the answer's. body: bytes, but where it is Arrow. caller: as
    of `Admitted`.
    """

    request: Request
    gateway: Gateway
    claims: Shard | Unchecked
    deadline: Deadline
    media: str
    wanted: str
    body: bytes | memoryview
    caller: str

    @property
    def shard(self) -> Shard:
        """The shard, as of `Admitted`."""
        assert isinstance(self.claims, Shard)
        return self.claims

    async def answer(self, weight: int, make: Callable[..., Response], *arguments: object) -> Response:
        """Makes an answer of `weight` bytes, estimated, once there is room for it; in a thread where it is large.

        A caller that does not read what it asked for holds its own share of that room, and waits for it here.
        """
        if weight < SMALL_ANSWER_BYTES:
            return await offload(weight, make, *arguments)
        room = await self.gateway.admission.answers.room(sharer_of(self.request.scope), weight)
        made = await offload(weight, make, *arguments)
        room.resize(len(made.body))
        made.room = room  # type: ignore[attr-defined]
        return made

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
        found: Admitted = await admit(self, self._gateway, self._claims)
        self._admitted = found
        told = media, wanted, found.body, found.caller
        return Inbound(self._request, found.gateway, found.claims, found.deadline, *told)

    async def __aexit__(self, *_: object) -> None:
        self._admitted.release()

    def call(self) -> str:
        """Returns the name of the route's call."""
        return call_of(self._request)

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

    def caller(self) -> str:
        """Returns the name of the credential that was shown; empty: none was asked for."""
        return caller_of(self._request)

    def sharer(self) -> str:
        """Returns whose share of the answers in flight the request's is."""
        return sharer_of(self._request.scope)

    def whose(self) -> Whose | None:
        """Returns the tenant whose credential was shown; None: none was asked for."""
        return whose_is(self._request)

    def writer(self, limits: Limits) -> bytes:
        """Returns the writer that Oncegate-Writer names; empty: there is none. Raises BadRequest, TooLarge."""
        return writer_bytes(self._request.headers.get(HEADER), limits)

    def user_agent(self) -> str | None:
        """Returns the text of User-Agent; None: there is none."""
        return self._request.headers.get("User-Agent")

    def marks(self) -> Sequence[Mark]:
        """Returns the marks of Oncegate-Ledger. Raises BadRequest."""
        return marks_of(self._request)

    async def read(self, size_bytes: int, deadline: Deadline, arrived: Callable[[int], None]) -> bytes | memoryview:
        """Reads the whole body. Raises BadRequest, DeadlinePassed, BodyTooSlow, and what `arrived` raises."""
        fill = getattr(self._request, "fill", None) if self._media == ARROW else None
        return await read_body(self._request, size_bytes, deadline, arrived, self._gateway.limits, fill)
