"""Claims, renews, completes, releases, looks up and explains free ids."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U8
from oncegate.core.claims import SETTLE, STATE_AFTER, Effect, Verb
from oncegate.core.entries.kinds import Completed, Released, Taken
from oncegate.core.errors import BadRequest, ReleasedClaim, TooLarge, UnknownClaim
from oncegate.core.verdicts import Verdict
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.places import Places
from oncegate.engine.commit.proven import answers
from oncegate.engine.counters import COMPLETED, LOOKED_UP, RELEASED
from oncegate.engine.deadline import Deadline
from oncegate.engine.policies import shadow
from oncegate.engine.requests import ClaimRequest, ClaimResult, LookUpRequest, SettleResult, TakeRequest
from oncegate.engine.usecases.batch_scopes import is_over, scoped, stale
from oncegate.engine.usecases.claim_batching import IDS_MOST, ClaimBatcher, duplicates_in
from oncegate.index.claims.decide import decide_look_up, decide_take
from oncegate.index.claims.firsts import Firsts, firsts_of
from oncegate.index.claims.lookup import explain, renew, result_of, view_of
from oncegate.index.claims.results import Explained
from oncegate.index.table.grants import NO_CLAIM
from oncegate.index.table.rows import words

# Longest wait of `explain` for the offset of a row elsewhere.
EXPLAIN_MS = 5_000
_DUPLICATE = np.array([Verdict.DUPLICATE], np.uint8)


class Claims:
    """Requests about free ids: claim, take, look up, settle and explain. Answers wait until everything they depend
    on is durable."""

    def __init__(self, journal: Journal, places: Places) -> None:
        self.journal = journal
        self._places = places
        self._store = journal.index.claims
        self._batcher = ClaimBatcher(journal)

    @answers("claim", shadow.claimed)
    async def claim(self, request: ClaimRequest, deadline: Deadline) -> ClaimResult:
        """Decides which ids may be written: returns one verdict per id, in order. All are STALE if their batch was
        acked.

        Raises TokenReused, TooLarge, BadRequest, QuotaExceeded, Recovering, LedgerFull, DeadlinePassed: nothing was
        written. LedgerDown: effect unknown; retry with the same token and call.
        """
        journal = self.journal
        journal.rates.take_ids(len(request.ids), request.sender.tenant)
        now_ms = journal.clock.monotonic_ms()
        began_ms = now_ms - deadline.waited_ms
        self._check_count(request.ids)
        lease_ms = journal.limits.lease_of(request.lease_ms)
        is_plain = request.scope is None and request.digests is None and not request.locate
        if is_plain and 0 < len(request.ids) <= IDS_MOST:
            pending = self._batcher.add(request, lease_ms, deadline, now_ms)
            await pending.waiter
            assert pending.decided is not None, "decided, or refused"
            result, actions, _, duplicates = pending.decided
            journal.counts.add_ids(actions, result.verdicts, duplicates, request.sender.client)
        else:
            deadline.check()
            result = await self.alone(request, lease_ms, deadline)
        journal.counts.claims.observe_since(began_ms, journal.clock)
        return result

    async def alone(self, request: ClaimRequest, lease_ms: int, deadline: Deadline) -> ClaimResult:
        """Decides one claim individually; all its ids are STALE if the batch of its scope was acked.

        Raises as `ClaimBatcher.decide`; BadRequest and TooLarge for its batch scope. LedgerDown: effect unknown; retry
        with the same token and call.
        """
        if request.scope is not None and await is_over(self.journal, request.scope):
            return ClaimResult(None, lease_ms, *stale(self.journal, len(request.ids)))
        result, actions, rests_on, duplicates = self._batcher.decide(request, lease_ms)
        firsts = self._firsts(request.ids, result.verdicts) if request.locate else None
        await self.journal.group_commit.durable(rests_on)
        self.journal.counts.add_ids(actions, result.verdicts, duplicates, request.sender.client)
        if firsts is None:
            return result
        return replace(result, located=await self._places.located(firsts, deadline))

    def _firsts(self, ids: NDArray[np.uint64], verdicts: U8) -> Firsts:
        return firsts_of(self._store, ids, verdicts, self.journal.limits.located_entries, self._places.elsewhere)

    def _check_count(self, ids: NDArray[np.uint64]) -> None:
        if len(ids) > self.journal.limits.ids_per_request:
            raise TooLarge(f"{len(ids)} ids in one request; at most {self.journal.limits.ids_per_request}")

    @answers("take", shadow.granted)
    async def take(self, request: TakeRequest, deadline: Deadline) -> ClaimResult:
        """Claims ids without a lease for an owner: an id is GRANTED if it now belongs to this owner, newly or from
        before. Idempotent.

        Raises TooLarge, LedgerFull, DeadlinePassed: nothing was written. LedgerDown: effect unknown; retry.
        """
        self.journal.rates.take_ids(len(request.ids), request.sender.tenant)
        deadline.check()
        journal = self.journal
        self._check_count(request.ids)
        if request.scope is not None and await is_over(journal, request.scope):
            return ClaimResult(None, 0, *stale(journal, len(request.ids)))
        now_ms = journal.clock.monotonic_ms()
        decision = decide_take(self._store, request.owner, request.ids, now_ms, journal.times(request.made_ms))
        rests_on = decision.rests_on
        duplicates = duplicates_in(self._store, request, decision, journal.wall_ms(), journal.counts.seen_max)
        if len(decision.fresh) or len(decision.taken):
            journal.group_commit.check()
            fresh, taken = decision.fresh.tobytes(), decision.taken.tobytes()
            entry = Taken(request.owner, journal.wall_ms(), fresh, taken, request.id_set, request.sender.writer)
            rests_on = journal.record([entry, *scoped(request.scope, NO_CLAIM)])
        firsts = self._firsts(request.ids, decision.verdicts) if request.locate else None
        await journal.group_commit.durable(rests_on)
        journal.counts.add_ids(decision.actions, decision.verdicts, duplicates, request.sender.client)
        located = None if firsts is None else await self._places.located(firsts, deadline)
        return ClaimResult(None, 0, decision.verdicts, decision.numbers, located)

    @answers("look_up")
    async def look_up(self, request: LookUpRequest, deadline: Deadline) -> ClaimResult:
        """Returns the state of each id: DUPLICATE, BUSY or FREE; SAME if the id occurs earlier in the request.

        Writes nothing, and counts no duplicates. Raises TooLarge, Recovering, DeadlinePassed.
        """
        self.journal.rates.take_ids(len(request.ids), request.sender.tenant)
        deadline.check()
        journal = self.journal
        self._check_count(request.ids)
        decision = decide_look_up(
            self._store, request.ids, journal.clock.monotonic_ms(), journal.times(request.made_ms)
        )
        firsts = self._firsts(request.ids, decision.verdicts) if request.locate else None
        # The entry that released an id is not known any more, so the answer waits for all entries so far.
        await journal.group_commit.durable(journal.group_commit.next_position - 1)
        journal.counts.add(LOOKED_UP, len(request.ids))
        located = None if firsts is None else await self._places.located(firsts, deadline)
        return ClaimResult(None, 0, decision.verdicts, decision.numbers, located)

    @answers("settle", shadow.settled)
    async def settle(self, verb: Verb, claim: bytes, deadline: Deadline, result: bytes | None = None) -> SettleResult:
        """Renews, completes or releases a whole claim; ids that were taken over are counted and left unchanged.

        result: stored with the completion; the first complete decides it.

        Raises UnknownClaim, ReleasedClaim: stop. TooLarge and BadRequest for the result, LedgerFull, DeadlinePassed:
        nothing was written. LedgerDown: effect unknown; retry.
        """
        if claim == NO_CLAIM:
            return shadow.settled_nothing(verb, self.journal.limits.lease_ms)
        deadline.check()
        if result is not None:
            self._check_result(verb, result)
        view = view_of(self._store, claim, self.journal.clock.monotonic_ms())
        effect = SETTLE[verb, view.state].effect
        if effect is Effect.REFUSE_UNKNOWN:
            raise UnknownClaim("nothing is known of this claim: it was never granted here, or settled long ago")
        if effect is Effect.REFUSE_RELEASED:
            raise ReleasedClaim("this claim was released; its ids may be another's by now")
        rests_on, lease_ms = view.position, 0
        if effect is Effect.EXTEND:
            renew(self._store, claim, self.journal.clock.monotonic_ms())
            lease_ms = view.lease_ms
        elif effect is not Effect.NOTHING:
            rests_on = self._write(effect, claim, result)
        kept = result_of(self._store, claim) if verb is Verb.COMPLETE else None
        await self.journal.group_commit.durable(rests_on)
        state, left = STATE_AFTER.get(effect, view.state), result is not None and result != kept
        return SettleResult(claim, state, view.named, view.granted - view.named, lease_ms, kept, left)

    def _check_result(self, verb: Verb, result: bytes) -> None:
        if verb is not Verb.COMPLETE:
            raise BadRequest(f"{verb.name.lower()} takes no result; nothing was written")
        if not result:
            raise BadRequest("a result of no bytes says nothing: leave it out; nothing was written")
        if len(result) > self.journal.limits.result_bytes:
            raise TooLarge(
                f"a result of {len(result)} bytes; at most {self.journal.limits.result_bytes}, nothing was written"
            )

    def _write(self, effect: Effect, claim: bytes, result: bytes | None) -> int:
        journal = self.journal
        journal.group_commit.check(ends=True)
        if effect is Effect.MARK_DONE:
            journal.counts.add(COMPLETED)
            return journal.record([Completed(claim, journal.wall_ms(), result or b"")])
        journal.counts.add(RELEASED)
        return journal.record([Released(claim, journal.wall_ms())])

    @answers("explain")
    async def explain(self, fingerprint: bytes) -> Explained:
        """Returns the state and origin of one id, given its 16-byte fingerprint, once the state is durable. Raises
        Recovering."""
        explained = explain(self._store, fingerprint, self.journal.clock.monotonic_ms())
        elsewhere = self._places.elsewhere and explained.written_at is not None
        firsts = self._firsts(words(fingerprint).reshape(1, 2), _DUPLICATE) if elsewhere else None
        await self.journal.group_commit.durable(explained.position)
        if firsts is None or explained.written_at is None:
            return explained
        located = await self._places.located(firsts, Deadline(self.journal.clock, EXPLAIN_MS))
        if located.offset[0] < 0:
            return replace(explained, written_at=(explained.written_at[0], None, None))
        place = located.topics[located.topic[0]], int(located.partition[0]), int(located.offset[0])
        return replace(explained, written_at=place)
