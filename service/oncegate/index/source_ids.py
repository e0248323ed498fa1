"""Knows which source the sequences of each producer are of, where a caller has named it: a pure function of entries."""

from oncegate.core.entries.kinds import Entry
from oncegate.core.entries.producers import SourceNamed
from oncegate.core.producers import SourceKnown
from oncegate.index.part import Undo

# The topic of a lane, empty for a producer that registers, and the producer.
Key = tuple[str, str]
SourceIdsSnapshot = list[tuple[Key, tuple[str, int]]]


class SourceIds:
    """Maps producers to the ids of their sources, and to the position of the entry that named each."""

    def __init__(self) -> None:
        self._named: dict[Key, tuple[str, int]] = {}

    def get(self, topic: str, producer: str) -> tuple[str, int] | None:
        """Finds a producer's source and the position of its entry; None where nobody has named one."""
        return self._named.get((topic, producer))

    def known(self, topic: str, producer: str, source_id: str | None) -> SourceKnown:
        """Returns how a source stands to the one that is recorded. `source_id`: None where none is named."""
        if source_id is None:
            return SourceKnown.UNNAMED
        named = self.get(topic, producer)
        if named is None:
            return SourceKnown.FIRST
        return SourceKnown.SAME if named[0] == source_id else SourceKnown.OTHER

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        """Applies one entry; returns what undoes it, or None when it names no source."""
        if not isinstance(entry, SourceNamed):
            return None
        key = entry.topic, entry.producer
        self._named[key] = entry.source_id, position

        def undo() -> None:
            del self._named[key]

        return undo

    def snapshot(self) -> SourceIdsSnapshot:
        """Returns all that is known, as a list of its own."""
        return list(self._named.items())

    def restore(self, saved: SourceIdsSnapshot) -> None:
        """Takes over what was saved, in place of everything."""
        self._named = dict(saved)
