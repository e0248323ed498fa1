"""A gateway over a memory ledger that sends rows to topics elsewhere; tests inspect the rows it sends."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NoReturn

from oncegate.core.errors import LedgerFull, ReadElsewhere, TooLarge
from oncegate.ledgers.kafka.rows import contract
from oncegate.ports import (
    DropRanges,
    Ledger,
    Mark,
    OpenLedger,
    Origin,
    OutputChange,
    Outputs,
    Replayed,
    RowPlaces,
    RowRange,
    SendRanges,
    TopicsElsewhere,
    WriteRange,
)
from tests.support.memory_gateway import Disk, GatedLedger, GatedLedgers


class Elsewhere:
    """A `ports.RowTopics` that accepts all rows up to `bytes_max`. `checked`: the origins of its checks.

    `away`: the reason why its servers cannot be asked about topics; empty if they can.
    """

    where = "elsewhere:9092"
    topic_id = bytes(15) + b"1"

    def __init__(self, bytes_max: int = 1 << 30) -> None:
        self.bytes_max = bytes_max
        self.checked: list[Origin | None] = []
        self.away = ""

    async def check(
        self,
        topic: str,
        schema: Any,
        batches: Sequence[Any],
        origin: Origin | None = None,
        waiting_bytes: int = 0,
        identified: bool = False,
        waiting_topics: Sequence[str] = (),
    ) -> Mapping[str, bytes]:
        if self.away:
            raise LedgerFull(self.away)
        if waiting_bytes > self.bytes_max:
            raise TooLarge(f"{waiting_bytes} bytes at once")
        self.checked.append(origin)
        return (
            dict.fromkeys(waiting_topics or self.topics_of(topic, schema, batches), self.topic_id) if identified else {}
        )

    @staticmethod
    def topics_of(topic: str, schema: Any, batches: Sequence[Any]) -> Sequence[str]:
        return [topic] if "topic" not in schema.names else contract.topics_in(schema, batches)

    @property
    def columns(self) -> Any:
        return contract.COLUMNS

    def refuse_read(self, topic: str) -> NoReturn:
        raise ReadElsewhere(f"topic {topic} lies elsewhere", brokers=self.where, topic=topic)


class Partitions:
    """The row offsets of sent rows: the partitions alternate, row by row.

    Each append is followed by an offset for its transaction marker, as in Kafka. `by_position`: by the position of the
    sending entry.
    """

    def __init__(self, count: int = 3) -> None:
        self.ends = [100 * number for number in range(count)]
        self.by_position: dict[int, RowPlaces] = {}
        # False if the ledger does not record row offsets.
        self.is_kept = True
        # Reads wait while this is cleared.
        self.gate = asyncio.Event()
        self.gate.set()

    def place(self, send: SendRanges, rows: int) -> RowPlaces:
        count = len(self.ends)
        parts = [len(range(number, rows, count)) for number in range(count)]
        ranges = tuple(
            RowRange(send.topic, number, end, part)
            for number, (end, part) in enumerate(zip(self.ends, parts, strict=True))
            if part
        )
        self.ends = [end + part + 1 for end, part in zip(self.ends, parts, strict=True)]
        partition_of = bytes(number % count for number in range(rows)) if len(ranges) > 1 else b""
        return RowPlaces(ranges, partition_of)


class SendingLedger(GatedLedger):
    """Drops the rows that it sends. `sent`: the rows sent by successful appends."""

    def __init__(
        self, good: Ledger, outputs: Outputs, disk: Disk, sent: list[SendRanges], partitions: Partitions
    ) -> None:
        super().__init__(good, outputs, disk)
        self.sent = sent
        self.partitions = partitions
        self.rows: dict[bytes, int] = {}

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        sends = [output for output in outputs if isinstance(output, SendRanges)]
        going = {one for send in sends for one in send.range_ids}
        written = {one.range_id for one in outputs if isinstance(one, WriteRange)}
        kept = [
            one
            for one in outputs
            if not isinstance(one, SendRanges) and not (isinstance(one, WriteRange) and one.range_id in going)
        ]
        stored = tuple(one for send in sends for one in send.range_ids if one not in written)
        mark = await super().append(entries, [*kept, *([DropRanges(stored)] if stored else [])])
        self.sent += sends
        self.rows |= {one.range_id: one.rows for one in outputs if isinstance(one, WriteRange)}
        for send in sends:
            places = self.partitions.place(send, sum(self.rows[one] for one in send.range_ids))
            if send.report is not None:
                self.partitions.by_position[send.report.position] = places
                send.report.told(places)
        return mark

    async def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        await self.partitions.gate.wait()
        by_position = self.partitions.by_position if self.partitions.is_kept else {}
        async for batch in super().replay(from_position):
            yield [replace(one, places=by_position.get(one.position)) for one in batch]


class SendingLedgers(GatedLedgers):
    """`ports.Ledgers`. `sent` lists the rows sent by any of them, `elsewhere` the checks."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[SendRanges] = []
        self.elsewhere = Elsewhere()
        self.partitions = Partitions()

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        async with super().open(namespace) as opened:
            yield replace(opened, topics=TopicsElsewhere(self.elsewhere))

    def gated(self, opened: OpenLedger) -> GatedLedger:
        assert opened.outputs is not None
        return SendingLedger(opened.ledger, opened.outputs, self.disk, self.sent, self.partitions)

    def origins(self) -> list[Origin | None]:
        """Returns the origins of the rows sent since the last call."""
        found, self.sent[:] = [send.origin for send in self.sent], []
        return found
