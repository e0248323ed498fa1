"""Breaks one promise of compaction each, over any good ledger."""

import asyncio
from collections.abc import AsyncIterable, Sequence
from contextlib import suppress

from oncegate.ports import DropRanges, Ledger, Mark, OutputChange, Outputs, PublishRanges, Replayed, WriteRange
from oncegate.testing.broken.base import Broken
from oncegate.testing.ledger_places import snapshot_of


class CompactsNothing(Broken):
    """Passes no compaction on."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""


class CompactsTheRestToo(Broken):
    """What was appended after the compacted position is gone as well."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        await self.good.compact(self.good.mark.position, snapshot)


class CompactsOnce(Broken):
    """The first snapshot stays for ever."""

    _compacted = False

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        if not self._compacted:
            await self.good.compact(position, snapshot)
        self._compacted = True


class CompactsBeforeDurable(Broken):
    """Shows the snapshot at once, and writes it when its owner leaves in good order."""

    _late: tuple[int, Sequence[bytes]] | None = None

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        self._late = (position, [entry async for entry in snapshot])

    async def entries(self, from_position: int) -> list[Replayed]:
        """As the good one, but for the promise that is broken."""
        seen = await super().entries(from_position)
        if self._late is None or from_position > self._late[0]:
            return seen
        position, snapshot = self._late
        mark = next(entry.mark for entry in seen if entry.position == position)
        return [Replayed(position, body, mark) for body in snapshot] + [
            entry for entry in seen if entry.position > position
        ]

    async def close(self) -> None:
        """Does late what was to be done at once."""
        if self._late is not None:
            await self.good.compact(self._late[0], snapshot_of(*self._late[1]))


class CompactsOutputsToo(Broken):
    """Ranges that wait are gone after a compaction."""

    def __init__(self, good: Ledger, outputs: Outputs | None) -> None:
        super().__init__(good, outputs)
        self._waiting: set[bytes] = set()

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """As the good one, but for the promise that is broken."""
        mark = await self.good.append(entries, outputs)
        for output in outputs:
            match output:
                case WriteRange():
                    self._waiting.add(output.range_id)
                case PublishRanges() | DropRanges():
                    self._waiting -= set(output.range_ids)
        return mark

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        await self.good.compact(position, snapshot)
        await self.good.append([], [DropRanges(tuple(self._waiting))])
        self._waiting.clear()


class CompactsAnywhere(Broken):
    """Takes any position for one where an append ended, and does not say that nothing was compacted."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        with suppress(ValueError):
            await self.good.compact(position, snapshot)


class LosesAppendsWhileItCompacts(Broken):
    """Goes on with what was there when the compaction began."""

    _meanwhile: asyncio.Event | None = None

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """As the good one, but for the promise that is broken."""
        if self._meanwhile is None:
            return await self.good.append(entries, outputs)
        self._meanwhile.set()
        return self.good.mark

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        self._meanwhile = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._meanwhile.wait(), 0.05)
        self._meanwhile = None
        await self.good.compact(position, snapshot)


class CompactsUpToTheEnd(Broken):
    """What was appended while the snapshot was made is gone as well."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        before = self.good.mark.position
        made = [entry async for entry in snapshot]
        after = self.good.mark.position
        await self.good.compact(after if after > before else position, snapshot_of(*made))


class CompactsWhatCame(Broken):
    """A snapshot that failed is taken for whole."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """As the good one, but for the promise that is broken."""
        came = list[bytes]()
        try:
            async for entry in snapshot:
                came.append(entry)
        finally:
            await self.good.compact(position, snapshot_of(*came))
