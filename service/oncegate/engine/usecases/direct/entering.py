"""Reads the lane records that clients committed to Kafka, enters them into the ledger, then trims the entered records.

A partition has one read at a time, and everyone who asks before a read begins shares it. Records are entered without an
await in between, so the index has them as soon as the read is done.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oncegate.core.direct import ENTER, TRIM, Content, Entering, EntryState, Trimming
from oncegate.core.entries.producers import LaneWritten
from oncegate.core.errors import LedgerDamaged, OncegateError
from oncegate.engine.commit.journal import Journal
from oncegate.engine.counters import LANE_DOUBLES
from oncegate.engine.usecases.direct.record import LaneRecord, decode_record
from oncegate.index.lanes import Lane
from oncegate.index.producers.intervals import Intervals
from oncegate.ports import DirectRecords

# Records for one append: some 100 kB.
ENTRIES_PER_CHANGE = 1_000
# Entered records before a trim. A trim costs a commit and two requests; rare trims make the next start read more.
TRIM_RECORDS = 1_000


@dataclass(frozen=True, slots=True)
class Reached:
    """The point that a read of lane records has reached.

    since: the argument for `GroupCommit.owned`, to wait for a commit that began after the read.
    next_offset: the index's next offset once all records are entered; if it is lower later, some of them were undone.
    """

    since: int
    next_offset: int


class DirectEntering:
    """Enters the Kafka records of one shard's lanes into its ledger."""

    def __init__(self, journal: Journal, records: DirectRecords) -> None:
        self._journal = journal
        self._records = records
        self._turns = [asyncio.Lock() for _ in range(records.partitions)]
        # The read of each partition that has not begun yet.
        self._next: dict[int, asyncio.Task[Reached]] = {}
        self._entered = [0] * records.partitions
        self._trimming: asyncio.Task[None] | None = None

    def read_on(self, partition: int) -> "asyncio.Task[Reached]":
        """Reads a record partition to its current end or beyond, and enters the records into the ledger.

        The task raises LedgerFull, LedgerDamaged, and the reason why nothing can be written.
        """
        reading = self._next.get(partition)
        if reading is None:
            reading = self._next[partition] = asyncio.create_task(self._turn(partition), name="lanes")
            reading.add_done_callback(_taken)
        return reading

    async def _turn(self, partition: int) -> Reached:
        async with self._turns[partition]:
            del self._next[partition]
            first = self._journal.index.lanes.next_offset(partition)
            try:
                found = await self._records.read(partition, first)
                self._enter(partition, found)
            except LedgerDamaged:
                # An owner that was suspended may miss records because its successor has trimmed them.
                await self._journal.group_commit.owned(self._journal.group_commit.next_append)
                raise
            reached = Reached(self._journal.group_commit.next_append, self._journal.index.lanes.next_offset(partition))
            if self._entered[partition] >= TRIM_RECORDS and (self._trimming is None or self._trimming.done()):
                self._trimming = asyncio.create_task(self._trim(partition), name="lanes")
            return reached

    def _enter(self, partition: int, found: Sequence[tuple[int, bytes]]) -> None:
        """Enters the lane records in `found` into the ledger. If a record is refused, only those before it are
        recorded, and LedgerDamaged is raised."""
        journal, entries, written = self._journal, list[LaneWritten](), dict[int, Intervals]()
        refused: LedgerDamaged | None = None
        for offset, data in found:
            record = decode_record(data)
            lane = None if record is None else self._lane(record, partition)
            if record is None or lane is None:
                effect = ENTER[Content.FOREIGN].effect
            else:
                effect = ENTER[_content(record, written.setdefault(lane.number, lane.written))].effect
                written[lane.number] = written[lane.number].painted(record.spans, 1)
            if record is None or effect is Entering.REFUSE:
                refused = self._foreign(partition, offset)
                break
            if effect is Entering.ENTER_AND_WARN:
                told = {"topic": lane.topic, "producer": lane.producer} if lane is not None else {}
                journal.counts.add(LANE_DOUBLES)
                where = {"namespace": journal.namespace, "partition": partition, "offset": offset}
                journal.observer.event("lane_written_twice", **where, **told)
            entries.append(LaneWritten(record.lane, offset, record.spans.astype("<u8").tobytes(), journal.wall_ms()))
            if len(entries) == ENTRIES_PER_CHANGE:
                self._record(partition, entries)
                entries = []
        self._record(partition, entries)
        if refused is not None:
            raise refused

    def _record(self, partition: int, entries: list[LaneWritten]) -> None:
        if entries:
            self._journal.group_commit.check()
            self._journal.record(entries)
            self._entered[partition] += len(entries)

    def _lane(self, record: LaneRecord, partition: int) -> Lane | None:
        lane = self._journal.index.lanes.numbered(record.lane)
        if lane is None or lane.partition != partition:
            return None
        return lane if record.ledger == self._records.place(lane.number, partition).ledger else None

    def _foreign(self, partition: int, offset: int) -> LedgerDamaged:
        place = self._records.place(0, partition)
        return LedgerDamaged(
            f"topic {place.topic}, partition {partition}, offset {offset}: a record that no lane of this ledger has "
            "written, or one of a later version; nothing is told of the lanes there: serve with the version that "
            "writes it, or delete it by kafka-delete-records.sh if somebody else has put it there"
        )

    async def _trim(self, partition: int) -> None:
        """Deletes the entered records once ownership is proven; a failed trim is retried with the next records."""
        group_commit, before = self._journal.group_commit, self._journal.index.lanes.next_offset(partition)
        state, entered = EntryState.QUEUED, self._entered[partition]
        try:
            while TRIM[state].effect is Trimming.KEEP:
                if state is EntryState.QUEUED:
                    await group_commit.all_durable()
                else:
                    await group_commit.owned(group_commit.next_append)
                state = EntryState(state + 1)
            await self._records.trim({partition: before})
            self._entered[partition] -= entered
        except OncegateError as error:
            self._journal.observer.event("lanes_not_trimmed", namespace=self._journal.namespace, detail=error.detail)


def _content(record: LaneRecord, written: Intervals) -> Content:
    """Compares a lane record with the sequences that were written before it."""
    at = np.searchsorted(written.last, record.spans[:, 0])
    is_met = at < len(written)
    met = written.first[at[is_met]] <= record.spans[is_met, 1]
    return Content.OVERLAPPING if bool(met.any()) else Content.NEW


def _taken(reading: "asyncio.Task[Reached]") -> None:
    """Retrieves a read's error, so that asyncio does not report it as unhandled if no caller is waiting any more."""
    if not reading.cancelled():
        reading.exception()
