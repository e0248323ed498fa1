"""Owns a ledger by generations of transactional ids: each opening, and each start after a bad end, takes the next one.

Why not one id: an abort that meets a partition without a leader is called complete without its marker there, and the
next commit of the same id makes the aborted records visible. An id that is never used again cannot.

1. A generation is taken in the list of namespaces, before its first use.
2. Every id from the last proved generation on is started: that fences whoever has it, and decides its transaction.
3. The id of the generation is started.
4. The list is read again. Whoever has taken a later generation since has started, or will start, this id after 3: this
   producer is fenced by then, or sees the later generation here.
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
    """Returns the generation that a transactional id is of."""
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
        """Takes the next generation; returns its producer, whose first commit is the proof of ownership.

        Raises LedgerFenced: another has taken a generation since ours; LedgerFull, KafkaError, OSError, TimeoutError:
        it is not begun, try again.
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
        """Notes that all generations before one of ours are ended, once that one has committed. Errors as `begin`.

        Not the newest that was taken: it may have ended none of those before it yet.
        """
        await self._list.change(lambda listed: self._proved(listed, generation))

    async def newer_owner(self) -> bool:
        """Tells whether another has taken a generation since ours; KafkaError, OSError, TimeoutError."""
        async with asyncio.timeout(self._place.deadlines.commit_ms / 1000):
            return (await self._list.refresh()).generation(self._name).highest != self.generation

    def _take(self, listed: KafkaListed) -> Changes:
        """The next generation; none where an earlier turn of ours took it and was not told so."""
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
        """Starts each of these ids; what brokers have left open is healed before its epoch says less, and after.

        Users' partitions are known once the frames are read: for these is kept what is said both times. An owner, who
        has read them, leaves to its upkeep what frames tell of and has no leader now: others write elsewhere meanwhile.
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
