"""Admits requests that write, identically for each transport. The checks run in this order, before any effect:

1. body length against limits  TooLarge, before a byte of the body is read
2. namespace, ledger           NotFound, Recovering, LedgerDown, LedgerBehind, BadRequest
   positions, writer
3. quota, admission            QuotaExceeded; Overloaded if the queue is too long, there is no room for the announced
                               length, or the caller leaves its responses unread
4. the body                    room is reserved as parts arrive; BadRequest if the body ends early, DeadlinePassed or
                               BodyTooSlow if it is late
5. the namespace's turn        Overloaded if the queue has grown too long meanwhile; then fair turns, so that a busy
                               namespace does not starve others
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from oncegate.core.errors import Stopping, TooLarge
from oncegate.core.lifecycle import State, is_taken
from oncegate.engine.admission import Admission
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.requests import Sender
from oncegate.transports.access.principal import Principal
from oncegate.transports.decode import identifiers
from oncegate.transports.writers import writer_bytes

# Calls (as in `access.rights.CALLS`) that complete, release or renew open work. The queue's length never refuses them:
# leases would expire, and work would be done twice.
SETTLING = frozenset(
    {
        "renewClaim",
        "completeClaim",
        "releaseClaim",
        "renewSequences",
        "completeSequences",
        "releaseSequences",
        "closeProducer",
        "commitBatch",
        "abortBatch",
        "ackProducers",
    }
)

DRAINED = "an operator has drained the gateway"
UNDO = "`oncegate drain --undo` or a restart"
# Calls (as in `access.rights.CALLS`) that begin something, which a drained gateway refuses.
NEW_WORK = frozenset(
    {
        "claimIds",
        "takeIds",
        "produceRecords",
        "stageChunk",
        "registerProducer",
        "claimSequences",
        "registerDriver",
        "openLane",
        "importIds",
        "noteAction",
        "createTopic",
        "createNamespace",
        "deleteNamespace",
    }
)

# Reads the whole body until the deadline and calls the function with the number of bytes of each part. Raises
# BadRequest (the body ended early), DeadlinePassed, BodyTooSlow, and any error of the function.
Read = Callable[[Deadline, Callable[[int], None]], Awaitable[bytes | memoryview]]


@dataclass(slots=True)
class RequestHead:
    """The head of a request that writes, filled by its transport before the body is read.

    call: as in `access.rights.CALLS`.
    timeout_ms: how long the caller waits; None: without limit.
    size_bytes: the announced length of the body. bytes_max: the largest body of its kind.
    principal: the credential's holder; None: the gateway requires no credential. address: the caller's address.
    user_agent: None: the calling program does not name itself.
    marks: text of the ledger positions that the caller sends; None: none.
    writers: every text that names the writer; more than one is refused.
    """

    call: str
    namespace: str
    timeout_ms: int | None
    size_bytes: int
    bytes_max: int
    principal: Principal | None = None
    address: str = ""
    user_agent: str | None = None
    marks: str | None = None
    writers: Sequence[str] = ()


@dataclass(slots=True)
class Admitted:
    """An admitted request; `release` must be called once it is answered.

    name: the namespace. serving: the handler of the request.
    caller: the credential's name; empty: the gateway requires no credential.
    """

    gateway: Gateway
    name: str
    serving: Namespace | Unchecked
    deadline: Deadline
    body: bytes | memoryview
    caller: str
    sender: Sender

    @property
    def namespace(self) -> Namespace:
        """Returns the namespace, for calls that are never answered unchecked; other calls use `serving`."""
        assert isinstance(self.serving, Namespace)
        return self.serving

    def release(self) -> None:
        """Releases the request's share of the admission and its turn; must be called once."""
        if self.deadline.on_decision is not None:
            self.deadline.decided()
        self.gateway.admission.give(len(self.body))
        self.gateway.turns.leave(self.name)


