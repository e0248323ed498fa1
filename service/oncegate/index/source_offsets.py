"""Holds each job's source offsets by app, topic and write_id, and the source of each producer's sequences.

The bytes of offsets are the job's own and are never decoded here. An entry without offsets makes the earlier ones
unknown: the job has moved on from them, and a job that started there would write rows twice. Each part is a pure
function of the ledger's entries.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

from oncegate.core.entries.kinds import Committed, Entry
from oncegate.core.entries.producers import Acked, SourceNamed
from oncegate.core.producers import SourceKnown
from oncegate.index.part import Undo

SourceKey = tuple[str, str, str]
SourceOffsetsSnapshot = list[tuple[SourceKey, tuple[int, bytes]]]
# Limit for all jobs: some 45,000 sources of a few partitions each. Above it the oldest are forgotten.
BYTES_IN_ALL = 16 << 20
# Overhead of a job's Python objects.
_OVERHEAD_BYTES = 300


class JobOffsets(NamedTuple):
    """The offsets of one entry, and its position in the ledger."""

    position: int
    offsets: bytes


class SourceOffsets:
    """Maps app, topic and write_id to the offsets of their source. A pure function of the ledger's entries."""

    def __init__(self) -> None:
        self._recorded: dict[SourceKey, JobOffsets] = {}
        self._size_bytes = 0
        # The job of each position, and all positions, rising.
        self._keys: dict[int, SourceKey] = {}
        self._order: list[int] = []

    def get(self, app: str, topic: str, write_id: str = "") -> JobOffsets | None:
        """Returns the offsets of a job; None if there are none."""
        return self._recorded.get((app, topic, write_id))

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        if isinstance(entry, Committed):
            return self._set((entry.name.app, entry.name.topic, entry.name.write_id), position, entry.source_offsets)
        if isinstance(entry, Acked) and entry.topic:
            return self._set((entry.driver, entry.topic, ""), position, entry.source_offsets)
        return None

    def snapshot(self) -> SourceOffsetsSnapshot:
        return [(key, (recorded.position, recorded.offsets)) for key, recorded in self._recorded.items()]

    def restore(self, saved: SourceOffsetsSnapshot) -> None:
        self._recorded, self._size_bytes, self._keys, self._order = {}, 0, {}, []
        for key, recorded in saved:
            self._put(key, JobOffsets(*recorded))

    def _set(self, key: SourceKey, position: int, offsets: bytes) -> Undo:
        gone = [(key, self._take(key))] if key in self._recorded else []
        if offsets:
            self._put(key, JobOffsets(position, offsets))
        while self._size_bytes > BYTES_IN_ALL and len(self._order) > 1:
            oldest = self._keys[self._order[0]]
            gone.append((oldest, self._take(oldest)))

        def undo() -> None:
            if offsets:
                self._take(key)
            for one, recorded in gone:
                self._put(one, recorded)

        return undo

    def _put(self, key: SourceKey, recorded: JobOffsets) -> None:
        self._recorded[key] = recorded
        self._keys[recorded.position] = key
        insort(self._order, recorded.position)
        self._size_bytes += _size_bytes(key, recorded)

    def _take(self, key: SourceKey) -> JobOffsets:
        recorded = self._recorded.pop(key)
        del self._keys[recorded.position], self._order[bisect_left(self._order, recorded.position)]
        self._size_bytes -= _size_bytes(key, recorded)
        return recorded


def _size_bytes(key: SourceKey, recorded: JobOffsets) -> int:
    return _OVERHEAD_BYTES + sum(map(len, key)) + len(recorded.offsets)


# The lane's topic, empty for a producer that registers, and the producer.
ProducerKey = tuple[str, str]
SourceIdsSnapshot = list[tuple[ProducerKey, tuple[str, int]]]


class SourceIds:
    """Maps producers to the ids of their sources, and to the position of the entry that named each."""

    def __init__(self) -> None:
        self._named: dict[ProducerKey, tuple[str, int]] = {}

    def get(self, topic: str, producer: str) -> tuple[str, int] | None:
        """Returns a producer's source and the position of its entry; None if the producer has named no source."""
        return self._named.get((topic, producer))

    def known(self, topic: str, producer: str, source_id: str | None) -> SourceKnown:
        """Compares a source with the recorded one. source_id: None if none is named."""
        if source_id is None:
            return SourceKnown.UNNAMED
        named = self.get(topic, producer)
        if named is None:
            return SourceKnown.FIRST
        return SourceKnown.SAME if named[0] == source_id else SourceKnown.OTHER

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        if not isinstance(entry, SourceNamed):
            return None
        key = entry.topic, entry.producer
        self._named[key] = entry.source_id, position

        def undo() -> None:
            del self._named[key]

        return undo

    def snapshot(self) -> SourceIdsSnapshot:
        return list(self._named.items())

    def restore(self, saved: SourceIdsSnapshot) -> None:
        self._named = dict(saved)
