"""Limits the requests in flight and the bytes of bodies and answers, and schedules the requests of different namespaces
fairly."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from oncegate.core.errors import Overloaded, TooLarge
from oncegate.engine.limits import Limits


class Admission:
    """Counts requests and bytes in flight; a request above a limit is refused at once rather than queued."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.requests = 0
        # Bytes of bodies that were read or announced, and of answers not yet taken.
        self.size_bytes = 0
        # Refusals for lack of room since the process started.
        self.refused = 0
        # Number of next connections to check before they are accepted; set after each refusal by `queue`.
        self.early_checks = 0
        self.answers = Answers(self, limits.bytes_in_flight)

    @contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        """Reserves memory for one request with a body of `size_bytes`, until the end of the `with` block.

        Raises TooLarge (fix it) or Overloaded (retry) on entry, before anything was read or written.
        """
        self.enter(size_bytes)
        self.size_bytes += size_bytes
        try:
            yield
        finally:
            self.give(size_bytes)

    def enter(self, size_bytes: int) -> None:
        """Admits one request with a body of `size_bytes` if the limits allow it now; `grow` reserves the memory, and
        `give` must follow.

        Raises as `hold`.
        """
        if size_bytes > self._limits.body_bytes:
            raise TooLarge(f"a body of {size_bytes} bytes; at most {self._limits.body_bytes} are read")
        if self.requests >= self._limits.requests_in_flight:
            raise self.overloaded(f"{self.requests} requests in flight")
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self.overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes}")
        self.requests += 1

    def grow(self, size_bytes: int) -> None:
        """Reserves memory for `size_bytes` more of an admitted request. Raises Overloaded."""
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self.overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes} more")
        self.size_bytes += size_bytes

    def overloaded(self, why: str, **extra: object) -> Overloaded:
        """Counts a refusal because a limit is reached, and returns its error."""
        self.refused += 1
        return Overloaded(f"{why}; nothing was written", **extra)

    def queue(self, backlog: "Backlog", left_ms: int | None) -> None:
        """Raises Overloaded if a request would wait too long in a namespace's backlog; the error carries the time until
        the backlog is worked off.

        left_ms: until the request's deadline. None: it has none; it may wait `QUEUE_MS`, or any time after fewer than
        `QUEUE_REQUESTS` requests.
        """
        wait_ms = backlog.wait_ms
        if left_ms is None:
            if wait_ms <= QUEUE_MS or backlog.requests < QUEUE_REQUESTS:
                return
        elif DEADLINE_WAITS * wait_ms <= left_ms:
            return
        limit = "no deadline" if left_ms is None else f"{max(left_ms, 0)} ms until the deadline"
        why = f"{backlog.requests} requests wait before this one, for {wait_ms} ms, and it has {limit}"
        self.early_checks = EARLY_CHECKS
        after_ms = max(wait_ms, Overloaded.retry_after_ms or 0)
        raise self.overloaded(why, retry_after_ms=after_ms)

    def give(self, size_bytes: int) -> None:
        """Ends an admitted request, and frees the bytes that it has reserved."""
        self.requests -= 1
        self.size_bytes -= size_bytes


# Smaller answers are not counted: they fit into a connection's buffer, and connections are bounded.
SMALL_ANSWER_BYTES = 64 << 10
# A caller may leave 1 / `ANSWER_SHARES` of `bytes_in_flight` unread, which leaves room for the others.
ANSWER_SHARES = 8


class Room:
    """The memory reserved for one answer, from before the answer is built until its caller has read it. `release` is
    idempotent."""

    __slots__ = ("_answers", "_caller", "size_bytes")

    def __init__(self, answers: "Answers", caller: str, size_bytes: int) -> None:
        self._answers, self._caller, self.size_bytes = answers, caller, size_bytes

    def resize(self, size_bytes: int) -> None:
        """Sets the answer's actual size, which may be more than was estimated."""
        self._answers.count(self._caller, size_bytes - self.size_bytes)
        self.size_bytes = size_bytes

    def release(self) -> None:
        self.resize(0)

    def __del__(self) -> None:
        """Frees the memory reserved for an answer that was dropped, because its caller disconnected or its deadline
        passed."""
        if self.size_bytes:
            self.release()


