"""A gateway: the shipped engine of lanes over modelled Kafka and a modelled ledger, which a later opening fences."""

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncegate.core.entries.codec import decode
from oncegate.core.errors import LedgerDamaged, LedgerFenced
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.marks import Marks
from oncegate.engine.limits import Limits
from oncegate.engine.usecases.direct.lanes import DirectLanes
from oncegate.index.shard import ShardIndex
from oncegate.ports import LanePlace, Mark, OutputChange, Replayed
from oncegate.testing import FakeClock
from tests.model.direct.kafka import COMMITTED
from tests.support.memory_gateway import Events

if TYPE_CHECKING:
    from tests.model.direct.world import Process, World

LEDGER = bytes(range(16))


@dataclass
class Entries:
    """The ledger: its durable entries and its owner. The newest opening fences all earlier ones."""

    bodies: list[bytes] = field(default_factory=list)
    owner: int = 0

    def mark(self, position: int) -> Mark:
        return Mark(LEDGER, position, position.to_bytes(8, "big"))


class OwnersLedger:
    """`ports.Ledger` of one owner. An append is a step of the world, and is fenced when its turn comes."""

    def __init__(self, world: "World", process: "Process") -> None:
        self._world, self._process = world, process
        self._entries = world.entries
        self._entries.owner += 1
        self._owner = self._entries.owner
        self.mark = self._entries.mark(len(self._entries.bodies))

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        await self._world.turn(self._process, "appends")
        if self._entries.owner != self._owner:
            raise LedgerFenced("another gateway owns this ledger now; nothing was written")
        self._entries.bodies += entries
        self.mark = self._entries.mark(len(self._entries.bodies))
        return self.mark

    def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        raise NotImplementedError

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        raise NotImplementedError


class Records:
    """`ports.DirectRecords` of one owner. Reads and trims are steps of the world."""

    partitions = 1

    def __init__(self, world: "World", process: "Process") -> None:
        self._world, self._process, self._kafka = world, process, world.kafka

    def place(self, lane: int, partition: int) -> LanePlace:
        return LanePlace(LEDGER, "brokers", "direct", partition, f"lane-{lane}")

    async def read(self, partition: int, first: int) -> Sequence[tuple[int, bytes]]:
        await self._world.turn(self._process, "asks for the end")
        self._require(first)
        end = self._world.end_to_read()
        while self._kafka.stable < end:
            await self._world.turn(self._process, "waits for an open transaction")
        await self._world.turn(self._process, "reads")
        self._require(first)
        found = list(enumerate(self._kafka.log))[first:end]
        return [(offset, one.data) for offset, one in found if one.state == COMMITTED and offset >= self._kafka.low]

    def _require(self, first: int) -> None:
        if self._kafka.low > first and self._world.setup.noticing:
            raise LedgerDamaged("records are gone that were not entered")

    async def trim(self, before: Mapping[int, int]) -> None:
        await self._world.turn(self._process, "trims")
        self._kafka.low = max(self._kafka.low, before[0])
        self._world.check_trimmed()


class Owner:
    """The memory of one gateway. `lanes`: the shipped use case."""

    def __init__(self, world: "World", process: "Process") -> None:
        index, clock = ShardIndex(), FakeClock()
        ledger: Any = OwnersLedger(world, process)
        for position, body in enumerate(world.entries.bodies, 1):
            index.apply(position, decode(body), 0)
        self.group_commit = GroupCommit(ledger, clock, Marks(ledger, (), 0))
        self.group_commit.fenced_by_appends = True
        journal = Journal("default", index, self.group_commit, clock, Events(), Limits())
        self.lanes = DirectLanes(journal, Records(world, process))
