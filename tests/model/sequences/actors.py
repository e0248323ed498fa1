"""Attempts of tasks, as a client behaves: each asks until every row of its lane's slice is done.

Attempts know only the replies that they have received. `wrong`: rules that they ignore, to see what breaks.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oncegate.core.claims import Verb
from oncegate.core.errors import Fenced, OncegateError, ProducerBusy
from oncegate.core.producers import Gaps
from oncegate.core.verdicts import BY_BYTE, Verdict
from oncegate.engine.producer_requests import AckRequest, ProducerRequest, ProducerResult, SequenceSettled
from oncegate.engine.requests import ClaimRequest, ClaimResult, Scope, SequenceRequest, SettleResult
from tests.model.sequences.gateway import LEASE_MS

DRIVER = "d"
Write = Callable[["Attempt", int], None]


@dataclass(frozen=True)
class Request:
    """A message. `given`: the arguments of the use case."""

    sender: str
    verb: str
    given: tuple[Any, ...]

    def __str__(self) -> str:
        ask = self.given[0]
        if isinstance(ask, SequenceRequest):
            after = "" if ask.prev_sequence is None else f" after {ask.prev_sequence}"
            return f"{self.sender} claim#{ask.call} epoch {ask.epoch} {ask.sequences.tolist()}{after}"
        if isinstance(ask, ClaimRequest):
            return f"{self.sender} claims {len(ask.ids)} ids in batch {ask.scope.batch if ask.scope else None}"
        if isinstance(ask, AckRequest):
            return f"{self.sender} acks {dict(ask.upto)} batch {ask.batch} epoch {ask.epoch}"
        return f"{self.sender} {self.verb} {[part for part in self.given if not isinstance(part, bytes)]}"


@dataclass(frozen=True)
class Task:
    """A lane's slice of a batch; `rows`: its sequences, in the order of the source."""

    lane: str
    batch: int
    rows: tuple[int, ...]


@dataclass
class Attempt(ABC):
    """An attempt. `granted`: the rows of each open claim. `driver_epoch`: that of its driver."""

    name: str
    token: bytes
    task: Task
    refusing: float
    driver_epoch: int
    wrong: frozenset[str] = frozenset()
    pending: Request | None = None
    granted: dict[Any, list[int]] = field(default_factory=dict)
    wrote: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    failed: bool = False
    alive: bool = True
    green: bool = False

    @property
    def trying(self) -> bool:
        return self.alive and not self.green

    def next(self, rng: random.Random, write: Write) -> Request | None:
        """Returns the next request, or writes a row instead. A request without a reply is repeated unchanged."""
        if self.trying and self.pending is None:
            self.pending = self._work(rng, write)
        return self.pending if self.trying else None

    def _work(self, rng: random.Random, write: Write) -> Request | None:
        if (first := self._begin()) is not None:
            return first
        for claim, rows in self.granted.items():
            unwritten = [row for row in rows if row not in self.wrote]
            if not unwritten:
                return self._settling(Verb.COMPLETE, claim)
            if rng.random() < self.refusing:
                return self._give_back(claim)
            if rng.random() < 0.8:
                self.wrote.add(unwritten[0])
                write(self, unwritten[0])
                return None
            if rng.random() < 0.3:
                return self._settling(Verb.RENEW, claim)
        held = {row for rows in self.granted.values() for row in rows}
        needed = [row for row in self.task.rows if row not in self.settled and row not in held]
        return self._ask(needed, rng) if needed and not self.failed else self._end()

    def _give_back(self, claim: Any) -> Request | None:
        """Releases the claim of a refused row, unless another row of it went to the sink: then the next attempt takes
        over."""
        self.failed = True
        if set(self.granted[claim]) & self.wrote:
            self.alive = False
            return None
        return self._settling(Verb.RELEASE, claim)

    def finish(self) -> bool:
        """Returns True if it has just turned green. A failed attempt dies when nothing is left to clean up."""
        if not self.trying or self.pending is not None:
            return False
        if self.failed:
            self.alive = bool(self.granted)
            return False
        self.green = set(self.task.rows) <= self.settled and self._may_end()
        return self.green

    def take(self, reply: object) -> None:
        """Processes a reply. A non-retryable refusal ends the attempt, which never counts as success (R11)."""
        request, self.pending = self.pending, None
        assert request is not None
        if isinstance(reply, OncegateError):
            self._refused(reply)
        elif isinstance(reply, ClaimResult):
            self._take_verdicts(request, reply)
        elif isinstance(reply, SequenceSettled | SettleResult):
            self._take_settling(request, reply)
        else:
            self._take_other(reply)

    def _refused(self, error: OncegateError) -> None:
        name = "fenced is success" if isinstance(error, Fenced) else "busy is success"
        if name in self.wrong and isinstance(error, Fenced | ProducerBusy):
            self.green = True
        elif not isinstance(error, ProducerBusy):
            self.alive = False

    def _take_verdicts(self, request: Request, answer: ClaimResult) -> None:
        for row, byte in zip(self._asked(request), answer.verdicts.tolist(), strict=True):
            verdict = BY_BYTE[byte].verdict
            if verdict in (Verdict.DUPLICATE, Verdict.STALE) or (
                verdict is Verdict.BUSY and "busy is success" in self.wrong
            ):
                self.settled.add(row)
            elif verdict is Verdict.GRANTED:
                rows = self.granted.setdefault(self._claim_of(request, answer), [])
                rows += [row] if row not in rows else []

    def _take_settling(self, request: Request, answer: SequenceSettled | SettleResult) -> None:
        verb = request.given[0]
        if verb is Verb.RENEW:
            return
        rows = self.granted.pop(self._claim_named(request), [])
        taken_over = answer.taken_over if isinstance(answer, SettleResult) else 0
        if verb is Verb.COMPLETE and not taken_over:
            self.settled |= set(rows)
        self.wrote -= set(rows)

    # The parts that differ between sequences and ids.

    @abstractmethod
    def _begin(self) -> Request | None: ...

    @abstractmethod
    def _end(self) -> Request | None: ...

    @abstractmethod
    def _may_end(self) -> bool: ...

    @abstractmethod
    def _ask(self, needed: list[int], rng: random.Random) -> Request: ...

    @abstractmethod
    def _settling(self, verb: Verb, claim: Any) -> Request: ...

    @abstractmethod
    def _asked(self, request: Request) -> Sequence[int]: ...

    @abstractmethod
    def _claim_of(self, request: Request, answer: ClaimResult) -> Any: ...

    @abstractmethod
    def _claim_named(self, request: Request) -> Any: ...

    @abstractmethod
    def _take_other(self, reply: object) -> None: ...


