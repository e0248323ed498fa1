"""Records why brokers refuse an aiokafka client, and aborts waits that cannot succeed.

aiokafka logs why it cannot connect, and retries until a deadline raises a bare TimeoutError. It also hides throttling
by a quota, and connections closed by a broker. A `Watch` records all three.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.transaction import AddPartitionsToTxnResponse_v0

from oncegate.clock import now_s
from oncegate.ledgers.kafka.refusals import WRITING, BrokersRefuse, Caller, Refusal, refusal_of

# Grace period before a refusal by all brokers is final: a new user reaches each of them with a delay.
REFUSED_S = 1.0
# Fraction of a session's lifetime (connections.max.reauth.ms) after which no transaction begins on it. The rest must
# cover the transaction: a commit during which the session expires is in doubt.
SESSION_PART = 0.5


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Timeouts of a transaction's steps.

    `send_ms`: until the next batch is answered. `transaction_ms`: the broker's transaction timeout, longer than
    `send_ms` and `commit_ms` together. While batches are being answered, sending may take all of it except `commit_ms`.
    """

    start_ms: int = 30_000
    send_ms: int = 20_000
    commit_ms: int = 10_000
    transaction_ms: int = 60_000

    def __post_init__(self) -> None:
        """Raises ValueError if the broker would abort a transaction while this client still waits for it."""
        if self.transaction_ms <= self.send_ms + self.commit_ms:
            raise ValueError("transaction_ms must be longer than send_ms and commit_ms together")

    @property
    def sending_ms(self) -> int:
        """Returns the maximum time for sending a whole transaction."""
        return self.transaction_ms - self.commit_ms


DEFAULT_DEADLINES = Deadlines()


class Watch:
    """State of one client's connections, refusals and throttling, and the timeout of its current wait.

    `settings`: aiokafka's arguments. `needs`: the rights on topics that the client uses.
    """

    def __init__(self, settings: Mapping[str, Any], needs: str = WRITING) -> None:
        self._caller = Caller.of(settings, needs)
        self._sessions: WeakSet[Any] = WeakSet()
        self._limit: asyncio.Timeout | None = None
        self._until = self._throttled_until = 0.0
        self._throttle_ms = 0
        self._was_cut = False
        self.begin()
        self._is_beginning = False

    def begin(self) -> None:
        """Begins a transaction: discards recorded refusals, and closes sessions that are about to expire."""
        self._began = now_s()
        self._refusing: dict[tuple[str, int], Refusal] = {}
        # True once some broker was reached, even if it refused the client.
        self.has_reached = False
        # True until the brokers have added a partition to the transaction.
        self._is_beginning = True
        for session in list(self._sessions):
            # aiokafka reconnects on demand.
            if session.until <= self._began:
                session.close()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Replaces an error caused by a refusal with BrokersRefuse; other errors propagate."""
        try:
            yield
        except (KafkaError, OSError) as error:
            if (refusal := self.refusal(error)) is None or isinstance(error, BrokersRefuse):
                raise
            raise BrokersRefuse(str(refusal)) from error

    @asynccontextmanager
    async def until(self, until: float) -> AsyncIterator[None]:
        """Raises TimeoutError at this time of the event loop, or earlier if the brokers refuse this client."""
        self._until = until
        try:
            async with asyncio.timeout_at(until) as self._limit:
                if self.is_lost:
                    self._end_in(0)
                yield
        finally:
            self._limit = None

    def goes_on(self, wait_s: float, last: float) -> None:
        """Extends the wait by `wait_s` from now, but not beyond `last`, after a batch was answered."""
        if self._limit is not None and not self._limit.expired():
            self._until = min(now_s() + wait_s, last)
            self._limit.reschedule(self._until)

    def connected(self, place: tuple[str, int], session: Any) -> None:
        """Records an open connection, and restores the deadline that refusals have shortened."""
        self.has_reached = True
        session.watch = self
        self._sessions.add(session)
        self._refusing.pop(place, None)
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self._until)

    def not_connected(self, place: tuple[str, int], error: BaseException) -> None:
        """Records a failed connection attempt; waits end once no broker accepts this client."""
        # A closed port and an unknown host raise other errors.
        self.has_reached |= isinstance(error, ConnectionResetError | KafkaConnectionError)
        if (refusal := refusal_of(error, self._caller)) is not None:
            self._refusing[place] = refusal
            if not any(session.connected() for session in self._sessions):
                self._end_in(REFUSED_S)

    @property
    def has_been_cut(self) -> bool:
        """True if a broker has closed an open connection: it may have restarted."""
        return self._was_cut or any(session.has_ended for session in self._sessions)

    def cut(self) -> None:
        """Records that a broker closed a connection, and ends the wait if the transaction is lost."""
        self._was_cut = True
        if self.is_lost:
            self._end_in(0)

    @property
    def is_lost(self) -> bool:
        """True if a connection was lost before the brokers knew of the transaction, which must then not continue.

        A restarted broker may have forgotten the previous transaction's markers. The records of this transaction would
        then join that one, and an abort would undo both.
        """
        return self._was_cut and self._is_beginning

    def require(self) -> None:
        """Raises KafkaConnectionError if `is_lost`: nothing may be sent."""
        if self.is_lost:
            raise KafkaConnectionError("a connection was cut before the transaction began")

    def answered(self, answer: Any) -> None:
        """Records from a broker's answer whether the transaction has begun, and for how long a quota throttles."""
        if isinstance(answer, AddPartitionsToTxnResponse_v0):
            self._is_beginning &= all(code for _, partitions in answer.errors for _, code in partitions)
        if throttle_ms := getattr(answer, "throttle_time_ms", 0):
            self._throttle_ms = throttle_ms
            self._throttled_until = now_s() + throttle_ms / 1000

    @property
    def is_throttled(self) -> bool:
        """True if a quota has throttled this client since the transaction began."""
        return self._throttled_until > self._began

    def refusal(self, error: BaseException) -> Refusal | None:
        """Returns the refusal that caused an error of this client, or None if no refusal did."""
        found = refusal_of(error, self._caller)
        # A plain KafkaError only wraps another error; specific errors are subclasses.
        if found is None and type(error) in (TimeoutError, KafkaConnectionError, KafkaError):
            return next(iter(self._refusing.values()), None)
        return found

    def quota(self) -> str:
        """Returns a line that describes the throttling quota and how to raise it."""
        client = f"{self._caller}, client id {self._caller.client_id}" if self._caller.client_id else self._caller
        return (
            f"quota: brokers hold {client} back, for {self._throttle_ms} ms at a time: raise its producer_byte_rate or "
            "request_percentage, or write less"
        )

    def _end_in(self, wait_s: float) -> None:
        """Shortens the current wait to at most `wait_s` from now."""
        if self._limit is not None and not self._limit.expired():
            sooner = now_s() + wait_s
            self._limit.reschedule(min(self._limit.when() or sooner, sooner))