async def admit(head: RequestHead, body: bytes | Read, gateway: Gateway, claims: bool = False) -> Admitted:
    """Admits a request after the module's checks, in their order. If it raises, nothing is reserved or written.

    body: the whole body, or the function that reads it.
    claims: the call claims ids, or renews, completes or releases such a claim, and may pass unchecked.
    """
    deadline, size_bytes, name = Deadline(gateway.clock, head.timeout_ms), head.size_bytes, head.namespace
    if size_bytes > head.bytes_max:
        raise TooLarge(f"a body of {size_bytes} bytes; at most {head.bytes_max} are read of this kind")
    principal = head.principal
    caller, whose = ("", None) if principal is None else (principal.name, principal.whose)
    serving = gateway.claims(name, caller) if claims else gateway.namespace(name)
    if head.marks is not None:
        require_marks(serving, head.marks)
    tenant = gateway.tenants.of(whose)
    writer = writer_bytes(head.writers, gateway.limits) if head.writers else b""
    sender = Sender(writer, gateway.clients.of(head.user_agent), tenant)
    serving.rates.take_bytes(size_bytes, tenant)
    admission, backlog = gateway.admission, serving.backlog
    is_sheddable = head.call not in SETTLING
    if is_sheddable:
        admission.queue(backlog, head.timeout_ms)
    admission.answers.check(sharer_of(principal, head.address), size_bytes)
    admission.enter(size_bytes)
    room = BodyRoom(admission)
    try:
        if isinstance(body, bytes):
            whole: bytes | memoryview = body
            room.arrived(len(body))
        else:
            whole = await body(deadline, room.arrived)
            if is_sheddable:
                admission.queue(backlog, deadline.left_ms)
        assert len(whole) == size_bytes
        backlog.enter(size_bytes, gateway.clock.monotonic_ms())
        deadline.on_decision = lambda: backlog.leave(size_bytes, gateway.clock.monotonic_ms())
        if (turn := gateway.turns.enter(name, size_bytes)) is not None:
            await _waited(turn, gateway, name, deadline)
        return Admitted(gateway, name, serving, deadline, whole, caller, sender)
    except BaseException:
        deadline.decided()
        admission.give(room.size_bytes)
        raise


def sharer_of(principal: Principal | None, address: str) -> str:
    """Returns the caller whose share an in-flight response uses: the credential's name or, without one, the address."""
    return f"address {address}" if principal is None else f"key {principal.name}"


def require_marks(serving: Namespace | Unchecked, text: str) -> None:
    """Raises LedgerBehind unless the ledger contains every position in `text`; BadRequest if it has none."""
    for mark in identifiers.marks(text):
        serving.require(mark)


async def _waited(turn: "asyncio.Future[None]", gateway: Gateway, name: str, deadline: Deadline) -> None:
    """Waits for a turn in the namespace's queue; returns the turn if the wait is cancelled."""
    began_ms = gateway.clock.monotonic_ms()
    try:
        await turn
    except BaseException:
        gateway.turns.leave(name)
        raise
    deadline.waited_ms = gateway.clock.monotonic_ms() - began_ms


class BodyRoom:
    """Memory for a request's body, reserved with the admission control as each part arrives."""

    __slots__ = ("_admission", "size_bytes")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.size_bytes = 0

    def arrived(self, size_bytes: int) -> None:
        """Reserves memory for `size_bytes` more bytes. Raises Overloaded."""
        self._admission.grow(size_bytes)
        self.size_bytes += size_bytes


@contextmanager
def body_room(admission: Admission, size_bytes: int) -> Iterator[BodyRoom]:
    """Admits one request with a body of `size_bytes`, and frees the memory reserved for it on exit.

    Raises TooLarge, Overloaded.
    """
    admission.enter(size_bytes)
    room = BodyRoom(admission)
    try:
        yield room
    finally:
        admission.give(room.size_bytes)


def check_draining(call: str, gateway: Gateway | None) -> None:
    """Raises Stopping, with nothing written, for a call that begins something while the gateway is drained.

    Calls that complete, release, renew, commit, acknowledge or read pass, so that open work can finish.
    """
    if gateway is None or gateway.draining is None:
        return
    if not is_taken(State.LEAVING, begins=call in NEW_WORK):
        raise Stopping(f"{DRAINED}: it finishes what is open and begins nothing, until {UNDO}; nothing was written")
