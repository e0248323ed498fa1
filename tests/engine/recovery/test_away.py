"""A ledger whose server is unavailable without writes: not ready, with the reason, and with the same owner
afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from oncegate.core.errors import LedgerDown
from oncegate.engine.gateway import open_gateway
from oncegate.engine.recovery.owner import EVICTION_MS, RECOVERING_MS
from oncegate.ledgers.memory import MemoryLedgers
from oncegate.ports import OpenLedger, Storage
from oncegate.runs import MemoryRunFolders
from oncegate.testing.clock import FakeClock
from oncegate.transports import health
from tests.support.memory_gateway import Events, run_ready_tasks


class Away(MemoryLedgers, Storage):
    """Ledgers whose `away` returns `unreached`."""

    unreached: LedgerDown | None = None
    opened = 0

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        """Implements the port's `Ledgers.open`."""
        async with super().open(namespace) as opened:
            self.opened += 1
            yield replace(opened, storage=self)

    def away(self) -> LedgerDown | None:
        """Implements the port's `Storage.away`."""
        return self.unreached


async def test_a_ledger_that_is_away_is_reported_and_serves_again_without_a_new_opening() -> None:
    ledgers, clock, events = Away(), FakeClock(), Events()
    async with open_gateway(ledgers, MemoryRunFolders(), clock, events) as gateway:

        async def pass_time(duration_ms: int = EVICTION_MS) -> None:
            clock.advance(duration_ms)
            await run_ready_tasks()

        for number in (1, 2):
            assert gateway.readiness() == {"default": "SERVING"}
            ledgers.unreached = LedgerDown("redis://me:hidden@there cannot\nbe used now (password=hidden)")
            for _ in range(3):
                await pass_time()
            assert gateway.readiness() == {"default": "RECOVERING"}
            why = "LEDGER_DOWN: redis://***@there cannot be used now (password=***"
            assert health.ready(gateway).detail == f"namespace default is RECOVERING ({why})"
            assert events.names().count("ledger_away") == number
            await pass_time(RECOVERING_MS)
            assert events.names().count("recovering_long") == number
            ledgers.unreached = None
            await pass_time()
            assert events.names().count("ledger_reached") == number
        assert health.ready(gateway).ok
        assert (ledgers.opened, "ledger_lost" in events.names()) == (1, False)
