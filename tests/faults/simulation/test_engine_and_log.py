"""A state machine over the engine and the log ledger, with kills, lost replies and expired leases.

The machine knows only the writers' actions and answers; it contains no rule of the gateway.
"""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.entries.kinds import Name
from oncegate.core.verdicts import Verdict
from oncegate.engine.requests import CommitResult
from oncegate.index.table.grants import REPEATS_KNOWN_MS
from tests.support.simulated_world import LEASE_MS, World

IS_RANDOM = "ONCEGATE_RANDOM" in os.environ
IDS = ["a", "b", "c"]
# Twice the longest lease, which is that of produced rows: afterwards the claims can no longer be named.
SETTLED_MS = 2 * REPEATS_KNOWN_MS


@dataclass
class Holding:
    """A claim as its holder knows it. `written`: the ids were handed to the sink."""

    claim: bytes
    ids: list[str]
    written: bool = False


@dataclass
class Attempt:
    token: bytes
    calls: int = 0
    holdings: list[Holding] = field(default_factory=list)


class EngineAndLog(RuleBasedStateMachine):
    """Three ids, a few attempts, one stream of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory(prefix="oncegate-sim-")
        self.copies = dict.fromkeys(IDS, 0)
        self.acknowledged: set[str] = set()
        self.attempts: list[Attempt] = []
        self.published: list[str] = []
        self.produced: list[str] = []
        self.batch = 0
        self.last: tuple[Name, list[object], bytes] | None = None

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.world = World(Path(self.place.name), seed)

    def teardown(self) -> None:
        self.world.close()
        self.place.cleanup()

    @rule(which=st.integers(0, 2), ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=4), lost=st.booleans())
    def claim(self, which: int, ids: list[str], lost: bool) -> None:
        """Claims ids. If the reply is lost the claim is repeated, and only the repeat's answer counts."""
        attempt, call = self.next_call(which)
        if lost:
            self.world.claim(attempt.token, call, ids)
        claim, verdicts = self.world.claim(attempt.token, call, ids)
        granted = [id_ for id_, verdict in zip(ids, verdicts, strict=True) if verdict is Verdict.GRANTED]
        for id_, verdict in zip(ids, verdicts, strict=True):
            if verdict is Verdict.DUPLICATE:
                assert self.copies_of(id_) > 0, f"LOSS: {id_} is DUPLICATE and was never written"
            if verdict is Verdict.GRANTED:
                assert id_ not in self.acknowledged, f"P1: {id_} is granted after an acknowledged completion"
        assert len(set(granted)) == len(granted), "one request is granted an id once"
        if claim is not None:
            attempt.holdings.append(Holding(claim, granted))

    def next_call(self, which: int) -> tuple[Attempt, int]:
        """Returns an attempt and the number of its next request."""
        while len(self.attempts) <= which:
            self.attempts.append(Attempt(self.world.random.randbytes(16)))
        attempt = self.attempts[which]
        attempt.calls += 1
        return attempt, attempt.calls - 1

    def copies_of(self, id_: str) -> int:
        """Returns the copies in the writers' own sink and in the topic of produced rows."""
        return self.copies[id_] + self.produced.count(id_)

    @rule(which=st.integers(0, 2), ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=4), lost=st.booleans())
    def produce(self, which: int, ids: list[str], lost: bool) -> None:
        """Produces rows by their ids; repeats the request if the reply is lost."""
        attempt, call = self.next_call(which)
        if lost:
            self.world.produce(attempt.token, call, ids)
        verdicts = self.world.produce(attempt.token, call, ids)
        self.produced = self.world.read("rows")
        for id_, verdict in zip(ids, verdicts, strict=True):
            if verdict in (Verdict.GRANTED, Verdict.DUPLICATE):
                assert self.copies_of(id_) > 0, f"LOSS: {id_} is answered {verdict.name} and stands nowhere"
            if verdict is Verdict.GRANTED:
                assert id_ not in self.acknowledged, f"P1: {id_} is written after an acknowledged completion"
                self.acknowledged.add(id_)

    @rule()
    def compact(self) -> None:
        self.world.compact()

    @rule()
    def seal(self) -> None:
        self.world.clock.advance(SETTLED_MS)
        self.world.seal()

    @rule(which=st.integers(0, 2))
    def write(self, which: int) -> None:
        for holding in [h for a in self.attempts[which : which + 1] for h in a.holdings if not h.written][:1]:
            holding.written = True
            for id_ in holding.ids:
                self.copies[id_] += 1

    @rule(which=st.integers(0, 2), lost=st.booleans())
    def complete(self, which: int, lost: bool) -> None:
        for attempt in self.attempts[which : which + 1]:
            for holding in [h for h in attempt.holdings if h.written][:1]:
                attempt.holdings.remove(holding)
                if lost:
                    self.world.settle(Verb.COMPLETE, holding.claim)
                answer = self.world.settle(Verb.COMPLETE, holding.claim)
                if isinstance(answer, tuple) and answer[0] is ClaimState.DONE and answer[2] == 0:
                    self.acknowledged.update(holding.ids)

    @rule(which=st.integers(0, 2))
    def release(self, which: int) -> None:
        for attempt in self.attempts[which : which + 1]:
            for holding in [h for h in attempt.holdings if not h.written][:1]:
                attempt.holdings.remove(holding)
                self.world.settle(Verb.RELEASE, holding.claim)

    @rule(which=st.integers(0, 2))
    def die(self, which: int) -> None:
        """Replaces an attempt, which dies with everything that it holds."""
        if which < len(self.attempts):
            self.attempts[which] = Attempt(self.world.random.randbytes(16))

    @rule(duration_ms=st.sampled_from([1, LEASE_MS - 1, LEASE_MS, 3 * LEASE_MS]))
    def time_passes(self, duration_ms: int) -> None:
        self.world.clock.advance(duration_ms)

    @rule(step_ms=st.sampled_from([-86_400_000, 3_600_000]))
    def the_wall_clock_is_stepped(self, step_ms: int) -> None:
        self.world.clock.step_wall_ms(step_ms)

    @rule(torn_bytes=st.sampled_from([0, 0, 1, 100, 4096, 5000]))
    def kill(self, torn_bytes: int) -> None:
        """Kills the gateway; its clients repeat unanswered requests."""
        self.world.kill(torn_bytes)

    @rule(parts=st.integers(1, 3), lost=st.booleans())
    def write_a_batch(self, parts: int, lost: bool) -> None:
        name = Name("query", str(self.batch), "topic")
        rows = [f"{self.batch}-{n}" for n in range(6)]
        winners = [self.world.stage(name, "run:1", rows[part::parts]) for part in range(parts)]
        self.world.stage(name, "run:1", rows[:3])
        nonce, digest = self.world.random.randbytes(16), self.batch.to_bytes(32, "big")
        answer = self.world.commit(name, "1", nonce, winners, digest)
        if lost:
            answer = self.world.commit(name, "1", nonce, winners, digest)
        assert isinstance(answer, CommitResult), answer
        assert answer.outcome == "COMMITTED"
        self.published += [value for part in range(parts) for value in rows[part::parts]]
        self.last, self.batch = (name, list(rows), digest), self.batch + 1

    @precondition(lambda self: self.last is not None)
    @rule(parts=st.integers(1, 3))
    def replay_the_last_batch(self, parts: int) -> None:
        """Lets another run write the same batch under the same name, partitioned differently."""
        assert self.last is not None
        name, rows, digest = self.last
        run = self.world.random.randbytes(4).hex()
        winners = [
            self.world.stage(name, f"run:{run}", [str(row) for row in rows[part::parts]]) for part in range(parts)
        ]
        answer = self.world.commit(name, run, self.world.random.randbytes(16), winners, digest)
        assert isinstance(answer, CommitResult), answer
        assert answer.outcome == "DUPLICATE"

    @invariant()
    def copies_beyond_the_first_are_counted_as_takeovers(self) -> None:
        if hasattr(self, "world"):
            takeovers = self.world.gateway.namespace("default").home.counters()["takeovers"]
            assert sum(max(0, self.copies_of(id_) - 1) for id_ in IDS) <= takeovers, "P5"

    @invariant()
    def what_was_published_can_be_read_once_and_in_order(self) -> None:
        if hasattr(self, "world"):
            assert self.world.read("topic") == self.published
            rows = self.world.read("rows")
            assert rows == self.produced, "O1, O3"
            assert len(set(rows)) == len(rows), "O2: a produced id is stored once"


@pytest.mark.slow
def test_the_engine_over_a_log_keeps_its_promises_when_it_is_killed() -> None:
    """The same walks each time. With ONCEGATE_RANDOM set they differ, and failures print how to repeat them."""
    limits = settings(
        max_examples=40,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        derandomize=not IS_RANDOM,
    )
    EngineAndLog.TestCase.settings = limits
    EngineAndLog.TestCase().runTest()
