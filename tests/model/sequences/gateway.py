"""The gateway of the walk of producers: the shipped use cases over the shipped index and tables.

No rule stands here. The ledger is a list of bytes, and an append returns when the walk says so: what a call rests on is
durable (`flush`), refused (`refuse`) or lost with the process (`crash`).
"""

from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

from oncegate.core.encoding import decode, encode
from oncegate.core.entries import Opened
from oncegate.core.errors import LedgerFull
from oncegate.engine.claims import Claims
from oncegate.engine.deadline import Deadline
from oncegate.engine.drivers import Drivers
from oncegate.engine.journal import Journal
from oncegate.engine.limits import Limits
from oncegate.engine.marks import Marks
from oncegate.engine.producers import Producers
from oncegate.engine.shard import Shard
from oncegate.engine.state import ShardIndex, rebuild
from oncegate.index.claims import ClaimIndex, Widths
from oncegate.index.fingerprints import FUNCTION
from oncegate.index.producer_saving import save
from oncegate.ports import Mark, Replayed
from oncegate.testing import FakeClock
from tests.model.gateway import Broken
from tests.model.held import Call, HeldCommitter

KEY_CHECK = bytes(16)
LIMITS = Limits()
# Few slots, so that each can be looked at after every append.
SMALL = Widths(capacity=8, segments=2)
# The shortest lease that is given: walks need not pass much time.
LEASE_MS = LIMITS.lease_ms_min


class Gateway:
    """One process after another on one ledger; `forgetful` is done to each new index, for rules that are left out."""

    def __init__(
        self, clock: FakeClock, random: Callable[[int], bytes], forgetful: Callable[[ShardIndex], None] | None = None
    ) -> None:
        self._clock, self._random, self._forgetful = clock, random, forgetful
        self.position = 0
        self._entries: list[Replayed] = []
        self._calls: list[Call] = []
        self._twin = self._new_index()
        self._keep([encode(Opened(1, FUNCTION, KEY_CHECK, clock.wall_ms()))])
        self._start()

    def _new_index(self) -> ShardIndex:
        index = ShardIndex(ClaimIndex(SMALL))
        if self._forgetful is not None:
            self._forgetful(index)
        return index

    def _start(self) -> None:
        self.index = self.replayed()
        committer: Any = HeldCommitter(self.position)
        self.committer: HeldCommitter = committer
        observer: Any = SimpleNamespace(event=lambda *_, **__: None)
        journal = Journal("model", self.index, committer, self._clock, observer, LIMITS, self._random)
        shard: Any = SimpleNamespace(committer=committer)
        producers, drivers, claims = Producers(journal), Drivers(journal), Claims(journal)
        uses: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
            "register_driver": drivers.register,
            "ack": drivers.ack,
            "register": producers.register,
            "claim": producers.claim,
            "settle": producers.settle,
            "claim_ids": claims.claim,
            "settle_ids": claims.settle,
        }
        self._verbs = {name: Shard._refusing_when_durable(shard, use) for name, use in uses.items()}
        self._close = Shard._refusing_when_durable(shard, producers.close)

    def call(self, verb: str, *given: Any) -> Call:
        """Begin what a request asks for."""
        steps: Any = self._close(*given) if verb == "close" else self._verbs[verb](*given, Deadline(self._clock))
        call = Call(steps)
        if not call.ended:
            self._calls.append(call)
        return call

    # What becomes of an append.

    def flush(self) -> None:
        """The append returned: everything taken so far is durable, and said."""
        pending, self.committer.pending = self.committer.pending, []
        for change in pending:
            self._keep(change.entries)
            change.settle()
        self.committer.durable_position = self.position
        self._compare()
        for call in self._waiters():
            call.go_on()
            if not call.ended:
                self._calls.append(call)

    def _keep(self, bodies: Sequence[bytes]) -> None:
        """Durable, and folded in by a second index that never saw anything else."""
        for body in bodies:
            self.position += 1
            self._entries.append(self._replayed(body))
            _, settle = self._twin.apply(self.position, decode(body), self._clock.monotonic_ms())
            settle()

    def _replayed(self, body: bytes) -> Replayed:
        return Replayed(self.position, body, Mark(KEY_CHECK, self.position, bytes(8)))

    def collect(self) -> None:
        """The index as it is, nothing pending, replaces the entries that made it; a start tells whether it does."""
        assert not self.committer.pending, "collected between two appends"
        self._entries = [self._replayed(encode(saved)) for saved in self.index.save()]

    def refuse(self) -> None:
        """The ledger wrote nothing and said so: the callers are told."""
        self.committer.take_back()
        self._compare()
        for call in self._waiters():
            call.fail(LedgerFull("no room"))

    def crash(self) -> None:
        """The process dies and starts again on what is durable; nobody waiting is answered."""
        for call in self._waiters():
            call.die()
        self._start()
        self._compare()

    def _waiters(self) -> list[Call]:
        calls, self._calls = self._calls, []
        return calls

    # What the checks look at.

    def replayed(self) -> ShardIndex:
        """The index that a new process has, from the ledger's bytes alone."""
        index, marks = self._new_index(), Marks(KEY_CHECK)
        ledger: Any = SimpleNamespace(replay=lambda _: iter(self._entries))
        rebuild(index, ledger, marks, KEY_CHECK, self._clock.monotonic_ms())
        return index

    def _compare(self) -> None:
        """P3: what is durable, folded in as it came, is the index; after a start, the replay is."""
        live, twin = told(self.index), told(self._twin)
        if live != twin:
            raise Broken("P3", f"index {live}, replay {twin}")

    @property
    def takeovers(self) -> int:
        """Of ids and sequences, with what is still pending: who was granted has not been told yet."""
        return self.index.claims.takeovers + self.index.producers.takeovers


def told(index: ShardIndex) -> object:
    """Everything that entries make, leases aside."""
    saved = save(index.producers)
    producers = {
        str(one.values["name"]): (_lasting(one.values), one.past, one.token, one.held) for one in saved.producers
    }
    calls = [sorted((number, str(call)) for number, call in one.calls) for one in saved.producers]
    drivers = {one.name: one for one in saved.drivers}
    batches = {name: index.claims.scopes.open_ids(name, 1 << 62) for name in drivers}
    return producers, calls, drivers, saved.takeovers, index.claims.snapshot(), batches


def _lasting(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "lease_ms"}
