"""A walk: claimers, producers and jobs over the same ids, a lossy network, a ledger that refuses, a gateway that dies,
and clocks that are set.

Checked beside the properties of `truth.py`:

    P3    replaying the ledger gives the index, after every append, refusal and start         (gateway.py)
    P4    an attempt is green only when all its ids are done or taken
    P5    copies of an id beyond the first <= ids granted by takeover;  O2  none of them in the topic
    P6    an attempt that keeps trying, alone, finishes
    LOSS  no id is done, and no attempt green, without a write;  O3  every row there was sent
    H1    an open claim is never forgotten;  H2  an id much older than the retention of ids is gone, whatever the clocks
    OFFSETS  a partition has no hole, no offset twice, and no other keys' rows;  SWEEP  a sweep changes no answer
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from oncegate.core.claims import IdState, Verb
from oncegate.core.errors import OncegateError, Retryable
from oncegate.core.verdicts import BY_BYTE, Flag, Verdict
from oncegate.engine.maintenance.scheduler import bucket_ms
from oncegate.engine.requests import ClaimResult, ProduceResult, SettleResult
from oncegate.index.claims.store import Widths
from oncegate.testing import FakeClock
from tests.model.kit.attempt import Attempt, Request
from tests.model.kit.chance import IDS, LEASES_MS, Steady, fingerprints
from tests.model.kit.network import Network
from tests.model.kit.replies import Broken, ClaimReply, SettleReply
from tests.model.mixed.actors import Actor, Job, Producer, Reply
from tests.model.mixed.gateway import Gateway
from tests.model.mixed.truth import Exchange, Truth

AnyAttempt = TypeVar("AnyAttempt", bound=Attempt)
PASSES_MS = (200, 1_000, 2_500, 8_000)
# Longer than any lease and its repeats, and short enough to pass within a walk.
HORIZON_MS = 24_000
# By an hour, by a little more than the retention of ids, and back.
STEPS_MS = (3_600_000, 25_000, -10_000, -3_600_000)


@dataclass(frozen=True)
class Setup:
    """A way to run the walk.

    `actors`: the number that act in a walk. `stepping`: probability that a wall clock is set. `crowd`: with strangers.
    late, doubled: probability that a request arrives after its client's timeout, or twice. refusing: that a claimer's
    sink refuses a row, so that it releases its claim. payloads: that an actor's ids have payloads; other: that a
    payload is wrong.
    """

    widths: Widths = field(default_factory=Widths)
    compiled: bool = True
    actors: int = 4
    refusing: float = 0.15
    horizon_ms: int = 0
    stepping: float = 0.0
    crowd: bool = False
    late: float = 0.10
    doubled: float = 0.10
    payloads: float = 0.6
    other: float = 0.25
    steps: int = 70

    def world(self, seed: int) -> "World":
        return World(self, seed)


class World(Network):
    def __init__(self, setup: Setup, seed: int) -> None:
        super().__init__(random.Random(seed), setup.late, setup.doubled)
        self.setup, self.clock = setup, FakeClock()
        # A separate source, so that everything else goes as it would without payloads.
        self._payload_rng = random.Random(seed)
        ids = fingerprints(self.rng)
        shape = setup.widths, setup.compiled, setup.horizon_ms
        self.gateway: Gateway = Gateway(self.clock, self.rng.randbytes, ids, *shape)
        everybody = self._all()
        self.actors = {actor.name: actor for actor in self.rng.sample(everybody, min(setup.actors, len(everybody)))}
        self.truth = Truth(setup.horizon_ms, self.copies, lambda i: self.gateway.published[i])
        self.written: Counter[int] = Counter()
        self.job_wrote: set[tuple[str, int]] = set()
        self._crowd = len(IDS)

    def _all(self) -> list[Actor]:
        return [
            self._attempt("A", (0, 1)),
            self._attempt("C", (0,)),
            self._producer("P", (0, 1, 0)),
            self._producer("Q", (1, 0)),
            self._producer("M", (1, 0, 1), mixing=True),
            self._producer("N", (0, 1), mixing=True),
            Job("J", self.rng.randbytes(16), (0, 1)),
            Job("K", self.rng.randbytes(16), (1,)),
        ]

    def _attempt(self, name: str, wanted: tuple[int, ...]) -> Attempt:
        attempt = Attempt(name, self.rng.randbytes(16), wanted, self.rng.choice(LEASES_MS), self.setup.refusing)
        return self._with_payloads(attempt)

    def _producer(self, name: str, wanted: tuple[int, ...], mixing: bool = False) -> Producer:
        producer = Producer(
            name, self.rng.randbytes(16), wanted, self.rng.choice(LEASES_MS), self.setup.refusing, mixing=mixing
        )
        return self._with_payloads(producer)

    def _with_payloads(self, attempt: AnyAttempt) -> AnyAttempt:
        rng, setup = self._payload_rng, self.setup
        attempt.dropping = rng.random() < 0.5
        if rng.random() < setup.payloads:
            attempt.payloads = {i: 100 + i + 100 * (rng.random() < setup.other) for i in IDS}
        return attempt

    @property
    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    def copies(self, i: int) -> int:
        """Returns the copies of an id: in sinks, in the topic, and in jobs' output, where a second run replaces the
        first."""
        return self.written[i] + self.gateway.published[i] + sum(1 for _, j in self.job_wrote if j == i)

    # Requests as they reach the gateway, and their answers in the order of the decisions.

    def ask(self, request: Request) -> Exchange:
        alone = not self.gateway.group_commit.pending
        conflicting = frozenset(self.gateway.conflicting(request))
        return Exchange(self._seq, self.now_ms, request, self.gateway.call(request), alone, conflicting=conflicting)

    def heard(self, said: Exchange) -> None:
        said.reply = reply = said.call.reply
        if isinstance(reply, ClaimResult | ProduceResult):
            said.reply = _by_id(said.request, reply)
        self.truth.hear(said)
        if isinstance(reply, ProduceResult):
            rows = said.reply.verdicts.values() if isinstance(said.reply, ClaimReply) else ()
            self.truth.hear_rows(said, reply, sum(row.may_write for row in rows), self.gateway.places)

    def shown(self, said: Exchange) -> str:
        return _show(said.reply)

    def refuse(self) -> None:
        """Refuses the append, sometimes after a sweep, which must not drop anything that the undo needs."""
        if self.rng.random() < 0.5:
            self.gateway.index.claims.sweep(self.now_ms)
        super().refuse()

    def restarted(self) -> None:
        self.truth.restart(self._seq, self.now_ms)

    def read(self, actor: Actor, said: Exchange) -> None:
        if said.call.ended and said.reply is not None and not isinstance(said.reply, Retryable):
            actor.take(_for_client(said.reply))
            self.note(f"{actor.name} reads {_show(said.reply)}")

    # Steps.

    def step(self) -> None:
        chance, rng = self.rng.random(), self.rng
        if chance < 0.68:
            self._act(self.actors[rng.choice(list(self.actors))])
        elif chance < 0.77:
            self._pass(rng.choice(PASSES_MS) * (2 if self.setup.horizon_ms else 1))
        elif chance < 0.80:
            self.crash()
        elif chance < 0.86 and self._delayed:
            self.deliver_late()
        elif chance < 0.88:
            self.note("sweep")
            self.gateway.sweep()
        elif chance < 0.92:
            self.end_append()
        elif chance < 0.96:
            self._upkeep()
        elif chance < 0.96 + self.setup.stepping:
            self._step_wall(rng.choice(STEPS_MS))
        elif self.setup.crowd:
            self._come_and_go()
        self._check()

    def _act(self, actor: Actor) -> None:
        if not actor.trying:
            self._end_or_run_again(actor)
            return
        if self.rng.random() < 0.04:
            actor.alive = False
            self._waiting.pop(actor.name, None)
            self.note(f"{actor.name} dies")
            return
        if self.reads(actor):
            return
        request = actor.next(self.rng, self._write)
        if request is not None:
            self.send(actor, request)
        elif actor.finish():
            self.note(f"{actor.name} green")
            self._check_green(actor)

    def _end_or_run_again(self, actor: Actor) -> None:
        if isinstance(actor, Job) and self.rng.random() < 0.3:
            self.note(f"{actor.name} runs again")
            actor.run_again()

    def _write(self, actor: Actor, i: int) -> None:
        if isinstance(actor, Job):
            self.job_wrote.add((actor.name, i))
        else:
            self.written[i] += 1
        self.note(f"{actor.name} WRITES {i}")

    def _pass(self, duration_ms: int) -> None:
        """Advances the clock. If ids retire, the upkeep's timer fires once per bucket."""
        self.note(f"{duration_ms} ms pass")
        length_ms = bucket_ms(self.setup.horizon_ms) if self.setup.horizon_ms else duration_ms
        for begun_ms in range(0, duration_ms, length_ms):
            self.clock.advance(min(length_ms, duration_ms - begun_ms))
            self._upkeep()

    def _step_wall(self, step_ms: int) -> None:
        self.clock.step_wall_ms(step_ms)
        self.note(f"the wall clock is set by {step_ms} ms")

    def _upkeep(self) -> None:
        before = self.gateway.retired
        self.gateway.scheduler()
        if self.gateway.retired > before:
            self.note("a bucket retires")

    def _come_and_go(self) -> None:
        """Lets strangers produce, take, or claim and release ids of their own."""
        for _ in range(self.rng.randrange(1, 6)):
            self._crowd = len(IDS) + (self._crowd + 1) % (len(self.gateway.fingerprints) - len(IDS))
            token, way = self.rng.randbytes(16), self.rng.choice(("claim", "produce", "take"))
            said = self.gateway.call(Request("crowd", token, None, 1, (self._crowd,), 1_000, way=way))
            self.flush()
            if isinstance(said.reply, ClaimResult) and said.reply.claim is not None:
                self.gateway.call(Request("crowd", token, Verb.RELEASE, claim=said.reply.claim))
        self.flush()

    # The checks after every step.

    def _check(self) -> None:
        for i in IDS:
            if self.copies(i) == 0 and self.gateway.state(i) is IdState.DONE:
                raise Broken("LOSS", f"{i} is done and was never written")
            if self.gateway.published[i] > 1 + self.truth.again[i]:
                raise Broken("O2", f"{i} is in the topic {self.gateway.published[i]} times")
        copies = sum(max(0, self.copies(i) - 1) for i in IDS)
        if copies > self.gateway.takeovers + self.truth.again.total():
            raise Broken("P5", f"{copies} copies beyond the first, {self.gateway.takeovers} takeovers")
        for i, by in self.gateway.senders:
            if by != "crowd" and i not in self._wanted_by(by):
                raise Broken("O3", f"{i} of {by} is in the topic, {by} never sent it")

    def _wanted_by(self, name: str) -> tuple[int, ...]:
        return self.actors[name].wanted

    def _check_green(self, actor: Actor) -> None:
        for i in actor.wanted:
            ended = self.truth.ended.get(i)
            if self.copies(i) == 0 and (ended is None or ended.owner is None):
                raise Broken("LOSS", f"{actor.name} is green, {i} was never written")
            if not self.setup.horizon_ms and self.gateway.state(i) not in (IdState.DONE, IdState.TAKEN):
                raise Broken("P4", f"{actor.name} is green, {i} is not done")

    # At the end of a walk.

    def finish(self) -> None:
        """Lets one actor act alone, without losses: first one that is still trying, then a new one of each kind."""
        self.last_alone("-- from here on one acts alone")
        trying = [actor for actor in self.actors.values() if actor.trying]
        claimer, producer = self._attempt("D", (0, 1)), self._producer("E", (0, 1))
        claimer.dropping = producer.dropping = True
        last: list[Actor] = [claimer, producer, Job("L", self.rng.randbytes(16), (0, 1))]
        self.rng.shuffle(last)
        for actor in [*trying[:1], *last[:2]]:
            self.actors[actor.name] = actor
            self._run_alone(actor)
        self.crash()
        if self.setup.horizon_ms:
            self._let_all_go()

    def _run_alone(self, actor: Actor) -> None:
        for _ in range(60):
            if not actor.trying:
                break
            request = actor.next(Steady(), self._write)
            if request is None:
                if actor.finish():
                    self._check_green(actor)
                continue
            reply = self.handle(request)
            self.flush()
            self.note(f"{request} -> {_show(reply.reply)}")
            if not isinstance(reply.reply, Retryable):
                actor.take(_for_client(reply.reply))
            if isinstance(reply.reply, ClaimReply) and not any(row.may_write for row in reply.reply.verdicts.values()):
                self._pass(max(LEASES_MS) + 1)
            self._check()
        if actor.trying:
            raise Broken("P6", f"{actor.name} never gets there")

    def _let_all_go(self) -> None:
        """Checks that all ids are forgotten after the retention of ids, whatever the wall clock, except those of open
        claims."""
        everything = range(len(self.gateway.fingerprints))
        held = next((i for i in everything if self.gateway.state(i) is IdState.ABSENT), None)
        if held is not None:
            self.gateway.call(Request("crowd", self.rng.randbytes(16), None, 1, (held,), LEASES_MS[0]))
        self.flush()
        self._pass(2 * self.setup.horizon_ms)
        self.flush()
        old = [i for i in everything if self.gateway.state(i) in (IdState.DONE, IdState.TAKEN)]
        if old:
            raise Broken("H2", f"{old} are still known after two horizons")
        if held is not None and self.gateway.state(held) is IdState.ABSENT:
            raise Broken("H1", f"{held} was forgotten under an open claim")

    def run(self) -> None:
        for _ in range(self.setup.steps):
            self.step()
        self.finish()


def _by_id(request: Request, answer: ClaimResult | ProduceResult) -> ClaimReply:
    """Returns an answer by id, without repetitions within the request."""
    assert answer.verdicts is not None
    rows = [BY_BYTE[byte] for byte in answer.verdicts.tolist()]
    by_index = [row.verdict is Verdict.SAME and Flag.OF_CALL not in row.flags for row in rows]
    verdicts = {i: row for i, row, again in zip(request.ids, rows, by_index, strict=True) if not again}
    return ClaimReply(answer.claim if isinstance(answer, ClaimResult) else None, verdicts)


def _for_client(reply: object) -> Reply:
    if isinstance(reply, SettleResult):
        return SettleReply(reply.settled, reply.taken_over)
    assert isinstance(reply, ClaimReply | OncegateError)
    return reply


def _show(reply: object) -> str:
    if isinstance(reply, OncegateError):
        return type(reply).__name__
    if isinstance(reply, SettleResult):
        return f"{reply.settled} settled, {reply.taken_over} taken over"
    return "..." if reply is None else str(reply)
