"""Topics: schema and end of each, a pure function of the ledger's entries."""

from collections.abc import Callable
from dataclasses import dataclass

from oncegate.core.entries import Committed, Entry, Produced, TopicCreated

Undo = Callable[[], None]


@dataclass(slots=True)
class Topic:
    """`schema` is the Arrow schema in IPC form; `position` the last ledger position that changed the topic."""

    schema: bytes
    high_offset: int
    position: int


class TopicIndex:
    """Which topics there are, and the offset that the next row of each will get."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def names(self) -> list[str]:
        return sorted(self._topics)

    def high_offset(self, name: str) -> int:
        """The offset the next row of this topic gets; 0 for a topic that does not exist yet."""
        topic = self._topics.get(name)
        return 0 if topic is None else topic.high_offset

    def apply(self, position: int, entry: Entry) -> Undo | None:
        """Take one entry in; what undoes it, or None when it says nothing about topics."""
        if isinstance(entry, TopicCreated):
            return self._create(position, entry)
        if isinstance(entry, Produced | Committed) and entry.rows:
            topic = entry.topic if isinstance(entry, Produced) else entry.name.topic
            return self._extend(position, topic, entry.first_offset, entry.rows)
        return None

    def _create(self, position: int, entry: TopicCreated) -> Undo:
        assert entry.topic not in self._topics, "a topic is created once"
        self._topics[entry.topic] = Topic(entry.schema, 0, position)

        def undo() -> None:
            del self._topics[entry.topic]

        return undo

    def _extend(self, position: int, name: str, first_offset: int, rows: int) -> Undo:
        topic = self._topics[name]
        assert first_offset == topic.high_offset, "offsets have no holes"
        before = (topic.high_offset, topic.position)
        topic.high_offset, topic.position = first_offset + rows, position

        def undo() -> None:
            topic.high_offset, topic.position = before

        return undo
