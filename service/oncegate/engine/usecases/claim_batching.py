"""Small claims that come close together are decided and recorded together, where nothing tells them from claims that
come one after the other: new calls, no payloads, no batch, nothing to take over. The rest goes its own way, after them.

They wait while each turn of the loop brings more, a millisecond or two at most: that is as long as one of them takes to
be synced, and a lone one waits for no other. PostgreSQL's commit_siblings has the same reason.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oncegate.arraytypes import U8
from oncegate.core.entries.kinds import Claimed
from oncegate.core.errors import OncegateError
from oncegate.engine.commit.journal import Journal
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import ClaimRequest, ClaimResult
from oncegate.engine.usecases.claims import Claims, digest_of
from oncegate.index.claims.bulk_claim import LEFT, ClaimBatch, is_repeat

# Claims of more ids cost little beside their ids.
IDS_MOST = 2_048
# One alone costs more that way; more at once than that, or with more ids, would keep the loop from its renewals.
FEWEST, MOST, IDS_TOGETHER = 2, 64, 16_384
# No claim waits longer for others, but for the turn that is under way.
WAIT_MS = 1


@dataclass(slots=True)
class _Waiting:
    """A claim that waits: for its turn, and with an answer for what that rests on to be durable."""

    request: ClaimRequest
    deadline: Deadline
    waiter: asyncio.Future[None]
    answer: ClaimResult | None = field(default=None)
    actions: U8 | None = field(default=None)


class ClaimBatcher:
    """`claim` of free ids, for many small requests at once."""

    def __init__(self, journal: Journal, claims: Claims) -> None:
        self._journal = journal
        self._claims = claims
        self._waiting: list[_Waiting] = []
        self._ids_most = min(IDS_MOST, journal.limits.ids_per_request)
        self._ids = 0
        self._seen = 0
        self._since_ms = 0

    async def claim(self, request: ClaimRequest, deadline: Deadline) -> ClaimResult:
        """As `Claims.claim`, and with its errors."""
        if not 0 < len(request.ids) <= self._ids_most or request.scope is not None or request.digests is not None:
            return await self._claims.claim(request, deadline)
        self._journal.lease_ms(request.lease_ms)
        deadline.check()
        waiting = _Waiting(request, deadline, asyncio.get_running_loop().create_future())
        self._wait(waiting)
        await waiting.waiter
        if waiting.answer is None or waiting.actions is None:
            return await self._claims.claim(request, deadline)
        self._journal.counts.add_ids(waiting.actions, waiting.answer.verdicts)
        return waiting.answer

    def _wait(self, waiting: _Waiting) -> None:
        if not self._waiting:
            self._ids, self._seen, self._since_ms = 0, 0, self._journal.clock.monotonic_ms()
            loop = asyncio.get_running_loop()
            loop.call_soon(self._turn, loop)
        self._waiting.append(waiting)
        self._ids += len(waiting.request.ids)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Decide once a turn has brought nothing more, or enough or enough time has come together."""
        count = len(self._waiting)
        is_more = self._seen < count < MOST and self._ids < IDS_TOGETHER
        if is_more and self._journal.clock.monotonic_ms() - self._since_ms <= WAIT_MS:
            self._seen = count
            loop.call_soon(self._turn, loop)
        else:
            self._decide()

    def _decide(self) -> None:
        """All that came; a caller that has gone away meanwhile asked for nothing."""
        waiting, self._waiting = [one for one in self._waiting if not one.waiter.done()], []
        for some in _cut(waiting):
            try:
                self._grant(some)
            except OncegateError:
                pass  # it had no effect: each is told alone
            except Exception as error:
                _fail(some, error)
            for one in some:
                if one.answer is None and not one.waiter.done():
                    one.waiter.set_result(None)

    def _grant(self, some: list[_Waiting]) -> None:
        """Give answers, and let them wait for what they rest on; some are left as they are.

        Raises OncegateError before any effect.
        """
        journal, index = self._journal, self._journal.index.claims
        if len(some) < FEWEST:
            return
        journal.group_commit.check()
        some = self._first_calls(some, journal.clock.monotonic_ms())
        if len(some) < FEWEST or index.open_claims + len(some) > journal.limits.open_claims:
            return
        wall_ms, names = journal.wall_ms(), journal.random(16 * len(some))
        claims = []
        for n, one in enumerate(some):
            request, lease_ms, ids = one.request, journal.lease_ms(one.request.lease_ms), one.request.ids.tobytes()
            name = names[16 * n : 16 * n + 16]
            claims.append(Claimed(name, request.token, request.call, digest_of(request), lease_ms, wall_ms, ids, b""))
        self._answer(some, *journal.record_together(claims))

    def _first_calls(self, some: list[_Waiting], now_ms: int) -> list[_Waiting]:
        """Those whose (token, call) nothing is known of, the first of each, and whose time is not up."""
        index, calls, found = self._journal.index.claims, set(), []
        for one in some:
            call, left_ms = (one.request.token, one.request.call), one.deadline.left_ms
            if call not in calls and not is_repeat(index, *call, now_ms) and (left_ms is None or left_ms > 0):
                calls.add(call)
                found.append(one)
        return found

    def _answer(self, some: Sequence[_Waiting], claim_batch: ClaimBatch, position: int) -> None:
        """`position`: of the entry of the first that was granted any, which the next ones follow."""
        group_commit, granted = self._journal.group_commit, {entry.claim for entry in claim_batch.entries}
        told, first = claim_batch.answers, 0
        for one, claim, end, rests_on in zip(
            some, claim_batch.claims, claim_batch.ends, claim_batch.rests_on, strict=True
        ):
            at, first = slice(first, end), end
            if rests_on == LEFT:
                continue
            is_granted = claim.claim in granted
            if is_granted:
                rests_on, position = position, position + 1
            name = claim.claim if is_granted else None
            one.answer = ClaimResult(name, claim.lease_ms, told.verdicts[at], told.numbers[at])
            one.actions = told.actions[at]
            if rests_on > group_commit.mark.position:
                group_commit.wait(rests_on, one.waiter)
            else:
                one.waiter.set_result(None)


def _cut(waiting: list[_Waiting]) -> Iterator[list[_Waiting]]:
    """As many at a time as may be decided at once."""
    some: list[_Waiting] = []
    ids = 0
    for one in waiting:
        if some and (len(some) == MOST or ids + len(one.request.ids) > IDS_TOGETHER):
            yield some
            some, ids = [], 0
        some.append(one)
        ids += len(one.request.ids)
    if some:
        yield some


def _fail(some: list[_Waiting], error: Exception) -> None:
    for one in some:
        if not one.waiter.done():
            one.waiter.set_exception(error)
