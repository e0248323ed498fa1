"""Where the ledgers under test live."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from oncegate.ledgers.memory import MemoryLedgers
from oncegate.ports import Ledgers
from oncegate.testing import Place


class MemoryPlace:
    """Memory that outlives its owners; it loses nothing in a crash, as far as its own promise goes."""

    def __init__(self) -> None:
        self._ledgers = MemoryLedgers()

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        return nullcontext(self._ledgers)

    def crash(self) -> None:
        pass


@asynccontextmanager
async def memory_place() -> AsyncIterator[Place]:
    yield MemoryPlace()
