"""Bounds the requests in flight, the bytes of their bodies and of their answers; and whose is decided next."""

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
        # Of bodies that were read or announced, and of answers that were made and not taken.
        self.size_bytes = 0
        # How many were refused for want of room since the process started.
        self.refused = 0
        # How many of the next connections are to be checked before they are made: some, after each refusal by `queue`.
        self.early_checks = 0
        self.answers = Answers(self, limits.bytes_in_flight)

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
            raise self.overloaded(f"{self.requests} requests in flight")
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self.overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes}")
        self.requests += 1

    def grow(self, size_bytes: int) -> None:
        """Reserves room for so many bytes more of a request that was let in. Raises Overloaded."""
        if self.size_bytes + size_bytes > self._limits.bytes_in_flight:
            raise self.overloaded(f"{self.size_bytes} bytes in flight, no room for {size_bytes} more")
        self.size_bytes += size_bytes

    def overloaded(self, why: str, **extra: object) -> Overloaded:
        """Counts a refusal for want of room, and returns it."""
        self.refused += 1
        return Overloaded(f"{why}; nothing was written", **extra)

    def queue(self, backlog: "Backlog", left_ms: int | None) -> None:
        """Refuses a request whose wait in a namespace's backlog would be too long.

        left_ms: until its deadline; None: it has none, and waits `QUEUE_MS`, or behind fewer than `QUEUE_REQUESTS`,
        however long these take. Raises Overloaded, with the time after which the backlog is worked off.
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
        """Ends a request that has entered, and gives back the bytes that it has reserved."""
        self.requests -= 1
        self.size_bytes -= size_bytes


# Below this an answer is not counted: it fits into what a connection buffers, and connections are bounded.
SMALL_ANSWER_BYTES = 64 << 10
# One caller may leave an eighth of `bytes_in_flight` unread: seven others have theirs, whatever it does.
ANSWER_SHARES = 8


class Room:
    """Holds room for an answer, from before it is made until its caller has taken it. `release` is idempotent."""

    __slots__ = ("_answers", "_caller", "size_bytes")

    def __init__(self, answers: "Answers", caller: str, size_bytes: int) -> None:
        self._answers, self._caller, self.size_bytes = answers, caller, size_bytes

    def resize(self, size_bytes: int) -> None:
        """Holds the answer's size, now that it is made: also where that is more than was estimated."""
        self._answers.count(self._caller, size_bytes - self.size_bytes)
        self.size_bytes = size_bytes

    def release(self) -> None:
        """Gives the room back."""
        self.resize(0)

    def __del__(self) -> None:
        """Gives the room of an answer back that is dropped on its way: its caller has gone, or its deadline passed."""
        if self.size_bytes:
            self.release()


