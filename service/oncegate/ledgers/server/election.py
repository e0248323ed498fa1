"""Elects the leader of the gateways that share a prefix, through the list of namespaces: it alone should open ledgers.

A gateway that is not a standby becomes the leader when it opens its first ledger, and never again: two gateways that
open several ledgers would otherwise fence each other in turns. A standby becomes the leader if there is none, if the
leader's last heartbeat announced its end, or if it sent no heartbeat for `takeover_ms` while the list could be read.
The standby measures this time by its own clock. If two standbys try at once, the second sees a new leader and waits.

Leadership is only advisory: a former leader may keep running until the ledgers' own fencing stops it. The election only
prevents gateways from taking each other's ledgers in turns, and from dividing a prefix among them.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from oncegate.clock import now_s, sleep_s
from oncegate.core.errors import LedgerFenced, Recovering
from oncegate.ledgers.server.holders import HOLDER, Beat, Changes, Holder, HolderList, Holders

# A tenth of the shortest reasonable `takeover_ms`.
BEAT_S = 1.0
# Interval at which a standby reads the list and tails its ledgers.
LOOK_S = 0.2
# Timeout for reading the list. After it, an open transaction of a dead writer is assumed to block the list.
STUCK_S = 5.0


class Election:
    """This gateway's part in the election. Call `start` first and `close` last.

    `when_followed`: called when another gateway has become the leader instead.
    """

    def __init__(self, listed: HolderList, takeover_ms: int, when_followed: Callable[[LedgerFenced], None]) -> None:
        self.gateway = os.urandom(8).hex()
        self._list = listed
        self._takeover_s = takeover_ms / 1000
        self._when_followed = when_followed
        self._stands_by = self._has_led = False
        # Last term that this gateway requested by opening a ledger; 0: none.
        self._asked_term = 0
        self._won = asyncio.Event()
        self._beats = 0
        # Leader and heartbeat as last seen, since when they are unchanged, and when the list was last read.
        self._seen: tuple[Holder, Beat | None] | None = None
        self._seen_s = 0.0
        self._looked_s = self._beaten_s = float("-inf")
        # Error of the last attempt to read or change the list; empty: it succeeded.
        self._failing = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="election")

    async def close(self) -> None:
        """Stops the election; a leader writes a last heartbeat, so that a standby takes over at once."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        if self.leads:
            # Any error is ignored: a standby then takes over after `takeover_ms`.
            with suppress(Exception):
                await self._list.beat(self.gateway, Beat(self._beats + 1, gone=True))

    @property
    def leads(self) -> bool:
        """True if this gateway was the leader when the list was last read."""
        return self._list.listed.holder.gateway == self.gateway

    def stand_by(self) -> None:
        """Makes this gateway a standby, which opens ledgers only after it was elected."""
        self._stands_by = True

    async def wait_for(self, seconds: float) -> bool:
        """Waits up to `seconds` until this gateway is the leader; returns whether it is."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._won.wait(), 0 if self.leads else seconds)
        return self.leads

    def require_lead(self) -> None:
        """Raises Recovering if this gateway is a standby and not the leader; nothing was written."""
        if self._stands_by and not self.leads:
            raise Recovering(f"this gateway stands by: {self.described()}; nothing was written, ask the owner")

    def described(self) -> str:
        """Describes the current leader in a few words."""
        holder, beat = self._list.listed.holder, self._beat()
        failing = f" (the list of namespaces cannot be read: {self._failing})" if self._failing else ""
        if not holder.gateway or (beat is not None and beat.gone):
            return f"no gateway owns the ledgers now{failing}"
        return f"gateway {holder.gateway} owns the ledgers{failing}"

    def lead(self, listed: Holders) -> Changes:
        """Returns the changes that make this gateway the leader. Raises LedgerFenced: another gateway must lead."""
        if listed.holder.gateway == self.gateway:
            self._has_led = True
            return []
        if self._stands_by or self._has_led or self._is_followed:
            raise _followed_by(listed.holder.gateway)
        self._asked_term = listed.holder.term + 1
        return self._next(listed)

    @property
    def _is_followed(self) -> bool:
        """True if another gateway has a later term than this gateway requested.

        The request may have been granted and superseded without this gateway having noticed.
        """
        return not self.leads and 0 < self._asked_term < self._list.listed.holder.term

    def _next(self, listed: Holders) -> Changes:
        return [(HOLDER, Holder(self.gateway, listed.holder.term + 1))]

    def _beat(self) -> Beat | None:
        return self._list.listed.beats.get(self._list.listed.holder.gateway)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:
                # Never stop at an error: without reads a standby never takes over; without heartbeats a leader is lost.
                self._failing = repr(error)
            await sleep_s(LOOK_S)

    async def _look(self) -> None:
        """Reads the list, and acts as leader, former leader or standby."""
        is_owner = self.leads or self._has_led or self._asked_term > 0
        if not (is_owner or self._stands_by) or (is_owner and now_s() < self._looked_s + BEAT_S):
            return
        try:
            async with asyncio.timeout(STUCK_S):
                await self._list.refresh()
        except TimeoutError:
            # An empty change ends a transaction that blocks the list, if the brokers can be reached.
            await self._list.change(lambda _: [])
            return
        self._note(now_s())
        self._failing = ""
        if self.leads:
            await self._lead(now_s())
        elif self._has_led or self._is_followed:
            self._follow()
        elif self._stands_by and self._is_due(now_s()):
            await self._list.change(self._elected)
            if self.leads:
                await self._lead(now_s())

    def _note(self, now_s: float) -> None:
        """Restarts the measurement of silence after a new heartbeat, or after a gap in reading the list."""
        now = (self._list.listed.holder, self._beat())
        if now != self._seen or now_s > self._looked_s + self._takeover_s / 2:
            self._seen, self._seen_s = now, now_s
        self._looked_s = now_s

    def _is_due(self, now_s: float) -> bool:
        holder, beat = self._list.listed.holder, self._beat()
        return not holder.gateway or (beat is not None and beat.gone) or now_s >= self._seen_s + self._takeover_s

    def _elected(self, listed: Holders) -> Changes:
        return self._next(listed) if (listed.holder, self._beat()) == self._seen else []

    async def _lead(self, now_s: float) -> None:
        self._has_led = True
        self._won.set()
        if now_s < self._beaten_s + BEAT_S:
            return
        self._beats += 1
        self._beaten_s = now_s
        await self._list.beat(self.gateway, Beat(self._beats))
        for other in [other for other in self._list.listed.beats if other != self.gateway]:
            await self._list.beat(other, None)

    def _follow(self) -> None:
        """Ends all open ledgers of this gateway, since a different gateway is now the leader."""
        self._won.clear()
        self._has_led, self._asked_term = not self._stands_by, 0
        self._when_followed(_followed_by(self._list.listed.holder.gateway))


def _followed_by(gateway: str) -> LedgerFenced:
    return LedgerFenced(f"another gateway owns this one: gateway {gateway} owns the ledgers now; nothing was written")
