"""Decides on claims: small ones that come close together are decided and recorded at once.

A batch is decided as its claims would be one after the other, and nobody can tell. One call of the index decides those
that are new calls, with nothing to take over. What is left of a batch is decided after it, claim by claim; so a lone
claim is a batch of one. Large claims, and those with payloads, a batch scope or firsts to locate, are not batched.

Claims wait while each turn of the loop brings more, a millisecond or two at most: that is as long as one of them takes
to be synced, and a lone one waits for no other. PostgreSQL's commit_siblings has the same reason.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U8
from oncegate.core.claims import Action
from oncegate.core.entries.kinds import Claimed
from oncegate.core.errors import OncegateError, QuotaExceeded
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import QUOTA_CLAIMS, QUOTA_TENANT_CLAIMS
from oncegate.engine.deadline import Deadline
from oncegate.engine.quotas import Tenant
from oncegate.engine.requests import ClaimRequest, ClaimResult, ProduceRequest, TakeRequest
from oncegate.engine.usecases.batch_scopes import scoped
from oncegate.hashing.payloads import digest_of_ids
from oncegate.index.claims.decide import LEFT, ClaimBatch, decide, is_repeat
from oncegate.index.claims.firsts import AskedBy, Duplicates, duplicates_of
from oncegate.index.claims.lookup import renew, view_of
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.claims.store import ClaimStore
from oncegate.index.table.arrays import NO_DIGESTS, NO_TIMES
from oncegate.ports.tracing import TraceSpan, current_span

# Claims of more ids cost little beside their ids.
IDS_MOST = 2_048
# One alone costs more that way; more at once than that, or with more ids, would keep the loop from its renewals.
FEWEST, MOST, IDS_TOGETHER = 2, 64, 16_384
# No claim waits longer for others, but for the turn that is under way.
WAIT_MS = 1
_NEVER_MS = np.iinfo(np.uint64).max


class DecidedClaim(NamedTuple):
    """Holds an answer that has yet to become durable: the result, what was done about each id, and what it rests on.

    actions: uint8[n], `core.claims.Action` or SAME_INDEX. rests_on: a position of the ledger, 0 for none.
    duplicates: what is known of those that are, None: none is.
    """

    result: ClaimResult
    actions: U8
    rests_on: int
    duplicates: Duplicates | None


@dataclass(slots=True)
class Pending:
    """Holds a claim that waits: for its batch to be decided, and then for what its answer rests on to be durable.

    span: of its request, where it is traced: a batch is decided in a turn of its own.
    """

    request: ClaimRequest
    lease_ms: int
    deadline: Deadline
    waiter: asyncio.Future[None]
    span: TraceSpan | None
    decided: DecidedClaim | None = None


class ClaimBatcher:
    """Decides on the claims of a shard, those that come in one turn of the loop as a batch."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._store = journal.index.claims
        self._pending: list[Pending] = []
        self._ids = 0
        self._seen = 0
        self._since_ms = 0

    def add(self, request: ClaimRequest, lease_ms: int, deadline: Deadline, now_ms: int) -> Pending:
        """Adds a claim to the next batch. Its waiter ends when the answer is durable, with what `decide` raises,
        DeadlinePassed: nothing was written, or LedgerDown: unknown.
        """
        loop = asyncio.get_running_loop()
        pending = Pending(request, lease_ms, deadline, loop.create_future(), current_span())
        if not self._pending:
            self._ids, self._seen, self._since_ms = 0, 0, now_ms
            loop.call_soon(self._turn, loop)
        self._pending.append(pending)
        self._ids += len(request.ids)
        return pending

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Decides once a turn has brought nothing more, or enough or enough time has come together.

        Callers that have gone away meanwhile asked for nothing.
        """
        count = len(self._pending)
        is_more = self._seen < count < MOST and self._ids < IDS_TOGETHER
        if is_more and self._journal.clock.monotonic_ms() - self._since_ms <= WAIT_MS:
            self._seen = count
            loop.call_soon(self._turn, loop)
            return
        pending, self._pending = self._pending, []
        if count >= FEWEST:
            pending = [one for one in pending if not one.waiter.done()]
            for batch in _cut(pending):
                try:
                    self._grant(batch)
                except OncegateError:
                    pass  # it had no effect: each is decided alone
                except Exception as error:
                    _fail(batch, error)
        for one in pending:
            if one.decided is not None or one.waiter.done():
                continue
            try:
                one.deadline.check()
                one.decided = self.decide(one.request, one.lease_ms)
            except Exception as error:
                one.waiter.set_exception(error)
            else:
                self._journal.group_commit.wait(one.decided.rests_on, one.waiter, one.span)

    def decide(self, request: ClaimRequest, lease_ms: int) -> DecidedClaim:
        """Decides which of these ids may be written, and records what is granted; the answer waits for `rests_on`.

        Raises TokenReused, QuotaExceeded, Recovering, LedgerFull, LedgerDown: nothing was written.
        """
        journal, store = self._journal, self._store
        now_ms, digest = journal.clock.monotonic_ms(), digest_of(request)
        digests = NO_DIGESTS if request.digests is None else request.digests
        times = NO_TIMES if request.made_ms is None else journal.times(request.made_ms)
        decision = decide(store, request.token, request.call, digest, request.ids, now_ms, digests=digests, times=times)
        claim, rests_on, wall_ms, duplicates = None, decision.rests_on, journal.wall_ms(), None
        if Action.DUPLICATE in decision.actions.tobytes():
            duplicates = duplicates_in(store, request, decision, wall_ms, journal.counts.seen_max)
        if decision.again and decision.claim is not None:
            claim = decision.claim
            renew(store, claim, now_ms)
            lease_ms = view_of(store, claim, now_ms).lease_ms
        if len(decision.fresh) or len(decision.taken):
            assert not decision.again, "a repeat grants nothing new"
            self._check_open(request.sender.tenant)
            claim, fresh, taken = journal.random(16), decision.fresh.tobytes(), decision.taken.tobytes()
            call, writer = (claim, request.token, request.call, digest), request.sender.writer
            entry = Claimed(*call, lease_ms, wall_ms, fresh, taken, decision.digests, request.id_set, writer)
            rests_on = journal.record([entry] if request.scope is None else [entry, *scoped(request.scope, claim)])
        elif decision.claim is not None and bool((decision.actions == Action.BUSY).any()):
            # Who takes over what was this claim's may yet be refused, and then it is this claim's again.
            rests_on = journal.group_commit.next_position - 1
        result = ClaimResult(claim, lease_ms, decision.verdicts, decision.numbers)
        return DecidedClaim(result, decision.actions, rests_on, duplicates)

    def _check_open(self, tenant: Tenant | None) -> None:
        """Raises QuotaExceeded, LedgerFull, LedgerDown where no further claim may be open."""
        journal = self._journal
        if tenant is not None and not tenant.has_room():
            journal.counts.add(QUOTA_TENANT_CLAIMS)
            tenant.check_claims()
        journal.group_commit.check()
        if self._store.open_claims >= journal.limits.open_claims:
            journal.counts.add(QUOTA_CLAIMS)
            raise QuotaExceeded(f"{journal.limits.open_claims} claims of this namespace are open; nothing was written")

    def _grant(self, batch: list[Pending]) -> None:
        """Decides those that one call of the index can; the others are left as they are.

        Raises OncegateError before any effect.
        """
        journal, store = self._journal, self._store
        journal.group_commit.check()
        batch = self._first_calls(batch, journal.clock.monotonic_ms())
        if len(batch) < FEWEST or store.open_claims + len(batch) > journal.limits.open_claims:
            return
        tenants = [one.request.sender.tenant for one in batch]
        if any(tenant is not None and not tenant.has_room(len(batch)) for tenant in tenants):
            return
        wall_ms, names = journal.wall_ms(), journal.random(16 * len(batch))
        claims = []
        for n, one in enumerate(batch):
            request, name, ids = one.request, names[16 * n : 16 * n + 16], one.request.ids.tobytes()
            call = (name, request.token, request.call, digest_of(request))
            claims.append(Claimed(*call, one.lease_ms, wall_ms, ids, b"", b"", request.id_set, request.sender.writer))
        self._answer(batch, *journal.record_together(claims, _made_ms(batch)))

    def _first_calls(self, batch: list[Pending], now_ms: int) -> list[Pending]:
        """Returns those whose (token, call) nothing is known of, the first of each, and whose time is not up."""
        calls, first = set(), []
        for one in batch:
            call, left_ms = (one.request.token, one.request.call), one.deadline.left_ms
            if call not in calls and not is_repeat(self._store, *call, now_ms) and (left_ms is None or left_ms > 0):
                calls.add(call)
                first.append(one)
        return first

    def _answer(self, batch: Sequence[Pending], claim_batch: ClaimBatch, position: int) -> None:
        """Answers a batch; `position`: of the entry of the first that was granted any, which the next ones follow."""
        group_commit, granted = self._journal.group_commit, {entry.claim for entry in claim_batch.entries}
        answers, first = claim_batch.answers, 0
        for one, claim, end, rests_on in zip(
            batch, claim_batch.claims, claim_batch.ends, claim_batch.rests_on, strict=True
        ):
            at, first = slice(first, end), end
            if rests_on == LEFT:
                continue
            is_granted = claim.claim in granted
            if is_granted:
                rests_on, position = position, position + 1
            name = claim.claim if is_granted else None
            result = ClaimResult(name, claim.lease_ms, answers.verdicts[at], answers.numbers[at])
            duplicates = self._duplicates(one.request, claim_batch, at)
            one.decided = DecidedClaim(result, answers.actions[at], rests_on, duplicates)
            group_commit.wait(rests_on, one.waiter, one.span)

    def _duplicates(self, request: ClaimRequest, claim_batch: ClaimBatch, at: slice) -> Duplicates | None:
        """Tells why those came that are duplicates; no call of a batch is a repeat, none has a batch scope."""
        if Action.DUPLICATE not in claim_batch.answers.actions[at].tobytes():
            return None
        archives = None if claim_batch.archives is None else claim_batch.archives[at]
        asked = AskedBy(
            request.call, is_repeat=False, writer=request.sender.writer, seen_max=self._journal.counts.seen_max
        )
        verdicts = claim_batch.answers.verdicts[at]
        return duplicates_of(self._store, request.ids, verdicts, archives, asked, self._journal.wall_ms())


def _made_ms(batch: list[Pending]) -> NDArray[np.uint64] | None:
    """Returns when all ids of a batch were made, one claim's after the other's; None: none of them says it."""
    if all(one.request.made_ms is None for one in batch):
        return None
    return np.concatenate([_made_of(one.request) for one in batch])


def _made_of(request: ClaimRequest) -> NDArray[np.uint64]:
    """Returns when its ids were made: of those that do not say it, at the end of time, so that they are never past."""
    return np.full(len(request.ids), _NEVER_MS, np.uint64) if request.made_ms is None else request.made_ms


def _cut(pending: list[Pending]) -> Iterator[list[Pending]]:
    """As many at a time as may be decided at once."""
    batch: list[Pending] = []
    ids = 0
    for one in pending:
        if batch and (len(batch) == MOST or ids + len(one.request.ids) > IDS_TOGETHER):
            yield batch
            batch, ids = [], 0
        batch.append(one)
        ids += len(one.request.ids)
    if batch:
        yield batch


def _fail(batch: list[Pending], error: Exception) -> None:
    for one in batch:
        if not one.waiter.done():
            one.waiter.set_exception(error)


def digest_of(request: ClaimRequest) -> bytes:
    """Hashes a request, 16 bytes: by these a repeat of (token, call) is known from another request."""
    digest = digest_of_ids(request.ids)
    if request.digests is None:
        return digest
    return hashlib.blake2b(digest + request.digests.tobytes(), digest_size=16).digest()


def duplicates_in(
    store: ClaimStore,
    request: ClaimRequest | ProduceRequest | TakeRequest,
    decision: ClaimDecision,
    wall_ms: int,
    seen_max: int = 0,
) -> Duplicates | None:
    """Returns the causes of a request's duplicates, right after its decision; None: it has none.

    seen_max: how many duplicates are described one by one.
    """
    if request.ids is None or Action.DUPLICATE not in decision.actions.tobytes():
        return None
    scope = None if request.scope is None else (request.scope.driver, request.scope.batch)
    call = None if isinstance(request, TakeRequest) else request.call
    asked = AskedBy(call or 0, decision.claim is not None, call is None, scope, request.sender.writer, seen_max)
    return duplicates_of(store, request.ids, decision.verdicts, decision.archives, asked, wall_ms)
