"""The driver of a streaming query: plans batches, runs their tasks, writes the commit log, acks what it committed.

The offset log and the commit log outlive it. R9: batch n is acked once its commit log entry is there; `wrong` and
`eager` drivers do it earlier.
"""

from dataclasses import dataclass, field

from oncegate.core.errors import Fenced, OlderBatch, OncegateError
from oncegate.engine.producer_requests import AckRequest, AckResult, DriverRequest, DriverResult
from tests.model.kit.replies import Broken
from tests.model.sequences.actors import DRIVER, Attempt, Request, Task


@dataclass
class Driver:
    """`attempts`: of the batch it runs, and older ones that live on. `acks`: what it has still to ack."""

    name: str
    token: bytes
    wrong: frozenset[str] = frozenset()
    epoch: int | None = None
    batch: int | None = None
    pending: Request | None = None
    attempts: list[Attempt] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)
    ended: bool = False
    alive: bool = True
    may_be_refused: bool = False

    @property
    def trying(self) -> bool:
        return self.alive and not (self.ended and not self.acks and self.pending is None)

    def request(self, ends: dict[int, dict[str, int]], eager: bool) -> Request | None:
        """What it sends now, if anything: its registration, then acks, one at a time."""
        if self.pending is None and self.epoch is None:
            self.pending = Request(self.name, "register_driver", (DriverRequest(DRIVER, self.token),))
        elif self.pending is None and self.acks:
            self.pending, self.may_be_refused = self.ack(ends[self.acks[0]], self.acks[0]), False
        elif self.pending is None and eager and self.batch in ends:
            self.pending, self.may_be_refused = self.ack(ends[self.batch or 0], None), True
        return self.pending

    def ack(self, upto: dict[str, int], batch: int | None) -> Request:
        return Request(self.name, "ack", (AckRequest(DRIVER, self.epoch or 0, self.token, tuple(upto.items()), batch),))

    def take(self, reply: object) -> None:
        """A reply to a registration or an ack. What an older driver is refused it notes, and goes on."""
        request, self.pending = self.pending, None
        assert request is not None
        if isinstance(reply, DriverResult):
            self.epoch = reply.epoch
        elif isinstance(reply, AckResult) and reply.refused and not self.may_be_refused:
            raise Broken("ACK", f"{request} is refused in part: {reply.refused}")
        elif isinstance(reply, OncegateError):
            # An older driver that still lived has acked a later batch since, and this one with it.
            if not isinstance(reply, Fenced | OlderBatch) and not self.may_be_refused:
                raise Broken("ACK", f"{request} is refused: {reply}")
            if isinstance(reply, Fenced):
                self.acks, self.alive = [], self.alive and request.verb == "ack"
        if request.verb == "ack" and not self.may_be_refused:
            self.acks = self.acks[1:]

    def of_batch(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.task.batch == self.batch]

    def is_green(self, task: Task) -> bool:
        return any(attempt.green and attempt.task == task for attempt in self.attempts)
