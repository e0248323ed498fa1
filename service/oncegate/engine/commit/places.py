"""Looks up row offsets in the log entries that wrote them; the index only knows which request wrote a row."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np

from oncegate.arraytypes import I64, U64
from oncegate.core.entries.codec import decode
from oncegate.core.entries.kinds import Produced
from oncegate.core.entries.producers import SequencesClaimed
from oncegate.core.errors import OncegateError
from oncegate.engine.commit.marks import Marks
from oncegate.engine.deadline import Deadline
from oncegate.index.claims.firsts import Firsts
from oncegate.index.claims.results import Located
from oncegate.ports import Ledger, Replayed, RowPlaces, RowRange

# Longest wait for places that a request did not ask for: entries are read one request at a time.
UNASKED_MS = 2_000
# Number of newest ranges kept in memory, about 3 MB, for rows elsewhere and calls of producers. Most retries come
# within seconds, and a read needs a broker.
REMEMBERED = 16_384


class Places:
    """A reader of log entries that adds row offsets to what the index knows about the first writes of duplicates.
    Entries are read one at a time.

    elsewhere: rows are in topics that are not the ledger's own. Their offsets are beside the entries (`RowPlaces`);
    those that the index counts are not valid there.
    """

    def __init__(self, ledger: Ledger, marks: Marks, elsewhere: bool = False) -> None:
        self._ledger = ledger
        self.elsewhere = elsewhere
        self._marks = marks
        # A read may scan a whole segment. Requests that did not ask for places don't wait for it.
        self._reading = asyncio.Lock()
        self._newest: dict[int, tuple[RowRange, ...]] = {}
        self._ranges = 0

    def remember(self, position: int, places: RowPlaces) -> None:
        """Keeps in memory the offsets of the rows that a durable entry, or the call completed by it, wrote."""
        if places.is_known():
            self._newest[position] = places.ranges
            self._ranges += len(places.ranges)
        while self._ranges > REMEMBERED:
            self._ranges -= len(self._newest.pop(next(iter(self._newest))))

    async def located(self, firsts: Firsts, deadline: Deadline) -> Located:
        """Reads the entries and returns the completed places; everything they depend on must be durable.

        Places stay unknown if their entry was compacted, cannot be read or is not read before the deadline. That is no
        error: the request itself is already decided.
        """
        located = firsts.located
        for unread in firsts.unread:
            read = await self._read(unread.position, deadline)
            entry = None if read is None else await asyncio.to_thread(decode, read.body)
            if read is None or not isinstance(entry, Produced) or entry.claim != unread.claim:
                continue
            if not self.elsewhere:
                located.offset[unread.at] = await asyncio.to_thread(offsets_in, entry, unread.ids)
            elif read.places is not None:
                rows = await asyncio.to_thread(rows_in, entry, unread.ids)
                place(located, unread.at[rows >= 0], read.places, rows[rows >= 0])
        return located

    async def ranges(self, positions: Sequence[int], deadline: Deadline) -> tuple[RowRange, ...]:
        """Returns the ranges of all rows that the entries at `positions` wrote.

        Returns an empty tuple if any of them is unknown or is not read before the deadline.
        """
        found: list[RowRange] = []
        for position in positions:
            ranges = self._newest.get(position)
            if ranges is None:
                read = await self._read(position, deadline)
                places = None if read is None else self._places_in(read)
                if places is None or not places.is_known():
                    return ()
                ranges = places.ranges
            found += ranges
        return tuple(found)

    async def of_call(self, call: tuple[int, int, int], completed: int, deadline: Deadline) -> tuple[RowRange, ...]:
        """Returns the ranges of all rows that a producer's call wrote together with the claim of their sequences.

        Returns an empty tuple if any of them is unknown, is not read before the deadline, or was not written with the
        claim.

        call: numbers of producer, epoch and call.
        completed: position of the entry that ended the call.
        """
        if (ranges := self._newest.get(completed)) is not None:
            return ranges
        read = await self._read(completed - 1, deadline)
        entry = None if read is None else decode(read.body)
        # Calls that ended in another way have a different entry before their end.
        if not isinstance(entry, SequencesClaimed) or (entry.producer_id, entry.epoch, entry.call) != call:
            return ()
        return await self.ranges(range(completed - 1 - entry.written_before, completed - 1), deadline)

    def _places_in(self, read: Replayed) -> RowPlaces | None:
        """Returns the places of an entry's rows; None if it has no rows or recorded no places."""
        entry = None if self.elsewhere else decode(read.body)
        if isinstance(entry, Produced):
            return RowPlaces((RowRange(entry.topic, entry.partition, entry.first_offset, entry.rows),))
        return read.places

    async def _read(self, position: int, deadline: Deadline) -> Replayed | None:
        """Returns the entry at `position`; None if it was compacted, cannot be read or was not read before the
        deadline."""
        if position <= self._marks.compacted_to or (deadline.left_ms is not None and deadline.left_ms <= 0):
            return None
        try:
            return await deadline.reading(self._entry(position))
        except (OncegateError, OSError):
            return None

    async def _entry(self, position: int) -> Replayed | None:
        async with self._reading, aclosing(self._ledger.replay(position)) as batches:
            return await _first(batches, position)


