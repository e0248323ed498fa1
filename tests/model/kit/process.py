"""A gateway as walks know it: one process after another on one ledger, which is a list of bytes.

No rule stands here. An append returns when the walk says so: what a call rests on is durable (`flush`), refused
(`refuse`) or lost with the process (`crash`). A second index sees nothing but what became durable (P3).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from oncegate.core.entries.codec import decode, encode
from oncegate.core.entries.kinds import Entry
from oncegate.core.errors import LedgerFull
from oncegate.engine.commit.marks import Marks
from oncegate.engine.commit.proven import answers
from oncegate.engine.deadline import Deadline
from oncegate.engine.recovery.replay import rebuild
from oncegate.engine.requests import ClaimRequest, ClaimResult
from oncegate.engine.usecases.claims import Claims
from oncegate.index.shard import ShardIndex
from oncegate.ports import Mark, OutputChange, Replayed
from oncegate.testing import FakeClock
from tests.model.kit.held import Call, HeldGroupCommit
from tests.model.kit.replies import Broken

KEY_CHECK = bytes(16)


class LoneClaims:
    """Claims that are in no batch, which need no event loop."""

    def __init__(self, claims: Claims) -> None:
        self.journal = claims.journal
        self._claims = claims

    @answers("claim")
    async def claim(self, request: ClaimRequest, deadline: Deadline) -> ClaimResult:
        lease_ms = self.journal.limits.lease_of(request.lease_ms)
        deadline.check()
        return await self._claims.alone(request, lease_ms, deadline)


class Process(ABC):
    """`position`: of the last durable entry. `index`: as the process that lives has it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.position = 0
        self._entries: list[Replayed] = []
        self._calls: list[Call] = []
        self._twin = self.new_index()

    def begin(self, entries: Sequence[Entry]) -> None:
        """The first entries of the ledger, and the first process on it."""
        self._keep([encode(entry) for entry in entries])
        self._restart()

    def _restart(self) -> None:
        self.index = self.replayed()
        self.group_commit = HeldGroupCommit(self.position)
        self.start()

    @abstractmethod
    def new_index(self) -> ShardIndex:
        """An empty one."""

    @abstractmethod
    def start(self) -> None:
        """Make the use cases over `index` and `group_commit`, which are a new process's."""

    @abstractmethod
    def told(self, index: ShardIndex) -> object:
        """Everything that entries make, leases aside."""

    def write(self, output: OutputChange) -> None:
        """What an append that returned brings with its entries."""
        raise AssertionError(f"nothing here writes {output}")

    def began(self, call: Call) -> Call:
        """A call whose answer may have to wait for what it rests on."""
        if not call.ended:
            self._calls.append(call)
        return call

    # What becomes of an append.

    def flush(self) -> None:
        """The append returned: everything taken so far is durable, and said."""
        pending, self.group_commit.pending = self.group_commit.pending, []
        for change in pending:
            self._keep(change.entries)
            for output in change.outputs:
                self.write(output)
            change.settle()
        self.group_commit.durable_position = self.position
        self._compare()
        for call in self._waiters():
            call.go_on()
            self.began(call)

    def _keep(self, bodies: Sequence[bytes]) -> None:
        """Durable, and folded in by a second index that never saw anything else."""
        for body in bodies:
            self.position += 1
            self._entries.append(self._replayed(body))
            _, settle = self._twin.apply(self.position, decode(body), self.clock.monotonic_ms())
            settle()

    def _replayed(self, body: bytes) -> Replayed:
        return Replayed(self.position, body, Mark(KEY_CHECK, self.position, bytes(8)))

    def compact(self) -> None:
        """The index as it is, nothing pending, replaces the entries that made it; a start tells whether it does."""
        assert not self.group_commit.pending, "collected between two appends"
        self._entries = [self._replayed(encode(saved)) for saved in self.index.snapshot()]

    def refuse(self) -> None:
        """The ledger wrote nothing and said so: the callers are told."""
        self.group_commit.take_back()
        self._compare()
        for call in self._waiters():
            call.fail(LedgerFull("no room"))

    def crash(self) -> None:
        """The process dies and starts again on what is durable; nobody waiting is answered."""
        for call in self._waiters():
            call.die()
        self._restart()
        self._compare()

    def _waiters(self) -> list[Call]:
        calls, self._calls = self._calls, []
        return calls

    def replayed(self) -> ShardIndex:
        """The index that a new process has, from the ledger's bytes alone."""
        index, marks = self.new_index(), Marks(KEY_CHECK)
        rebuild(index, [self._entries], marks, KEY_CHECK, self.clock.monotonic_ms())
        return index

    def _compare(self) -> None:
        """P3: what is durable, folded in as it came, is the index; after a start, the replay is."""
        live, twin = self.told(self.index), self.told(self._twin)
        if live != twin:
            raise Broken("P3", f"index {live}, replay {twin}")
