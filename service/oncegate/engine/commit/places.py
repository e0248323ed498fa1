"""Reads where rows lie from the entries that wrote them: the index knows a request's rows, the ledger their order."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np

from oncegate.arraytypes import I64, U64
from oncegate.core.entries.codec import decode
from oncegate.core.entries.kinds import Produced
from oncegate.core.errors import LedgerDamaged
from oncegate.engine.commit.marks import Marks
from oncegate.engine.deadline import Deadline
from oncegate.index.claims.firsts import Firsts, Unread
from oncegate.index.claims.results import Located
from oncegate.ports import Ledger, Replayed


class Places:
    """Completes what the index knows of the firsts of duplicates, an entry at a time and one request at a time.

    `elsewhere`: rows go to topics that are not the ledger's own, so that nothing here knows an offset.
    """

    def __init__(self, ledger: Ledger, marks: Marks, elsewhere: bool = False) -> None:
        self._ledger = ledger
        self._elsewhere = elsewhere
        self._marks = marks
        # A segment may be read for each; requests that are not asking for places wait for none of it.
        self._reading = asyncio.Lock()

    async def located(self, firsts: Firsts, deadline: Deadline) -> Located:
        """Returns all that is known once the entries are read; what they rest on is durable.

        What was compacted, is damaged or is not read before the deadline stays unknown: an answer was given already.
        """
        if self._elsewhere:
            firsts.located.offset[:] = -1
            return firsts.located
        for unread in firsts.unread:
            if deadline.left_ms is not None and deadline.left_ms <= 0:
                break
            async with self._reading:
                entry = await self._entry(unread)
            if entry is not None:
                firsts.located.offset[unread.at] = await asyncio.to_thread(offsets_in, entry, unread.ids)
        return firsts.located

    async def _entry(self, unread: Unread) -> Produced | None:
        """Reads the entry that wrote these; None: there is none any more."""
        if unread.position <= self._marks.compacted_to:
            return None
        try:
            async with aclosing(self._ledger.replay(unread.position)) as batches:
                body = await _first(batches, unread.position)
        except (LedgerDamaged, OSError):
            return None
        entry = None if body is None else await asyncio.to_thread(decode, body)
        return entry if isinstance(entry, Produced) and entry.claim == unread.claim else None


async def _first(batches: AsyncGenerator[Sequence[Replayed], None], position: int) -> bytes | None:
    """The entry at a position, which is the first of a replay from there unless a snapshot has taken its place."""
    async for batch in batches:
        return batch[0].body if batch[0].position == position else None
    return None


def offsets_in(entry: Produced, ids: U64) -> I64:
    """Finds the offset of each of `ids`, shape (n, 2), in what an entry wrote; -1: it did not, or does not say
    where."""
    fresh, taken = (np.frombuffer(raw, np.uint64).reshape(-1, 2) for raw in (entry.fresh, entry.taken))
    order = _order(entry, len(fresh), len(taken))
    if order is None:
        return np.full(len(ids), -1, np.int64)
    written = np.concatenate([fresh, taken])
    by_word = np.argsort(written[:, 0], kind="stable")
    found = np.searchsorted(written[by_word, 0], ids[:, 0])
    at = by_word[np.minimum(found, len(written) - 1)]
    return np.where((written[at] == ids).all(axis=1), entry.first_offset + order[at], -1)


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
