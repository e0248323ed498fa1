"""A gateway as walks know it: one process after another on one ledger, which is a list of bytes.

This file contains no rule. The walk decides when an append returns: its entries become durable (`flush`), are refused
(`refuse`) or are lost with the process (`crash`). A second index applies only durable entries (P3).
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
from tests.model.kit.manual_commit import Call, ManualGroupCommit
from tests.model.kit.replies import Broken

KEY_CHECK = bytes(16)


class LoneClaims:
    """Claims outside batches, which need no event loop."""

    def __init__(self, claims: Claims) -> None:
        self.journal = claims.journal
        self._claims = claims

    @answers("claim")
    async def claim(self, request: ClaimRequest, deadline: Deadline) -> ClaimResult:
        lease_ms = self.journal.limits.lease_of(request.lease_ms)
        deadline.check()
        return await self._claims.alone(request, lease_ms, deadline)


class Process(ABC):
    """A process. `position`: of the last durable entry. `index`: that of the living process."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.position = 0
        self._entries: list[Replayed] = []
        self._calls: list[Call] = []
        self._twin = self.new_index()

    def begin(self, entries: Sequence[Entry]) -> None:
        """Writes the first entries of the ledger and starts the first process."""
        self._keep([encode(entry) for entry in entries])
        self._restart()

    def _restart(self) -> None:
        self.index = self.replayed()
        self.group_commit = ManualGroupCommit(self.position)
        self.start()

    @abstractmethod
    def new_index(self) -> ShardIndex:
        """Returns an empty index."""

    @abstractmethod
    def start(self) -> None:
        """Creates the use cases over `index` and `group_commit` for a new process."""

    @abstractmethod
    def state_of(self, index: ShardIndex) -> object:
        """Returns everything that entries determine, leases excluded."""

    def write(self, output: OutputChange) -> None:
        """Applies an output of a successful append."""
        raise AssertionError(f"nothing here writes {output}")

    def began(self, call: Call) -> Call:
        """Registers a call whose answer may have to wait for durability."""
        if not call.ended:
            self._calls.append(call)
        return call

    # Outcomes of an append.

    def flush(self) -> None:
        """Lets the append return: everything submitted so far becomes durable and is answered."""
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
        """Makes entries durable and applies them to the second index, which never sees anything else."""
        for body in bodies:
            self.position += 1
            self._entries.append(self._replayed(body))
            _, settle = self._twin.apply(self.position, decode(body), self.clock.monotonic_ms())
            settle()

    def _replayed(self, body: bytes) -> Replayed:
        return Replayed(self.position, body, Mark(KEY_CHECK, self.position, bytes(8)))

    def compact(self) -> None:
        """Replaces the entries by a snapshot of the index, with nothing pending; the next start verifies it."""
        assert not self.group_commit.pending, "collected between two appends"
        self._entries = [self._replayed(encode(saved)) for saved in self.index.snapshot()]

    def refuse(self) -> None:
        """Lets the ledger refuse the append with nothing written; the callers get the error."""
        self.group_commit.take_back()
        self._compare()
        for call in self._waiters():
            call.fail(LedgerFull("no room"))

    def crash(self) -> None:
        """Kills the process and restarts it on the durable entries. Waiting callers get no answer."""
        for call in self._waiters():
            call.die()
        self._restart()
        self._compare()

    def _waiters(self) -> list[Call]:
        calls, self._calls = self._calls, []
        return calls

    def replayed(self) -> ShardIndex:
        """Returns the index that a new process builds from the ledger alone."""
        index, marks = self.new_index(), Marks(KEY_CHECK)
        rebuild(index, [self._entries], marks, KEY_CHECK, self.clock.monotonic_ms())
        return index

    def _compare(self) -> None:
        """Checks P3: the durable entries, applied one by one or replayed, give the index."""
        live, twin = self.state_of(self.index), self.state_of(self._twin)
        if live != twin:
            raise Broken("P3", f"index {live}, replay {twin}")
