"""What the checks of the conformance suite share: places, and short names for what they do there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from oncegate.core.errors import LedgerDown, LedgerFenced
from oncegate.ports import Chunk, Ledger, Ledgers, OpenLedger, PublishRanges, WriteRange


class Place(Protocol):
    """Where the ledgers under test live. It survives those who open it."""

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        """What a process that starts now finds; the namespace `default` exists."""

    def crash(self) -> None:
        """The power fails: whoever has it open is gone, and only what is durable at this moment stays."""


MakePlace = Callable[[], AbstractAsyncContextManager[Place]]
NAMESPACE = "default"
BIG = 1 << 40  # more bytes than any check writes


def require(holds: bool, promise: str) -> None:
    """AssertionError, also under `python -O`."""
    if not holds:
        raise AssertionError(f"a ledger must: {promise}")


@asynccontextmanager
async def opened_at(place: Place) -> AsyncIterator[OpenLedger]:
    async with place.ledgers() as ledgers, ledgers.open(NAMESPACE) as opened:
        yield opened


def range_of(name: int, rows: int, stream: str = "s") -> WriteRange:
    return WriteRange(name.to_bytes(16, "big"), stream, rows, b"rows of %d " % name * 50)


def publish(first_offset: int, *names: int, topic: str = "t") -> PublishRanges:
    return PublishRanges(topic, 0, first_offset, tuple(name.to_bytes(16, "big") for name in names))


def chunk_of(first_offset: int, written: WriteRange) -> Chunk:
    return Chunk(first_offset, written.rows, written.data)


def read(ledger: Ledger, from_position: int = 1) -> list[tuple[int, bytes]]:
    return [(replayed.position, bytes(replayed.body)) for replayed in ledger.replay(from_position)]


async def is_refused(call: Awaitable[object]) -> None:
    try:
        await call
    except (LedgerFenced, LedgerDown):
        return
    raise AssertionError("a ledger must: refuse an owner of an older epoch")