async def _first(batches: AsyncGenerator[Sequence[Replayed], None], position: int) -> Replayed | None:
    """Returns the first replayed entry if its position is `position`; otherwise None, because a snapshot has replaced
    the entry."""
    async for batch in batches:
        return batch[0] if batch[0].position == position else None
    return None


def place(located: Located, at: I64, places: RowPlaces, rows: I64) -> None:
    """Writes the offsets of an entry's rows `rows` into `located` at the indices `at`; leaves `located` unchanged where
    an offset is unknown."""
    if (of_rows := places.of_rows()) is None:
        return
    ranges, offsets = of_rows
    first_topic = len(located.topics)
    numbers = {topic: first_topic + n for n, topic in enumerate(dict.fromkeys(one.topic for one in places.ranges))}
    located.topics.extend(numbers)
    topics = np.array([numbers[one.topic] for one in places.ranges], np.int32)
    partitions = np.array([one.partition for one in places.ranges], np.uint32)
    located.topic[at], located.partition[at] = topics[ranges[rows]], partitions[ranges[rows]]
    located.offset[at] = offsets[rows]


def offsets_in(entry: Produced, ids: U64) -> I64:
    """Returns the offset of each of `ids` (n, 2) among the entry's rows, int64[n]; -1: not in the entry, or not
    recorded."""
    rows = rows_in(entry, ids)
    return np.where(rows >= 0, entry.first_offset + rows, -1)


def rows_in(entry: Produced, ids: U64) -> I64:
    """Returns the index of each of `ids` (n, 2) among the entry's rows, int64[n]; -1: not in the entry, or not
    recorded."""
    fresh, taken = (np.frombuffer(raw, np.uint64).reshape(-1, 2) for raw in (entry.fresh, entry.taken))
    order = _order(entry, len(fresh), len(taken))
    if order is None:
        return np.full(len(ids), -1, np.int64)
    written = np.concatenate([fresh, taken])
    by_word = np.argsort(written[:, 0], kind="stable")
    found = np.searchsorted(written[by_word, 0], ids[:, 0])
    at = by_word[np.minimum(found, len(written) - 1)]
    return np.where((written[at] == ids).all(axis=1), order[at], -1)


def _order(entry: Produced, fresh: int, taken: int) -> I64 | None:
    """Returns the row of each fresh id, then of each id taken over; None if the entry is from an older version, which
    recorded no rows."""
    if not fresh or not taken:
        return np.arange(fresh + taken, dtype=np.int64)
    taken_at = np.frombuffer(entry.taken_at, np.uint32).astype(np.int64)
    if len(taken_at) != taken:
        return None
    is_fresh = np.ones(fresh + taken, np.bool_)
    is_fresh[taken_at] = False
    return np.concatenate([np.flatnonzero(is_fresh), taken_at])
