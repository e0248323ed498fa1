"""A walk of drivers, their checkpoint, the gateway, and a network that delays, duplicates and loses messages.

Promises: TWICE no row is published twice; DROP a green batch and all batches before it are published; WEDGE a lone
driver finishes; REPLAY the index equals its replayed ledger; LEAK no bytes are kept that no stage names.
"""

import hashlib
import random
from types import SimpleNamespace

from oncegate.core.entries.kinds import Name
from oncegate.engine.requests import AbortRequest
from oncegate.testing import FakeClock
from tests.model.batches.driver import Died, Driver, Life, Offsets, Request
from tests.model.batches.gateway import LIMITS, Gateway
from tests.model.batches.knobs import Knobs
from tests.model.batches.rows import Item
from tests.model.kit.manual_commit import Call
from tests.model.kit.replies import Broken

STEPS = 60
BATCHES = 3
LIVELY_STEPS = 400


# The possible events and their probabilities.
USUAL = (("_act_one", 0.80), ("_arrive_late", 0.06), ("_kill_one", 0.03), ("_start_another", 0.02))
USUAL += (("_crash", 0.03), ("_let_time_pass", 0.02), ("_copy_or_restore", 0.04))
STORM = (("_act_one", 0.70), ("_arrive_late", 0.02), ("_kill_one", 0.08), ("_start_another", 0.10))
STORM += (("_crash", 0.01), ("_copy_or_restore", 0.09))


