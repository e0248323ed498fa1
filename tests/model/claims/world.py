"""The reality around a gateway: attempts that write, a lossy network, and the checks.

The world knows which rows were written and which claims were acknowledged, never the gateway's internal state:

    P1    an acknowledged completion is never granted again
    P2    an id of a live claim is granted to no other attempt
    P3    replaying the ledger gives the index                       (gateway.py)
    P4    an attempt is green only when all its ids are done
    P5    copies of an id beyond the first <= ids granted by takeover
    P6    an attempt that keeps trying, alone, finishes; no attempt is rejected without cause. Without takeovers, only
          ids of a claim that was never settled may prevent it from finishing
    LOSS  no id is done, and no attempt green, without a write
    COUNT a settling returns the number of ids that it settled;  SWEEP  a sweep changes no answer   (gateway.py)
"""

import random
from dataclasses import dataclass, field

from oncegate.core.claims import LeaseExpiry, Verb
from oncegate.core.errors import OncegateError, Overloaded, ReleasedClaim, Retryable, UnknownClaim
from oncegate.index.claims.store import Widths
from tests.model.claims.gateway import Gateway
from tests.model.kit.attempt import Attempt, Request
from tests.model.kit.chance import IDS, LEASES_MS, Steady, fingerprints
from tests.model.kit.replies import Broken, ClaimReply, SettleReply

WANTED = {"A": (0, 1), "B": (1, 0, 1), "C": (0,)}


@dataclass(frozen=True)
class Setup:
    """A way to run the model.

    chaff: a crowd of other claims comes and goes, so that rows and slots are reused. late, doubled: probability that a
    request arrives after its client's timeout, or twice. refusing: probability that a sink refuses a row. full:
    probability that the ledger refuses an append, so that the index undoes it. expiry: the handling of expired leases.
    """

    widths: Widths = field(default_factory=Widths)
    compiled: bool = True
    chaff: bool = False
    late: float = 0.08
    doubled: float = 0.06
    refusing: float = 0.15
    full: float = 0.05
    expiry: LeaseExpiry = LeaseExpiry.TAKEOVER
    steps: int = 70

    def world(self, seed: int) -> "World":
        return World(self, seed)


@dataclass
class Truth:
    """The external knowledge about one claim: its token, its deadline, and how it ended."""

    token: bytes
    lease_ms: int
    until_ms: int
    done: bool = False
    released: bool = False
    ended_ms: int = 0


