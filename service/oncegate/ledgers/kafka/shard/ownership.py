"""Owns a ledger by generations of transactional ids: each opening, and each start after a failure, takes the next one.

One id would not do: an abort that meets a partition without a leader counts as complete without its marker there,
and the next commit of the same id makes the aborted records visible. An id that is never used again cannot do that.

1. A generation is taken in the list of namespaces before its first use.
2. Every id from the last proved generation on is started, which fences its producer and ends its transaction.
3. The id of the generation is started.
4. The list is read again. A gateway that has taken a later generation since then has started, or will start, this id
   after 3: this producer is fenced already, or sees the later generation here.
"""

import asyncio
import os
from collections.abc import Callable

from oncegate.core.errors import LedgerFenced
from oncegate.ledgers.kafka.markers.healing import Later, healing
from oncegate.ledgers.kafka.markers.user_partitions import UserPartitions
from oncegate.ledgers.kafka.namespaces import Generation, KafkaListed, NamespaceTopic
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.server.holders import Changes

# Started at once: each costs a connection and some milliseconds.
STARTS_AT_ONCE = 8


def generation_of(transactional_id: str) -> int:
    """Returns the generation of a transactional id."""
    return int(transactional_id.rpartition("/")[2])


class Ownership:
    """Takes generations for one ledger. `generation`: the last that was taken; 0: none.

    `lead`: returns the changes that make this gateway the holder of all ledgers, which are committed together with the
    generation; none if it is the holder already. Raises LedgerFenced if another gateway is.
    """

    def __init__(self, place: KafkaPlace, listed: NamespaceTopic, lead: Callable[[KafkaListed], Changes]) -> None:
        self._place = place
        self._list = listed
        self._name = place.name
        self._lead = lead
        self._holder = os.urandom(8)
        self.user_partitions = UserPartitions(place.settings)
        self.generation = 0
        # Whether it had a generation before the one that it takes.
        self._is_owner = False

    def _id(self, generation: int) -> str:
        return f"{self._name}/{generation}"

    async def begin(self) -> Guard:
        """Takes the next generation; returns its producer, whose first commit proves ownership.

        Raises LedgerFenced: another gateway has taken a later generation; LedgerFull, KafkaError, OSError,
        TimeoutError: retry.
        """
        await self._list.change(self._take)
        taken = self._list.listed.generation(self._name)
        if taken.holder != self._holder:
            # The list was read after the change too: another has taken the number behind ours, and not this one.
            raise LedgerFenced("another gateway owns this ledger now; nothing was written")
        self._is_owner, self.generation = self.generation > 0, taken.highest
        await self._end_all(range(max(taken.proved, 1), taken.highest))
        guard = self._guard(self.generation)
        await guard.start()
        try:
            await self._list.refresh()
            self._require_highest(self._list.listed)
        except BaseException:
            await guard.close()
            raise
        return guard

    async def prove(self, generation: int) -> None:
        """Records that all generations before this one are ended, once it has committed. Errors as `begin`.

        Not the newest that was taken: that one may have ended none of the earlier ones yet.
        """
        await self._list.change(lambda listed: self._proved(listed, generation))

    async def newer_owner(self) -> bool:
        """Returns whether another gateway has taken a later generation; KafkaError, OSError, TimeoutError."""
        async with asyncio.timeout(self._place.deadlines.commit_ms / 1000):
            return (await self._list.refresh()).generation(self._name).highest != self.generation

    def _take(self, listed: KafkaListed) -> Changes:
        """Returns the next generation; nothing if an earlier attempt of ours took it unnoticed."""
        now = listed.generation(self._name)
        if now.holder == self._holder and now.highest > self.generation:
            return []
        if self.generation:
            self._require_highest(listed)
        return [*self._lead(listed), (f"g/{self._name}", Generation(now.highest + 1, self._holder, now.proved))]

    def _proved(self, listed: KafkaListed, generation: int) -> Changes:
        now = listed.generation(self._name)
        if now.proved >= generation:
            return []
        return [(f"g/{self._name}", Generation(now.highest, now.holder, generation))]

    def _require_highest(self, listed: KafkaListed) -> None:
        if listed.generation(self._name).highest != self.generation:
            raise LedgerFenced("another gateway owns this ledger now; nothing was written")

    async def _end_all(self, generations: range) -> None:
        """Starts each of these ids; heals what brokers left open before the epoch is raised, and after.

        Users' partitions are known once the frames are read: the coordinators' answers of both times are kept for
        them. An owner has read the frames, and leaves partitions without a leader to its upkeep: other writes go on
        meanwhile.
        """
        ids = [self._id(generation) for generation in generations]
        place = self._place
        later = Later(place.told_by_frames, is_away_allowed=self._is_owner)
        async with healing(place.settings, place.partitions, later) as markers:
            await markers.heal(ids)
            before = await markers.states(ids)
            self.user_partitions.ended(before)
            # Frames name those of what was committed alone.
            self.user_partitions.look_at(
                one for state in before for one in state.partitions if one not in place.partitions
            )
            await self._start_each(generations)
            await markers.heal(ids)
            self.user_partitions.ended(await markers.states(ids))
            self.user_partitions.look_at(markers.left)

    async def _start_each(self, generations: range) -> None:
        at_once = asyncio.Semaphore(STARTS_AT_ONCE)
        ending = [self._end(generation, at_once) for generation in generations]
        for error in await asyncio.gather(*ending, return_exceptions=True):
            if error is not None:
                raise error

    async def _end(self, generation: int, at_once: asyncio.Semaphore) -> None:
        async with at_once:
            guard = self._guard(generation)
            await guard.start()
            await guard.close()

    def _guard(self, generation: int) -> Guard:
        return Guard(self._place.settings, self._id(generation), self._place.deadlines)
