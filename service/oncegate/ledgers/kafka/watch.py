"""Watches one aiokafka client for what brokers refuse, and ends its waits for what cannot come.

aiokafka logs why it cannot connect and retries until a deadline passes, whose TimeoutError says nothing. It hides
throttling by a quota, and that a broker ends its session. A `Watch` keeps all three.
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

# For how long brokers that all refuse are asked again: a user that was made just now is known to each a little later.
REFUSED_S = 1.0
# Of a session, how much may be over when a transaction begins (connections.max.reauth.ms). What is left has to last for
# the transaction: a commit that meets the session's end is in doubt.
SESSION_PART = 0.5


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Bounds what is waited for.

    `send_ms`: for the next batch to be answered. `transaction_ms`: the broker's own, and longer than both others: what
    is sent has all of it but the time to commit, for as long as batches are answered.
    """

    start_ms: int = 30_000
    send_ms: int = 20_000
    commit_ms: int = 10_000
    transaction_ms: int = 60_000

    def __post_init__(self) -> None:
        """Raises ValueError where the broker would abort what is still waited for."""
        if self.transaction_ms <= self.send_ms + self.commit_ms:
            raise ValueError("transaction_ms must be longer than send_ms and commit_ms together")

    @property
    def sending_ms(self) -> int:
        """Tells how long one transaction may be sent at most."""
        return self.transaction_ms - self.commit_ms


DEFAULT_DEADLINES = Deadlines()


class Watch:
    """Keeps what brokers refuse to one client, and the waits that end by it; `settings`: aiokafka's arguments.

    `needs`: the rights on topics that what the client does takes.
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
        """Forgets refusals, and closes sessions that end soon: a transaction begins."""
        self._began = now_s()
        self._refusing: dict[tuple[str, int], Refusal] = {}
        # Whether some broker was reached, whatever it said then.
        self.has_reached = False
        # Until brokers know of a partition of the transaction.
        self._is_beginning = True
        for session in list(self._sessions):
            # aiokafka makes another one where it needs it.
            if session.until <= self._began:
                session.close()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Raises BrokersRefuse instead of an error caused by a refusal; other errors pass."""
        try:
            yield
        except (KafkaError, OSError) as error:
            if (refusal := self.refusal(error)) is None or isinstance(error, BrokersRefuse):
                raise
            raise BrokersRefuse(str(refusal)) from error

    @asynccontextmanager
    async def until(self, until: float) -> AsyncIterator[None]:
        """Raises TimeoutError at this time of the loop, or earlier where it is known that brokers refuse."""
        self._until = until
        try:
            async with asyncio.timeout_at(until) as self._limit:
                if self.is_lost:
                    self._end_in(0)
                yield
        finally:
            self._limit = None

    def goes_on(self, wait_s: float, last: float) -> None:
        """Extends the wait, but not beyond `last`: a batch was answered."""
        if self._limit is not None and not self._limit.expired():
            self._until = min(now_s() + wait_s, last)
            self._limit.reschedule(self._until)

    def connected(self, place: tuple[str, int], session: Any) -> None:
        """Records an open connection."""
        self.has_reached = True
        session.watch = self
        self._sessions.add(session)
        self._refusing.pop(place, None)
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self._until)

    def not_connected(self, place: tuple[str, int], error: BaseException) -> None:
        """Records a failed connection attempt; waits end once no broker accepts this client."""
        # A port that nobody listens on, and a name without a host, are other errors.
        self.has_reached |= isinstance(error, ConnectionResetError | KafkaConnectionError)
        if (refusal := refusal_of(error, self._caller)) is not None:
            self._refusing[place] = refusal
            if not any(session.connected() for session in self._sessions):
                self._end_in(REFUSED_S)

    @property
    def has_been_cut(self) -> bool:
        """Whether an open connection has ended, and not by this side: its broker may have been started again."""
        return self._was_cut or any(session.has_ended for session in self._sessions)

    def cut(self) -> None:
        """Records that a broker closed a connection; ends the wait if the transaction cannot go on."""
        self._was_cut = True
        if self.is_lost:
            self._end_in(0)

    @property
    def is_lost(self) -> bool:
        """Whether a connection was cut before brokers knew of the transaction, which must not go on then.

        A restarted broker may have forgotten the markers of the last transaction: records of this one would join its
        records as one transaction, and an abort would undo both.
        """
        return self._was_cut and self._is_beginning

    def require(self) -> None:
        """Raises KafkaConnectionError if `is_lost`: nothing may be sent."""
        if self.is_lost:
            raise KafkaConnectionError("a connection was cut before the transaction began")

    def answered(self, answer: Any) -> None:
        """Records an answer of a broker, and for how long a quota throttles this client."""
        if isinstance(answer, AddPartitionsToTxnResponse_v0):
            self._is_beginning &= all(code for _, partitions in answer.errors for _, code in partitions)
        if throttle_ms := getattr(answer, "throttle_time_ms", 0):
            self._throttle_ms = throttle_ms
            self._throttled_until = now_s() + throttle_ms / 1000

    @property
    def is_throttled(self) -> bool:
        """Whether a quota has throttled this client since the transaction began."""
        return self._throttled_until > self._began

    def refusal(self, error: BaseException) -> Refusal | None:
        """Returns the refusal that caused an error of this client; None: the error speaks for itself."""
        found = refusal_of(error, self._caller)
        # KafkaError itself stands around another error; those that say more are subclasses.
        if found is None and type(error) in (TimeoutError, KafkaConnectionError, KafkaError):
            return next(iter(self._refusing.values()), None)
        return found

    def quota(self) -> str:
        """Describes in one line how a quota throttles this client, and how to raise it."""
        client = f"{self._caller}, client id {self._caller.client_id}" if self._caller.client_id else self._caller
        return (
            f"quota: brokers hold {client} back, for {self._throttle_ms} ms at a time: raise its producer_byte_rate or "
            "request_percentage, or write less"
        )

    def _end_in(self, wait_s: float) -> None:
        """Ends the current wait after this time, if not earlier."""
        if self._limit is not None and not self._limit.expired():
            sooner = now_s() + wait_s
            self._limit.reschedule(min(self._limit.when() or sooner, sooner))
