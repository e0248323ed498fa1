"""A walk: a streaming query over two lanes, its drivers and attempts, a lossy network, a ledger that refuses, a gateway
that dies.

Checked beside the properties of `truth.py`:

    P3    replaying the ledger gives the index, after every append, refusal and start          (gateway.py)
    P5    copies of a row beyond the first <= sequences and ids granted by takeover
    LOSS  every row of a batch in the commit log is written; no attempt must drop an unwritten row, except rows
          that a person abandoned and the driver acked
    P6    a driver that keeps trying, alone, finishes;  ACK  an ack that is permitted succeeds
"""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from oncegate.core.errors import OncegateError, Retryable
from oncegate.core.producers import Gaps
from oncegate.core.verdicts import BY_BYTE, Verdict
from oncegate.engine.producer_requests import AckRequest, AckResult
from oncegate.engine.requests import ClaimResult
from oncegate.testing import FakeClock
from tests.model.kit.chance import Steady, fingerprints
from tests.model.kit.manual_commit import Call
from tests.model.kit.network import Network
from tests.model.kit.replies import Broken
from tests.model.sequences.actors import DRIVER, Attempt, OfIds, OfSequences, Request, Task
from tests.model.sequences.drivers import Driver
from tests.model.sequences.gateway import LEASE_MS, Gateway
from tests.model.sequences.leftovers import Leftovers
from tests.model.sequences.person import Person
from tests.model.sequences.truth import Exchange, Truth

LANES = ("l0", "l1")
BATCHES = 3
Actor = Driver | Attempt


@dataclass(frozen=True)
class Setup:
    """A way to run the walk.

    way: claims of sequences, or of ids within their batch (scope = retry). eager: the driver acks while it runs, as far
    as the gateway permits. gaps: REFUSE if the source has no gaps. skipping: probability that an attempt skips a row.
    clearing: that a person clears leftovers. wrong: rules that the clients ignore.
    """

    way: Literal["sequences", "ids"] = "sequences"
    eager: bool = False
    gaps: Gaps = Gaps.ALLOW
    skipping: float = 0.0
    clearing: float = 0.0
    wrong: frozenset[str] = frozenset()
    refusing: float = 0.08
    late: float = 0.10
    doubled: float = 0.10
    dying: float = 0.02
    steps: int = 350

    def world(self, seed: int) -> "World":
        return World(self, seed)