class World:
    def __init__(self, setup: Setup, seed: int) -> None:
        self.rng = random.Random(seed)
        self.setup = setup
        self.gateway = Gateway(setup.widths, setup.compiled, fingerprints(self.rng), self.rng, setup.expiry)
        self.attempts = {name: self._attempt(name, wanted) for name, wanted in WANTED.items()}
        self.written = dict.fromkeys(IDS, 0)
        self.acknowledged: set[int] = set()
        self.holders: dict[int, bytes] = {}
        self.claims: dict[bytes, Truth] = {}
        self.delayed: list[Request] = []
        self.trace: list[str] = []

    def _attempt(self, name: str, wanted: tuple[int, ...]) -> Attempt:
        return Attempt(name, self.rng.randbytes(16), wanted, self.rng.choice(LEASES_MS), self.setup.refusing)

    # Requests as they reach the gateway: on time, late, or for the second time.

    def handle(self, request: Request) -> ClaimReply | SettleReply | OncegateError:
        self.gateway.refuse = self.rng.random() < self.setup.full
        try:
            if request.verb is None:
                return self._claim(request)
            return self._settle(request.verb, request.claim)
        except OncegateError as error:
            if isinstance(error, UnknownClaim | ReleasedClaim):
                self._check_stopped(request.claim, error)
            return error

    def _claim(self, request: Request) -> ClaimReply:
        now_ms = self.gateway.now_ms
        reply = self.gateway.claim(request.token, request.call, request.ids, request.lease_ms)
        granted = [i for i, row in reply.verdicts.items() if row.may_write]
        for i in granted:
            if i in self.acknowledged:
                raise Broken("P1", f"{i} granted though its completion was acknowledged")
            holder = self.holders.get(i)
            if holder not in (None, reply.claim) and now_ms < self.claims[holder].until_ms:
                raise Broken("P2", f"{i} granted while a live claim holds it")
        if granted:
            assert reply.claim is not None
            lease_ms = request.lease_ms
            truth = self.claims.setdefault(reply.claim, Truth(request.token, lease_ms, 0))
            truth.until_ms = now_ms + lease_ms
            self.holders.update(dict.fromkeys(granted, reply.claim))
        return reply

    def _settle(self, verb: Verb, claim: bytes) -> SettleReply:
        truth, now_ms = self.claims[claim], self.gateway.now_ms
        reply = self.gateway.settle(verb, claim)
        held = [i for i, holder in self.holders.items() if holder == claim]
        is_open = not truth.done and not truth.released
        if is_open and reply.settled != len(held):
            raise Broken("COUNT", f"{verb.name} told {reply.settled} ids, {len(held)} are the claim's")
        if verb is Verb.RENEW and is_open:
            truth.until_ms = now_ms + truth.lease_ms
        elif verb is Verb.COMPLETE and not truth.released:
            self.acknowledged.update(held)
            self._end(truth, held, done=True)
        elif verb is Verb.RELEASE and not truth.done:
            self._end(truth, held, done=False)
        return reply

    def _end(self, truth: Truth, held: list[int], done: bool) -> None:
        if not truth.done and not truth.released:
            truth.done, truth.released, truth.ended_ms = done, not done, self.gateway.now_ms
        for i in held:
            del self.holders[i]

    def _check_stopped(self, claim: bytes, error: OncegateError) -> None:
        """Checks that a refusal has a cause: a release by the holder, or a forgotten claim.

        A claim is forgotten after two leases, or when rows run out.
        """
        truth, now_ms = self.claims[claim], self.gateway.now_ms
        if isinstance(error, ReleasedClaim):
            if not truth.released:
                raise Broken("P6", "stopped for a release that never was")
            return
        settled = truth.done or truth.released
        end_ms = truth.ended_ms if settled else truth.until_ms
        holds = not settled and claim in self.holders.values()
        due = now_ms >= end_ms + 2 * truth.lease_ms
        if holds or not (due or self.setup.chaff):
            raise Broken("P6", "stopped though the claim must be remembered")

    # The network.

    def send(self, request: Request) -> ClaimReply | SettleReply | OncegateError | None:
        """Sends a request. Returns the reply, or None if the client times out: the request is late or its reply is
        lost."""
        chance, setup = self.rng.random(), self.setup
        if chance < setup.late + setup.doubled:
            self.delayed.append(request)
        if chance < setup.late:
            self._note(f"{request} [delayed]")
            return None
        reply = self.handle(request)
        self._note(f"{request} -> {_told(reply)}{' [reply lost]' if chance > 0.9 else ''}")
        return None if chance > 0.9 else reply

    def _note(self, line: str) -> None:
        self.trace.append(line)

    # Steps.

    def step(self) -> None:
        chance, rng = self.rng.random(), self.rng
        if chance < 0.70:
            self._act(self.attempts[rng.choice("ABC")])
        elif chance < 0.79:
            self._pass(rng.choice((200, 1_000, 2_500, 8_000)))
        elif chance < 0.86 and self.delayed:
            request = self.delayed.pop(rng.randrange(len(self.delayed)))
            self._note(f"late: {request} -> {_told(self.handle(request))}")
        elif chance < 0.90:
            self._crash()
        elif chance < 0.95:
            self._note("sweep")
            self.gateway.sweep(list(self.claims))
        elif self.setup.chaff:
            self._blow_chaff()
        self._check()

    def _act(self, attempt: Attempt) -> None:
        if self.rng.random() < 0.04 and attempt.trying:
            attempt.alive = False
            self._note(f"{attempt.name} dies")
            return
        request = attempt.next(self.rng, self._write)
        if request is not None:
            reply = self.send(request)
            if reply is not None and not isinstance(reply, Retryable):
                attempt.take(reply)
        elif attempt.finish():
            self._note(f"{attempt.name} green")
            self._check_green(attempt)

    def _write(self, attempt: Attempt, i: int) -> None:
        self.written[i] += 1
        self._note(f"{attempt.name} WRITES {i}")

    def _pass(self, duration_ms: int) -> None:
        self.gateway.now_ms += duration_ms
        self._note(f"{duration_ms} ms pass")

    def _crash(self) -> None:
        self._note("crash and replay")
        self.gateway.crash()
        for truth in self.claims.values():
            truth.until_ms = self.gateway.now_ms + truth.lease_ms
            truth.ended_ms = self.gateway.now_ms

    def _blow_chaff(self) -> None:
        """Makes strangers claim ids of their own and release them at once."""
        gateway, self.gateway.refuse = self.gateway, False
        others = range(len(IDS), len(gateway.fingerprints))
        try:
            for _ in range(self.rng.randrange(1, 6)):
                ids = self.rng.sample(others, self.rng.randrange(1, 4))
                reply = gateway.claim(self.rng.randbytes(16), 1, ids, 100)
                if reply.claim is not None:
                    gateway.settle(Verb.RELEASE, reply.claim)
        except Overloaded:
            self._note("chaff: overloaded")

    # The checks after every step.

    def _check(self) -> None:
        for i in IDS:
            if self.written[i] == 0 and self.gateway.is_done(i):
                raise Broken("LOSS", f"{i} is done and was never written")
        self._check_copies()

    def _check_copies(self) -> None:
        copies = sum(max(0, times - 1) for times in self.written.values())
        if self.gateway.index.takeovers and self.setup.expiry is not LeaseExpiry.TAKEOVER:
            raise Broken("P5", f"{self.gateway.index.takeovers} takeovers although none is possible")
        if copies > self.gateway.index.takeovers:
            raise Broken("P5", f"{copies} copies, {self.gateway.index.takeovers} takeovers")

    def _check_green(self, attempt: Attempt) -> None:
        for i in attempt.wanted:
            if self.written[i] == 0:
                raise Broken("LOSS", f"{attempt.name} is green, {i} was never written")
            if not self.gateway.is_done(i):
                raise Broken("P4", f"{attempt.name} is green, {i} is not done")

    # P6, at the end of a walk.

    def finish(self) -> None:
        """Lets one attempt act alone, without losses: first one that is still trying, then a new one."""
        trying = [attempt for attempt in self.attempts.values() if attempt.trying]
        self._note("-- from here on one attempt acts alone")
        for attempt in [*trying[:1], self._attempt("D", (0, 1))]:
            self._run_alone(attempt)
        self.gateway.check_replay()

    def _run_alone(self, attempt: Attempt) -> None:
        for _ in range(60):
            if not attempt.trying:
                break
            request = attempt.next(Steady(), self._write)
            if request is None:
                if attempt.finish():
                    self._check_green(attempt)
                continue
            reply = self.handle(request)
            self._note(f"{request} -> {_told(reply)}")
            if not isinstance(reply, Retryable):
                attempt.take(reply)
            if isinstance(reply, ClaimReply) and not any(row.may_write for row in reply.verdicts.values()):
                self._pass(max(LEASES_MS) + 1)
            self._check()
        if attempt.trying and not self._is_held_up(attempt):
            raise Broken("P6", f"{attempt.name} never gets there")

    def _is_held_up(self, attempt: Attempt) -> bool:
        """Returns whether an unsettled claim blocks the attempt. Without takeovers only a person can resolve such a
        claim, which may also be a call that the attempt itself gave up without an answer."""
        held = {self.holders[i] for i in attempt.wanted if i in self.holders}
        return self.setup.expiry is not LeaseExpiry.TAKEOVER and bool(held - set(attempt.granted.values()))

    def run(self) -> None:
        for _ in range(self.setup.steps):
            if not self.delayed and not any(attempt.trying for attempt in self.attempts.values()):
                break
            self.step()
        self.finish()


def _told(reply: object) -> str:
    return type(reply).__name__ if isinstance(reply, OncegateError) else str(reply)
