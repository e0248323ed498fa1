"""The claims index against dictionaries of the expected state: hypothesis searches for a sequence with a difference.

The reference knows ids, claims and leases. The next action comes from the table, as in the index.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oncegate.core.claims import CLAIM, Action, Asker, ClaimState, IdState
from oncegate.core.entries.kinds import Claimed, Completed, Released
from oncegate.core.errors import TokenReused
from oncegate.index.claims.apply import ClaimUndo
from oncegate.index.claims.store import Widths
from oncegate.index.table.arrays import NO_DIGESTS, SAME_INDEX
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import NARROW, fingerprints, name

TOKENS = [name(letter) for letter in "abc"]
LEASES_MS = (100, 250)


@dataclass
class Claim:
    token: bytes
    call: int
    digest: bytes
    lease_ms: int
    until_ms: int
    granted: int
    ids: set[int]
    state: ClaimState = ClaimState.OPEN
    ended_ms: int = 0
    settled_with: int = 0

    def remembered(self, now_ms: int) -> bool:
        if self.state is ClaimState.OPEN:
            return bool(self.ids) or now_ms < self.until_ms + 2 * self.lease_ms
        return now_ms < self.ended_ms + 2 * self.lease_ms


@dataclass
class Reference:
    claims: dict[bytes, Claim] = field(default_factory=dict)
    holder: dict[int, bytes] = field(default_factory=dict)
    digests: dict[int, int] = field(default_factory=dict)
    calls: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    takeovers: int = 0

    def known(self, token: bytes, call: int, now_ms: int) -> bytes | None:
        claim = self.calls.get((token, call))
        return claim if claim is not None and self.claims[claim].remembered(now_ms) else None

    def cell(self, token: bytes, call: int, i: int, now_ms: int, digest: int = 0) -> tuple[IdState, Asker]:
        known = self.known(token, call, now_ms) is not None
        if i not in self.holder:
            return IdState.ABSENT, Asker.REPEAT if known else Asker.OTHER
        claim = self.claims[self.holder[i]]
        live = IdState.CLAIMED_LIVE if now_ms < claim.until_ms else IdState.CLAIMED_OVER
        done = IdState.DONE_OTHER if 0 not in (digest, self.digests[i]) and digest != self.digests[i] else IdState.DONE
        state = done if claim.state is ClaimState.DONE else live
        if known:
            return state, Asker.SAME_CLAIM if (claim.token, claim.call) == (token, call) else Asker.REPEAT
        return state, Asker.SAME_TOKEN if claim.token == token else Asker.OTHER

    def grant(self, claim: bytes, record: Claim, taken: set[int], digests: dict[int, int]) -> None:
        for i in record.ids & set(self.holder):
            self.claims[self.holder[i]].ids.discard(i)
        self.claims[claim] = record
        self.calls[record.token, record.call] = claim
        self.holder.update(dict.fromkeys(record.ids, claim))
        self.digests.update({i: digests.get(i, 0) for i in record.ids})
        self.takeovers += len(taken)

    def settle(self, claim: bytes, state: ClaimState, now_ms: int) -> None:
        record = self.claims[claim]
        record.state, record.ended_ms, record.settled_with = state, now_ms, len(record.ids)
        if state is ClaimState.RELEASED:
            for i in record.ids:
                del self.holder[i]
            record.ids = set()


class IndexAndReference(RuleBasedStateMachine):
    widths = Widths(capacity=2, segments=1)
    compiled = True

    def __init__(self) -> None:
        super().__init__()
        self.index = ClaimIndex(self.widths, self.compiled)
        self.reference = Reference()
        self.pending: list[tuple[ClaimUndo, Reference]] = []
        self.now_ms = self.position = 0

    @rule(
        token=st.sampled_from(TOKENS),
        call=st.integers(0, 3),
        ids=st.lists(st.integers(0, 7), min_size=1, max_size=6),
        lease_ms=st.sampled_from(LEASES_MS),
        refused=st.booleans(),
        payloads=st.just(()) | st.lists(st.integers(0, 2), min_size=6, max_size=6),
    )
    def claim(
        self, token: bytes, call: int, ids: list[int], lease_ms: int, refused: bool, payloads: Sequence[int]
    ) -> None:
        came = [*payloads, *[0] * 6][: len(ids)]
        digests = np.array(came, np.uint32) if payloads else NO_DIGESTS
        digest = bytes([*ids, *came]).ljust(16, b"!")
        known = self.reference.known(token, call, self.now_ms)
        if known is not None and self.reference.claims[known].digest != digest:
            with pytest.raises(TokenReused):
                self.index.decide(token, call, digest, fingerprints(ids), self.now_ms, digests=digests)
            return
        decision = self.index.decide(token, call, digest, fingerprints(ids), self.now_ms, digests=digests)
        assert decision.claim == known
        actions = []
        for place, i in enumerate(ids):
            first = ids.index(i)
            cell = self.reference.cell(token, call, i, self.now_ms, came[place])
            again = Action.CONFLICT if 0 != came[first] != came[place] != 0 else SAME_INDEX
            actions.append(CLAIM[cell].effect if first == place else again)
            assert decision.actions[place] == actions[-1]
            self.check_number(actions[-1], int(decision.numbers[place]), i, first)
        if Action.GRANT_AGAIN in actions:
            assert decision.again
            assert known is not None
            self.renewed(known)
        fresh = {i for i, action in zip(ids, actions, strict=True) if action == Action.GRANT}
        taken = {i for i, action in zip(ids, actions, strict=True) if action == Action.TAKE_OVER}
        assert sorted(map(bytes, decision.fresh)) == sorted(map(bytes, fingerprints(fresh)))
        assert sorted(map(bytes, decision.taken)) == sorted(map(bytes, fingerprints(taken)))
        if fresh or taken:
            claim = name(f"claim {len(self.reference.claims)}")
            granted = (decision.fresh.tobytes(), decision.taken.tobytes(), decision.digests)
            entry = Claimed(claim, token, call, digest, lease_ms, 0, *granted)
            record = Claim(token, call, digest, lease_ms, self.now_ms + lease_ms, len(fresh | taken), fresh | taken)
            of = {i: came[ids.index(i)] for i in ids}
            self.write(entry, refused, lambda: self.reference.grant(claim, record, taken, of))

    def check_number(self, action: int, number: int, i: int, first: int) -> None:
        if action == SAME_INDEX:
            assert number == first
        elif action == Action.SAME:
            assert number == self.reference.claims[self.reference.holder[i]].call
        elif action == Action.BUSY and i in self.reference.holder:
            assert number == max(0, self.reference.claims[self.reference.holder[i]].until_ms - self.now_ms)
        else:
            assert number == 0

    def write(self, entry: Claimed | Completed | Released, refused: bool, change: object) -> None:
        before = copy.deepcopy(self.reference)
        self.position += 1
        self.pending.append((self.index.apply(self.position, entry, self.now_ms), before))
        assert callable(change)
        change()
        if not refused:
            self.all_durable()

    @rule(data=st.data(), done=st.booleans(), refused=st.booleans())
    @precondition(lambda self: self.reference.claims)
    def settle(self, data: st.DataObject, done: bool, refused: bool) -> None:
        claim = data.draw(st.sampled_from(sorted(self.reference.claims)))
        if self.index.view(claim, self.now_ms).state is not ClaimState.OPEN:
            return
        entry = Completed(claim, 0) if done else Released(claim, 0)
        state = ClaimState.DONE if done else ClaimState.RELEASED
        self.write(entry, refused, lambda: self.reference.settle(claim, state, self.now_ms))

    @rule(data=st.data())
    @precondition(lambda self: self.reference.claims)
    def renew(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(sorted(self.reference.claims)))
        if self.index.view(claim, self.now_ms).state is ClaimState.OPEN:
            self.renewed(claim)

    def renewed(self, claim: bytes) -> None:
        """Renews a claim. A lease is no entry, so it is not undone with one."""
        self.index.renew(claim, self.now_ms)
        for reference in [self.reference, *(before for _, before in self.pending)]:
            if claim in reference.claims:
                reference.claims[claim].until_ms = self.now_ms + reference.claims[claim].lease_ms

    @rule()
    def all_durable(self) -> None:
        for undo, _ in self.pending:
            self.index.settle(undo)
        self.pending.clear()

    @rule()
    @precondition(lambda self: self.pending)
    def newest_refused(self) -> None:
        undo, self.reference = self.pending.pop()
        self.index.undo(undo)
        self.position -= 1

    @rule(duration_ms=st.sampled_from([1, 99, 100, 250, 1_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    @rule()
    def sweep(self) -> None:
        self.index.sweep(self.now_ms)

    @rule(ids=st.integers(1, 200))
    def more_room(self, ids: int) -> None:
        self.index.make_room(ids, self.now_ms)

    @invariant()
    def views_and_counters_agree(self) -> None:
        reference, now_ms = self.reference, self.now_ms
        assert self.index.ids == len(reference.holder)
        assert self.index.takeovers == reference.takeovers
        open_claims = [c for c in reference.claims.values() if c.state is ClaimState.OPEN and c.ids]
        assert self.index.open_claims == len(open_claims)
        for claim, record in reference.claims.items():
            view = self.index.view(claim, now_ms)
            if not record.remembered(now_ms):
                assert view.state is ClaimState.UNKNOWN
                continue
            named = len(record.ids) if record.state is ClaimState.OPEN else record.settled_with
            assert (view.state, view.granted, view.named) == (record.state, record.granted, named)

    @invariant()
    def ids_agree(self) -> None:
        for i, print_ in enumerate(fingerprints(range(8))):
            explained = self.index.explain(print_.tobytes(), self.now_ms)
            assert explained.state is self.reference.cell(b"", 0, i, self.now_ms)[0]
            assert explained.claim == self.reference.holder.get(i)
            held = i in self.reference.holder
            assert explained.digest_kept == (held and self.reference.digests[i] != 0)


class Narrow(IndexAndReference):
    widths = Widths(NARROW.tag_bits, NARROW.row_bits, capacity=2, segments=2)


class NarrowPlain(Narrow):
    compiled = False


_settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
for _machine in (IndexAndReference, Narrow, NarrowPlain):
    _machine.TestCase.settings = _settings
TestWide = IndexAndReference.TestCase
TestNarrow = Narrow.TestCase
TestNarrowPlain = NarrowPlain.TestCase
