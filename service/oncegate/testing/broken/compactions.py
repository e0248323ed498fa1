"""Ledgers that each break one promise of compaction, over any good ledger."""

import asyncio
from collections.abc import AsyncIterable, Sequence
from contextlib import suppress

from oncegate.ports import DropRanges, Ledger, Mark, OutputChange, Outputs, PublishRanges, Replayed, WriteRange
from oncegate.testing.broken.base import Broken
from oncegate.testing.ledger_places import snapshot_of


class CompactsNothing(Broken):
    """Ignores every compaction."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """Discards the snapshot."""


class CompactsTheRestToo(Broken):
    """Loses the entries after the compacted position as well."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        await self.good.compact(self.good.mark.position, snapshot)


class CompactsOnce(Broken):
    """Ignores every compaction after the first."""

    _compacted = False

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        if not self._compacted:
            await self.good.compact(position, snapshot)
        self._compacted = True


class CompactsBeforeDurable(Broken):
    """Shows the snapshot at once, but writes it only when its owner shuts down cleanly."""

    _late: tuple[int, Sequence[bytes]] | None = None

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        self._late = (position, [entry async for entry in snapshot])

    async def entries(self, from_position: int) -> list[Replayed]:
        seen = await super().entries(from_position)
        if self._late is None or from_position > self._late[0]:
            return seen
        position, snapshot = self._late
        mark = next(entry.mark for entry in seen if entry.position == position)
        return [Replayed(position, body, mark) for body in snapshot] + [
            entry for entry in seen if entry.position > position
        ]

    async def close(self) -> None:
        """Writes the snapshot that was already acknowledged."""
        if self._late is not None:
            await self.good.compact(self._late[0], snapshot_of(*self._late[1]))


class CompactsOutputsToo(Broken):
    """Drops the ranges that wait for publication at each compaction."""

    def __init__(self, good: Ledger, outputs: Outputs | None) -> None:
        super().__init__(good, outputs)
        self._waiting: set[bytes] = set()

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        mark = await self.good.append(entries, outputs)
        for output in outputs:
            match output:
                case WriteRange():
                    self._waiting.add(output.range_id)
                case PublishRanges() | DropRanges():
                    self._waiting -= set(output.range_ids)
        return mark

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        await self.good.compact(position, snapshot)
        await self.good.append([], [DropRanges(tuple(self._waiting))])
        self._waiting.clear()


class CompactsAnywhere(Broken):
    """Accepts positions inside an append, and silently compacts nothing there."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        with suppress(ValueError):
            await self.good.compact(position, snapshot)


class LosesAppendsWhileItCompacts(Broken):
    """Loses the appends made during a compaction."""

    _meanwhile: asyncio.Event | None = None

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        if self._meanwhile is None:
            return await self.good.append(entries, outputs)
        self._meanwhile.set()
        return self.good.mark

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        self._meanwhile = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._meanwhile.wait(), 0.05)
        self._meanwhile = None
        await self.good.compact(position, snapshot)


class CompactsUpToTheEnd(Broken):
    """Loses the entries appended while the snapshot was produced."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        before = self.good.mark.position
        made = [entry async for entry in snapshot]
        after = self.good.mark.position
        await self.good.compact(after if after > before else position, snapshot_of(*made))


class CompactsWhatCame(Broken):
    """Accepts a snapshot that failed halfway as complete."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        came = list[bytes]()
        try:
            async for entry in snapshot:
                came.append(entry)
        finally:
            await self.good.compact(position, snapshot_of(*came))
