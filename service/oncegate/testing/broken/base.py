"""Base class of ledgers that break one promise: it forwards every call to a good ledger."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence

from oncegate.ports import Chunk, Ledger, Mark, OutputChange, Outputs, Replayed, Runs


class Broken:
    """Forwards every call to a good ledger and its outputs; each subclass breaks one promise."""

    def __init__(self, good: Ledger, outputs: Outputs | None) -> None:
        self.good = good
        self.outputs = outputs

    @property
    def mark(self) -> Mark:
        return self.good.mark

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        return await self.good.append(entries, outputs)

    async def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Yields what `entries` returns, as one batch."""
        entries = await self.entries(from_position)
        if entries:
            yield entries

    async def entries(self, from_position: int) -> list[Replayed]:
        """Returns the entries that a replay yields."""
        return [entry async for batch in self.good.replay(from_position) for entry in batch]

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        assert self.outputs is not None, "asked for rows of a ledger without any"
        return await self.outputs.fetch(topic, partition, offset, max_rows, max_bytes)

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        await self.good.compact(position, snapshot)

    @staticmethod
    def beside(runs: Runs) -> Runs:
        """Returns the ledger's LSM runs, which a subclass may break."""
        return runs

    async def close(self) -> None:
        """Called when the owner shuts down cleanly, never in a crash."""
