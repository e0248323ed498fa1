"""What the head of a request says: whose it is, for which namespace, how long its caller waits and its body is."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import Request

from oncegate.core.errors import BadRequest, LengthRequired, Recovering
from oncegate.engine.counts.tenants import Whose
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.producer_requests import Note
from oncegate.engine.shard import Shard
from oncegate.ports import Mark
from oncegate.transports.access.principal import Principal
from oncegate.transports.decode import identifiers
from oncegate.transports.decode.identifiers import whole_number
from oncegate.transports.http.messages.fields import HEADER_NUMBERS
from oncegate.transports.incoming import shard_at
from oncegate.transports.writes import noted

# Whose request it is, in its scope, where the gateway asks for keys.
PRINCIPAL = "oncegate.principal"
# The name of its route's call, in its scope.
CALL = "oncegate.call"


def call_of(request: Request) -> str:
    """Returns the name of the call that a request is for."""
    name: str = request.scope[CALL]
    return name


def whose_is(request: Request) -> Whose | None:
    """Returns the tenant whose credential a request has shown; None: none was asked for."""
    principal: Principal | None = request.scope.get(PRINCIPAL)
    return None if principal is None else principal.whose


def caller_of(request: Request) -> str:
    """Returns the name of the credential; empty where this gateway asks for none."""
    principal: Principal | None = request.scope.get(PRINCIPAL)
    return "" if principal is None else principal.name


def sharer_of(scope: Any) -> str:
    """Returns whose share of the answers in flight a request's is: its credential's, else its address's."""
    principal: Principal | None = scope.get(PRINCIPAL)
    if principal is not None:
        return f"key {principal.name}"
    client = scope["client"]
    return f"address {client[0]}" if client else "no address"


def note_of(request: Request, who: str | None, why: str) -> Note:
    """Says who asks for an operator's action, and why: the credential's name, and beside it what the caller says.

    Raises BadRequest: neither names anybody.
    """
    principal: Principal | None = request.scope.get(PRINCIPAL)
    return noted("" if principal is None else principal.name, who, why)


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