class Answers:
    """Counts the bytes of answers that callers have not read yet, by caller; they share `bytes_in_flight` with bodies.

    A single answer of any size fits if there is no other one, so that every answer is possible.
    """

    def __init__(self, admission: Admission, limit_bytes: int) -> None:
        self._admission, self._limit_bytes = admission, limit_bytes
        self._of: dict[str, int] = {}
        self._waiting: list[tuple[str, int, asyncio.Future[Room]]] = []

    def fits(self, caller: str, size_bytes: int) -> bool:
        mine = self._of.get(caller, 0)
        if mine and mine + size_bytes > self._limit_bytes // ANSWER_SHARES:
            return False
        return not self._of or self._admission.size_bytes + size_bytes <= self._limit_bytes

    def check(self, caller: str, size_bytes: int) -> None:
        """Raises Overloaded for a request with a body of `size_bytes` if its answer would exceed the limits.

        Requests with a small body pass, since their answer is small.
        """
        if size_bytes > SMALL_ANSWER_BYTES and not self.fits(caller, size_bytes):
            raise self._admission.overloaded(self._unread(caller))

    def _unread(self, caller: str) -> str:
        return f"{self._of.get(caller, 0)} bytes of answers are not read by their caller, {caller}"

    def hold(self, caller: str, size_bytes: int) -> Room:
        self.count(caller, size_bytes)
        return Room(self, caller, size_bytes)

    async def room(self, caller: str, size_bytes: int, within_s: float | None = None) -> Room:
        """Waits until memory for an answer of this estimated size can be reserved, before the answer is built.

        within_s: the longest wait; None: unlimited. Raises Overloaded when it has passed.
        """
        if self.fits(caller, size_bytes):
            return self.hold(caller, size_bytes)
        turn: asyncio.Future[Room] = asyncio.get_running_loop().create_future()
        waiting = (caller, size_bytes, turn)
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(within_s):
                return await turn
        except TimeoutError:
            raise self._admission.overloaded(self._unread(caller)) from None
        finally:
            self._waiting = [one for one in self._waiting if one is not waiting]

    def count(self, caller: str, size_bytes: int) -> None:
        """Adds bytes to a caller's answers, or subtracts them if negative; then starts the waiting answers that now
        fit."""
        left = self._of.get(caller, 0) + size_bytes
        self._admission.size_bytes += size_bytes
        if left:
            self._of[caller] = left
        else:
            self._of.pop(caller, None)
        if size_bytes < 0:
            self._go_on()

    def _go_on(self) -> None:
        """Starts the waiting answers that fit, oldest first; an answer that does not fit delays no other caller."""
        for caller, size_bytes, turn in self._waiting:
            if not turn.done() and self.fits(caller, size_bytes):
                turn.set_result(self.hold(caller, size_bytes))


# Bytes of bodies that a namespace may begin in one turn of the event loop. Alone, it gets as much as is worth a turn.
# If others have requests under way it gets a tenth, since a request takes some ten turns: body, decision, append.
ALONE_BYTES, SHARED_BYTES = 128 << 10, 12 << 10
# Cost of each request in addition to the bytes of its body.
REQUEST_BYTES = 1 << 10
# Largest debt: no request delays the next one of its namespace by more turns. Larger bodies are read in threads.
DEBT_TURNS = 32


# Longest wait of a request without a deadline until it is decided. Fewer than 12 waiting requests are no overload, as
# large ones take longer. These are the largest bounds that keep the p99 at four times the capacity within ten times the
# p99 at half the capacity (`bench/cases/overload.py`). A caller that can wait longer sends a deadline.
QUEUE_MS, QUEUE_REQUESTS = 15, 12
# The number of connections that one turn of the event loop accepts.
EARLY_CHECKS = 256
# A deadline must be twice as far off as the estimated wait, since estimates lag and an answer takes time too.
DEADLINE_WAITS = 2
# Cost of a decision, in bytes: a third of a millisecond, the time for 16 KiB of JSON.
DECISION_BYTES = 16 << 10
# Work to measure before a wait is estimated. Above `REMEMBERED_MS` the weight of older work is halved.
MEASURED_MS, REMEMBERED_MS = 50, 200


