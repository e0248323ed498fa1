"""A standby answers no request before it owns the ledger, and then knows everything that was appended."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from oncegate.core.errors import BadRequest, Recovering
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.recovery.owner import EVICTION_MS
from oncegate.ledgers.memory import MemoryLedgers
from oncegate.ports import Followed, OpenLedger
from oncegate.runs import MemoryRunFolders
from oncegate.testing.clock import FakeClock
from tests.support.followed import followed
from tests.support.memory_gateway import Events, run_ready_tasks, wait_until


class Followable(MemoryLedgers):
    """Ledgers whose standby takes over once `gone` is set, and finishes once `owned` is."""

    def __init__(self) -> None:
        super().__init__()
        self.gone, self.owned = asyncio.Event(), asyncio.Event()
        self.first: OpenLedger | None = None

    @asynccontextmanager
    async def follow(self, namespace: str) -> AsyncIterator[Followed]:
        """Implements the port's `Standbys.follow`."""
        async with followed(self, namespace, self.first, self._turn, self._standing) as found:
            yield found

    async def _turn(self) -> None:
        await self.gone.wait()
        await self.owned.wait()

    def _standing(self) -> str:
        return "" if self.gone.is_set() else "another owns it"


@asynccontextmanager
async def standing_by(ledgers: Followable) -> AsyncIterator[tuple[Gateway, FakeClock]]:
    clock = FakeClock()
    await ledgers.create("default")
    async with ledgers.open("default") as ledgers.first:
        pass
    async with open_gateway(ledgers, MemoryRunFolders(), clock, Events(), standby=True) as gateway:
        yield gateway, clock


async def passing(clock: FakeClock, so: Callable[[], bool]) -> None:
    """Advances the clock until the condition holds."""
    async with asyncio.timeout(60):
        while not so():
            clock.advance(EVICTION_MS)
            await run_ready_tasks()


async def test_a_standby_answers_no_request_before_it_owns_the_ledger() -> None:
    ledgers = Followable()
    async with standing_by(ledgers) as (gateway, _):
        await wait_until(lambda: gateway.readiness() == {"default": "STANDBY"})
        with pytest.raises(Recovering, match="stands by for namespace default: another owns it; nothing was written"):
            gateway.namespace("default")
        ledgers.gone.set()
        assert gateway.readiness() == {"default": "RECOVERING"}
        with pytest.raises(Recovering, match="being rebuilt"):
            gateway.namespace("default")
        ledgers.owned.set()
        await wait_until(lambda: gateway.readiness() == {"default": "SERVING"})
        assert gateway.namespace("default").mark.position == 1


async def test_a_superseded_owner_becomes_a_standby_even_if_nothing_is_written() -> None:
    ledgers = Followable()
    ledgers.gone.set()
    ledgers.owned.set()
    async with standing_by(ledgers) as (gateway, clock):
        await wait_until(lambda: gateway.readiness() == {"default": "SERVING"})
        ledgers.gone.clear()
        async with ledgers.open("default"):
            await passing(clock, lambda: gateway.readiness() == {"default": "STANDBY"})


async def test_namespaces_that_the_owner_makes_and_deletes_are_followed() -> None:
    ledgers = Followable()
    async with standing_by(ledgers) as (gateway, clock):
        await ledgers.create("mail")
        await passing(clock, lambda: gateway.readiness() == {"default": "STANDBY", "mail": "STANDBY"})
        await ledgers.delete("mail")
        await passing(clock, lambda: gateway.readiness() == {"default": "STANDBY"})


async def test_ledgers_that_know_no_standby_are_refused() -> None:
    with pytest.raises(BadRequest, match="nobody can stand by for"):
        async with open_gateway(MemoryLedgers(), MemoryRunFolders(), FakeClock(), Events(), standby=True):
            pass
