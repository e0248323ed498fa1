"""Actors beside attempts that only claim: producers, and jobs that take."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from oncegate.core.errors import OncegateError
from oncegate.core.verdicts import Verdict
from tests.model.kit.attempt import Attempt, Request
from tests.model.kit.replies import ClaimReply, SettleReply

Reply = ClaimReply | SettleReply | OncegateError


@dataclass
class Producer(Attempt):
    """An attempt that produces the rows it needs. If `mixing`, one in three requests is a claim instead."""

    mixing: bool = False

    def _ask(self, needed: tuple[int, ...], rng: random.Random) -> Request:
        request = super()._ask(needed, rng)
        return request if self.mixing and rng.random() < 0.33 else replace(request, way="produce")

    def _take_verdicts(self, request: Request, reply: ClaimReply) -> None:
        """Reads verdicts. For a produce GRANTED means done: the rows were in the request."""
        if request.way == "claim":
            super()._take_verdicts(request, reply)
            return
        told = (Verdict.DUPLICATE, Verdict.GRANTED)
        self.done |= {i for i, row in reply.verdicts.items() if row.verdict in told}
        for i in [i for i, row in reply.verdicts.items() if row.verdict is Verdict.CONFLICT]:
            self._take_conflict(i)


@dataclass
class Job:
    """A batch job that keeps the first copy of each id: it takes all ids, writes the granted ones, and drops the rest.

    Its owner is its name. A run that died or ended may be run again from the beginning, under the same owner.
    """

    name: str
    token: bytes
    wanted: tuple[int, ...]
    pending: Request | None = None
    told: dict[int, Verdict] = field(default_factory=dict)
    wrote: set[int] = field(default_factory=set)
    alive: bool = True
    green: bool = False

    @property
    def trying(self) -> bool:
        return self.alive and not self.green

    def run_again(self) -> None:
        self.pending, self.told, self.wrote, self.alive, self.green = None, {}, set(), True, False

    def next(self, rng: random.Random, write: Callable[["Job", int], None]) -> Request | None:
        """Returns the next request, or writes a row instead."""
        if not self.trying or self.pending is not None:
            return self.pending if self.trying else None
        mine = [i for i, verdict in self.told.items() if verdict is Verdict.GRANTED and i not in self.wrote]
        if mine and rng.random() < 0.6:
            self.wrote.add(mine[0])
            write(self, mine[0])
            return None
        needed = tuple(i for i in self.wanted if i not in self.told)
        if needed:
            self.pending = Request(self.name, self.token, ids=needed, way="take")
        return self.pending

    def finish(self) -> bool:
        """Returns True if it has just turned green."""
        if not self.trying or self.pending is not None:
            return False
        granted = {i for i, verdict in self.told.items() if verdict is Verdict.GRANTED}
        self.green = set(self.wanted) <= self.told.keys() and granted <= self.wrote
        return self.green

    def take(self, reply: Reply) -> None:
        """Processes a reply; BUSY ids are asked for again."""
        self.pending = None
        if isinstance(reply, OncegateError):
            self.alive = False
        elif isinstance(reply, ClaimReply):
            told = (Verdict.DUPLICATE, Verdict.GRANTED)
            self.told |= {i: row.verdict for i, row in reply.verdicts.items() if row.verdict in told}


Actor = Attempt | Job
