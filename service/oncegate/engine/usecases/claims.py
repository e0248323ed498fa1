"""Claims, renews, completes, releases, looks up and explains free ids."""

import hashlib
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U8
from oncegate.core.claims import SETTLE, STATE_AFTER, Action, Effect, Verb
from oncegate.core.entries.kinds import Claimed, Completed, Released, Taken
from oncegate.core.errors import BadRequest, QuotaExceeded, ReleasedClaim, TooLarge, UnknownClaim
from oncegate.core.verdicts import Verdict
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.places import Places
from oncegate.engine.counters import COMPLETED, LOOKED_UP, QUOTA_CLAIMS, QUOTA_TENANT_CLAIMS, RELEASED
from oncegate.engine.counts.duplicates import duplicates_in
from oncegate.engine.counts.tenants import Tenant, current_tenant
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import ClaimRequest, ClaimResult, LookUpRequest, SettleResult, TakeRequest
from oncegate.engine.usecases.batch_scopes import is_over, scoped, stale
from oncegate.hashing.requests import digest_of_ids
from oncegate.index.claims.decide import decide, decide_look_up, decide_take
from oncegate.index.claims.firsts import Duplicates, Firsts, firsts_of
from oncegate.index.claims.lookup import explain, renew, result_of, view_of
from oncegate.index.claims.results import ClaimDecision, Explained
from oncegate.index.table.arrays import NO_DIGESTS
from oncegate.index.table.grants import NO_CLAIM
from oncegate.index.table.rows import words

# The longest wait of an explanation for the place of a row elsewhere.
EXPLAIN_MS = 5_000
_DUPLICATE = np.array([Verdict.DUPLICATE], np.uint8)


def digest_of(request: ClaimRequest) -> bytes:
    """Hashes a request, 16 bytes: by these a repeat of (token, call) is known from another request."""
    digest = digest_of_ids(request.ids)
    if request.digests is None:
        return digest
    return hashlib.blake2b(digest + request.digests.tobytes(), digest_size=16).digest()


class DecidedClaim(NamedTuple):
    """Holds an answer that has yet to become durable: the result, what was done about each id, and what it rests on.

    actions: uint8[n], `core.claims.Action` or SAME_INDEX. rests_on: a position of the ledger, 0 for none.
    duplicates: what is known of those that are, None: none is.
    """

    result: ClaimResult
    actions: U8
    rests_on: int
    duplicates: Duplicates | None


