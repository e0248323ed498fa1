"""The driver of a streaming query: it plans batches, runs their tasks, writes the commit log, and acks.

The offset log and the commit log outlive the driver. R9: batch n is acked once its commit log entry exists; `wrong` and
`eager` drivers ack earlier.
"""

from dataclasses import dataclass, field

from oncegate.core.errors import Fenced, OlderBatch, OncegateError
from oncegate.engine.producer_requests import AckRequest, AckResult, DriverRequest, DriverResult
from tests.model.kit.replies import Broken
from tests.model.sequences.actors import DRIVER, Attempt, Request, Task


@dataclass
class Driver:
    """A driver. `attempts`: those of its current batch and older ones that still live. `acks`: the batches to ack."""

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
        """Returns the next request, if any: its registration, then acks, one at a time."""
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
        """Processes the reply to a registration or an ack. An older driver accepts a refusal and continues."""
        request, self.pending = self.pending, None
        assert request is not None
        if isinstance(reply, DriverResult):
            self.epoch = reply.epoch
        elif isinstance(reply, AckResult) and reply.refused and not self.may_be_refused:
            raise Broken("ACK", f"{request} is refused in part: {reply.refused}")
        elif isinstance(reply, OncegateError):
            # An older driver that was still alive has acked a later batch in the meantime, and with it this one.
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
