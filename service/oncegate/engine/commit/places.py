"""Reads where rows lie from the entries that wrote them: the index knows a request's rows, the ledger their order."""

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

# The longest wait for places that the request does not ask for: they are read one request at a time.
UNASKED_MS = 2_000
# Ranges of entries that wrote rows elsewhere, and of producers' calls, the newest, some 3 MB: most retries come within
# seconds, and reading asks a broker.
REMEMBERED = 16_384


class Places:
    """Completes what the index knows of the firsts of duplicates, an entry at a time and one request at a time.

    `elsewhere`: rows go to topics that are not the ledger's own: their offsets are beside the entries (`RowPlaces`),
    and those that the index counts are no offsets there.
    """

    def __init__(self, ledger: Ledger, marks: Marks, elsewhere: bool = False) -> None:
        self._ledger = ledger
        self.elsewhere = elsewhere
        self._marks = marks
        # A segment may be read for each; requests that are not asking for places wait for none of it.
        self._reading = asyncio.Lock()
        self._newest: dict[int, tuple[RowRange, ...]] = {}
        self._ranges = 0

    def remember(self, position: int, places: RowPlaces) -> None:
        """Remembers the places of rows that a durable entry, or the call that it completed, wrote."""
        if places.is_known():
            self._newest[position] = places.ranges
            self._ranges += len(places.ranges)
        while self._ranges > REMEMBERED:
            self._ranges -= len(self._newest.pop(next(iter(self._newest))))

    async def located(self, firsts: Firsts, deadline: Deadline) -> Located:
        """Returns all that is known once the entries are read; what they rest on is durable.

        What was compacted, cannot be read or is not read before the deadline stays unknown: an answer was given
        already.
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
        """Returns the ranges of all rows that the entries at these positions wrote.

        Empty: not all of it is known, or not before the deadline.
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

        `call`: numbers of producer, epoch and call; `completed`: the position of the entry that ended the call.
        Empty: not all of it is known, or not before the deadline, or it wrote nothing with its claim.
        """
        if (ranges := self._newest.get(completed)) is not None:
            return ranges
        read = await self._read(completed - 1, deadline)
        entry = None if read is None else decode(read.body)
        # A call that ended otherwise has another entry before its end.
        if not isinstance(entry, SequencesClaimed) or (entry.producer_id, entry.epoch, entry.call) != call:
            return ()
        return await self.ranges(range(completed - 1 - entry.written_before, completed - 1), deadline)

    def _places_in(self, read: Replayed) -> RowPlaces | None:
        """Returns the places of an entry's rows; None: it has no rows, or did not record them."""
        entry = None if self.elsewhere else decode(read.body)
        if isinstance(entry, Produced):
            return RowPlaces((RowRange(entry.topic, entry.partition, entry.first_offset, entry.rows),))
        return read.places

    async def _read(self, position: int, deadline: Deadline) -> Replayed | None:
        """Reads an entry; None: there is none any more, it cannot be read, or not before the deadline."""
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
    """The entry at a position, which is the first of a replay from there unless a snapshot has taken its place."""
    async for batch in batches:
        return batch[0] if batch[0].position == position else None
    return None


def place(located: Located, at: I64, places: RowPlaces, rows: I64) -> None:
    """Sets the places of the ids at `at` to those of these rows of an entry; leaves unknown ones as they are."""
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
    """Finds the offset of each of `ids`, shape (n, 2), in what an entry wrote; -1: it did not, or does not say
    where."""
    rows = rows_in(entry, ids)
    return np.where(rows >= 0, entry.first_offset + rows, -1)


def rows_in(entry: Produced, ids: U64) -> I64:
    """Finds which of an entry's rows each of `ids`, shape (n, 2), is; -1: none, or the entry does not record it."""
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
    """Where the fresh ids, then the taken ones stand among the rows; None: the entry is older than that is said."""
    if not fresh or not taken:
        return np.arange(fresh + taken, dtype=np.int64)
    taken_at = np.frombuffer(entry.taken_at, np.uint32).astype(np.int64)
    if len(taken_at) != taken:
        return None
    is_fresh = np.ones(fresh + taken, np.bool_)
    is_fresh[taken_at] = False
    return np.concatenate([np.flatnonzero(is_fresh), taken_at])
