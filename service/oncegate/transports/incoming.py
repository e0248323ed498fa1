"""How a request that writes is let in, the same for each transport. In this order, all before any effect:

1. body length against limits  TooLarge: before a byte of it is read
2. namespace, marks, writer    NotFound, Recovering, LedgerDown, LedgerBehind, BadRequest
3. quota, admission            QuotaExceeded, Overloaded: it would wait too long to be decided, there is no room for
                               the length that was announced, or its caller does not read its answers
4. the body itself             reserved as it comes; BadRequest when it ends early, DeadlinePassed or BodyTooSlow when
                               it does not come
5. its namespace's turn        Overloaded as before, since others came meanwhile; then a turn, so that a namespace with
                               much under way does not keep others from theirs
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

# What ends or keeps something that is open, by the names of `access.rights.CALLS`: were it refused for its wait, leases
# would run out, and work be done twice.
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
# By the names of `access.rights.CALLS`: what grants, writes rows that no commit waits for, or makes something.
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

# Reads the whole body by the deadline, and calls the function with the bytes of each part as it comes. Raises
# BadRequest: it ended early; DeadlinePassed, BodyTooSlow: it did not come in time; what the function raises.
Read = Callable[[Deadline, Callable[[int], None]], Awaitable[bytes | memoryview]]


@dataclass(slots=True)
class RequestHead:
    """Holds the head of a request that writes; its transport fills it once, before the body is read.

    call: as of `access.rights.CALLS`. timeout_ms: how long the caller waits; None: for ever. size_bytes: the length of
    the body as announced. bytes_max: how long a body of its kind may be. principal: of the credential; None: none was
    asked for. address: the caller's. user_agent: None: the calling program does not name itself. marks: the text of the
    caller's ledger marks; None: it brings none. writers: the texts that name the writer, of which there may be one.
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
    """Holds a request that was let in, until `release` is called when it is answered.

    name: the namespace's. serving: the handler of the request. deadline: the rest of its time. caller: the name of its
    credential; empty: none is required.
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
        """The namespace, for calls that cannot pass unchecked; the others use `serving`."""
        assert isinstance(self.serving, Namespace)
        return self.serving

    def release(self) -> None:
        """Gives back the share of what may be in flight; to be called once."""
        if self.deadline.on_decision is not None:
            self.deadline.decided()
        self.gateway.admission.give(len(self.body))
        self.gateway.turns.leave(self.name)


async def admit(head: RequestHead, body: bytes | Read, gateway: Gateway, claims: bool = False) -> Admitted:
    """Lets a request in, in the order above. Raises what stands there; then nothing is reserved or written.

    body: all of it, or what reads it. claims: it claims ids, or settles such a claim, and may pass unchecked.
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
    """Returns whose share of the answers in flight a request's is: its credential's, else its address's."""
    return f"address {address}" if principal is None else f"key {principal.name}"


def require_marks(serving: Namespace | Unchecked, text: str) -> None:
    """Raises LedgerBehind unless the ledger contains every mark of `text`; BadRequest for a text without marks."""
    for mark in identifiers.marks(text):
        serving.require(mark)


async def _waited(turn: "asyncio.Future[None]", gateway: Gateway, name: str, deadline: Deadline) -> None:
    """Waits for the namespace's turn; whoever goes away meanwhile has left."""
    began_ms = gateway.clock.monotonic_ms()
    try:
        await turn
    except BaseException:
        gateway.turns.leave(name)
        raise
    deadline.waited_ms = gateway.clock.monotonic_ms() - began_ms


class BodyRoom:
    """Reserves room for a request's body in the admission of its gateway, part by part as it comes."""

    __slots__ = ("_admission", "size_bytes")

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.size_bytes = 0

    def arrived(self, size_bytes: int) -> None:
        """Reserves room for so many bytes more. Raises Overloaded."""
        self._admission.grow(size_bytes)
        self.size_bytes += size_bytes


@contextmanager
def body_room(admission: Admission, size_bytes: int) -> Iterator[BodyRoom]:
    """Lets in one request whose body will have `size_bytes`, and gives back what it holds when it is over.

    Raises TooLarge, Overloaded.
    """
    admission.enter(size_bytes)
    room = BodyRoom(admission)
    try:
        yield room
    finally:
        admission.give(room.size_bytes)


def check_draining(call: str, gateway: Gateway | None) -> None:
    """Refuses a call that begins something while the gateway is drained. Raises Stopping: nothing was written.

    What settles, commits, acks, renews, reads or describes passes, so that open work comes to its end.
    """
    if gateway is None or gateway.draining is None:
        return
    if not is_taken(State.LEAVING, begins=call in NEW_WORK):
        raise Stopping(f"{DRAINED}: it finishes what is open and begins nothing, until {UNDO}; nothing was written")
