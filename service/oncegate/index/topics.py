"""Knows schema, retention and partitions of each topic, a pure function of the ledger's entries."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from oncegate.core.entries.kinds import Committed, Entry, Produced, Span, TopicCreated, TopicSet, Trimmed
from oncegate.moment import MomentCopy
from oncegate.packed import PackedList

C = TypeVar("C")
Undo = Callable[[], None]
# First offset, bytes and wall_ms of the rows of one entry in one partition, as retention sees them.
KEPT = "<QQQ"


@dataclass(slots=True)
class Partition:
    """Describes rows from `low_offset` up to `high_offset`; `kept` are the spans between, oldest first, as `KEPT`."""

    low_offset: int = 0
    high_offset: int = 0
    size_bytes: int = 0
    kept: PackedList = field(default_factory=lambda: PackedList(KEPT))


@dataclass(slots=True)
class Topic:
    """Describes one topic: its schema, partitions and offsets.

    `schema`: the Arrow schema in IPC form, empty until something is written. `turns`: entries so far, for taking
    turns among partitions. `position`: the last ledger position that changed the topic.
    """

    schema: bytes
    retention_ms: int
    retention_bytes: int
    partitions: list[Partition]
    position: int
    turns: int = 0


class TopicIndex:
    """Knows which topics there are, and the offset that the next row of each partition will get."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._saved: MomentCopy[str, Topic, Any] | None = None

    def copied(self, copy: Callable[[str, Topic], C]) -> Generator[C, None, None]:
        """Yields a copy of each topic as it is at the call, in no order; anything may change meanwhile.

        To be gone through, or closed.
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
        # It has begun: closing it, or throwing it away, is noted.
        next(every)
        return every

    def _changing(self, name: str) -> Topic:
        """Returns a topic that is changed in place next: a snapshot under way has it as it was."""
        if self._saved is not None:
            self._saved.changing(name)
        return self._topics[name]

    def get(self, name: str) -> Topic | None:
        """Finds a topic by its name; None when there is none."""
        return self._topics.get(name)

    def names(self) -> list[str]:
        """Lists the names of all topics, sorted."""
        return sorted(self._topics)

    def __iter__(self) -> Iterator[tuple[str, Topic]]:
        return iter(self._topics.items())

    def high_offset(self, name: str, partition: int) -> int:
        """Returns the offset the next row of this partition gets; 0 for a topic that does not exist yet."""
        topic = self._topics.get(name)
        return 0 if topic is None else topic.partitions[partition].high_offset

    def restore(self, topics: dict[str, Topic]) -> None:
        """Takes these over, in place of everything."""
        self._topics = topics

    def apply(self, position: int, entry: Entry) -> Undo | None:
        """Applies one entry; returns what undoes it, or None when it says nothing about topics."""
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
        partitions = [Partition() for _ in range(entry.partitions)]
        self._topics[entry.topic] = Topic(entry.schema, entry.retention_ms, entry.retention_bytes, partitions, position)

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
