"""Decides on claims; small claims that arrive together are decided and logged as one batch.

The results are those of deciding the claims one after the other. A single call of the index decides the new calls of a
batch that take nothing over. The rest is decided afterwards, claim by claim, as is a lone claim. Large claims, and
those with payloads, a batch scope or firsts to locate, are not batched.

A batch is closed once a turn of the event loop brings no further claim, after a millisecond or two at most. That is as
long as the sync of one claim takes, and a lone claim hardly waits. PostgreSQL's commit_siblings has the same rationale.
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

# Larger claims gain little from a batch: their ids dominate the cost.
IDS_MOST = 2_048
# A batch of one costs more than a claim by itself. Larger batches would block the event loop and delay lease renewals.
FEWEST, MOST, IDS_TOGETHER = 2, 64, 16_384
# Longest wait for other claims, apart from the current turn of the loop.
WAIT_MS = 1
_NEVER_MS = np.iinfo(np.uint64).max


class DecidedClaim(NamedTuple):
    """An answer that must not be sent before the position that it depends on is durable.

    actions: uint8[n], `core.claims.Action` or SAME_INDEX.
    rests_on: ledger position that the answer depends on; 0: none.
    duplicates: the causes of the request's duplicates; None: it has none.
    """

    result: ClaimResult
    actions: U8
    rests_on: int
    duplicates: Duplicates | None


@dataclass(slots=True)
class Pending:
    """A claim that waits for the decision of its batch, and then until its answer is durable.

    span: the request's span, if it is traced; a batch is decided in a callback of its own.
    """

    request: ClaimRequest
    lease_ms: int
    deadline: Deadline
    waiter: asyncio.Future[None]
    span: TraceSpan | None
    decided: DecidedClaim | None = None


class ClaimBatcher:
    """The queue of a shard's undecided claims; claims that arrive within one turn of the event loop form a batch."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._store = journal.index.claims
        self._pending: list[Pending] = []
        self._ids = 0
        self._seen = 0
        self._since_ms = 0

    def add(self, request: ClaimRequest, lease_ms: int, deadline: Deadline, now_ms: int) -> Pending:
        """Adds a claim to the next batch.

        The returned claim's `waiter` is resolved when the answer is durable. It may fail as `decide` does, or with
        DeadlinePassed: nothing was written; LedgerDown: effect unknown.
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
        """Decides the waiting claims once an event-loop turn adds no claim, the batch is full, or `WAIT_MS` has passed.

        Claims whose caller has disconnected are dropped.
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
                    pass  # no effect so far: each claim is decided by itself
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
        """Decides which ids may be written and records the granted ids; the answer must wait until position `rests_on`
        is durable.

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
            # The takeover that made an id BUSY may still be refused, which would return the id to this claim.
            rests_on = journal.group_commit.next_position - 1
        result = ClaimResult(claim, lease_ms, decision.verdicts, decision.numbers)
        return DecidedClaim(result, decision.actions, rests_on, duplicates)

    def _check_open(self, tenant: Tenant | None) -> None:
        """Raises QuotaExceeded, LedgerFull or LedgerDown if no further claim may be opened."""
        journal = self._journal
        if tenant is not None and not tenant.has_room():
            journal.counts.add(QUOTA_TENANT_CLAIMS)
            tenant.check_claims()
        journal.group_commit.check()
        if self._store.open_claims >= journal.limits.open_claims:
            journal.counts.add(QUOTA_CLAIMS)
            raise QuotaExceeded(f"{journal.limits.open_claims} claims of this namespace are open; nothing was written")

    def _grant(self, batch: list[Pending]) -> None:
        """Decides the claims that a single call to the index can decide; the others stay undecided.

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
        """Returns one claim for each new (token, call), if its deadline has not passed."""
        calls, first = set(), []
        for one in batch:
            call, left_ms = (one.request.token, one.request.call), one.deadline.left_ms
            if call not in calls and not is_repeat(self._store, *call, now_ms) and (left_ms is None or left_ms > 0):
                calls.add(call)
                first.append(one)
        return first

    def _answer(self, batch: Sequence[Pending], claim_batch: ClaimBatch, position: int) -> None:
        """Sets the results of a batch.

        position: ledger position of the first claim that was granted anything; the other granted claims follow
        consecutively.
        """
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
        """Returns the causes of one claim's duplicates; valid for batched claims, none of which is a repeat or has a
        batch scope."""
        if Action.DUPLICATE not in claim_batch.answers.actions[at].tobytes():
            return None
        archives = None if claim_batch.archives is None else claim_batch.archives[at]
        asked = AskedBy(
            request.call, is_repeat=False, writer=request.sender.writer, seen_max=self._journal.counts.seen_max
        )
        verdicts = claim_batch.answers.verdicts[at]
        return duplicates_of(self._store, request.ids, verdicts, archives, asked, self._journal.wall_ms())


def _made_ms(batch: list[Pending]) -> NDArray[np.uint64] | None:
    """Returns the creation times of all ids of a batch, concatenated claim by claim; None if no claim carries times."""
    if all(one.request.made_ms is None for one in batch):
        return None
    return np.concatenate([_made_of(one.request) for one in batch])


def _made_of(request: ClaimRequest) -> NDArray[np.uint64]:
    """Returns the creation times of a claim's ids; ids without a time get the maximum, so that they are never stale."""
    return np.full(len(request.ids), _NEVER_MS, np.uint64) if request.made_ms is None else request.made_ms


def _cut(pending: list[Pending]) -> Iterator[list[Pending]]:
    """Yields the claims in batches of at most `MOST` claims and `IDS_TOGETHER` ids."""
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
    """Returns a digest of the request, 16 bytes: a repeat of (token, call) has the same digest, any other request a
    different one."""
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
    """Returns the causes of a request's duplicates, right after its decision; None if there are no duplicates.

    seen_max: number of duplicates to describe one by one.
    """
    if request.ids is None or Action.DUPLICATE not in decision.actions.tobytes():
        return None
    scope = None if request.scope is None else (request.scope.driver, request.scope.batch)
    call = None if isinstance(request, TakeRequest) else request.call
    asked = AskedBy(call or 0, decision.claim is not None, call is None, scope, request.sender.writer, seen_max)
    return duplicates_of(store, request.ids, decision.verdicts, decision.archives, asked, wall_ms)