class World(Network):
    def __init__(self, setup: Setup, seed: int) -> None:
        super().__init__(random.Random(seed), setup.late, setup.doubled)
        self.setup, self.clock = setup, FakeClock()
        self.prints = fingerprints(self.rng)
        self.gateway: Gateway = Gateway(self.clock, self.rng.randbytes)
        self.written: Counter[tuple[str, int]] = Counter()
        self.leftovers = Leftovers(LEASE_MS, setup.gaps is Gaps.REFUSE)
        self.truth = Truth(LEASE_MS, lambda lane, row: self.written[lane, row] + self.leftovers.is_passed(lane, row))
        self.offset_log, self.commit_log = self._plan(), 0
        self.drivers: list[Driver] = []
        self._attempts = 0
        self._person = Person(self.rng, self._copies, lambda: [one for each in self.drivers for one in each.attempts])
        self._new_driver()

    def _plan(self) -> list[list[Task]]:
        """Plans the slices of each lane, batch by batch. Offsets have gaps without rows; ids number all rows."""
        at, ids, batches = dict.fromkeys(LANES, 0), iter(range(100)), []
        for batch in range(BATCHES):
            tasks = []
            for lane in LANES:
                rows = []
                for _ in range(self.rng.randrange(1, 4)):
                    at[lane] += self.rng.choice((1, 1, 2 if self.setup.gaps is Gaps.ALLOW else 1))
                    rows.append(at[lane] if self.setup.way == "sequences" else next(ids))
                tasks.append(Task(lane, batch, tuple(rows)))
            batches.append(tasks)
        return batches

    def _ends(self) -> dict[int, dict[str, int]]:
        """Returns the last sequence of each lane, which each batch's tasks name in their commit messages."""
        if self.setup.way == "ids":
            return {batch: {} for batch in range(BATCHES)}
        return {batch: {task.lane: task.rows[-1] for task in tasks} for batch, tasks in enumerate(self.offset_log)}

    def _new_driver(self) -> Driver:
        driver = Driver(f"D{len(self.drivers)}", self.rng.randbytes(16), self.setup.wrong)
        if self.commit_log:
            driver.acks = [self.commit_log - 1]
        self.drivers.append(driver)
        return driver

    def _new_attempt(self, driver: Driver, task: Task) -> Attempt:
        self._attempts += 1
        name, token, epoch = f"{driver.name}.{self._attempts}", self.rng.randbytes(16), driver.epoch or 0
        common = (name, token, task, self.setup.refusing, epoch, self.setup.wrong)
        gaps = {"gaps": self.setup.gaps, "skipping": self.setup.skipping}
        made = OfSequences(*common, **gaps) if self.setup.way == "sequences" else OfIds(*common, prints=self.prints)
        driver.attempts.append(made)
        self.note(f"{name} is to write {task.rows} of {task.lane}, batch {task.batch}")
        return made

    # Requests as they reach the gateway, and their answers in the order of the decisions.

    def ask(self, request: Request) -> Exchange:
        self.leftovers.asked(request, self.clock.monotonic_ms())
        return Exchange(self._seq, self.clock.monotonic_ms(), request, self.gateway.call(request.verb, *request.given))

    def heard(self, said: Exchange) -> None:
        self.truth.hear(said)
        self.leftovers.hear(said)
        if isinstance(said.call.reply, int) and said.call.reply:
            self.note(f"{said.request} has cleared {said.call.reply}")
        if isinstance(said.call.reply, ClaimResult) and said.request.verb == "claim_ids":
            self._hear_ids(said.request, said.call.reply)

    def _hear_ids(self, request: Request, answer: ClaimResult) -> None:
        """Checks LOSS of ids: the fingerprints of the request identify the rows."""
        places = {print_.tobytes(): row for row, print_ in enumerate(self.prints)}
        for one, byte in zip(request.given[0].ids, answer.verdicts.tolist(), strict=True):
            row, verdict = places[one.tobytes()], BY_BYTE[byte].verdict
            if verdict in (Verdict.STALE, Verdict.DUPLICATE) and not self._copies_of_id(row):
                raise Broken("LOSS", f"{request.sender} is told {verdict.name} of {row}, nobody wrote it")

    def _copies_of_id(self, row: int) -> int:
        return sum(self.written[lane, row] for lane in LANES)

    def _copies(self, lane: str, row: int) -> int:
        return self.written[lane, row] if self.setup.way == "sequences" else self._copies_of_id(row)

    def shown(self, said: Exchange) -> str:
        return show(said.call)

    def restarted(self) -> None:
        self._seq += 1
        self.truth.restart(self._seq, self.clock.monotonic_ms())
        self.leftovers.restart(self._seq, self.clock.monotonic_ms())

    def read(self, actor: Actor, said: Exchange) -> None:
        if said.call.ended and said.request is actor.pending and not self._to_repeat(said.call.reply):
            self.note(f"{actor.name} reads {show(said.call)}")
            actor.take(said.call.reply)

    # Steps.

    def step(self) -> None:
        chance, rng = self.rng.random(), self.rng
        if chance < 0.80:
            self._act(rng.choice(self._everybody()))
        elif chance < 0.86:
            self._pass(rng.choice((200, LEASE_MS // 2, LEASE_MS + 1)))
        elif chance < 0.88:
            self.crash()
        elif chance < 0.94 and self._delayed:
            self.deliver_late()
        elif chance < 0.98:
            self.end_append()
        elif chance < 0.99:
            self._change_driver()
        if self.setup.clearing and rng.random() < self.setup.clearing:
            self._clear()
        self._check()

    def _everybody(self) -> list[Actor]:
        trying: list[Actor] = [driver for driver in self.drivers if driver.trying]
        trying += [attempt for driver in self.drivers for attempt in driver.attempts if attempt.trying]
        return trying or [self._new_driver()]

    def _pass(self, duration_ms: int) -> None:
        self.note(f"{duration_ms} ms pass")
        self.clock.advance(duration_ms)

    def _change_driver(self) -> None:
        """Kills the driver, with or without its attempts, or only presumes it dead; then it continues beside the next
        one."""
        old = self.drivers[-1]
        fate = self.rng.choice(("killed", "killed, its attempts live on", "believed dead"))
        self.note(f"{old.name} is {fate}")
        old.alive = fate == "believed dead" and old.alive
        for attempt in old.attempts if fate == "killed" else ():
            attempt.alive = False
        self._new_driver()

    def _clear(self) -> None:
        """Lets a person look at rows of batches that have begun.

        "Done" stays true, and a claim is identified by its name. Only "not done" of a lane must not arrive late,
        because another attempt may hold the row then.
        """
        tasks = [task for batch in self.offset_log[: self.commit_log + 1] for task in batch]
        if self.setup.way == "sequences":
            request = self._person.of_sequences(tasks)
        else:
            request = self._person.of_claims(tasks, self._claims_by_row())
        if request is None:
            return
        if self.rng.random() < self.setup.doubled and (request.verb == "resolve_claim" or request.given[-1].is_done):
            self._delayed.append(request)
        self.note(f"{request} -> {show(self.handle(request).call)}")

    def _claims_by_row(self) -> dict[bytes, set[int]]:
        places = {print_.tobytes(): row for row, print_ in enumerate(self.prints)}
        held = {name: {places[one] for one in claim.ids} for name, claim in self.leftovers.claims.items()}
        return {name: rows for name, rows in held.items() if rows}

    def _act(self, actor: Actor) -> None:
        if self.reads(actor):
            return
        if isinstance(actor, Driver):
            self._drive(actor)
            return
        if self.rng.random() < self.setup.dying:
            actor.alive = False
            self.note(f"{actor.name} dies")
            return
        self._attempt(actor)

    def _attempt(self, attempt: Attempt) -> None:
        request = attempt.next(self.rng, self._write)
        if request is not None:
            self.send(attempt, request)
        elif attempt.finish():
            self.note(f"{attempt.name} green")
            if "executors ack" in self.setup.wrong:
                ask = AckRequest(DRIVER, attempt.driver_epoch, attempt.token, (), attempt.task.batch)
                self.handle(Request(attempt.name, "ack", (ask,)))
                self.note(f"{attempt.name} acks batch {attempt.task.batch}")

    def _to_repeat(self, reply: object) -> bool:
        """Returns whether the request had no effect and may be repeated. After "a lease is live" the person decides
        again."""
        return isinstance(reply, Retryable) and "lease_left_ms" not in reply.extra

    def _write(self, attempt: Attempt, row: int) -> None:
        self.written[attempt.task.lane, row] += 1
        self.note(f"{attempt.name} WRITES {row} of {attempt.task.lane}")

    # Actions of a driver.

    def _drive(self, driver: Driver) -> None:
        eager = self.setup.eager and self.rng.random() < 0.3
        request = driver.request(self._ends(), eager)
        if request is not None:
            self.send(driver, request)
            if driver.epoch is None or self.rng.random() < 0.5:
                return
        if driver.epoch is not None and not driver.ended:
            self._run(driver, twins=0.04)

    def _run(self, driver: Driver, twins: float = 0.0) -> None:
        """Begins the next batch, or continues the current one; writes the commit log when all its tasks are green."""
        if driver.batch is None or driver.batch >= BATCHES:
            driver.batch = self.commit_log
            self.note(f"{driver.name} begins batch {driver.batch}")
        driver.ended = driver.batch >= BATCHES
        if driver.ended:
            driver.batch = None
            return
        tasks = self.offset_log[driver.batch]
        waiting = [task for task in tasks if not driver.is_green(task)]
        if "acks early" in self.setup.wrong and len(waiting) < len(tasks) and driver.pending is None:
            driver.pending, driver.may_be_refused = driver.ack({}, driver.batch), True
        if not waiting:
            self._commit(driver, driver.batch)
        for task in waiting:
            running = [attempt for attempt in driver.of_batch() if attempt.task == task and attempt.trying]
            if not running or (len(running) == 1 and self.rng.random() < twins):
                self._new_attempt(driver, task)

    def _commit(self, driver: Driver, batch: int) -> None:
        """Writes the commit log and schedules the ack, unless another driver has written it: then this one ends."""
        if batch != self.commit_log:
            driver.alive = False
            self.note(f"{driver.name} finds batch {batch} in the commit log, and ends")
            return
        rows = [(task.lane, row) for task in self.offset_log[batch] for row in task.rows]
        lost = [one for one in rows if not self.written[one] and not self.leftovers.is_passed(*one)]
        if lost:
            raise Broken("LOSS", f"batch {batch} is committed, {lost} were never written")
        self.commit_log += 1
        driver.acks.append(batch)
        self.note(f"{driver.name} commits batch {batch}")
        driver.batch = self.commit_log if self.commit_log < BATCHES else BATCHES

    # The checks after every step, and the end.

    def _check(self) -> None:
        copies = sum(count - 1 for count in self.written.values())
        if copies > self.gateway.takeovers:
            raise Broken("P5", f"{copies} copies beyond the first, {self.gateway.takeovers} takeovers")

    def finish(self) -> None:
        """Lets a new driver act alone, without losses: it must finish and ack everything."""
        self.last_alone("-- from here on one acts alone")
        for driver in self.drivers:
            driver.alive = False
        driver = self._new_driver()
        for _ in range(400):
            if not driver.trying:
                break
            self._drive_alone(driver)
            self._check()
        if driver.trying or self.commit_log < BATCHES:
            raise Broken("P6", f"{driver.name} never gets there")
        self.crash()

    def _drive_alone(self, driver: Driver) -> None:
        request = driver.request(self._ends(), eager=False)
        if request is not None:
            self._answer(driver, request)
        elif not driver.ended:
            self._run(driver)
        for attempt in driver.of_batch():
            request = attempt.next(Unhurried(), self._write) if attempt.trying else None
            if request is not None:
                self._answer(attempt, request)
            elif attempt.trying and attempt.finish():
                self.note(f"{attempt.name} green")

    def _answer(self, actor: Actor, request: Request) -> None:
        said = self.handle(request)
        self.flush()
        self.note(f"{request} -> {show(said.call)}")
        reply = said.call.reply
        if not self._to_repeat(reply):
            actor.take(reply)
        if (isinstance(reply, OncegateError) and "lease_left_ms" in reply.extra) or _is_busy(reply):
            self._pass(LEASE_MS + 1)

    def run(self) -> None:
        for _ in range(self.setup.steps):
            self.step()
        self.finish()


class Unhurried(Steady):
    """A random source for an actor that acts alone: its sink accepts everything, and it never dawdles."""

    def randrange(self, *_: object, **__: object) -> int:
        return 2


def _is_busy(reply: object) -> bool:
    verdicts = reply.verdicts.tolist() if isinstance(reply, ClaimResult) else []
    return any(BY_BYTE[byte].verdict is Verdict.BUSY for byte in verdicts)


def show(call: Call) -> str:
    if not call.ended:
        return "..."
    reply = call.reply
    if isinstance(reply, OncegateError):
        return type(reply).__name__
    if isinstance(reply, ClaimResult):
        return ", ".join(BY_BYTE[byte].verdict.name for byte in reply.verdicts.tolist())
    if isinstance(reply, AckResult):
        return ", ".join([type(reply).__name__, *(type(part).__name__ for part in reply.refused)])
    if isinstance(reply, int):
        return "cleared" if reply else "nothing to clear"
    return type(reply).__name__ if reply is not None else "closed"
