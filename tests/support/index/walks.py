"""A random walk over an index, and every request that can be made of one."""

import random
from collections.abc import Sequence

import numpy as np

from oncegate.core.claims import ClaimState, IdState
from oncegate.core.errors import Overloaded
from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.store import Widths
from oncegate.index.table.arrays import NO_DIGESTS
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, fingerprints, name
from tests.support.index.verbs import VerbDriver, digest_of

IDS = range(30)
TOKENS = "abc"


class Walk(VerbDriver):
    """Claims, rows, takes, completes, releases, retirement, sweeps and time, at random; changes may stay pending."""

    def __init__(self, widths: Widths, rng: random.Random, compiled: bool = True, payloads: bool = False) -> None:
        super().__init__(widths, compiled)
        self.rng = rng
        self.payloads = payloads
        self.calls: list[tuple[str, int, list[int]]] = []
        self.claims: list[bytes] = []
        self.pending: list[ClaimUndo] = []

    def step(self) -> None:
        rng = self.rng
        self.now_ms += rng.choice((0, 0, 300, LEASE_MS, 3 * LEASE_MS, 9_000))
        try:
            change = rng.choice((self._grants, self._grants, self._settles, self._retires, self._sweeps))()
        except Overloaded:
            return
        if change is not None:
            self.pending.append(change)
        if rng.random() < 0.5:
            self.all_durable()
        elif self.pending and rng.random() < 0.2:
            self.undo(self.pending.pop())

    def all_durable(self) -> None:
        for undo in self.pending:
            self.index.settle(undo)
        self.pending.clear()

    def _grants(self) -> ClaimUndo | None:
        verb, token, call = self.rng.choice(("claim", "produce", "take")), self.rng.choice(TOKENS), len(self.calls)
        ids = self.rng.sample(IDS, 4)
        answer = self.does(verb, token, call, ids, settled=False, digests=self._digests())
        if verb != "take":
            self.calls.append((token, call, ids))
        if answer.claim is not None:
            self.claims.append(answer.claim)
        return answer.undo

    def _digests(self) -> np.ndarray:
        """Returns digests of four payloads, few of them distinct, or none."""
        if not self.payloads or self.rng.random() < 0.3:
            return NO_DIGESTS
        return np.array([self.rng.randrange(4) for _ in range(4)], np.uint32)

    def _settles(self) -> ClaimUndo | None:
        is_open = [c for c in self.claims if self.index.view(c, self.now_ms).state is ClaimState.OPEN]
        if not is_open:
            return None
        return self.rng.choice((self.complete, self.release))(self.rng.choice(is_open), settled=False)

    def _retires(self) -> ClaimUndo | None:
        oldest_ms = self.index.oldest_wall_ms
        if oldest_ms is None or self.rng.random() < 0.5:
            return None
        return self.retire(oldest_ms + self.rng.choice((1, 5_000, 20_000)), settled=False)

    def _sweeps(self) -> None:
        if self.rng.random() < 0.5:
            self.index.sweep(self.now_ms)
        else:
            self.index.make_room(self.rng.choice((10, 100)), self.now_ms)


def answers(
    index: ClaimIndex, calls: Sequence[tuple[str, int, list[int]]], claims: Sequence[bytes], now_ms: int
) -> list[object]:
    """Returns all answers of an index: repeated and new calls, a stranger's, an owner's, each claim and id, all
    counters."""
    found: list[object] = []
    prints = fingerprints(IDS)
    for token, call, ids in [*calls, *((token, 99_999, list(IDS)) for token in (*TOKENS, "x"))]:
        for verb in ("claim", "produce"):
            decision = index.decide(name(token), call, digest_of(ids), prints, now_ms, verb)
            found.append((decision.verdicts.tolist(), decision.numbers.tolist(), decision.claim, decision.again))
            digests = np.full(len(IDS), 3, np.uint32)
            found.append(
                index.decide(name(token), call, digest_of(ids), prints, now_ms, verb, digests).actions.tolist()
            )
    for token in (*TOKENS, "x"):
        decision = index.decide_take(name(token), fingerprints(IDS), now_ms)
        found.append((decision.verdicts.tolist(), decision.numbers.tolist()))
    found.append([index.view(claim, now_ms) for claim in claims])
    explained = [index.explain(print_.tobytes(), now_ms) for print_ in fingerprints(IDS)]
    found.append([item if item.state is not IdState.ABSENT else None for item in explained])
    found.append((index.contents(), index.ids, index.open_claims, index.takeovers))
    found.append(index.oldest_wall_ms)
    return found
