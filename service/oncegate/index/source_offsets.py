"""Knows from where each job's source is to be read on, as the newest entry of its app, topic and write_id says.

The bytes are the job's own, and nobody here reads them. An entry that brings none makes what was known before unknown:
it would name a place that the job has left behind, and whoever began there would write rows twice.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

from oncegate.core.entries.kinds import Committed, Entry
from oncegate.core.entries.producers import Acked
from oncegate.index.part import Undo

Key = tuple[str, str, str]
SourceOffsetsSnapshot = list[tuple[Key, tuple[int, bytes]]]
# Of all jobs: some 45,000 sources of a few partitions each. Beyond, those that were told first are forgotten.
BYTES_IN_ALL = 16 << 20
# What a job's own cost beside them, as objects.
_OVERHEAD_BYTES = 300


class Told(NamedTuple):
    """Holds what one entry has told, and its position in the ledger."""

    position: int
    offsets: bytes


class SourceOffsets:
    """Maps app, topic and write_id to what is told of their source; a pure function of the ledger's entries."""

    def __init__(self) -> None:
        self._told: dict[Key, Told] = {}
        self._size_bytes = 0
        # Whose each position is, and all positions, rising.
        self._keys: dict[int, Key] = {}
        self._order: list[int] = []

    def get(self, app: str, topic: str, write_id: str = "") -> Told | None:
        """Finds what is told of a job; None where nothing is known."""
        return self._told.get((app, topic, write_id))

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        """Applies one entry; returns what undoes it, or None when it says nothing about sources."""
        if isinstance(entry, Committed):
            return self._set((entry.name.app, entry.name.topic, entry.name.write_id), position, entry.source_offsets)
        if isinstance(entry, Acked) and entry.topic:
            return self._set((entry.driver, entry.topic, ""), position, entry.source_offsets)
        return None

    def snapshot(self) -> SourceOffsetsSnapshot:
        """Returns all that is known, as a list of its own."""
        return [(key, (told.position, told.offsets)) for key, told in self._told.items()]

    def restore(self, saved: SourceOffsetsSnapshot) -> None:
        """Takes over what was saved, in place of everything."""
        self._told, self._size_bytes, self._keys, self._order = {}, 0, {}, []
        for key, told in saved:
            self._put(key, Told(*told))

    def _set(self, key: Key, position: int, offsets: bytes) -> Undo:
        gone = [(key, self._take(key))] if key in self._told else []
        if offsets:
            self._put(key, Told(position, offsets))
        while self._size_bytes > BYTES_IN_ALL and len(self._order) > 1:
            oldest = self._keys[self._order[0]]
            gone.append((oldest, self._take(oldest)))

        def undo() -> None:
            if offsets:
                self._take(key)
            for one, told in gone:
                self._put(one, told)

        return undo

    def _put(self, key: Key, told: Told) -> None:
        self._told[key] = told
        self._keys[told.position] = key
        insort(self._order, told.position)
        self._size_bytes += _size_bytes(key, told)

    def _take(self, key: Key) -> Told:
        told = self._told.pop(key)
        del self._keys[told.position], self._order[bisect_left(self._order, told.position)]
        self._size_bytes -= _size_bytes(key, told)
        return told


def _size_bytes(key: Key, told: Told) -> int:
    return _OVERHEAD_BYTES + sum(map(len, key)) + len(told.offsets)