@dataclass
class OfSequences(Attempt):
    """Registers its lane, claims a row or two at a time, in order, with the previous one if it has seen it, and closes.

    gaps: REFUSE if its source has no gaps; then the previous row is optional. skipping: probability that its source
    skips a row; the attempt then dies, whatever the answer.
    """

    gaps: Gaps = Gaps.ALLOW
    skipping: float = 0.0
    epoch: int | None = None
    call: int = -1
    closed: bool = False

    def _begin(self) -> Request | None:
        if self.epoch is not None:
            return None
        ask = ProducerRequest(self.task.lane, self.token, DRIVER, LEASE_MS, self.gaps)
        return Request(self.name, "register", (ask,))

    def _end(self) -> Request | None:
        if self.closed or self.granted:
            return None
        self.closed = True
        return Request(self.name, "close", (self.task.lane, self.epoch, self.token))

    def _may_end(self) -> bool:
        return self.closed

    def _ask(self, needed: list[int], rng: random.Random) -> Request:
        self.call += 1
        rows, chunk = self.task.rows, needed[: rng.randrange(1, 3)]
        place = rows.index(chunk[0])
        prev = rows[place - 1] if place and self.gaps is Gaps.ALLOW else None
        if self.skipping and len(needed) > 1 and rng.random() < self.skipping:
            # The first claim of a lane may begin anywhere; in other claims it skips a row in between.
            begins = self.task.batch > 0 and rng.random() < 0.5
            chunk, self.failed = needed[1:2] if begins else needed[:1] + needed[2:3], True
        wanted = np.array(chunk, np.uint64)
        ask = SequenceRequest(self.task.lane, self.epoch or 0, self.token, self.call, wanted, prev)
        return Request(self.name, "claim", (ask,))

    def _settling(self, verb: Verb, claim: Any) -> Request:
        return Request(self.name, "settle", (verb, self.task.lane, self.epoch, self.token, claim))

    def _asked(self, request: Request) -> Sequence[int]:
        found: list[int] = request.given[0].sequences.tolist()
        return found

    def _claim_of(self, request: Request, answer: ClaimResult) -> Any:
        return request.given[0].call

    def _claim_named(self, request: Request) -> Any:
        return request.given[4]

    def _take_other(self, reply: object) -> None:
        if isinstance(reply, ProducerResult):
            self.epoch = reply.epoch


@dataclass
class OfIds(Attempt):
    """Claims the ids of its rows within its batch; BUSY ids are asked for again in a new call."""

    prints: Any = None
    call: int = 0

    def _begin(self) -> Request | None:
        return None

    def _end(self) -> Request | None:
        return None

    def _may_end(self) -> bool:
        return True

    def _ask(self, needed: list[int], rng: random.Random) -> Request:
        self.call += 1
        self._last = needed[: rng.randrange(1, 3)]
        scope = Scope(DRIVER, self.task.batch)
        ask = ClaimRequest(self.token, self.call, self.prints[self._last], LEASE_MS, scope)
        return Request(self.name, "claim_ids", (ask,))

    def _settling(self, verb: Verb, claim: Any) -> Request:
        return Request(self.name, "settle_ids", (verb, claim))

    def _asked(self, request: Request) -> Sequence[int]:
        return self._last

    def _claim_of(self, request: Request, answer: ClaimResult) -> Any:
        return answer.claim

    def _claim_named(self, request: Request) -> Any:
        return request.given[1]

    def _take_other(self, reply: object) -> None:
        raise AssertionError(f"no answer to what it asks: {reply}")
