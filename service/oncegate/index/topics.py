"""Holds the schema, retention and partitions of each topic. A pure function of the ledger's entries.

A snapshot has these pieces:

ranges/<n>  some spans of one partition that retention keeps: topic, partition, records as `KEPT`
topics/<n>  some topics, after their spans
topics      the number of pieces, last of all
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import msgspec

from oncegate.core.entries.kinds import Committed, Entry, Produced, Span, TopicCreated, TopicSet, Trimmed
from oncegate.index.part import IndexPart, Steps, Undo
from oncegate.moment import MomentCopy
from oncegate.packed import PackedList

C = TypeVar("C")
# First offset, bytes and wall_ms of one entry's rows in one partition, for retention.
KEPT = "<QQQ"
# Items encoded in one step: blocks are already bytes, half a MiB of them; a topic may have a schema of some KiB.
_BLOCKS_PER_PIECE, _PARTITIONS_PER_PIECE, _TOPICS_PER_PIECE = 42, 1_000, 100

_Blocks = tuple[str, int, list[bytes]]
_Ranges = tuple[str, int, bytes]
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class PartitionState:
    """Rows from `low_offset` up to `high_offset`. kept: their spans, oldest first, as `KEPT`."""

    low_offset: int = 0
    high_offset: int = 0
    size_bytes: int = 0
    kept: PackedList = field(default_factory=lambda: PackedList(KEPT))


@dataclass(slots=True)
class TopicState:
    """One topic: its schema, partitions and offsets.

    schema: the Arrow schema in IPC form; empty until something is written.
    turns: number of entries so far, for a round robin over partitions.
    position: the last log position that changed the topic.
    """

    schema: bytes
    retention_ms: int
    retention_bytes: int
    partitions: list[PartitionState]
    position: int
    turns: int = 0


class TopicIndex:
    """The topics, and the next offset of each partition."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicState] = {}
        self._saved: MomentCopy[str, TopicState, Any] | None = None

    def copied(self, copy: Callable[[str, TopicState], C]) -> Generator[C, None, None]:
        """Yields a copy of each topic as of the time of the call, in no particular order. Anything may change
        meanwhile.

        Exhaust or close the generator.
        """
        copies = self._saved = MomentCopy(self._topics, copy)

        def each() -> Generator[Any, None, None]:
            try:
                yield None
                yield from copies
            finally:
                if self._saved is copies:
                    self._saved = None

        every = each()
        # It has begun, so closing or discarding it ends the copy.
        next(every)
        return every

    def _changing(self, name: str) -> TopicState:
        """Returns a topic that is about to be changed in place; a snapshot in progress copies it first."""
        if self._saved is not None:
            self._saved.changing(name)
        return self._topics[name]

    def get(self, name: str) -> TopicState | None:
        """Returns a topic by its name; None if there is none."""
        return self._topics.get(name)

    def names(self) -> list[str]:
        return sorted(self._topics)

    def __iter__(self) -> Iterator[tuple[str, TopicState]]:
        return iter(self._topics.items())

    def high_offset(self, name: str, partition: int) -> int:
        """Returns the next offset of this partition; 0 for a topic that does not exist yet."""
        topic = self._topics.get(name)
        return 0 if topic is None else topic.partitions[partition].high_offset

    def restore(self, topics: dict[str, TopicState]) -> None:
        self._topics = topics

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        match entry:
            case TopicCreated():
                return self._create(position, entry)
            case TopicSet():
                return self._set(position, entry)
            case Trimmed():
                return self._trim(position, entry)
            case Produced() if entry.rows:
                span = Span(entry.partition, entry.first_offset, entry.rows, entry.size_bytes)
                return self._extend(position, entry.topic, (span,), entry.wall_ms)
            case Committed() if entry.spans:
                return self._extend(position, entry.name.topic, entry.spans, entry.wall_ms)
        return None

    def _create(self, position: int, entry: TopicCreated) -> Undo:
        assert entry.topic not in self._topics, "a topic is created once"
        partitions = [PartitionState() for _ in range(entry.partitions)]
        self._topics[entry.topic] = TopicState(
            entry.schema, entry.retention_ms, entry.retention_bytes, partitions, position
        )

        def undo() -> None:
            del self._topics[entry.topic]

        return undo

    def _set(self, position: int, entry: TopicSet) -> Undo:
        topic = self._changing(entry.topic)
        assert entry.added or topic.schema in (b"", entry.schema), "a schema is set once, and only grows"
        before = (topic.schema, topic.retention_ms, topic.retention_bytes, topic.position)
        topic.schema, topic.position = entry.schema, position
        topic.retention_ms, topic.retention_bytes = entry.retention_ms, entry.retention_bytes

        def undo() -> None:
            topic.schema, topic.retention_ms, topic.retention_bytes, topic.position = before

        return undo

    def _extend(self, position: int, name: str, spans: tuple[Span, ...], wall_ms: int) -> Undo:
        topic = self._changing(name)
        before = topic.position
        for span in spans:
            partition = topic.partitions[span.partition]
            assert span.first_offset == partition.high_offset, "offsets have no holes"
            partition.high_offset += span.rows
            partition.size_bytes += span.size_bytes
            partition.kept.append(span.first_offset, span.size_bytes, wall_ms)
        topic.position, topic.turns = position, topic.turns + 1

        def undo() -> None:
            for span in reversed(spans):
                partition = topic.partitions[span.partition]
                partition.high_offset -= span.rows
                partition.size_bytes -= span.size_bytes
                partition.kept.pop()
            topic.position, topic.turns = before, topic.turns - 1

        return undo

    def _trim(self, position: int, entry: Trimmed) -> Undo:
        topic = self._changing(entry.topic)
        partition = topic.partitions[entry.partition]
        gone = partition.kept.not_above(entry.before_offset - 1)
        gone_bytes = sum(partition.kept[place][1] for place in range(gone))
        before = (partition.low_offset, topic.position)
        assert partition.low_offset <= entry.before_offset <= partition.high_offset, "what is trimmed was there"
        dropped = partition.kept.drop(gone)
        partition.low_offset, topic.position = entry.before_offset, position
        partition.size_bytes -= gone_bytes

        def undo() -> None:
            partition.kept.put_back(dropped)
            partition.low_offset, topic.position = before
            partition.size_bytes += gone_bytes

        return undo


