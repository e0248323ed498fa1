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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from oncegate.core.errors import TooLarge
from oncegate.engine.admission import Admission
from oncegate.engine.counts.clients import set_current_client
from oncegate.engine.counts.tenants import Whose, set_current_tenant
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway
from oncegate.engine.limits import Limits
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.shard import Shard
from oncegate.ports import Mark
from oncegate.ports.writers import set_current_writer

# Reading a body above this takes longer than handing it to a thread does.
OFFLOAD_BYTES = 256 << 10

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

T = TypeVar("T")


class Incoming(Protocol):
    """What a transport tells of a request before its body is read.

    Each method raises BadRequest for what it cannot read; `writer` TooLarge too, `size_bytes` LengthRequired where the
    length is unknown.
    """

    def call(self) -> str:
        """Returns the name of the call, as of `access.rights.CALLS`."""

    def timeout_ms(self) -> int | None:
        """Returns how long the caller waits; None: for ever."""

    def size_bytes(self) -> int:
        """Returns the length of the body as it was announced."""

    def bytes_max(self, limits: Limits) -> int:
        """Returns how long a body of this kind may be."""

    def namespace(self) -> str:
        """Returns the name of the namespace."""

    def caller(self) -> str:
        """Returns the name of the credential that was shown; empty: none was asked for."""

    def sharer(self) -> str:
        """Returns whose share of the answers in flight this one's is: its credential's, else its address's."""

    def whose(self) -> Whose | None:
        """Returns the tenant whose credential was shown; None: none was asked for."""

    def writer(self, limits: Limits) -> bytes:
        """Returns the writer that the caller names, as of `core.writers`; empty: it names none."""

    def user_agent(self) -> str | None:
        """Returns the text by which the calling program names itself; None: it does not."""

    def marks(self) -> Iterable[Mark]:
        """Returns the marks of the namespace's ledger that the caller has seen."""

    async def read(self, size_bytes: int, deadline: Deadline, arrived: Callable[[int], None]) -> bytes | memoryview:
        """Reads the whole body, and calls `arrived` with the bytes of each part as it comes.

        Raises BadRequest: it ended early; DeadlinePassed, BodyTooSlow: it did not come in time; what `arrived` raises.
        """


@dataclass(slots=True)
class Admitted:
    """Holds a request that was let in, until `release` is called when it is answered.

    claims: what answers it. deadline: what is left of its time. caller: the name of its credential; empty: none was
    asked for.
    """

    gateway: Gateway
    namespace: str
    claims: Shard | Unchecked
    deadline: Deadline
    body: bytes | memoryview
    caller: str

    @property
    def shard(self) -> Shard:
        """The shard, which every call needs that may not pass unchecked; those that may use `claims`."""
        assert isinstance(self.claims, Shard)
        return self.claims

    def release(self) -> None:
        """Gives back the share of what may be in flight; to be called once."""
        self.deadline.decided()
        self.gateway.admission.give(len(self.body))
        self.gateway.turns.leave(self.namespace)


async def admit(incoming: Incoming, gateway: Gateway, claims: bool = False) -> Admitted:
    """Lets a request in, in the order above. Raises what stands there; then nothing is reserved or written.

    claims: it claims ids, or settles such a claim, and may pass unchecked.
    """
    deadline, caller = Deadline(gateway.clock, incoming.timeout_ms()), incoming.caller()
    size_bytes = incoming.size_bytes()
    if size_bytes > (bytes_max := incoming.bytes_max(gateway.limits)):
        raise TooLarge(f"a body of {size_bytes} bytes; at most {bytes_max} are read of this kind")
    shard = claims_at(gateway, namespace := incoming.namespace(), incoming.marks, caller if claims else None)
    set_current_tenant(gateway.tenants.of(incoming.whose()))
    set_current_writer(incoming.writer(gateway.limits))
    set_current_client(gateway.clients.of(incoming.user_agent()))
    shard.rates.take_bytes(size_bytes)
    admission, backlog = gateway.admission, shard.backlog
    is_sheddable = incoming.call() not in SETTLING
    if is_sheddable:
        admission.queue(backlog, deadline.left_ms)
    admission.answers.check(incoming.sharer(), size_bytes)
    admission.enter(size_bytes)
    room = BodyRoom(admission)
    try:
        body = await incoming.read(size_bytes, deadline, room.arrived)
        assert len(body) == size_bytes
        if is_sheddable:
            admission.queue(backlog, deadline.left_ms)
        backlog.enter(size_bytes, gateway.clock.monotonic_ms())
        deadline.on_decision = lambda: backlog.leave(size_bytes, gateway.clock.monotonic_ms())
        await _turn(gateway, namespace, size_bytes, deadline)
        return Admitted(gateway, namespace, shard, deadline, body, caller)
    except BaseException:
        deadline.decided()
        admission.give(room.size_bytes)
        raise


async def _turn(gateway: Gateway, namespace: str, size_bytes: int, deadline: Deadline) -> None:
    """Waits for the namespace's turn; whoever goes away meanwhile has left."""
    if (turn := gateway.turns.enter(namespace, size_bytes)) is None:
        return
    began_ms = gateway.clock.monotonic_ms()
    try:
        await turn
    except BaseException:
        gateway.turns.leave(namespace)
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


def shard_at(gateway: Gateway, namespace: str, marks: Callable[[], Iterable[Mark]]) -> Shard:
    """Returns the namespace's shard, if it stands where the caller's marks say; they are read once it is there.

    Raises NotFound, Recovering, LedgerDown, LedgerBehind, and what `marks` raises.
    """
    shard = gateway.shard(namespace)
    for mark in marks():
        shard.require(mark)
    return shard


def claims_at(
    gateway: Gateway, namespace: str, marks: Callable[[], Iterable[Mark]], caller: str | None
) -> Shard | Unchecked:
    """Returns what answers a request: of a `caller` whose claims may pass unchecked perhaps no shard; else as
    `shard_at`."""
    if caller is None:
        return shard_at(gateway, namespace, marks)
    found = gateway.claims(namespace, caller)
    for mark in marks():
        found.require(mark)
    return found


async def offload(size_bytes: int, work: Callable[..., T], *arguments: object) -> T:
    """Runs `work(*arguments)`, in a thread where its input is large, so that renewals do not wait for it."""
    if size_bytes < OFFLOAD_BYTES:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)
