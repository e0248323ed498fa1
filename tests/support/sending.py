"""A gateway over a ledger in memory that sends rows to topics elsewhere; a test looks at what was to be sent."""

from collections.abc import AsyncIterator, Mapping, Sequence
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
    SendRanges,
    WriteRange,
)
from tests.support.held import Disk, HeldLedger, HeldLedgers


class Elsewhere:
    """`ports.RowTopics` of all rows, and so many bytes at once; `checked`: the origins that they were checked with.

    away: why its servers cannot be asked about topics; empty: they can.
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
    ) -> Mapping[str, bytes]:
        if self.away:
            raise LedgerFull(self.away)
        if waiting_bytes > self.bytes_max:
            raise TooLarge(f"{waiting_bytes} bytes at once")
        self.checked.append(origin)
        return {topic: self.topic_id} if identified else {}

    @property
    def columns(self) -> Any:
        return contract.COLUMNS

    def refuse_read(self, topic: str) -> NoReturn:
        raise ReadElsewhere(f"topic {topic} lies elsewhere", brokers=self.where, topic=topic)


class SendingLedger(HeldLedger):
    """Gives up what it sends; `sent`: what the appends that were written have sent."""

    def __init__(self, good: Ledger, outputs: Outputs, disk: Disk, sent: list[SendRanges]) -> None:
        super().__init__(good, outputs, disk)
        self.sent = sent

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
        return mark


class SendingLedgers(HeldLedgers):
    """`ports.Ledgers`; what is sent by any of them is in `sent`, what was checked in `elsewhere`."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[SendRanges] = []
        self.elsewhere = Elsewhere()

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        async with super().open(namespace) as opened:
            yield replace(opened, row_topics=self.elsewhere)

    def held(self, opened: OpenLedger) -> HeldLedger:
        assert opened.outputs is not None
        return SendingLedger(opened.ledger, opened.outputs, self.disk, self.sent)

    def origins(self) -> list[Origin | None]:
        """Of what was sent since the last look."""
        found, self.sent[:] = [send.origin for send in self.sent], []
        return found
