"""Bounds the requests in flight, and the bytes of their bodies, reserved as they come; and whose is decided next."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from oncegate.core.errors import Overloaded, TooLarge
from oncegate.engine.limits import Limits


class Admission:
    """Counts requests and bytes in flight, and refuses at once rather than queue."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.requests = 0
        self.size_bytes = 0
        # How many were refused for want of room since the process started.
        self.refused = 0

    @contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        """Reserves room for one request with a body of `size_bytes`, from `with` to its end.

        There it raises TooLarge (fix) or Overloaded (retry), before anything was read or written.
        """
        self.enter(size_bytes)
        self.size_bytes += size_bytes
        try:
            yield
        finally:
            self.give(size_bytes)

    def enter(self, size_bytes: int) -> None:
        """Lets in one request whose body will have `size_bytes`, if there is room for it now; `grow` takes that room.

        Raises as `hold`. `give` has to follow.
        """
        if size_bytes > self._limits.body_bytes:
            raise TooLarge(f"a body of {size_bytes} bytes; at most {self._limits.body_bytes} are read")
        if self.requests >= self._limits.requests_in_flight:
            raise self._overloaded(f"{self.requests} requests in flight")
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self._overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes}")
        self.requests += 1

    def grow(self, size_bytes: int) -> None:
        """Reserves room for so many bytes more of a request that was let in. Raises Overloaded."""
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self._overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes} more")
        self.size_bytes += size_bytes

    def _overloaded(self, why: str) -> Overloaded:
        self.refused += 1
        return Overloaded(f"{why}; nothing was written")

    def give(self, size_bytes: int) -> None:
        """Ends a request that has entered, and gives back the bytes that it has reserved."""
        self.requests -= 1
        self.size_bytes -= size_bytes


# What a namespace goes on with in one turn of the loop, in bytes of bodies: as much as is worth a turn, where no other
# has requests under way; else a tenth, since an answer takes some ten turns: the body, the decision, its append.
ALONE_BYTES, SHARED_BYTES = 128 << 10, 12 << 10
# What each request costs beside the bytes of its body.
REQUEST_BYTES = 1 << 10
# What is larger is read in threads; no request delays the next of its namespace by more turns.
DEBT_TURNS = 32


@dataclass(slots=True)
class _Queue:
    """Holds what a namespace has under way, its credit in bytes, and the costs and turns of those that wait."""

    under_way: int = 0
    credit_bytes: int = ALONE_BYTES
    waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    def go_on(self) -> None:
        """Begins those that wait while there is credit; one whose caller has gone away costs nothing."""
        while self.waiting and self.credit_bytes > 0:
            cost_bytes, turn = self.waiting.popleft()
            if not turn.done():
                self.pay(cost_bytes)
                turn.set_result(None)

    def pay(self, cost_bytes: int) -> None:
        """Takes what a request costs; it may be more than there is, and is made up for in the turns that follow."""
        self.credit_bytes = max(self.credit_bytes - cost_bytes, -DEBT_TURNS * SHARED_BYTES)


class Turns:
    """Lets namespaces take turns at the loop, so that one with many large requests under way does not delay others.

    Those of one namespace stay in their order. Deficit round robin (Shreedhar and Varghese, 1995), where the deficit
    is made up for afterwards, so that who has asked for little does not wait at all.
    """

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._is_turning = False

    def enter(self, namespace: str, size_bytes: int) -> asyncio.Future[None] | None:
        """Asks for a turn for a request whose body is here; None: it is now, else to be awaited before any work.

        `leave` has to follow, once it is answered or its caller has gone away.
        """
        queue = self._queues.get(namespace)
        if queue is None:
            queue = self._queues[namespace] = _Queue()
        queue.under_way += 1
        if not size_bytes:
            return None  # what settles a claim, or keeps its lease, waits for nobody
        self._turn()
        if not queue.waiting and queue.credit_bytes > 0:
            queue.pay(size_bytes + REQUEST_BYTES)
            return None
        turn = asyncio.get_running_loop().create_future()
        queue.waiting.append((size_bytes + REQUEST_BYTES, turn))
        return turn

    def leave(self, namespace: str) -> None:
        """Ends a request that has entered."""
        queue = self._queues[namespace]
        queue.under_way -= 1
        if not queue.under_way:
            self._turn()

    def __len__(self) -> int:
        """Counts the namespaces that have requests under way, or had in this turn."""
        return len(self._queues)

    def _turn(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Ends a turn of the loop: credit for the next, and none for a namespace that is at rest."""
        self._is_turning = False
        is_shared = sum(queue.under_way > 0 for queue in self._queues.values()) > 1
        share_bytes = SHARED_BYTES if is_shared else ALONE_BYTES
        for namespace, queue in list(self._queues.items()):
            queue.credit_bytes = min(queue.credit_bytes + share_bytes, share_bytes)
            queue.go_on()
            if queue.credit_bytes < share_bytes:
                self._turn()
            elif not queue.under_way:
                del self._queues[namespace]
