"""One walk: gateways that open, append, collect, sleep and die over one ledger, and a standby that reads it.

The ledger is the shipped one, over the brokers of `brokers.py`. What is checked, of everything that becomes readable:

    CHAIN     frames follow one another: two owners never both commit
    ONCE      an entry stands in one frame
    REFUSED   what an append was refused with is never there
    DURABLE   what an append has acknowledged is there
    WHOLE     the rows that a frame names are there with it, and no others are
    DELETED   what is deleted is replaced by what is there
    GRANTED   nothing is granted twice
    DENIED    nobody is told "not there" of what was acknowledged before he asked
    STANDBY   what a standby has read is a beginning of the ledger, or its end
    DAMAGED   nobody takes the ledger for damaged
    ENDS      of gateways that open at once one gets it, and in the end one alone can write
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from oncegate.core.errors import KeyMismatch, LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.catalog import Wrote
from oncegate.ledgers.kafka.guard import Deadlines, Partition
from oncegate.ledgers.kafka.keys import Keys
from oncegate.ledgers.kafka.namespaces import Namespace
from oncegate.ledgers.kafka.pause import turn
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.frames import Assembly, Frame
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from tests.model.kafka.brokers import COMMITTED, Brokers
from tests.model.kit.replies import Broken

LEDGER = bytes(range(16))
ALONE_STEPS = 3_000
# How often a standby is let on: it reads for ever.
STANDBY = 0.2
FATES = ("lost", "unanswered", "late", "untold")


@dataclass(frozen=True)
class Setup:
    """losing: how often a request meets a fault. leaderless: how often a partition loses its leader, or has one again.

    probing: gateways answer "not there" behind a commit that began after the question.
    """

    losing: float = 0.05
    leaderless: float = 0.0
    sleeping: float = 0.02
    dying: float = 0.004
    starting: float = 0.006
    probing: bool = True
    steps: int = 400

    def world(self, seed: int) -> "World":
        return World(self, seed)


@dataclass
class Process:
    """One process: what it asks of brokers waits in `world.waiting`. `dead`: nothing of it happens any more."""

    world: "World"
    name: str
    asleep: bool = False
    dead: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def place(self) -> KafkaPlace:
        keys = Keys()
        listed = Namespace(LEDGER, "p.default", keys.wrap(bytes(32)))
        return KafkaPlace("default", listed, {"process": self}, Deadlines(), keys)

    @property
    def is_over(self) -> bool:
        return self.task is not None and self.task.done()

    async def turn(self, what: str) -> str:
        """Returns once this step is taken: how it ends, or "done"."""
        return await self.world.waits(self, what)


@dataclass
class Truth:
    """Reads the ledger as it becomes readable, and everything that anybody was told."""

    brokers: Brokers
    fold: Fold = field(default_factory=lambda: Fold(LEDGER, "the truth"))
    assembly: Assembly = field(default_factory=lambda: Assembly("the truth"))
    read_to: int = 0
    there: set[bytes] = field(default_factory=set)
    ends: set[tuple[int, bytes]] = field(default_factory=set)
    named: set[int] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)
    granted: Counter[bytes] = field(default_factory=Counter)

    FRAMES, STATES, STAGES = (Partition(f"p.default.{one}", 0) for one in ("ledger", "states", "stages"))

    def look(self) -> None:
        log = self.brokers.log(self.FRAMES)
        for offset, entry in log.committed(self.read_to, log.end):
            try:
                for frame in self.assembly.add(offset, entry.value):
                    self._take(frame)
            except LedgerDamaged as error:
                raise Broken("CHAIN", error.detail) from error
        self.read_to = max(self.read_to, log.stable)
        self._require_undeleted()

    def _take(self, frame: Frame) -> None:
        self.fold.take(frame)
        self.ends.add((frame.serial, frame.chain))
        for entry in frame.body.entries:
            if entry in self.there:
                raise Broken("ONCE", f"{entry!r} stands in two frames")
            if entry in self.refused:
                raise Broken("REFUSED", f"{entry!r} is there, and was refused")
            self.there.add(entry)
        self._require_rows(frame)

    def _require_rows(self, frame: Frame) -> None:
        rows = self.brokers.log(self.STAGES).entries
        for change in frame.body.changes:
            if isinstance(change, Wrote):
                at = change.location.offset
                if rows[at].state != COMMITTED or rows[at].value != change.range_id:
                    raise Broken("WHOLE", f"frame {frame.serial} names rows at {at} that are {rows[at].state}")
                self.named.add(at)

    def _require_undeleted(self) -> None:
        """Whatever the last collection that is there needs, is there."""
        fold, logs = self.fold, self.brokers.logs
        starts = {partition: log.start for partition, log in logs.items()}
        if starts.get(self.FRAMES, 0) > fold.ledger_from:
            raise Broken("DELETED", f"frames up to {starts[self.FRAMES]}, and those from {fold.ledger_from} are needed")
        collected = fold.collected
        if starts.get(self.STATES, 0) > (collected.states_from if collected else 0):
            raise Broken("DELETED", f"states up to {starts[self.STATES]}")

    def require_named(self) -> None:
        """At the end, when nothing is open any more."""
        rows = self.brokers.log(self.STAGES)
        told = {at for at, entry in enumerate(rows.entries) if entry.state == COMMITTED}
        if told - self.named:
            raise Broken("WHOLE", f"rows at {sorted(told - self.named)} are readable, and no frame names them")

    def hear(self, entry: bytes, refused: bool) -> None:
        """What an append was told."""
        if refused:
            self.refused.add(entry)
            if self._is_there(entry):
                raise Broken("REFUSED", f"{entry!r} is refused, and there")
        else:
            self.acknowledged.add(entry)
            if not self._is_there(entry):
                raise Broken("DURABLE", f"{entry!r} is acknowledged, and not there")

    def _is_there(self, entry: bytes) -> bool:
        """Also behind what is not decided yet."""
        behind = self.brokers.log(self.FRAMES).entries[self.read_to :]
        return entry in self.there or entry in b"".join(one.value or b"" for one in behind if one.state == COMMITTED)


class World:
    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup, self.rng = setup, random.Random(seed)
        self.brokers = Brokers()
        self.truth = Truth(self.brokers)
        self.waiting: list[tuple[Process, str, asyncio.Future[str]]] = []
        self.late: list[tuple[str, int]] = []
        self.processes: list[Process] = []
        self.trace: list[str] = []
        self.steady = False
        self.broken: Broken | None = None

    # What processes do.

    async def waits(self, process: Process, what: str) -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting.append((process, what, future))
        return await future

    def changed(self) -> None:
        """Brokers have changed what can be read."""
        try:
            self.truth.look()
        except Broken as broken:
            self.fail(broken)

    def fail(self, broken: Broken) -> None:
        self.broken = self.broken or broken

    def note(self, text: str) -> None:
        self.trace.append(text)

    def start(self, name: str, live: Callable[[Process], Coroutine[Any, Any, None]]) -> Process:
        process = Process(self, name)
        self.note(f"{name} starts")
        self.processes.append(process)
        process.task = asyncio.create_task(self._lives(process, live))
        return process

    async def _lives(self, process: Process, live: Callable[[Process], Coroutine[Any, Any, None]]) -> None:
        try:
            await live(process)
        except Broken as broken:
            self.fail(broken)
        except (LedgerDamaged, KeyMismatch) as error:
            self.fail(Broken("DAMAGED", f"{process.name}: {error.detail}"))
        except (LedgerFenced, LedgerFull, LedgerDown) as error:
            self.note(f"{process.name} ends: {type(error).__name__} {error.detail}")
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            self.fail(Broken("BUG", f"{process.name}: {error!r}"))

    # Steps.

    async def settle(self) -> None:
        """Until everybody waits for a step."""
        loop: Any = asyncio.get_running_loop()
        await turn()
        while loop._ready:
            await turn()
        if self.broken is not None:
            raise self.broken

    def awake(self) -> list[Process]:
        return [one for one in self.processes if not one.dead and one.task is not None and not one.task.done()]

    def step(self, only: Process | None = None) -> bool:
        """Takes one step of somebody who is awake, or of `only`; False: nobody waits for one."""
        ready = [one for one in self.waiting if not one[0].dead and not one[0].asleep and only in (None, one[0])]
        if not ready:
            return False
        busy = [one for one in ready if one[0].name != "standby" or self.rng.random() < STANDBY]
        chosen = self.rng.choice(busy or ready)
        self.waiting.remove(chosen)
        process, what, future = chosen
        fate = "done"
        if not self.steady and self.rng.random() < self.setup.losing:
            fate = self.rng.choice(FATES)
        self.note(f"{process.name} {what}{'' if fate == 'done' else f' [{fate}]'}")
        future.set_result(fate)
        return True

    def deliver_late(self) -> None:
        name, epoch = self.late.pop(self.rng.randrange(len(self.late)))
        self.note(f"a late commit of {name} arrives")
        if self.brokers.producers[name].epoch == epoch:
            self.brokers.end(name, epoch, True)
            self.changed()

    def disturb(self) -> None:
        """What happens beside the steps."""
        rng, setup = self.rng, self.setup
        for process in self.awake():
            if rng.random() < setup.sleeping:
                process.asleep = not process.asleep
                self.note(f"{process.name} {'sleeps' if process.asleep else 'wakes'}")
            if rng.random() < setup.dying:
                process.dead = True
                self.note(f"{process.name} dies")
        if self.late and rng.random() < 0.1:
            self.deliver_late()
        if rng.random() < setup.leaderless:
            partition = rng.choice((Truth.FRAMES, Truth.STAGES))
            log = self.brokers.log(partition)
            log.has_leader = not log.has_leader
            self.note(f"{partition.topic} {'has a leader again' if log.has_leader else 'has no leader'}")

    def run(self) -> None:
        from tests.model.kafka.gateways import walk

        self.run_as(walk)

    def run_as(self, walk: Callable[["World"], Coroutine[Any, Any, None]]) -> None:
        asyncio.run(self._run(walk))

    async def _run(self, walk: Callable[["World"], Coroutine[Any, Any, None]]) -> None:
        try:
            await walk(self)
        finally:
            tasks = [one.task for one in self.processes if one.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
