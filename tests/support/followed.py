"""Follows a ledger in memory as a standby does: reads it, then takes it over after its owner has gone."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from oncegate.ledgers.memory import MemoryLedgers
from oncegate.ports import Followed, OpenLedger, Replayed


@asynccontextmanager
async def followed(
    ledgers: MemoryLedgers,
    namespace: str,
    first: OpenLedger | None,
    turn: Callable[[], Awaitable[None]],
    standing: Callable[[], str],
) -> AsyncIterator[Followed]:
    """Follows the ledger `first`. After `turn` returns, the ledger is opened again and replayed; errors of `turn`
    propagate."""
    assert first is not None
    found: list[OpenLedger] = []
    async with AsyncExitStack() as stack:

        async def batches() -> AsyncGenerator[Sequence[Replayed], None]:
            await turn()
            opened = await stack.enter_async_context(ledgers.open(namespace))
            async with aclosing(opened.ledger.replay(1)) as several:
                async for batch in several:
                    yield batch
            found.append(opened)

        yield Followed(
            first.key, first.ledger.mark.ledger, first.outputs, batches(), lambda: found[0], lambda: 0, standing
        )