def part(index: TopicIndex) -> IndexPart:
    """Returns the topics as a part of a shard's index."""
    steps, reader = partial(snapshot_steps, index), partial(TopicsReader, index)
    return IndexPart(("ranges", "topics"), steps, reader, index.apply, lambda: {"topics": len(index.names())})


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A topic in a snapshot. partitions: low offset, high offset and bytes of each."""

    name: str
    schema: bytes
    retention_ms: int
    retention_bytes: int
    position: int
    turns: int
    partitions: list[tuple[int, int, int]]


def snapshot_steps(index: TopicIndex) -> Steps:
    """Creates a snapshot of the current state in steps; entries may be applied between steps.

    Exhaust or close the generator.
    """
    return _steps(index.copied(_copied))


def _copied(name: str, topic: TopicState) -> tuple[TopicSnapshot, list[_Blocks]]:
    blocks = [(name, at, partition.kept.frozen()) for at, partition in enumerate(topic.partitions) if partition.kept]
    return _snapshot(name, topic), blocks


def _steps(copies: Generator[tuple[TopicSnapshot, list[_Blocks]], None, None]) -> Steps:
    pieces = 0
    with closing(copies):
        while some := list(islice(copies, _TOPICS_PER_PIECE)):
            for ranges in _ranges([blocks for _, of_topic in some for blocks in of_topic]):
                yield [(f"ranges/{pieces}", _encode(ranges))]
                pieces += 1
            yield [(f"topics/{pieces}", _encode([topic for topic, _ in some]))]
            pieces += 1
    yield [("topics", _encode(pieces))]


def _ranges(blocks: list[_Blocks]) -> Iterator[list[_Ranges]]:
    """Splits blocks into pieces."""
    some: list[_Ranges] = []
    size_blocks = 0
    for topic, partition, all_blocks in blocks:
        for at in range(0, len(all_blocks), _BLOCKS_PER_PIECE):
            taken = all_blocks[at : at + _BLOCKS_PER_PIECE]
            some.append((topic, partition, b"".join(taken)))
            size_blocks += len(taken)
            if len(some) == _PARTITIONS_PER_PIECE or size_blocks >= _BLOCKS_PER_PIECE:
                yield some
                some, size_blocks = [], 0
    if some:
        yield some


class TopicsReader:
    """Restores an empty index from its pieces, in their order. Raises ValueError if they do not belong together."""

    def __init__(self, index: TopicIndex) -> None:
        self._index = index
        self._topics: dict[str, TopicState] = {}
        self._kept: defaultdict[tuple[str, int], PackedList] = defaultdict(lambda: PackedList(KEPT))
        self._taken = 0
        self._whole = False

    def take(self, what: str, data: bytes) -> None:
        kind, _, number = what.partition("/")
        if not number:
            self._end(msgspec.msgpack.decode(data, type=int))
            return
        self._taken += 1
        if kind == "ranges":
            for topic, partition, records in msgspec.msgpack.decode(data, type=list[_Ranges]):
                self._kept[topic, partition].extend(records)
        else:
            for one in msgspec.msgpack.decode(data, type=list[TopicSnapshot]):
                self._topics[one.name] = self._restored(one)

    def finish(self) -> None:
        """Checks that the last piece was read. Raises ValueError."""
        if not self._whole:
            raise ValueError("the saved index has no topics")

    def _restored(self, one: TopicSnapshot) -> TopicState:
        kept = (self._kept.pop((one.name, number), PackedList(KEPT)) for number in range(len(one.partitions)))
        partitions = [PartitionState(*numbers, ranges) for numbers, ranges in zip(one.partitions, kept, strict=True)]
        return TopicState(one.schema, one.retention_ms, one.retention_bytes, partitions, one.position, one.turns)

    def _end(self, pieces: int) -> None:
        if pieces != self._taken or self._kept:
            raise ValueError(f"{self._taken} pieces of topics instead of {pieces}")
        self._index.restore(self._topics)
        self._topics, self._whole = {}, True


def _snapshot(name: str, topic: TopicState) -> TopicSnapshot:
    partitions = [(one.low_offset, one.high_offset, one.size_bytes) for one in topic.partitions]
    numbers = topic.retention_ms, topic.retention_bytes, topic.position, topic.turns
    return TopicSnapshot(name, topic.schema, *numbers, partitions)
