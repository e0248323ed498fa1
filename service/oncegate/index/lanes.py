"""Records the sequences that clients wrote directly to Kafka, per lane (one writer's numbered stream in a topic).

A lane is the sequences of one producer in one topic. A topic that has a lane is written only by lanes. A pure function
of the ledger's entries.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from oncegate.arraytypes import U64
from oncegate.core.direct import Cover
from oncegate.core.entries.kinds import Entry
from oncegate.core.entries.producers import LaneOpened, LaneWritten
from oncegate.index.part import Undo
from oncegate.index.producers.intervals import Intervals, count_of, raw_spans

# Number, topic, producer, partition, position, and two columns of little-endian uint64: all first, then all last
# sequences.
LaneSnapshot = tuple[int, str, str, int, int, bytes]
# The lanes, and the next offset to read of each partition.
LanesSnapshot = tuple[list[LaneSnapshot], dict[int, int]]
_WRITTEN = 1


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of one producer in one topic. Immutable: a change replaces it.

    written: its sequences that are entered or about to be.
    position: of the last entry about it.
    """

    number: int
    topic: str
    producer: str
    partition: int
    position: int
    written: Intervals = field(default_factory=Intervals.empty)

    def within(self, first: int, last: int) -> U64:
        """Returns the written sequences from `first` to `last`, inclusive: shape (k, 2), in order."""
        begin = int(np.searchsorted(self.written.last, np.uint64(first)))
        end = int(np.searchsorted(self.written.first, np.uint64(last), "right"))
        found = np.stack((self.written.first[begin:end], self.written.last[begin:end]), axis=1)
        return np.clip(found, np.uint64(first), np.uint64(last))

    def cover(self, acked: int) -> Cover:
        """Returns WHOLE if all sequences up to this one are written, OPEN if some are missing, BEYOND if none is this
        high.
        """
        if not len(self.written) or int(self.written.last[-1]) < acked:
            return Cover.BEYOND
        is_whole = int(self.written.first[0]) == 0 and int(self.written.last[0]) >= acked
        return Cover.WHOLE if is_whole else Cover.OPEN


class LaneIndex:
    """The lanes of one shard, and the offset up to which each partition's records are entered.

    rows: number of sequences entered over all lanes, acked ones included.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._by_number: dict[int, tuple[str, str]] = {}
        self._topics: dict[str, int] = {}
        self._next: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def get(self, topic: str, producer: str) -> Lane | None:
        """Returns a lane; None if it was never opened."""
        return self._lanes.get((topic, producer))

    def numbered(self, number: int) -> Lane | None:
        """Returns a lane by its number (1-based); None if the number is not assigned yet."""
        key = self._by_number.get(number)
        return None if key is None else self._lanes[key]

    def writes(self, topic: str) -> bool:
        """Returns whether a topic is written by lanes."""
        return topic in self._topics

    def next_offset(self, partition: int) -> int:
        """Returns the first offset of a partition whose record is not yet in the ledger."""
        return self._next.get(partition, 0)

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        match entry:
            case LaneOpened():
                return self._open(Lane(entry.lane, entry.topic, entry.producer, entry.partition, position))
            case LaneWritten():
                return self._enter(position, entry)
        return None

    def _open(self, lane: Lane) -> Undo:
        assert lane.number == len(self._lanes) + 1, "lanes are numbered as they come"
        self._put(lane)

        def undo() -> None:
            del self._lanes[lane.topic, lane.producer], self._by_number[lane.number]
            self._topics[lane.topic] -= 1
            if not self._topics[lane.topic]:
                del self._topics[lane.topic]

        return undo

    def _enter(self, position: int, entry: LaneWritten) -> Undo:
        lane = self.numbered(entry.lane)
        assert lane is not None, "a lane is opened before it is written"
        key, before, rows = (lane.topic, lane.producer), self.next_offset(lane.partition), self.rows
        written = lane.written.painted(raw_spans(entry.spans), _WRITTEN)
        self.rows += _count(written) - _count(lane.written)
        self._lanes[key] = replace(lane, written=written, position=position)
        self._next[lane.partition] = max(before, entry.offset + 1)

        def undo() -> None:
            self._lanes[key], self._next[lane.partition], self.rows = lane, before, rows

        return undo

    def _put(self, lane: Lane) -> None:
        key = lane.topic, lane.producer
        self._lanes[key], self._by_number[lane.number] = lane, key
        self._topics[lane.topic] = self._topics.get(lane.topic, 0) + 1

    def snapshot(self) -> LanesSnapshot:
        lanes = [
            (one.number, one.topic, one.producer, one.partition, one.position, _packed(one.written))
            for one in self._lanes.values()
        ]
        return lanes, dict(self._next)

    def restore(self, saved: LanesSnapshot) -> None:
        """Replaces the whole state with saved lanes. Raises ValueError if they are damaged."""
        self._lanes, self._by_number, self._topics, self._next = {}, {}, {}, dict(saved[1])
        for number, topic, producer, partition, position, packed in saved[0]:
            self._put(Lane(number, topic, producer, partition, position, _unpacked(packed)))
        self.rows = sum(_count(one.written) for one in self._lanes.values())


def _count(intervals: Intervals) -> int:
    return count_of(np.stack((intervals.first, intervals.last), axis=1))


def _packed(intervals: Intervals) -> bytes:
    return intervals.first.astype("<u8").tobytes() + intervals.last.astype("<u8").tobytes()


def _unpacked(packed: bytes) -> Intervals:
    if len(packed) % 16:
        raise ValueError(f"{len(packed)} bytes are not two columns of uint64")
    first, last = np.frombuffer(packed, "<u8").astype(np.uint64).reshape(2, -1)
    if len(first) and not (bool((first <= last).all()) and bool((last[:-1] < first[1:]).all())):
        raise ValueError("intervals out of order")
    return Intervals(first, last, np.full(len(first), _WRITTEN, np.uint64))