class Claims:
    """Claims, takes, settles and explains free ids. Answers wait until what they rest on is durable."""

    def __init__(self, journal: Journal, places: Places) -> None:
        self._journal = journal
        self._places = places
        self._store = journal.index.claims

    def check(self, request: ClaimRequest) -> int:
        """Checks what can be refused whatever is known of the ids; returns the lease, in ms, that the claim gets.

        Raises TooLarge, BadRequest: nothing was written.
        """
        self._check_count(request.ids)
        return self._journal.limits.lease_of(request.lease_ms)

    async def claim(self, request: ClaimRequest, lease_ms: int, deadline: Deadline) -> ClaimResult:
        """Decides on one claim that is not batched, after `check`; all its ids are STALE where its batch was acked.

        Raises what `decide` does, BadRequest and TooLarge for its batch scope; LedgerDown: unknown whether it was
        written, repeat the same token and call.
        """
        if request.scope is not None and await is_over(self._journal, request.scope):
            return ClaimResult(None, lease_ms, *stale(self._journal, len(request.ids)))
        decided = self.decide(request, lease_ms, current_tenant())
        result = decided.result
        firsts = self._firsts(request.ids, result.verdicts) if request.locate else None
        await self._journal.group_commit.durable(decided.rests_on)
        self._journal.counts.add_ids(decided.actions, result.verdicts, decided.duplicates)
        if firsts is None:
            return result
        return replace(result, located=await self._places.located(firsts, deadline))

    def _firsts(self, ids: NDArray[np.uint64], verdicts: U8) -> Firsts:
        return firsts_of(self._store, ids, verdicts, self._journal.limits.located_entries, self._places.elsewhere)

    def decide(self, request: ClaimRequest, lease_ms: int, tenant: Tenant | None) -> DecidedClaim:
        """Decides which of these ids may be written, and records what is granted; the answer waits for `rests_on`.

        `tenant`: whose claim it is; None: nobody's whose claims are counted.
        Raises TokenReused, QuotaExceeded, Recovering, LedgerFull, LedgerDown: nothing was written.
        """
        now_ms = self._journal.clock.monotonic_ms()
        digests = NO_DIGESTS if request.digests is None else request.digests
        digest = digest_of(request)
        times = self._journal.times(request.made_ms)
        decision = decide(
            self._store, request.token, request.call, digest, request.ids, now_ms, digests=digests, times=times
        )
        claim, rests_on = None, decision.rests_on
        duplicates = duplicates_in(
            self._store, request, decision, self._journal.wall_ms(), self._journal.counts.seen_max
        )
        if decision.again and decision.claim is not None:
            claim = decision.claim
            renew(self._store, claim, now_ms)
            lease_ms = view_of(self._store, claim, now_ms).lease_ms
        if len(decision.fresh) or len(decision.taken):
            assert not decision.again, "a repeat grants nothing new"
            self._check_tenant(tenant)
            claim, rests_on = self._grant(request, decision, digest, lease_ms)
        elif decision.claim is not None and bool((decision.actions == Action.BUSY).any()):
            # Who takes over what was this claim's may yet be refused, and then it is this claim's again.
            rests_on = self._journal.group_commit.next_position - 1
        result = ClaimResult(claim, lease_ms, decision.verdicts, decision.numbers)
        return DecidedClaim(result, decision.actions, rests_on, duplicates)

    def _check_count(self, ids: NDArray[np.uint64]) -> None:
        if len(ids) > self._journal.limits.ids_per_request:
            raise TooLarge(f"{len(ids)} ids in one request; at most {self._journal.limits.ids_per_request}")

    def _check_tenant(self, tenant: Tenant | None) -> None:
        if tenant is not None and not tenant.has_room():
            self._journal.counts.add(QUOTA_TENANT_CLAIMS)
            tenant.check_claims()

    def _grant(self, request: ClaimRequest, decision: ClaimDecision, digest: bytes, lease_ms: int) -> tuple[bytes, int]:
        journal = self._journal
        journal.group_commit.check()
        if self._store.open_claims >= journal.limits.open_claims:
            journal.counts.add(QUOTA_CLAIMS)
            raise QuotaExceeded(f"{journal.limits.open_claims} claims of this namespace are open; nothing was written")
        claim, wall_ms = journal.random(16), journal.wall_ms()
        fresh, taken = decision.fresh.tobytes(), decision.taken.tobytes()
        call, digests = (claim, request.token, request.call, digest), decision.digests
        entry = Claimed(*call, lease_ms, wall_ms, fresh, taken, digests, request.id_set, request.writer)
        return claim, journal.record([entry, *scoped(request.scope, claim)])

    async def take(self, request: TakeRequest, deadline: Deadline) -> ClaimResult:
        """Decides which of these ids are this owner's: GRANTED when it has taken them, now or before.

        Repeating is harmless.
        Raises TooLarge, LedgerFull, DeadlinePassed: nothing was written; LedgerDown: unknown, repeat it.
        """
        deadline.check()
        journal = self._journal
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
            entry = Taken(request.owner, journal.wall_ms(), fresh, taken, request.id_set, request.writer)
            rests_on = journal.record([entry, *scoped(request.scope, NO_CLAIM)])
        firsts = self._firsts(request.ids, decision.verdicts) if request.locate else None
        await journal.group_commit.durable(rests_on)
        journal.counts.add_ids(decision.actions, decision.verdicts, duplicates)
        located = None if firsts is None else await self._places.located(firsts, deadline)
        return ClaimResult(None, 0, decision.verdicts, decision.numbers, located)

    async def look_up(self, request: LookUpRequest, deadline: Deadline) -> ClaimResult:
        """Tells what is known of each of these ids: DUPLICATE, BUSY or FREE, SAME where it stands there before.

        Writes nothing, and is counted as no duplicate. Raises TooLarge, Recovering, DeadlinePassed.
        """
        deadline.check()
        journal = self._journal
        self._check_count(request.ids)
        decision = decide_look_up(
            self._store, request.ids, journal.clock.monotonic_ms(), journal.times(request.made_ms)
        )
        firsts = self._firsts(request.ids, decision.verdicts) if request.locate else None
        # A free id rests on what let it go, which names it no more: all that is known by now is waited for.
        await journal.group_commit.durable(journal.group_commit.next_position - 1)
        journal.counts.add(LOOKED_UP, len(request.ids))
        located = None if firsts is None else await self._places.located(firsts, deadline)
        return ClaimResult(None, 0, decision.verdicts, decision.numbers, located)

    async def settle(self, verb: Verb, claim: bytes, deadline: Deadline, result: bytes | None = None) -> SettleResult:
        """Renews, completes or releases a whole claim; what was taken over is counted and left alone.

        `result`: what to complete it with, which the first complete decides. Raises UnknownClaim, ReleasedClaim: stop;
        TooLarge, BadRequest for the result, LedgerFull, DeadlinePassed: nothing was written; LedgerDown: unknown,
        repeat it.
        """
        deadline.check()
        if result is not None:
            self._check_result(verb, result)
        view = view_of(self._store, claim, self._journal.clock.monotonic_ms())
        effect = SETTLE[verb, view.state].effect
        if effect is Effect.REFUSE_UNKNOWN:
            raise UnknownClaim("nothing is known of this claim: it was never granted here, or settled long ago")
        if effect is Effect.REFUSE_RELEASED:
            raise ReleasedClaim("this claim was released; its ids may be another's by now")
        rests_on, lease_ms = view.position, 0
        if effect is Effect.EXTEND:
            renew(self._store, claim, self._journal.clock.monotonic_ms())
            lease_ms = view.lease_ms
        elif effect is not Effect.NOTHING:
            rests_on = self._write(effect, claim, result)
        kept = result_of(self._store, claim) if verb is Verb.COMPLETE else None
        await self._journal.group_commit.durable(rests_on)
        state, left = STATE_AFTER.get(effect, view.state), result is not None and result != kept
        return SettleResult(claim, state, view.named, view.granted - view.named, lease_ms, kept, left)

    def _check_result(self, verb: Verb, result: bytes) -> None:
        if verb is not Verb.COMPLETE:
            raise BadRequest(f"{verb.name.lower()} takes no result; nothing was written")
        if not result:
            raise BadRequest("a result of no bytes says nothing: leave it out; nothing was written")
        if len(result) > self._journal.limits.result_bytes:
            raise TooLarge(
                f"a result of {len(result)} bytes; at most {self._journal.limits.result_bytes}, nothing was written"
            )

    def _write(self, effect: Effect, claim: bytes, result: bytes | None) -> int:
        journal = self._journal
        journal.group_commit.check(ends=True)
        if effect is Effect.MARK_DONE:
            journal.counts.add(COMPLETED)
            return journal.record([Completed(claim, journal.wall_ms(), result or b"")])
        journal.counts.add(RELEASED)
        return journal.record([Released(claim, journal.wall_ms())])

    async def explain(self, fingerprint: bytes) -> Explained:
        """Tells what is known about one id, by its 16 bytes, once that is durable. Raises Recovering."""
        explained = explain(self._store, fingerprint, self._journal.clock.monotonic_ms())
        elsewhere = self._places.elsewhere and explained.written_at is not None
        firsts = self._firsts(words(fingerprint).reshape(1, 2), _DUPLICATE) if elsewhere else None
        await self._journal.group_commit.durable(explained.position)
        if firsts is None or explained.written_at is None:
            return explained
        located = await self._places.located(firsts, Deadline(self._journal.clock, EXPLAIN_MS))
        if located.offset[0] < 0:
            return replace(explained, written_at=(explained.written_at[0], None, None))
        place = located.topics[located.topic[0]], int(located.partition[0]), int(located.offset[0])
        return replace(explained, written_at=place)