class Alive:
    """A running driver: the call that it waits for, and the reply that it reads next."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.life: Life = driver.life()
        self.call: Call | None = None
        self.reply_lost = False


class World:
    def __init__(self, knobs: Knobs, seed: str) -> None:
        self.knobs, self.rng = knobs, random.Random(seed)
        self.clock = FakeClock()
        self.trace: list[str | tuple[Request, Call]] = []
        self.gateway = Gateway(self.clock, self.rng.randbytes, SimpleNamespace(event=lambda *_, **__: None))
        self.offsets: dict[int, Offsets] = {}
        self.commits: set[int] = set()
        self.stop: str | None = None
        self._copy: tuple[dict[int, Offsets], set[int]] | None = None
        self._drivers: list[Alive] = []
        self._net: list[Request] = []
        self._count = 0
        self._advised = False
        self._over = False
        self._perfect = False

    # Requests of drivers to the world.

    def uid(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def name16(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(16, "big")

    def begin(self, driver: Driver) -> int | None:
        """Returns the next batch, whose entry of the offset log then exists, or None if all are done."""
        batch = self.knobs.kind == "batch"
        top = max(self.offsets, default=-1)
        number = 0 if batch else driver.next_batch
        if number is None:
            number = top if top >= 0 and top not in self.commits else top + 1
        elif number in self.offsets and not batch:
            raise Died(f"offsets/{number} is there already")
        if number >= BATCHES:
            return None
        if number not in self.offsets:
            before = [entry.high for at, entry in self.offsets.items() if at < number]
            low = max(before, default=0) if driver.next_batch is None else driver.high
            high = low + (2 if batch else self.rng.choice((1, 2, 3)))
            self.offsets[number] = Offsets(low, high, hashlib.sha256(self.uid("input").encode()).digest())
        self.note(f"{driver.name} begins batch {number}: {self.offsets[number].low}..{self.offsets[number].high}")
        return number

    def read_digests(self, number: int) -> tuple[bytes | None, bytes | None]:
        """Returns the digests of this batch and the previous one, as the client reads them from the checkpoint."""
        known = {"known": True, "unknown": False, "mixed": self.rng.random() < 0.5}[self.knobs.digests]
        if not known or self.knobs.kind == "batch":
            return None, None
        entry, before = self.offsets.get(number), self.offsets.get(number - 1)
        newest = max(self.offsets, default=None)
        if self.knobs.digest_read == "when the batch begins" and newest != number:
            raise Died(f"the newest entry of the offset log is {newest}, not {number}")
        return None if entry is None else entry.digest, None if before is None else before.digest

    def name_of(self, number: int, write: int) -> Name:
        version = self.knobs.version if self.knobs.kind == "batch" else str(number)
        advised = self._advised and (write > 0 or self.knobs.advice == "all")
        return Name("app", version, "topic", f"write {write}" if self.knobs.write_ids or advised else "")

    def rows_of(self, offsets: Offsets, write: int, salt: str) -> list[Item]:
        return [(number, 0 if self.knobs.equal else write, salt) for number in range(offsets.low, offsets.high)]

    def stopped_by(self, code: str) -> None:
        self.stop = code

    def post(self, request: Request) -> None:
        """Sends a request without waiting for the reply."""
        if self.rng.random() < 0.5:
            self._net.append(request)
        else:
            self._call(request)

    def turned_green(self, driver: Driver, number: int, offsets: Offsets) -> None:
        self.commits.add(number)
        self._over = self._over or self.knobs.kind == "batch"
        self.note(f"{driver.name}: batch {number} is green")
        for item in range(offsets.high):
            for write in range(1 if self.knobs.equal else self.knobs.writes):
                if self.gateway.copies[item, write] < self._copies:
                    raise Broken(
                        "DROP", f"{driver.name} is green on batch {number}, row {item} of write {write} is not there"
                    )

    # Events.

    @property
    def _copies(self) -> int:
        return self.knobs.writes if self.knobs.equal else 1

    def note(self, text: str) -> None:
        self.trace.append(text)

    def story(self) -> str:
        """Returns the trace of the walk."""
        return "\n".join(
            line if isinstance(line, str) else f"    {line[0].verb} {line[0].ask} -> {line[1].reply}"
            for line in self.trace
        )

    def walk(self) -> None:
        """Runs the walk. Raises Broken."""
        for _ in range(STEPS):
            if self._quiet:
                break
            self._step()
            self._check()
        if self.knobs.lively:
            self._must_get_there()

    @property
    def _quiet(self) -> bool:
        """Returns whether nothing more can happen."""
        ended = self._over or (len(self.commits) == BATCHES and not self.knobs.restores)
        stopped = self.stop is not None and (self._advised or not self.knobs.advice)
        return not self._drivers and not self._net and (stopped or ended)

    def _check(self) -> None:
        for key, count in self.gateway.copies.items():
            if count > self._copies:
                raise Broken("TWICE", f"row {key} is published {count} times")

    def _step(self) -> None:
        rng = self.rng
        if self.gateway.group_commit.pending and rng.random() < 0.5:
            self._end_append()
        self._follow_advice()
        if not self._drivers and self.stop is None and not self._over and rng.random() < 0.8:
            self._start()
            return
        chance = rng.random()
        for what, share in STORM if self.knobs.storm else USUAL:
            chance -= share
            if chance < 0:
                getattr(self, what)()
                return

    def _end_append(self) -> None:
        if self.rng.random() < 0.05:
            self.note("the append is refused")
            self.gateway.refuse()
        else:
            self.gateway.flush()

    def _follow_advice(self) -> None:
        if self.stop == "SECOND_WRITE" and self.knobs.advice and not self._advised and not self._drivers:
            self._advised, self.stop = True, None
            self.note(f"the user gives {self.knobs.advice} a writeId")

    def _start(self) -> None:
        driver = Driver(self, self.uid("driver"), None if self.knobs.kind == "batch" else self.uid("run"))
        self._drivers.append(Alive(driver))
        self.note(f"{driver.name} starts, run {driver.run}")

    def _start_another(self) -> None:
        """Starts a successor beside a living driver, which is a zombie from then on."""
        if len(self._drivers) < 2 and self.stop is None and self.knobs.kind != "batch":
            self._start()

    def _act_one(self) -> None:
        if self._drivers:
            self._act(self.rng.choice(self._drivers))

    def _arrive_late(self) -> None:
        if self._net:
            self.note("late:")
            self._call(self._net.pop(self.rng.randrange(len(self._net))))

    def _kill_one(self) -> None:
        if self._drivers:
            alive = self._drivers.pop(self.rng.randrange(len(self._drivers)))
            self.note(f"{alive.driver.name} is killed")

    def _crash(self) -> None:
        self.note("the gateway is killed and starts again")
        self.gateway.crash()

    def _let_time_pass(self) -> None:
        if not self.knobs.drops:
            return
        if self.rng.random() < 0.7:
            self.clock.advance(LIMITS.stage_idle_ms)
            self.note("a minute passes")
        else:
            self.clock.advance(LIMITS.stage_ttl_ms)
            self.note("a day passes")
            self.gateway.sweep()

    def _copy_or_restore(self) -> None:
        at_rest = not self._drivers and not self._net
        if not self.knobs.restores or (self.knobs.restores == "at rest" and not at_rest):
            return
        if self._copy is None:
            self._copy = (dict(self.offsets), set(self.commits))
        else:
            (self.offsets, self.commits), self._copy = self._copy, None
            self.note("the checkpoint is put back")

    def _act(self, alive: Alive) -> None:
        """Takes one step of a driver unless it waits."""
        reply: object = None
        if alive.call is not None:
            if not alive.call.ended and (self._perfect or self.rng.random() < 0.9):
                return
            reply = None if alive.reply_lost else alive.call.reply
            alive.call = None
        try:
            request = alive.life.send(reply)
        except StopIteration:
            self._drivers.remove(alive)
        except Died as why:
            self._end(alive, str(why))
        else:
            if request is not None:
                self._send(alive, request)

    def _end(self, alive: Alive, why: str) -> None:
        """Ends a driver, which aborts the stages of its tasks when it fails."""
        driver = alive.driver
        self.note(f"{driver.name} ends: {why}")
        self._drivers.remove(alive)
        if driver.tokens and not self._perfect:
            self.post(Request("abort", AbortRequest(driver.batch_name, tuple(driver.tokens))))

    def _send(self, alive: Alive, request: Request) -> None:
        chance = 0.5 if self._perfect else self.rng.random()
        if chance < 0.07:
            self._net.append(request)
            alive.call, alive.reply_lost = None, False
            self.note(f"{alive.driver.name} {request.verb}: delayed")
            return
        if chance < 0.12:
            self._net.append(request)
        alive.call, alive.reply_lost = self._call(request), chance > 0.88
        if self._perfect or self.rng.random() < 0.75:
            self.gateway.flush()

    def _call(self, request: Request) -> Call:
        call = self.gateway.call(request.verb, request.ask)
        self.trace.append((request, call))
        return call

    def _must_get_there(self) -> None:
        """Checks that one driver alone finishes if there are no more faults."""
        self._drivers, self._net, self.stop, self._perfect = [], [], None, True
        self.gateway.flush()
        self._start()
        for _ in range(LIVELY_STEPS):
            if not self._drivers:
                break
            self._act(self._drivers[0])
            self._check()
        if self._drivers or self.stop is not None or (self.knobs.kind != "batch" and len(self.commits) < BATCHES):
            raise Broken("WEDGE", f"one driver alone does not get there: {self.stop}")


def walk(knobs: Knobs, seed: str) -> tuple[World, Broken | None]:
    """Runs a walk and returns what it broke. The same seed gives the same walk."""
    world = World(knobs, f"{seed}/{knobs.name}")
    try:
        world.walk()
    except Broken as broken:
        return world, broken
    except Exception as error:
        return world, Broken("ERROR", repr(error))
    return world, None
