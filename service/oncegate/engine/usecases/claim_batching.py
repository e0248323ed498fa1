"""Batches claims, whose one way in this is: small ones that come close together are decided and recorded at once.

A batch is decided as its claims would be one after the other, and nobody can tell. One call of the index decides those
that are new calls, with nothing to take over. What is left of a batch is decided after it, claim by claim; so a lone
claim is a batch of one. Large claims, and those with payloads, a batch scope or firsts to locate, are not batched.

Claims wait while each turn of the loop brings more, a millisecond or two at most: that is as long as one of them takes
to be synced, and a lone one waits for no other. PostgreSQL's commit_siblings has the same reason.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import Action
from oncegate.core.entries.kinds import Claimed
from oncegate.core.errors import OncegateError
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counts.tenants import Tenant, current_tenant
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import ClaimRequest, ClaimResult
from oncegate.engine.usecases.claims import Claims, DecidedClaim, digest_of
from oncegate.index.claims.bulk_claim import LEFT, ClaimBatch, is_repeat
from oncegate.index.claims.firsts import AskedBy, Duplicates, duplicates_of
from oncegate.ports.tracing import TraceSpan, current_span

# Claims of more ids cost little beside their ids.
IDS_MOST = 2_048
# One alone costs more that way; more at once than that, or with more ids, would keep the loop from its renewals.
FEWEST, MOST, IDS_TOGETHER = 2, 64, 16_384
# No claim waits longer for others, but for the turn that is under way.
WAIT_MS = 1
_NEVER_MS = np.iinfo(np.uint64).max


@dataclass(slots=True)
class _Pending:
    """Holds a claim that waits: for its batch to be decided, and then for what its answer rests on to be durable.

    span, tenant: of its request, where it has one: a batch is decided in a turn of its own.
    """

    request: ClaimRequest
    lease_ms: int
    deadline: Deadline
    waiter: asyncio.Future[None]
    span: TraceSpan | None = None
    tenant: Tenant | None = None
    decided: DecidedClaim | None = field(default=None)


class ClaimBatcher:
    """Batches the claims of a shard. All claims go through it, so lease and deadline are checked once."""

    def __init__(self, journal: Journal, claims: Claims) -> None:
        self._journal = journal
        self._claims = claims
        self._pending: list[_Pending] = []
        self._ids_most = min(IDS_MOST, journal.limits.ids_per_request)
        self._ids = 0
        self._seen = 0
        self._since_ms = 0

    async def claim(self, request: ClaimRequest, deadline: Deadline) -> ClaimResult:
        """Decides which of these ids may be written: a verdict each, in order. All STALE where the batch was acked.

        Raises TokenReused, TooLarge, BadRequest, QuotaExceeded, LedgerFull, DeadlinePassed: nothing was written;
        LedgerDown: unknown, repeat the same token and call.
        """
        began_ms = self._journal.clock.monotonic_ms() - deadline.waited_ms
        lease_ms = self._claims.check(request)
        is_plain = request.scope is None and request.digests is None and not request.locate
        if is_plain and 0 < len(request.ids) <= self._ids_most:
            result = await self._claim_with_others(request, lease_ms, deadline)
        else:
            deadline.check()
            result = await self._claims.claim(request, lease_ms, deadline)
        self._journal.counts.claims.observe_since(began_ms, self._journal.clock)
        return result

    async def _claim_with_others(self, request: ClaimRequest, lease_ms: int, deadline: Deadline) -> ClaimResult:
        waiter = asyncio.get_running_loop().create_future()
        pending = _Pending(request, lease_ms, deadline, waiter, current_span(), current_tenant())
        self._wait(pending)
        await pending.waiter
        assert pending.decided is not None, "decided, or refused"
        result, actions, _, duplicates = pending.decided
        self._journal.counts.add_ids(actions, result.verdicts, duplicates)
        return result

    def _wait(self, pending: _Pending) -> None:
        if not self._pending:
            self._ids, self._seen, self._since_ms = 0, 0, self._journal.clock.monotonic_ms()
            loop = asyncio.get_running_loop()
            loop.call_soon(self._turn, loop)
        self._pending.append(pending)
        self._ids += len(pending.request.ids)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Decides once a turn has brought nothing more, or enough or enough time has come together."""
        count = len(self._pending)
        is_more = self._seen < count < MOST and self._ids < IDS_TOGETHER
        if is_more and self._journal.clock.monotonic_ms() - self._since_ms <= WAIT_MS:
            self._seen = count
            loop.call_soon(self._turn, loop)
        else:
            self._decide()

    def _decide(self) -> None:
        """Decides all that came; a caller that has gone away meanwhile asked for nothing."""
        pending, self._pending = [one for one in self._pending if not one.waiter.done()], []
        for batch in _cut(pending):
            try:
                self._grant(batch)
            except OncegateError:
                pass  # it had no effect: each is decided alone
            except Exception as error:
                _fail(batch, error)
        for one in pending:
            if one.decided is None and not one.waiter.done():
                self._decide_alone(one)

    def _decide_alone(self, one: _Pending) -> None:
        try:
            one.deadline.check()
            one.decided = self._claims.decide(one.request, one.lease_ms, one.tenant)
        except Exception as error:
            one.waiter.set_exception(error)
        else:
            self._journal.group_commit.wait(one.decided.rests_on, one.waiter, one.span)

    def _grant(self, batch: list[_Pending]) -> None:
        """Decides those that one call of the index can; the others are left as they are.

        Raises OncegateError before any effect.
        """
        journal, store = self._journal, self._journal.index.claims
        if len(batch) < FEWEST:
            return
        journal.group_commit.check()
        batch = self._first_calls(batch, journal.clock.monotonic_ms())
        if len(batch) < FEWEST or store.open_claims + len(batch) > journal.limits.open_claims:
            return
        if any(one.tenant is not None and not one.tenant.has_room(len(batch)) for one in batch):
            return
        wall_ms, names = journal.wall_ms(), journal.random(16 * len(batch))
        claims = []
        for n, one in enumerate(batch):
            request, name, ids = one.request, names[16 * n : 16 * n + 16], one.request.ids.tobytes()
            call = (name, request.token, request.call, digest_of(request))
            claims.append(Claimed(*call, one.lease_ms, wall_ms, ids, b"", b"", request.id_set, request.writer))
        self._answer(batch, *journal.record_together(claims, _made_ms(batch)))

    def _first_calls(self, batch: list[_Pending], now_ms: int) -> list[_Pending]:
        """Returns those whose (token, call) nothing is known of, the first of each, and whose time is not up."""
        store, calls, first = self._journal.index.claims, set(), []
        for one in batch:
            call, left_ms = (one.request.token, one.request.call), one.deadline.left_ms
            if call not in calls and not is_repeat(store, *call, now_ms) and (left_ms is None or left_ms > 0):
                calls.add(call)
                first.append(one)
        return first

    def _answer(self, batch: Sequence[_Pending], claim_batch: ClaimBatch, position: int) -> None:
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
        asked = AskedBy(request.call, is_repeat=False, writer=request.writer, seen_max=self._journal.counts.seen_max)
        verdicts = claim_batch.answers.verdicts[at]
        return duplicates_of(
            self._journal.index.claims, request.ids, verdicts, archives, asked, self._journal.wall_ms()
        )


def _made_ms(batch: list[_Pending]) -> NDArray[np.uint64] | None:
    """Returns when all ids of a batch were made, one claim's after the other's; None: none of them says it."""
    if all(one.request.made_ms is None for one in batch):
        return None
    return np.concatenate([_made_of(one.request) for one in batch])


def _made_of(request: ClaimRequest) -> NDArray[np.uint64]:
    """Returns when its ids were made: of those that do not say it, at the end of time, so that they are never past."""
    return np.full(len(request.ids), _NEVER_MS, np.uint64) if request.made_ms is None else request.made_ms


def _cut(pending: list[_Pending]) -> Iterator[list[_Pending]]:
    """As many at a time as may be decided at once."""
    batch: list[_Pending] = []
    ids = 0
    for one in pending:
        if batch and (len(batch) == MOST or ids + len(one.request.ids) > IDS_TOGETHER):
            yield batch
            batch, ids = [], 0
        batch.append(one)
        ids += len(one.request.ids)
    if batch:
        yield batch


def _fail(batch: list[_Pending], error: Exception) -> None:
    for one in batch:
        if not one.waiter.done():
            one.waiter.set_exception(error)
