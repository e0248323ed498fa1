"""The gateway of the walk of producers: the shipped use cases over the shipped index and tables.

This file contains no rule.
"""

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from oncegate.core.entries.kinds import Opened
from oncegate.engine.commit.journal import Journal
from oncegate.engine.deadline import Deadline
from oncegate.engine.limits import Limits
from oncegate.engine.usecases.claims import Claims
from oncegate.engine.usecases.drivers import Drivers
from oncegate.engine.usecases.operations.leftovers import Leftovers
from oncegate.engine.usecases.producers import Producers
from oncegate.hashing.keys import FUNCTION
from oncegate.index.claims.store import Widths
from oncegate.index.shard import ShardIndex
from oncegate.testing import FakeClock
from tests.model.kit.manual_commit import Call
from tests.model.kit.process import KEY_CHECK, LoneClaims, Process
from tests.support.index.claim_index import ClaimIndex, contents
from tests.support.index.producers_saved import saved

LIMITS = Limits()
# Few slots, so that each can be checked after every append.
SMALL = Widths(capacity=8, segments=2)
# The shortest lease, so that walks need not pass much time.
LEASE_MS = LIMITS.lease_ms_min


class Gateway(Process):
    """Answers calls with the use cases of the engine, over its own index."""

    def __init__(self, clock: FakeClock, random: Callable[[int], bytes]) -> None:
        self._random = random
        super().__init__(clock)
        self.begin([Opened(1, FUNCTION, KEY_CHECK, clock.wall_ms())])

    def new_index(self) -> ShardIndex:
        return ShardIndex(ClaimIndex(SMALL))

    def start(self) -> None:
        group_commit: Any = self.group_commit
        observer: Any = SimpleNamespace(event=lambda *_, **__: None)
        journal = Journal("model", self.index, group_commit, self.clock, observer, LIMITS, self._random)
        nothing: Any = None
        producers, drivers, claims = Producers(journal), Drivers(journal), Claims(journal, nothing)
        leftovers = Leftovers(journal)
        self._verbs: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
            "register_driver": drivers.register,
            "ack": drivers.ack,
            "register": producers.register,
            "claim": producers.claim,
            "settle": producers.settle,
            "claim_ids": LoneClaims(claims).claim,
            "settle_ids": claims.settle,
            "resolve": leftovers.of_producer,
            "resolve_claim": leftovers.of_claim,
        }
        self._close = producers.close

    def call(self, verb: str, *given: Any) -> Call:
        """Begins the call of a request."""
        steps: Any = self._close(*given) if verb == "close" else self._verbs[verb](*given, Deadline(self.clock))
        return self.began(Call(steps))

    def state_of(self, index: ShardIndex) -> object:
        known = saved(index.producers)
        producers = {
            str(one.values["name"]): (_lasting(one.values), one.past, one.token, one.held) for one in known.producers
        }
        calls = [sorted((number, str(call)) for number, call in one.calls) for one in known.producers]
        drivers = {one.name: one for one in known.drivers}
        batches = {name: index.claims.scopes.open_claims(name, 1 << 62) for name in drivers}
        return producers, calls, drivers, known.takeovers, contents(index.claims), batches

    @property
    def takeovers(self) -> int:
        """Returns the takeovers of ids and sequences, including pending ones, whose callers have no answer yet."""
        return self.index.claims.takeovers + self.index.producers.takeovers


def _lasting(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "lease_ms"}