class Backlog:
    """Estimates how long a namespace's next request would wait: the queued work divided by the measured rate of work.

    This is Little's law. The queue is bounded by its time, not by its length: Maurer, "Fail at Scale" (ACM Queue 13.8,
    2015). A request that cannot be answered in time is refused before any work is done for it: "Handling Overload"
    (Site Reliability Engineering, 2016). Requests that wait for the ledger are decided and not in this queue, so a slow
    disk is no overload. Times are monotonic, in ms.
    """

    __slots__ = ("_busy_ms", "_done_bytes", "_since_ms", "_work_bytes", "requests")

    def __init__(self) -> None:
        self.requests = self._work_bytes = self._since_ms = 0
        self._done_bytes = self._busy_ms = 0.0

    def enter(self, size_bytes: int, now_ms: int) -> None:
        if not self.requests:
            self._since_ms = now_ms
        self.requests += 1
        self._work_bytes += size_bytes + DECISION_BYTES

    def leave(self, size_bytes: int, now_ms: int) -> None:
        """Removes a request that is decided or abandoned, and adds its work to the measured rate."""
        self.requests -= 1
        self._work_bytes -= size_bytes + DECISION_BYTES
        self._done_bytes += size_bytes + DECISION_BYTES
        self._busy_ms += now_ms - self._since_ms
        self._since_ms = now_ms
        while self._busy_ms > REMEMBERED_MS:
            self._busy_ms, self._done_bytes = self._busy_ms / 2, self._done_bytes / 2

    @property
    def wait_ms(self) -> int:
        """The estimated duration of the queued work; 0 while too little has been measured."""
        if self._busy_ms < MEASURED_MS:
            return 0
        return round(self._work_bytes * self._busy_ms / self._done_bytes)


@dataclass(slots=True)
class _Queue:
    """A namespace's requests under way, its credit in bytes, and the cost and future of each waiting request."""

    under_way: int = 0
    credit_bytes: int = ALONE_BYTES
    waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    def go_on(self) -> None:
        """Starts waiting requests while the namespace has credit; a request whose caller has disconnected costs
        nothing."""
        while self.waiting and self.credit_bytes > 0:
            cost_bytes, turn = self.waiting.popleft()
            if not turn.done():
                self.pay(cost_bytes)
                turn.set_result(None)

    def pay(self, cost_bytes: int) -> None:
        """Subtracts a request's cost, which may exceed the credit; the debt is paid off in later turns."""
        self.credit_bytes = max(self.credit_bytes - cost_bytes, -DEBT_TURNS * SHARED_BYTES)


class Turns:
    """Schedules namespaces in turns, so that many large requests to one namespace do not delay the others.

    Requests of one namespace keep their order. The algorithm is deficit round robin (Shreedhar and Varghese, 1995), but
    the deficit is paid off afterwards, so that a namespace with few requests never waits.
    """

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._is_turning = False

    def enter(self, namespace: str, size_bytes: int) -> asyncio.Future[None] | None:
        """Queues a request whose body has been received. Returns None if it may begin now, otherwise a future to await
        before any work.

        `leave` must follow, once the request is answered or its caller has disconnected.
        """
        queue = self._queues.get(namespace)
        if queue is None:
            queue = self._queues[namespace] = _Queue()
        queue.under_way += 1
        if not size_bytes:
            return None  # completes, releases and renewals never wait
        self._turn()
        if not queue.waiting and queue.credit_bytes > 0:
            queue.pay(size_bytes + REQUEST_BYTES)
            return None
        turn = asyncio.get_running_loop().create_future()
        queue.waiting.append((size_bytes + REQUEST_BYTES, turn))
        return turn

    def leave(self, namespace: str) -> None:
        queue = self._queues[namespace]
        queue.under_way -= 1
        if not queue.under_way:
            self._turn()

    def __len__(self) -> int:
        """Counts the namespaces that have requests under way, or had some in this turn."""
        return len(self._queues)

    def _turn(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Ends a turn of the event loop: grants credit for the next turn, and removes idle namespaces."""
        self._is_turning = False
        is_shared = len(self._queues) > 1 and sum(queue.under_way > 0 for queue in self._queues.values()) > 1
        share_bytes = SHARED_BYTES if is_shared else ALONE_BYTES
        for namespace, queue in list(self._queues.items()):
            queue.credit_bytes = min(queue.credit_bytes + share_bytes, share_bytes)
            if queue.waiting:
                queue.go_on()
            if queue.credit_bytes < share_bytes:
                self._turn()
            elif not queue.under_way:
                del self._queues[namespace]
