"""A walk: writers, their twins and successors write lanes into Kafka and ask gateways that sleep, die and take over.

The engine of lanes is the shipped one. Checked:

    TWICE     a row was written twice
    LOST      a row is missing at the end, although the answer to its writer was "written"
    TRIMMED   a record was trimmed that the ledger does not have
    DAMAGED   a gateway that owns the ledger misses records
    ENDS      everything is written at the end
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from oncegate.clock import sleep_s
from oncegate.core.entries.codec import decode
from oncegate.core.entries.producers import LaneWritten
from oncegate.core.errors import LedgerDamaged, OncegateError
from oncegate.engine.deadline import Deadline
from oncegate.engine.producer_requests import LaneQuestion
from oncegate.engine.usecases.direct import entering
from oncegate.testing import FakeClock
from tests.model.direct.kafka import COMMITTED, Kafka
from tests.model.direct.owner import Entries, Owner
from tests.model.kit.replies import Broken
from tests.support.direct_records import record

LANES = (1, 2)
ROWS = 6
ENDS_STEPS = 4_000


@dataclass(frozen=True)
class Setup:
    """A way to run the walk.

    sleeping, dying: probability per step that a process does. starting: probability of one more gateway or writer.
    losing: probability that a commit or its answer is lost or late. starts_first: a writer starts its epoch before it
    asks. to_the_end: the owner reads to the end, else to the last stable offset. noticing: a reader of trimmed records
    gets an error, else it reads the records after them.
    """

    steps: int = 300
    sleeping: float = 0.02
    dying: float = 0.01
    starting: float = 0.03
    losing: float = 0.3
    starts_first: bool = True
    to_the_end: bool = True
    noticing: bool = True

    def world(self, seed: int) -> "World":
        return World(self, seed)


@dataclass
class Process:
    name: str
    owner: Owner | None = None
    asleep: bool = False
    dead: bool = False
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Waiting:
    process: Process
    what: str
    future: "asyncio.Future[None]"


class World:
    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup, self.rng = setup, random.Random(seed)
        self.kafka, self.entries = Kafka(), Entries()
        self.waiting: list[Waiting] = []
        self.late: list[tuple[int, int]] = []
        self.processes: list[Process] = []
        self.trace: list[str] = []
        self.told: set[tuple[int, int]] = set()
        self.steady = False
        self.broken: Broken | None = None

    # Actions of processes.

    async def turn(self, process: Process, what: str) -> None:
        """Returns when this step is executed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(process, what, future))
        await future

    def end_to_read(self) -> int:
        return len(self.kafka.log) if self.setup.to_the_end else self.kafka.stable

    def check_trimmed(self) -> None:
        entries = [decode(body) for body in self.entries.bodies]
        entered = {entry.offset for entry in entries if isinstance(entry, LaneWritten)}
        gone = enumerate(self.kafka.log[: self.kafka.low])
        if lost := [offset for offset, one in gone if one.state == COMMITTED and offset not in entered]:
            self.fail(Broken("TRIMMED", f"records {lost} are trimmed, and not entered"))

    def fail(self, broken: Broken) -> None:
        self.broken = self.broken or broken

    def start_owner(self) -> Process:
        process = Process(f"gateway-{len(self.processes)}")
        self.processes.append(process)
        self.trace.append(f"{process.name} starts")
        process.owner = Owner(self, process)
        process.tasks.append(asyncio.create_task(process.owner.group_commit.run()))
        return process

    def start_writer(self, lane: int) -> Process:
        process = Process(f"writer-{len(self.processes)} of lane {lane}")
        self.processes.append(process)
        self.trace.append(f"{process.name} starts")
        process.tasks.append(asyncio.create_task(self._writes(process, lane)))
        return process

    async def _writes(self, process: Process, lane: int) -> None:
        """Writes until everything is written; after an error it starts again as another attempt."""
        while True:
            try:
                if await self._attempt(process, lane):
                    return
            except LedgerDamaged as error:
                self.fail(Broken("DAMAGED", f"{process.name}: {error.detail}"))
            except OncegateError as error:
                self.trace.append(f"{process.name} is refused: {type(error).__name__}")
                await self.turn(process, "pauses")

    async def _attempt(self, process: Process, lane: int) -> bool:
        epoch = 0
        if self.setup.starts_first:
            epoch = await self._fences(process, lane)
        owner = self._some_owner()
        opened = await owner.lanes.open("t", f"p-{lane}", Deadline(FakeClock()))
        written = await owner.lanes.ask(LaneQuestion("t", f"p-{lane}", 0, ROWS - 1), Deadline(FakeClock()))
        there = {n for first, last in written.duplicates.tolist() for n in range(first, last + 1)}
        self.told |= {(lane, n) for n in there}
        missing = tuple(n for n in range(ROWS) if n not in there)
        self.trace.append(f"{process.name} is told {sorted(there)}")
        if not missing:
            return True
        if not self.setup.starts_first:
            epoch = await self._fences(process, lane)
        # A writer may bring only part of the rows at a time.
        part = missing if self.steady else missing[: self.rng.randint(1, len(missing))]
        await self.turn(process, "writes")
        if self.kafka.write(lane, epoch, record(opened.lane, *((n, n) for n in part)), part):
            await self._commits(process, lane, epoch)
        return False

    async def _fences(self, process: Process, lane: int) -> int:
        await self.turn(process, "fences")
        return self.kafka.start(lane)

    async def _commits(self, process: Process, lane: int, epoch: int) -> None:
        await self.turn(process, "commits")
        fate = self.rng.choice(["lost", "late", "done"]) if self.rng.random() < self.setup.losing else "done"
        if self.steady or fate == "done":
            self.kafka.commit(lane, epoch)
        elif fate == "late":
            self.late.append((lane, epoch))
        self.trace.append(f"{process.name}'s commit: {fate}")

    def _some_owner(self) -> Owner:
        """Returns mostly the newest gateway; a client may also reach a superseded one that sleeps."""
        owners = [one.owner for one in self.processes if one.owner is not None and not one.dead]
        if not owners:
            owners = [self.start_owner().owner]
        chosen = owners[-1] if self.steady or self.rng.random() < 0.7 else self.rng.choice(owners)
        assert chosen is not None
        return chosen

    # Steps.

    async def settle(self) -> None:
        """Runs the loop until every process waits for a step."""
        loop: Any = asyncio.get_running_loop()
        await sleep_s(0)
        while loop._ready:
            await sleep_s(0)
        self._look()
        if self.broken is not None:
            raise self.broken

    def _look(self) -> None:
        for lane in LANES:
            rows = self.kafka.rows(lane)
            if len(rows) != len(set(rows)):
                self.fail(Broken("TWICE", f"lane {lane} has {rows}"))
            if lost := sorted(n for of, n in self.told if of == lane and n not in rows):
                self.fail(Broken("LOST", f"{lost} of lane {lane} were reported as written"))

    def step(self) -> bool:
        self.waiting = [one for one in self.waiting if not one.future.done() and not one.process.dead]
        ready = [one for one in self.waiting if not one.process.asleep]
        if not ready:
            return False
        chosen = self.rng.choice(ready)
        self.waiting.remove(chosen)
        self.trace.append(f"{chosen.process.name} {chosen.what}")
        chosen.future.set_result(None)
        return True

    def disturb(self) -> None:
        rng, setup = self.rng, self.setup
        for process in self.processes:
            if not process.dead and rng.random() < setup.sleeping:
                process.asleep = not process.asleep
                self.trace.append(f"{process.name} {'sleeps' if process.asleep else 'wakes'}")
            if not process.dead and rng.random() < setup.dying:
                process.dead = True
                self.trace.append(f"{process.name} dies")
        if rng.random() < setup.starting:
            self.start_owner()
        if rng.random() < setup.starting:
            self.start_writer(rng.choice(LANES))
        if self.late and rng.random() < 0.2:
            lane, epoch = self.late.pop(rng.randrange(len(self.late)))
            self.trace.append(f"a late commit of lane {lane} arrives")
            self.kafka.commit(lane, epoch)

    async def walk(self) -> None:
        self.start_owner()
        for lane in LANES:
            self.start_writer(lane)
        for _ in range(self.setup.steps):
            await self.settle()
            self.disturb()
            self.step()
        await self._end()

    async def _end(self) -> None:
        """Ends the walk without faults: one gateway and one writer per lane are left, and must finish."""
        self.steady = True
        self.trace.append("-- from here on nothing fails")
        for process in self.processes:
            process.dead = True
        if not self.setup.starts_first:
            for lane in LANES:
                self.kafka.start(lane)
        self.start_owner()
        writers = [self.start_writer(lane) for lane in LANES]
        for _ in range(ENDS_STEPS):
            await self.settle()
            if all(task.done() for writer in writers for task in writer.tasks):
                break
            self.step()
        for lane in LANES:
            if self.kafka.rows(lane) != list(range(ROWS)):
                raise Broken("ENDS", f"lane {lane} has {self.kafka.rows(lane)}")

    def run(self) -> None:
        asyncio.run(self._run(self.walk))

    async def _run(self, walk: Callable[[], Coroutine[Any, Any, None]]) -> None:
        before = entering.TRIM_RECORDS
        entering.TRIM_RECORDS = 1
        try:
            await walk()
        finally:
            entering.TRIM_RECORDS = before
            mine = asyncio.current_task()
            tasks = [task for task in asyncio.all_tasks() if task is not mine]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
