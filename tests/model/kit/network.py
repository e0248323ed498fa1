"""A network that loses, delays and duplicates messages between actors and a gateway that refuses and dies.

Only the random source decides here, in a fixed order, so that a seed always gives the same walk.
"""

import random
from abc import ABC, abstractmethod
from typing import Any

from tests.model.kit.process import Process

# Probabilities: a client reads an answer; an append ends at once; it is refused.
HEARD, ENDED_AT_ONCE, REFUSED = 0.9, 0.7, 0.06


class Network(ABC):
    """A lossy network. `late`, `doubled`: probability that a request arrives after its client's timeout, or twice."""

    gateway: Process

    def __init__(self, rng: random.Random, late: float, doubled: float) -> None:
        self.rng, self._late, self._doubled = rng, late, doubled
        self.trace: list[str] = []
        self._waiting: dict[str, Any] = {}
        self._unheard: list[Any] = []
        self._delayed: list[Any] = []
        self._seq = 0

    @abstractmethod
    def ask(self, request: Any) -> Any:
        """Delivers a request to the gateway and returns its record, whose outcome is set later."""

    @abstractmethod
    def heard(self, said: Any) -> None:
        """Checks an answer, whether its client receives it or not."""

    @abstractmethod
    def shown(self, said: Any) -> str:
        """Describes the outcome in a word."""

    @abstractmethod
    def restarted(self) -> None:
        """A new process serves."""

    @abstractmethod
    def read(self, actor: Any, said: Any) -> None:
        """Lets an actor read the answer to its request, or give it up if there is none."""

    def refuse(self) -> None:
        """Lets the ledger refuse the pending changes."""
        self.gateway.refuse()

    def note(self, line: str) -> None:
        self.trace.append(line)

    def handle(self, request: Any) -> Any:
        """Handles a request and all answers that are ready."""
        self._seq += 1
        said = self.ask(request)
        self._unheard.append(said)
        self._hear()
        return said

    def _hear(self) -> None:
        ended = [said for said in self._unheard if said.call.ended]
        self._unheard = [said for said in self._unheard if not said.call.ended]
        for said in ended:
            self.heard(said)

    def flush(self) -> None:
        """Lets the append return and answers the waiting requests."""
        self.gateway.flush()
        self._hear()

    def send(self, actor: Any, request: Any) -> None:
        chance = self.rng.random()
        if chance < self._late + self._doubled:
            self._delayed.append(request)
        if chance < self._late:
            self.note(f"{request} [delayed]")
            return
        reply = self.handle(request)
        self.note(f"{request} -> {self.shown(reply)}")
        if chance < HEARD:
            self._waiting[actor.name] = reply
        if self.rng.random() < ENDED_AT_ONCE:
            self.end_append()

    def deliver_late(self) -> None:
        """Delivers a delayed request, or the copy of one."""
        request = self._delayed.pop(self.rng.randrange(len(self._delayed)))
        self.note(f"late: {request} -> {self.shown(self.handle(request))}")

    def reads(self, actor: Any) -> bool:
        """Returns whether the actor still waits. An answer that has arrived is read; a request that it gives up is
        repeated."""
        said = self._waiting.get(actor.name)
        if said is None:
            return False
        if not said.call.ended and self.rng.random() < HEARD:
            return True
        del self._waiting[actor.name]
        self.read(actor, said)
        return False

    def end_append(self) -> None:
        if self.rng.random() < REFUSED and self.gateway.group_commit.pending:
            self.note("the append is refused")
            self.refuse()
            self._hear()
        else:
            self.flush()

    def crash(self) -> None:
        """Kills the process. The pending changes are lost, or they are durable and only the answers are lost. The
        ledger may have been compacted before."""
        if self.rng.random() < 0.5:
            self.flush()
            if self.rng.random() < 0.5:
                self.gateway.compact()
                self.note("collected")
        self.note("crash and replay")
        self._waiting, self._unheard = {}, []
        self.gateway.crash()
        self.restarted()

    def last_alone(self, line: str) -> None:
        """Ends all losses: nothing asked before is awaited any more."""
        self.note(line)
        self._waiting = {}
        self.flush()
