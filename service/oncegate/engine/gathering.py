"""Small claims that come close together are decided and recorded together, where nothing tells them from claims that
come one after the other: new calls for new ids, no id twice. The rest goes its own way, after them.

They wait while each turn of the loop brings more, a millisecond or two at most: that is as long as one of them takes to
be synced, and a lone one waits for no other. PostgreSQL's commit_siblings has the same reason.
"""

import asyncio
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.core.entries import Claimed
from oncegate.core.errors import OncegateError
from oncegate.engine.claims import Claims, digest_of
from oncegate.engine.deadline import Deadline
from oncegate.engine.journal import Journal
from oncegate.engine.requests import ClaimAnswer, ClaimAsk
from oncegate.index.together import FIRST, is_repeat, look

# Claims of more ids cost little beside their ids.
IDS_MOST = 16
# One alone costs more that way; more at once than that would keep the loop from its renewals.
FEWEST, MOST = 2, 64
# No claim waits longer for others, but for the turn that is under way.
WAIT_MS = 1
_NO_NUMBERS = np.zeros(IDS_MOST, np.uint32)


@dataclass(slots=True)
class _Waiting:
    """A claim that waits: for its turn, and with an answer for its entry to be durable."""

    ask: ClaimAsk
    deadline: Deadline
    waiter: asyncio.Future[None]
    answer: ClaimAnswer | None = field(default=None)


class Gathering:
    """`claim` of free ids, for many small requests at once."""

    def __init__(self, journal: Journal, claims: Claims) -> None:
        self._journal = journal
        self._claims = claims
        self._waiting: list[_Waiting] = []
        self._seen = 0
        self._since_ms = 0

    async def claim(self, ask: ClaimAsk, deadline: Deadline) -> ClaimAnswer:
        """As `Claims.claim`, and with its errors."""
        if not 0 < len(ask.ids) <= IDS_MOST or ask.scope is not None or ask.digests is not None:
            return await self._claims.claim(ask, deadline)
        self._journal.lease_ms(ask.lease_ms)
        deadline.check()
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._seen, self._since_ms = 0, self._journal.clock.monotonic_ms()
            loop.call_soon(self._turn, loop)
        waiting = _Waiting(ask, deadline, loop.create_future())
        self._waiting.append(waiting)
        await waiting.waiter
        if waiting.answer is None:
            return await self._claims.claim(ask, deadline)
        self._journal.counts["granted"] += len(ask.ids)
        return waiting.answer

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Decide once a turn has brought nothing more, or enough or enough time has come together."""
        count = len(self._waiting)
        if self._seen < count < MOST and self._journal.clock.monotonic_ms() - self._since_ms <= WAIT_MS:
            self._seen = count
            loop.call_soon(self._turn, loop)
        else:
            self._decide()

    def _decide(self) -> None:
        """All that came; a caller that has gone away meanwhile asked for nothing."""
        waiting, self._waiting = [one for one in self._waiting if not one.waiter.done()], []
        for first in range(0, len(waiting), MOST):
            some = waiting[first : first + MOST]
            try:
                if len(some) >= FEWEST:
                    self._grant(some)
            except OncegateError:
                pass  # it had no effect: each is told alone
            except Exception as error:
                _fail(some, error)
            for one in some:
                if one.answer is None and not one.waiter.done():
                    one.waiter.set_result(None)

    def _grant(self, some: list[_Waiting]) -> None:
        """Give an answer to those that are new, and let them wait for their entries; the others are left as they are.

        Raises OncegateError before any effect.
        """
        journal, index = self._journal, self._journal.index.claims
        journal.committer.check()
        now_ms = journal.clock.monotonic_ms()
        some = self._first_calls(some, now_ms)
        asked = look(index, _ids(some), now_ms) if some else None
        if asked is None:
            return
        bounds = np.cumsum([0, *(len(one.ask.ids) for one in some)]).tolist()
        new = asked.actions == FIRST
        if not new.all():
            some = [one for one, at, end in zip(some, bounds, bounds[1:], strict=False) if new[at:end].all()]
        if len(some) < FEWEST or index.open_claims + len(some) > journal.limits.open_claims:
            return
        ids = asked.fresh if new.all() else _ids(some)
        index.make_room(len(ids), now_ms, entries=len(some))
        self._record(some, ids, asked.verdicts[new][:1])

    def _first_calls(self, some: list[_Waiting], now_ms: int) -> list[_Waiting]:
        """Those whose (token, call) nothing is known of, the first of each, and whose time is not up."""
        index, calls, found = self._journal.index.claims, set(), []
        for one in some:
            call, left_ms = (one.ask.token, one.ask.call), one.deadline.left_ms
            if call not in calls and not is_repeat(index, *call, now_ms) and (left_ms is None or left_ms > 0):
                calls.add(call)
                found.append(one)
        return found

    def _record(self, some: list[_Waiting], ids: NDArray[np.uint64], granted: NDArray[np.uint8]) -> None:
        journal = self._journal
        wall_ms, names = journal.wall_ms(), journal.random(16 * len(some))
        entries = []
        for n, one in enumerate(some):
            ask, fresh = one.ask, one.ask.ids.tobytes()
            lease_ms = journal.lease_ms(ask.lease_ms)
            name = names[16 * n : 16 * n + 16]
            entries.append(Claimed(name, ask.token, ask.call, digest_of(ask), lease_ms, wall_ms, fresh, b""))
        first = journal.record_together(entries, ids)
        for n, (one, entry) in enumerate(zip(some, entries, strict=True)):
            verdicts = granted.repeat(len(one.ask.ids))
            one.answer = ClaimAnswer(entry.claim, entry.lease_ms, verdicts, _NO_NUMBERS[: len(verdicts)])
            journal.committer.wait(first + n, one.waiter)


def _ids(some: list[_Waiting]) -> NDArray[np.uint64]:
    return np.concatenate([one.ask.ids for one in some])


def _fail(some: list[_Waiting], error: Exception) -> None:
    for one in some:
        if not one.waiter.done():
            one.waiter.set_exception(error)
