"""A walk: gateways that open, append, compact, sleep and die over one ledger, and a standby that reads it.

The ledger is the shipped one, over the brokers of `brokers.py`. Checked, for everything that becomes readable:

    CHAIN     frames follow one another: two owners never both commit
    ONCE      an entry is in one frame
    REFUSED   an entry of a refused append is never readable
    DURABLE   an entry of an acknowledged append is readable
    WHOLE     exactly the rows that a frame names are readable with it
    TOLD      no location is returned for rows of a refused append
    DELETED   deleted records have been replaced by others
    GRANTED   nothing is granted twice
    DENIED    "not there" is never answered for an entry that was acknowledged before the question
    RENEWED   a lease is never renewed if another holder got it before the request
    STANDBY   the entries that a standby has read are a prefix of the ledger
    KNOWN     the owner knows all entries of the ledger, from before or after its opening
    DAMAGED   the ledger is never reported as damaged
    UNDONE    no marker contradicts the coordinator
    ENDS      of gateways that open at once one gets the ledger, and at the end one alone can write

For rows that go to users' topics, as their readers see them:

    LOST      an acknowledged row is readable, at the end for all readers of committed records
    TWICE     no row is there twice
    REFUSED   no row of a refused append is there
    NAMED     every row is named by a frame, and every row named by a frame is there
    ALONE     a topic that brokers refuse fails one group and is then avoided; other topics are not affected

For the election of the ledger's owner:

    CHOSEN    no gateway is superseded while it beats, or a moment later
    CALM      without faults there is no further election
"""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncegate.core.errors import KeyMismatch, LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.kafka.namespaces import KafkaNamespace
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate.ledgers.keys import Keys
from tests.model.kafka.brokers import Brokers
from tests.model.kafka.clock import Loop, current
from tests.model.kafka.truth import LEDGER, Truth
from tests.model.kafka.users import USERS
from tests.model.kit.replies import Broken

if TYPE_CHECKING:
    from tests.model.kafka.standbys import Choices

ALONE_STEPS = 3_000
# Probability that a standby may step: it reads forever.
STANDBY = 0.2
FATES = ("lost", "unanswered", "late", "untold")


@dataclass(frozen=True)
class Setup:
    """A way to run the walk.

    losing: probability that a request meets a fault. leaderless: that a partition loses or regains its leader.
    forgetting: that a coordinator loses markers of a commit. step_s: the duration of a step. probing, renewing: "not
    there" and renewals require a commit that began after the question. sending: rows go to users' topics. standing_by:
    gateways wait until they are elected. fenced: they answer nothing before they own the ledger.
    """

    losing: float = 0.05
    leaderless: float = 0.0
    forgetting: float = 0.0
    sleeping: float = 0.02
    dying: float = 0.004
    starting: float = 0.006
    probing: bool = True
    renewing: bool = True
    sending: bool = False
    standing_by: bool = False
    fenced: bool = True
    steps: int = 400
    step_s: float = 0.02

    def world(self, seed: int) -> "World":
        return World(self, seed)


@dataclass
class Process:
    """A process. Its requests to brokers wait in `world.waiting`. `dead`: it never steps again."""

    world: "World"
    name: str
    asleep: bool = False
    dead: bool = False
    task: asyncio.Task[None] | None = None
    # Topics whose batches were refused, and when.
    refused: list[tuple[str, float]] = field(default_factory=list)

    @property
    def place(self) -> KafkaPlace:
        keys = Keys()
        listed = KafkaNamespace(LEDGER, "p.default", keys.wrap(bytes(32)))
        return KafkaPlace("default", listed, {"process": self}, Deadlines(), keys)

    @property
    def is_over(self) -> bool:
        return self.task is not None and self.task.done()

    async def turn(self, what: str) -> str:
        """Returns when this step is executed: its fault, or "done"."""
        return await self.world.waits(self, what)


@dataclass(frozen=True, eq=False)
class Waiting:
    """The next step of a process, once it is due and chosen."""

    process: Process
    what: str
    future: asyncio.Future[str]
    due_s: float


