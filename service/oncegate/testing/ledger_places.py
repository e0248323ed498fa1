"""Places (storage that survives simulated restarts) and helper functions for the conformance suite."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from oncegate.core.errors import LedgerDown, LedgerFenced
from oncegate.ports import (
    Ability,
    Chunk,
    Ledger,
    Ledgers,
    OpenLedger,
    OutputChange,
    Outputs,
    PublishRanges,
    Replayed,
    RunFolders,
    Runs,
    WriteRange,
)


class LedgersUnderTest(Protocol):
    """The ledgers under test, and their LSM runs. Survives the processes that open it."""

    def ledgers(self) -> AbstractAsyncContextManager[Ledgers]:
        """Opens the ledgers as a newly started process would see them; the namespace `default` exists."""

    def runs(self) -> RunFolders:
        """Returns the folders of LSM runs as a newly started process would see them."""

    def crash(self) -> None:
        """Simulates a power failure: all open objects are gone, and only durable content remains."""


MakePlace = Callable[[], AbstractAsyncContextManager[LedgersUnderTest]]
LedgerCheck = Callable[[LedgersUnderTest], Awaitable[None]]
# Each check, and the abilities that it needs.
Checks = dict[LedgerCheck, frozenset[Ability]]
NAMESPACE = "default"
BIG = 1 << 40  # more bytes than any check writes


def require(holds: bool, promise: str) -> None:
    """Raises AssertionError, even under `python -O`, unless the promise holds."""
    if not holds:
        raise AssertionError(f"a ledger must: {promise}")


@asynccontextmanager
async def opened_at(under_test: LedgersUnderTest) -> AsyncIterator[OpenLedger]:
    """Opens the default ledger of a place."""
    async with under_test.ledgers() as ledgers, ledgers.open(NAMESPACE) as opened:
        yield opened


@asynccontextmanager
async def runs_at(under_test: LedgersUnderTest) -> AsyncIterator[Runs]:
    """Opens the LSM runs of a place's default ledger."""
    async with opened_at(under_test) as opened, under_test.runs().open(NAMESPACE, opened) as runs:
        yield runs


def range_of(name: int, rows: int, stream: str = "s") -> WriteRange:
    """Returns the change that writes a range, named by a number, with distinct bytes."""
    return WriteRange(name.to_bytes(16, "big"), stream, rows, b"rows of %d " % name * 50)


def publish(first_offset: int, *names: int, topic: str = "t") -> PublishRanges:
    """Returns the change that publishes ranges to partition 0 of a topic."""
    return PublishRanges(topic, 0, first_offset, tuple(name.to_bytes(16, "big") for name in names))


def chunk_of(first_offset: int, written: WriteRange) -> Chunk:
    """Returns the chunk that a reader of the written range must receive."""
    return Chunk(first_offset, written.rows, written.data)


def rows(opened: OpenLedger, *changes: OutputChange) -> list[OutputChange]:
    """Returns the changes if the ledger holds rows, otherwise an empty list."""
    return list(changes) if opened.outputs is not None else []


def outputs_of(opened: OpenLedger) -> Outputs:
    """Returns the reader of the ledger's rows. Raises AssertionError if it holds none."""
    require(opened.outputs is not None, "hold rows, unless it says that it leaves out `outputs`")
    assert opened.outputs is not None
    return opened.outputs


async def replayed(ledger: Ledger, from_position: int = 1) -> list[Replayed]:
    """Returns all entries at or after a position."""
    batches = [batch async for batch in ledger.replay(from_position)]
    require(all(batches), "replay no batch without entries")
    return [entry for batch in batches for entry in batch]


async def read(ledger: Ledger, from_position: int = 1) -> list[tuple[int, bytes]]:
    """Returns the position and bytes of every entry at or after a position."""
    return [(entry.position, bytes(entry.body)) for entry in await replayed(ledger, from_position)]


async def snapshot_of(*entries: bytes) -> AsyncIterator[bytes]:
    """Yields the entries in the form of a snapshot for `Ledger.compact`."""
    for entry in entries:
        yield entry


async def is_refused(call: Awaitable[object]) -> None:
    """Raises AssertionError unless the call is refused because its owner was superseded."""
    try:
        await call
    except (LedgerFenced, LedgerDown):
        return
    raise AssertionError("a ledger must: refuse an owner of an older epoch")
