"""Free ids: claim, renew, complete, release, explain."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import SETTLE, Action, ClaimState, Effect, Verb
from oncegate.core.entries.kinds import Claimed, Completed, Released, Taken
from oncegate.core.errors import Overloaded, ReleasedClaim, TooLarge, UnknownClaim
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import count_verdicts
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import ClaimAnswer, ClaimAsk, SettleAnswer, TakeAsk
from oncegate.engine.usecases.batch_scopes import is_over, scoped, stale
from oncegate.hashing.requests import digest_of_ids
from oncegate.index.claims.results import Asked, Explained
from oncegate.index.table.arrays import NO_DIGESTS
from oncegate.index.table.grants import NO_CLAIM

STATE_AFTER = {
    Effect.EXTEND: ClaimState.OPEN,
    Effect.MARK_DONE: ClaimState.DONE,
    Effect.FREE: ClaimState.RELEASED,
}


def digest_of(ask: ClaimAsk) -> bytes:
    """16 bytes by which a repeat of (token, call) is told from another request."""
    digest = digest_of_ids(ask.ids)
    if ask.digests is None:
        return digest
    return hashlib.blake2b(digest + ask.digests.tobytes(), digest_size=16).digest()


class Claims:
    """The use cases of free ids over one journal. Answers wait until what they rest on is durable."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._index = journal.index.claims

    async def claim(self, ask: ClaimAsk, deadline: Deadline) -> ClaimAnswer:
        """Which of these ids may be written: a verdict each, in order. All STALE where the batch was acked.

        Raises TokenReused, TooLarge, BadRequest, Overloaded, LedgerFull, DeadlinePassed: nothing was written;
        LedgerDown: unknown, repeat the same token and call.
        """
        lease_ms = self._check(ask)
        deadline.check()
        if ask.scope is not None and await is_over(self._journal, ask.scope):
            return ClaimAnswer(None, lease_ms, *stale(self._journal, len(ask.ids)))
        now_ms = self._journal.clock.monotonic_ms()
        digests = NO_DIGESTS if ask.digests is None else ask.digests
        digest = digest_of(ask)
        asked = self._index.ask(ask.token, ask.call, digest, ask.ids, now_ms, digests=digests)
        claim, rests_on = None, asked.rests_on
        if asked.again and asked.claim is not None:
            claim = asked.claim
            self._index.renew(claim, now_ms)
            lease_ms = self._index.view(claim, now_ms).lease_ms
        if len(asked.fresh) or len(asked.taken):
            assert not asked.again, "a repeat grants nothing new"
            claim, rests_on = self._grant(ask, asked, digest, lease_ms)
        elif asked.claim is not None and bool((asked.actions == Action.BUSY).any()):
            # Who takes over what was this claim's may yet be refused, and then it is this claim's again.
            rests_on = self._journal.committer.next_position - 1
        await self._journal.committer.durable(rests_on)
        count_verdicts(self._journal.counts, asked.actions, asked.verdicts)
        return ClaimAnswer(claim, lease_ms, asked.verdicts, asked.numbers)

    def _check(self, ask: ClaimAsk) -> int:
        self._check_count(ask.ids)
        return self._journal.lease_ms(ask.lease_ms)

    def _check_count(self, ids: NDArray[np.uint64]) -> None:
        if len(ids) > self._journal.limits.ids_per_request:
            raise TooLarge(f"{len(ids)} ids in one request; at most {self._journal.limits.ids_per_request}")

    def _grant(self, ask: ClaimAsk, asked: Asked, digest: bytes, lease_ms: int) -> tuple[bytes, int]:
        journal = self._journal
        journal.committer.check()
        if self._index.open_claims >= journal.limits.open_claims:
            raise Overloaded(f"{journal.limits.open_claims} claims are open; nothing was written")
        ids, now_ms = len(asked.fresh) + len(asked.taken), journal.clock.monotonic_ms()
        self._index.make_room(ids, now_ms, digests=bool(asked.digests))
        claim, wall_ms = journal.random(16), journal.wall_ms()
        fresh, taken = asked.fresh.tobytes(), asked.taken.tobytes()
        entry = Claimed(claim, ask.token, ask.call, digest, lease_ms, wall_ms, fresh, taken, asked.digests)
        return claim, journal.record([entry, *scoped(ask.scope, claim)])

    async def take(self, ask: TakeAsk, deadline: Deadline) -> ClaimAnswer:
        """Which of these ids are this owner's: GRANTED when it has taken them, now or before; repeating is harmless.

        Raises TooLarge, LedgerFull, DeadlinePassed: nothing was written; LedgerDown: unknown, repeat it.
        """
        deadline.check()
        journal = self._journal
        self._check_count(ask.ids)
        if ask.scope is not None and await is_over(journal, ask.scope):
            return ClaimAnswer(None, 0, *stale(journal, len(ask.ids)))
        now_ms = journal.clock.monotonic_ms()
        asked = self._index.ask_take(ask.owner, ask.ids, now_ms)
        rests_on = asked.rests_on
        if len(asked.fresh) or len(asked.taken):
            journal.committer.check()
            self._index.make_room(len(asked.fresh) + len(asked.taken), now_ms)
            entry = Taken(ask.owner, journal.wall_ms(), asked.fresh.tobytes(), asked.taken.tobytes())
            rests_on = journal.record([entry, *scoped(ask.scope, NO_CLAIM)])
        await journal.committer.durable(rests_on)
        count_verdicts(journal.counts, asked.actions, asked.verdicts)
        return ClaimAnswer(None, 0, asked.verdicts, asked.numbers)

    async def settle(self, verb: Verb, claim: bytes, deadline: Deadline) -> SettleAnswer:
        """Renew, complete or release a whole claim; what was taken over is counted and left alone.

        Raises UnknownClaim, ReleasedClaim: stop; LedgerFull, DeadlinePassed: nothing was written;
        LedgerDown: unknown, repeat it.
        """
        deadline.check()
        view = self._index.view(claim, self._journal.clock.monotonic_ms())
        effect = SETTLE[verb, view.state].effect
        if effect is Effect.REFUSE_UNKNOWN:
            raise UnknownClaim("nothing is known of this claim: it was never granted here, or settled long ago")
        if effect is Effect.REFUSE_RELEASED:
            raise ReleasedClaim("this claim was released; its ids may be another's by now")
        rests_on, lease_ms = view.position, 0
        if effect is Effect.EXTEND:
            self._index.renew(claim, self._journal.clock.monotonic_ms())
            lease_ms = view.lease_ms
        elif effect is not Effect.NOTHING:
            rests_on = self._write(effect, claim)
        await self._journal.committer.durable(rests_on)
        state = STATE_AFTER.get(effect, view.state)
        return SettleAnswer(claim, state, view.named, view.granted - view.named, lease_ms)

    def _write(self, effect: Effect, claim: bytes) -> int:
        journal = self._journal
        journal.committer.check()
        entry = Completed if effect is Effect.MARK_DONE else Released
        journal.counts["completed" if effect is Effect.MARK_DONE else "released"] += 1
        return journal.record([entry(claim, journal.wall_ms())])

    async def explain(self, fingerprint: bytes) -> Explained:
        """What is known about one id, once that is durable."""
        explained = self._index.explain(fingerprint, self._journal.clock.monotonic_ms())
        await self._journal.committer.durable(explained.position)
        return explained