class World:
    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup, self.rng = setup, random.Random(seed)
        self.brokers = Brokers(self.now_s)
        self.truth = Truth(self.brokers)
        self.loop = Loop()
        self.waiting: list[Waiting] = []
        self.late: list[tuple[str, int]] = []
        self.processes: list[Process] = []
        self.trace: list[str] = []
        self.steady = False
        self.numbers = 0
        self.choices: Choices | None = None
        self.broken: Broken | None = None

    # Actions of processes.

    def now_s(self) -> float:
        return self.loop.now_s

    async def waits(self, process: Process, what: str, due_s: float = 0.0) -> str:
        """Waits for a step. `what` is empty for a pause, which is not a request to brokers."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(process, what, future, due_s))
        return await future

    def forgotten(self, name: str, of: Collection[Partition] = ()) -> set[Partition]:
        """Returns the partitions where the coordinator of an id loses its markers. `of`: limits them.

        Markers of the list are never lost: two gateways that start its id at once would hide the outcome permanently.
        """
        known = self.brokers.producers.get(name)
        if known is None or self.steady or "/" not in name or self.rng.random() >= self.setup.forgetting:
            return set()
        there = sorted(one for one in known.partitions if not of or one in of)
        found = [one for one in there if self.rng.random() < 0.5]
        for one in found:
            self.note(f"the markers of {name} are forgotten in {one.topic}-{one.number}")
        return set(found)

    def number(self) -> int:
        """Returns a new number."""
        self.numbers += 1
        return self.numbers

    def changed(self) -> None:
        """Checks the readable records after a change."""
        try:
            self.truth.look()
            if self.choices is not None:
                self.choices.look()
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
        current.set(process)
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

    def stands_still(self) -> bool:
        """Returns whether two concurrent openings have hidden a commit with a lost marker. Then, as documented, the
        ledger is unavailable."""
        return self.brokers.are_hidden((Truth.FRAMES, Truth.STATES, Truth.STAGES))

    # Steps.

    async def settle(self) -> None:
        """Runs the loop until every process waits for a step."""
        await self.loop.settle()
        if self.broken is not None:
            raise self.broken

    def awake(self) -> list[Process]:
        return [one for one in self.processes if not one.dead and one.task is not None and not one.task.done()]

    def step(self, only: Process | None = None) -> bool:
        """Executes a step of a process that is awake, or of `only`. Returns False if there is none."""
        self.waiting = [one for one in self.waiting if not one.future.done() and not one.process.dead]
        able = [one for one in self.waiting if not one.process.asleep and only in (None, one.process)]
        if not able:
            return False
        self.loop.now_s = max(self.loop.now_s + self.setup.step_s, min(one.due_s for one in able))
        ready = [one for one in able if one.due_s <= self.loop.now_s]
        busy = [one for one in ready if one.process.name != "standby" or self.rng.random() < STANDBY]
        self._take(self.rng.choice(busy or ready))
        return True

    def _take(self, chosen: Waiting) -> None:
        self.waiting.remove(chosen)
        fate = "done"
        if chosen.what:
            if not self.steady and self.rng.random() < self.setup.losing:
                fate = self.rng.choice(FATES)
            self.note(f"{chosen.process.name} {chosen.what}{'' if fate == 'done' else f' [{fate}]'}")
        chosen.future.set_result(fate)

    def deliver_late(self) -> None:
        name, epoch = self.late.pop(self.rng.randrange(len(self.late)))
        self.note(f"a late commit of {name} arrives")
        if self.brokers.producers[name].epoch == epoch:
            self.brokers.end(name, epoch, True)
            self.changed()

    def disturb(self) -> None:
        """Causes the events that are not steps: sleeps, deaths, leader changes, late requests."""
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
            partition = rng.choice((Truth.FRAMES, Truth.STAGES, *(USERS if setup.sending else ())))
            log = self.brokers.log(partition)
            log.has_leader = not log.has_leader
            self.note(f"{partition.topic} {'has a leader again' if log.has_leader else 'has no leader'}")

    def heal(self) -> None:
        """Ends all faults: late requests arrive, and sleeping processes wake."""
        self.note("-- from here on nothing fails")
        self.steady = True
        self.brokers.mend()
        while self.late:
            self.deliver_late()
        for process in self.processes:
            process.asleep = False

    def run(self) -> None:
        from tests.model.kafka.gateways import walk
        from tests.model.kafka.standbys import walk_standbys

        self.run_as(walk_standbys if self.setup.standing_by else walk)

    def run_as(self, walk: Callable[["World"], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._run(walk))

    async def _run(self, walk: Callable[["World"], Coroutine[Any, Any, None]]) -> None:
        try:
            await walk(self)
        finally:
            tasks = [one.task for one in self.processes if one.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
