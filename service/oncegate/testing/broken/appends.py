"""Ledgers that each break one promise of appending or reading back, over any good ledger."""

from collections.abc import Sequence
from dataclasses import replace

from oncegate.core.errors import LedgerFenced
from oncegate.ports import (
    Chunk,
    Ledger,
    Mark,
    OutputChange,
    Outputs,
    PublishRanges,
    Replayed,
    TrimRanges,
    WriteRange,
)
from oncegate.testing.broken.base import Broken


class ForgetsTheLastAppend(Broken):
    """Forwards an append only when the next append arrives, so the last append is lost."""

    _kept: tuple[Sequence[bytes], Sequence[OutputChange]] = ((), ())

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        await self.good.append(*self._kept)
        self._kept = (entries, outputs)
        mark = self.good.mark
        return replace(mark, position=mark.position + len(entries))


class AnswersBeforeDurable(Broken):
    """Acknowledges appends at once, but writes them only when its owner shuts down cleanly."""

    _late: list[tuple[Sequence[bytes], Sequence[OutputChange]]]

    def __init__(self, good: Ledger, outputs: Outputs | None) -> None:
        super().__init__(good, outputs)
        self._late = []

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        self._late.append((entries, outputs))
        return Mark(self.good.mark.ledger, self.mark.position, bytes(8))

    @property
    def mark(self) -> Mark:
        mark = self.good.mark
        return replace(mark, position=mark.position + sum(len(entries) for entries, _ in self._late))

    async def entries(self, from_position: int) -> list[Replayed]:
        late = [body for entries, _ in self._late for body in entries]
        first = self.good.mark.position + 1
        seen = [*await super().entries(1), *(Replayed(first + i, body, self.mark) for i, body in enumerate(late))]
        return seen[from_position - 1 :]

    async def close(self) -> None:
        """Writes the appends that were already acknowledged."""
        for entries, outputs in self._late:
            await self.good.append(entries, outputs)


class ReturnsEntriesOutOfOrder(Broken):
    """Replays the last two entries in the wrong order."""

    async def entries(self, from_position: int) -> list[Replayed]:
        seen = await super().entries(from_position)
        return [*seen[:-2], *reversed(seen[-2:])]


class OpensShorterThanItWas(Broken):
    """Omits the last append of the previous owner when it is opened."""

    def __init__(self, good: Ledger, outputs: Outputs | None) -> None:
        super().__init__(good, outputs)
        self._gone = good.mark

    async def entries(self, from_position: int) -> list[Replayed]:
        return [replayed for replayed in await super().entries(from_position) if replayed.mark != self._gone]


class ServesUnpublishedRows(Broken):
    """Publishes a range to the topic `t` as soon as it is written."""

    def __init__(self, good: Ledger, outputs: Outputs | None) -> None:
        super().__init__(good, outputs)
        self._written: list[Chunk] = []

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        mark = await self.good.append(entries, outputs)
        for output in outputs:
            if isinstance(output, WriteRange):
                self._written.append(Chunk(sum(chunk.rows for chunk in self._written), output.rows, output.data))
        return mark

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        return await super().fetch(topic, partition, offset, max_rows, max_bytes) or self._written


class ForgetsWhatWasPublished(Broken):
    """Keeps the entries of an append but loses its publications: half a commit."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        return await self.good.append(entries, [o for o in outputs if not isinstance(o, PublishRanges)])


class AcceptsAnOldEpoch(Broken):
    """Lets a fenced owner write, by forwarding its appends to its successor."""

    newest: Ledger | None = None

    def __init__(self, good: Ledger, outputs: Outputs | None) -> None:
        super().__init__(good, outputs)
        type(self).newest = good

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        try:
            return await self.good.append(entries, outputs)
        except LedgerFenced:
            assert self.newest is not None
            return await self.newest.append(entries, outputs)


class ForgetsTrims(Broken):
    """Forwards appends without their trims."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        return await self.good.append(entries, [o for o in outputs if not isinstance(o, TrimRanges)])


class TrimsApart(Broken):
    """Trims in a separate append before the rest: two changes instead of one."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        await self.good.append([], [o for o in outputs if isinstance(o, TrimRanges)])
        return await self.good.append(entries, [o for o in outputs if not isinstance(o, TrimRanges)])


class FetchesWithoutBound(Broken):
    """Returns more bytes from a fetch than were requested."""

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        return await super().fetch(topic, partition, offset, max_rows, 1 << 60)
