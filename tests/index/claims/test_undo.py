"""Refused changes leave no trace: undoing any mixture of changes restores the index."""

import os
import random

import pytest

from oncegate.core.claims import ClaimState, IdState
from oncegate.core.entries.kinds import Claimed, Completed, Released
from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.store import Widths
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Driver, fingerprints, name

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
TOKENS = "abcd"
IDS = range(24)


class Twins:
    """Two indexes: both get the durable changes, and only the first also gets the undone ones."""

    def __init__(self, widths: Widths, rng: random.Random) -> None:
        self.tried, self.spared = ClaimIndex(widths), ClaimIndex(widths)
        self.rng = rng
        self.now_ms = 0
        self.position = 0
        self.calls: list[tuple[bytes, int, bytes, tuple[int, ...]]] = []
        self.claims: list[bytes] = []

    def random_entry(self, index: ClaimIndex) -> Claimed | Completed | Released | None:
        """Returns an entry that the present state of `index` allows."""
        rng = self.rng
        if self.claims and rng.random() < 0.45:
            claim = rng.choice(self.claims)
            if index.view(claim, self.now_ms).state is not ClaimState.OPEN:
                return None
            return rng.choice((Completed, Released))(claim, rng.randrange(1 << 40))
        token, call, ids = name(rng.choice(TOKENS)), rng.randrange(1 << 30), tuple(rng.sample(IDS, 4))
        digest = bytes(ids).ljust(16, b"!")
        decision = index.decide(token, call, digest, fingerprints(ids), self.now_ms)
        if not len(decision.fresh) and not len(decision.taken):
            return None
        claim = rng.randbytes(16)
        self.claims.append(claim)
        self.calls.append((token, call, digest, ids))
        return Claimed(claim, token, call, digest, LEASE_MS, 0, decision.fresh.tobytes(), decision.taken.tobytes())

    def keep(self) -> None:
        """Applies a durable entry."""
        entry = self.random_entry(self.spared)
        if entry is not None:
            self.position += 1
            for index in (self.tried, self.spared):
                index.settle(index.apply(self.position, entry, self.now_ms))

    def try_and_take_back(self) -> None:
        """Applies a group of entries and undoes them, with sweeps and growth in between."""
        pending: list[ClaimUndo] = []
        known = len(self.claims), len(self.calls)
        for _ in range(self.rng.randrange(1, 6)):
            entry = self.random_entry(self.tried)
            if entry is not None:
                pending.append(self.tried.apply(self.position + len(pending) + 1, entry, self.now_ms))
            self.disturb()
        for undo in reversed(pending):
            self.tried.undo(undo)
            self.disturb()
        # The undone ones were never answered: no client can name them.
        del self.claims[known[0] :], self.calls[known[1] :]

    def disturb(self) -> None:
        chance = self.rng.random()
        if chance < 0.2:
            self.tried.sweep(self.now_ms)
        elif chance < 0.3:
            self.tried.make_room(self.rng.choice((20, 60)), self.now_ms)

    def answers(self, index: ClaimIndex) -> list[object]:
        found: list[object] = [index.contents(), index.ids, index.open_claims, index.takeovers]
        found.extend(index.view(claim, self.now_ms) for claim in self.claims)
        stranger = (name("z"), 1, bytes(16), tuple(IDS))
        for token, call, digest, ids in [*self.calls, stranger]:
            decision = index.decide(token, call, digest, fingerprints(ids), self.now_ms)
            found.append((decision.verdicts.tolist(), decision.numbers.tolist(), decision.claim, decision.again))
        return found


@pytest.mark.parametrize("widths", [Widths(capacity=8, segments=2), NARROW], ids=["wide", "narrow"])
def test_undone_changes_leave_no_trace(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 10):
        twins = Twins(widths, random.Random(seed))
        for _ in range(30):
            twins.keep()
            twins.now_ms += twins.rng.choice((0, 200, LEASE_MS, 3 * LEASE_MS))
            twins.try_and_take_back()
            assert twins.answers(twins.tried) == twins.answers(twins.spared), f"seed {seed}"


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_takeover_that_was_refused_gives_the_ids_back_to_their_holder(compiled: bool) -> None:
    driver = Driver(NARROW, compiled)
    claim = driver.claim("a", 1, [1, 2]).claim
    assert claim is not None
    driver.now_ms += LEASE_MS
    taker = driver.claim("b", 1, [1, 2, 3], settled=False)
    assert driver.index.open_claims == 1
    assert taker.undo is not None
    driver.index.make_room(1_000, driver.now_ms)
    driver.undo(taker.undo)
    assert driver.index.view(claim, driver.now_ms).named == 2
    assert (driver.index.ids, driver.index.open_claims, driver.index.takeovers) == (2, 1, 0)
    driver.complete(claim)
    assert driver.claim("c", 1, [1, 2, 3]).words == ["DUPLICATE", "DUPLICATE", "GRANTED"]


def test_a_claim_that_was_refused_may_be_asked_for_again_by_the_same_call() -> None:
    driver = Driver()
    refused = driver.claim("a", 1, [1, 2], settled=False)
    assert refused.undo is not None
    driver.undo(refused.undo)
    assert driver.claim("a", 1, [1, 2]).words == ["GRANTED", "GRANTED"]


@pytest.mark.parametrize("settle", ["complete", "release"])
def test_a_settling_that_was_refused_leaves_the_claim_open_swept_or_not(settle: str) -> None:
    driver = Driver(NARROW)
    claim = driver.claim("a", 1, range(5)).claim
    assert claim is not None
    undo = getattr(driver, settle)(claim, settled=False)
    driver.now_ms += 10 * LEASE_MS
    driver.index.sweep(driver.now_ms)
    driver.undo(undo)
    assert driver.index.view(claim, driver.now_ms).state is ClaimState.OPEN
    states = {driver.index.explain(fp.tobytes(), driver.now_ms).state for fp in fingerprints(range(5))}
    assert states == {IdState.CLAIMED_OVER}


def test_pending_changes_upon_each_other_are_taken_back_newest_first() -> None:
    driver = Driver(NARROW)
    claim = driver.claim("a", 1, [1, 2]).claim
    before = driver.index.contents()
    pending = [driver.release(claim, settled=False)]
    for token in "bcd":
        answer = driver.claim(token, 1, [1, 2], settled=False)
        assert answer.words == ["GRANTED", "GRANTED"]
        assert answer.undo is not None
        pending += [answer.undo, driver.release(answer.claim, settled=False)]
        driver.index.sweep(driver.now_ms)
    for undo in reversed(pending):
        driver.undo(undo)
    assert driver.index.contents() == before


def test_a_settled_change_cannot_be_settled_twice() -> None:
    driver = Driver()
    undo = driver.claim("a", 1, [1]).undo
    assert undo is not None
    with pytest.raises(AssertionError):
        driver.index.settle(undo)
