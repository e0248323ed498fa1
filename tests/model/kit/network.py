"""A network that loses, delays and doubles, between actors and a gateway whose ledger refuses and which dies.

Chance alone decides here, and in a fixed order: what a walk's seed means stays the same.
"""

import random
from abc import ABC, abstractmethod
from typing import Any

from tests.model.kit.process import Process

# How often an answer gets to its client; how often an append ends at once, and how often it is refused.
HEARD, ENDED_AT_ONCE, REFUSED = 0.9, 0.7, 0.06


class Network(ABC):
    """`late`, `doubled`: how often a request comes later than its client waits for, or a second time."""

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
        """The gateway meets a request: what is known of it then, and later what came of it."""

    @abstractmethod
    def heard(self, said: Any) -> None:
        """It was answered: every answer is looked at, whether its client hears it or not."""

    @abstractmethod
    def shown(self, said: Any) -> str:
        """What came of it, in a word."""

    @abstractmethod
    def restarted(self) -> None:
        """A new process serves."""

    @abstractmethod
    def read(self, actor: Any, said: Any) -> None:
        """An actor looks whether its request was answered; where not, it gives the answer up."""

    def refuse(self) -> None:
        """The ledger refuses what is pending."""
        self.gateway.refuse()

    def note(self, line: str) -> None:
        self.trace.append(line)

    def handle(self, request: Any) -> Any:
        """One request, and whatever is answered by now."""
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
        """The append returned, and whoever waited for it is answered."""
        self.gateway.flush()
        self._hear()

    def send(self, actor: Any, request: Any) -> None:
        chance = self.rng.random()
        if chance < self._late + self._doubled:
            self._delayed.append(request)
        if chance < self._late:
            self.note(f"{request} [delayed]")
            return
        said = self.handle(request)
        self.note(f"{request} -> {self.shown(said)}")
        if chance < HEARD:
            self._waiting[actor.name] = said
        if self.rng.random() < ENDED_AT_ONCE:
            self.end_append()

    def deliver_late(self) -> None:
        """Some request that was delayed, or the copy of one."""
        request = self._delayed.pop(self.rng.randrange(len(self._delayed)))
        self.note(f"late: {request} -> {self.shown(self.handle(request))}")

    def reads(self, actor: Any) -> bool:
        """Whether it still waits; an answer that came is taken, one that it gives up is sent for again."""
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
        """What is pending is lost with the process; or it is durable and only its answers are lost, and the ledger may
        have been collected."""
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
        """From here on nothing is lost: nobody waits for what he asked before."""
        self.note(line)
        self._waiting = {}
        self.flush()