class Answers:
    """Counts the bytes of answers that are not taken yet, by caller; they share `bytes_in_flight` with bodies.

    An answer of any size fits where there is no other, so that each can be given.
    """

    def __init__(self, admission: Admission, limit_bytes: int) -> None:
        self._admission, self._limit_bytes = admission, limit_bytes
        self._of: dict[str, int] = {}
        self._waiting: list[tuple[str, int, asyncio.Future[Room]]] = []

    def fits(self, caller: str, size_bytes: int) -> bool:
        """Returns whether there is room for an answer of so many bytes now."""
        mine = self._of.get(caller, 0)
        if mine and mine + size_bytes > self._limit_bytes // ANSWER_SHARES:
            return False
        return not self._of or self._admission.size_bytes + size_bytes <= self._limit_bytes

    def check(self, caller: str, size_bytes: int) -> None:
        """Refuses a request with a body of `size_bytes` while its answer could have no room.

        Raises Overloaded; a request with a small body, whose answer is small, passes.
        """
        if size_bytes > SMALL_ANSWER_BYTES and not self.fits(caller, size_bytes):
            raise self._admission.overloaded(self._unread(caller))

    def _unread(self, caller: str) -> str:
        return f"{self._of.get(caller, 0)} bytes of answers are not read by their caller, {caller}"

    def hold(self, caller: str, size_bytes: int) -> Room:
        """Counts an answer that is made already."""
        self.count(caller, size_bytes)
        return Room(self, caller, size_bytes)

    async def room(self, caller: str, size_bytes: int, within_s: float | None = None) -> Room:
        """Waits for room for an answer of so many bytes, estimated, before it is made.

        within_s: how long; None: until there is some. Raises Overloaded when that has passed.
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
        """Counts so many bytes more, or fewer where it is negative; those that wait go on while there is room."""
        left = self._of.get(caller, 0) + size_bytes
        self._admission.size_bytes += size_bytes
        if left:
            self._of[caller] = left
        else:
            self._of.pop(caller, None)
        if size_bytes < 0:
            self._go_on()

    def _go_on(self) -> None:
        """Begins those that wait and fit, the first first; one that does not fit keeps no other caller waiting."""
        for caller, size_bytes, turn in self._waiting:
            if not turn.done() and self.fits(caller, size_bytes):
                turn.set_result(self.hold(caller, size_bytes))


# What a namespace goes on with in one turn of the loop, in bytes of bodies: as much as is worth a turn, where no other
# has requests under way; else a tenth, since an answer takes some ten turns: the body, the decision, its append.
ALONE_BYTES, SHARED_BYTES = 128 << 10, 12 << 10
# What each request costs beside the bytes of its body.
REQUEST_BYTES = 1 << 10
# What is larger is read in threads; no request delays the next of its namespace by more turns.
DEBT_TURNS = 32


# How long a request without a deadline waits to be decided. Large ones take longer: a queue of fewer than 12 is no
# overload. The bounds are the largest that keep the p99 at four times the capacity within ten times that at half of it
# (`bench/cases/overload.py`); a caller that is to wait longer gives a deadline.
QUEUE_MS, QUEUE_REQUESTS = 15, 12
# As many as are accepted in one turn of the loop.
EARLY_CHECKS = 256
# A deadline is to be twice as far off as the estimated wait: estimates are of the past, and an answer takes time too.
DEADLINE_WAITS = 2
# The cost of a decision, in bytes: a third of a millisecond, the time that 16 KiB of JSON take.
DECISION_BYTES = 16 << 10
# A wait is estimated once so much work was measured; of older work half is forgotten each time.
MEASURED_MS, REMEMBERED_MS = 50, 200


class Backlog:
    """Estimates how long a namespace's next request would wait: the work before it over the rate of such work.

    Little's law. A queue is bounded by the time that it takes, not by its length: Maurer, "Fail at Scale" (ACM Queue
    13.8, 2015); a request that cannot be answered in time is refused before any work is done for it: "Handling
    Overload" (Site Reliability Engineering, 2016). What waits for the ledger is decided and waits here no more, so a
    slow disk is no overload. Times are monotonic, in ms.
    """

    __slots__ = ("_busy_ms", "_done_bytes", "_since_ms", "_work_bytes", "requests")

    def __init__(self) -> None:
        self.requests = self._work_bytes = self._since_ms = 0
        self._done_bytes = self._busy_ms = 0.0

    def enter(self, size_bytes: int, now_ms: int) -> None:
        """Counts a request whose body is here."""
        if not self.requests:
            self._since_ms = now_ms
        self.requests += 1
        self._work_bytes += size_bytes + DECISION_BYTES

    def leave(self, size_bytes: int, now_ms: int) -> None:
        """Counts a request out: it is decided, or given up."""
        self.requests -= 1
        self._work_bytes -= size_bytes + DECISION_BYTES
        self._done_bytes += size_bytes + DECISION_BYTES
        self._busy_ms += now_ms - self._since_ms
        self._since_ms = now_ms
        while self._busy_ms > REMEMBERED_MS:
            self._busy_ms, self._done_bytes = self._busy_ms / 2, self._done_bytes / 2

    @property
    def wait_ms(self) -> int:
        """Returns how long the work that waits will take; 0 while too little is known."""
        if self._busy_ms < MEASURED_MS:
            return 0
        return round(self._work_bytes * self._busy_ms / self._done_bytes)


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
