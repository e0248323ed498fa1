"""Acquires a ledger by generations of transactional ids; each opening and each restart after a failure uses the next.

A single id is not enough. An abort completes without its marker in a partition that has no leader, and the next commit
of the same id then makes the aborted records visible. An id that is never used again cannot do that.

1. A generation is allocated in the list of namespaces before its first use.
2. Every id from the last proved generation on is started, which fences its producer and ends its transaction.
3. The id of the new generation is started.
4. The list is read again. A gateway with a later generation starts this id too. If it does so after step 3, this
   producer is fenced. If it did so before, the list read in this step contains the later generation.
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

# Concurrent starts; each costs a connection and some milliseconds.
STARTS_AT_ONCE = 8


def generation_of(transactional_id: str) -> int:
    return int(transactional_id.rpartition("/")[2])


class Ownership:
    """Allocator of the generations of one ledger. `generation`: the last one allocated; 0: none.

    `lead`: returns the changes that make this gateway the leader, which are committed together with the generation;
    none if it is the leader already. Raises LedgerFenced if another gateway is.
    """

    def __init__(self, place: KafkaPlace, listed: NamespaceTopic, lead: Callable[[KafkaListed], Changes]) -> None:
        self._place = place
        self._list = listed
        self._name = place.name
        self._lead = lead
        self._holder = os.urandom(8)
        self.user_partitions = UserPartitions(place.settings)
        self.generation = 0
        # True if this gateway already had a generation of this ledger.
        self._is_owner = False

    def _id(self, generation: int) -> str:
        return f"{self._name}/{generation}"

    async def begin(self) -> Guard:
        """Allocates the next generation; returns its producer, whose first commit proves ownership.

        Raises LedgerFenced: another gateway has a later generation; LedgerFull, KafkaError, OSError, TimeoutError:
        retry.
        """
        await self._list.change(self._take)
        taken = self._list.listed.generation(self._name)
        if taken.holder != self._holder:
            # The list was read after our change too: another gateway has allocated a later generation meanwhile.
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
        """Records that this generation has committed, so that all earlier ones are fenced. Raises as `begin`.

        The newest allocated generation may be a later one, which may have fenced none of the earlier ones yet.
        """
        await self._list.change(lambda listed: self._proved(listed, generation))

    async def newer_owner(self) -> bool:
        """Returns whether another gateway has a later generation. Raises KafkaError, OSError, TimeoutError."""
        async with asyncio.timeout(self._place.deadlines.commit_ms / 1000):
            return (await self._list.refresh()).generation(self._name).highest != self.generation

    def _take(self, listed: KafkaListed) -> Changes:
        """Returns the change that allocates the next generation;
        none if an earlier attempt, whose answer was lost, did.
        """
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
        """Fences the transactional id of each generation, and repairs hanging transactions before and after that.

        Users' partitions are known only once the frames are read; the coordinators' states before and after are kept
        for them. A gateway that already owned the ledger leaves partitions without a leader to its maintenance, so
        that other writes proceed.
        """
        ids = [self._id(generation) for generation in generations]
        place = self._place
        later = Later(place.told_by_frames, is_away_allowed=self._is_owner)
        async with healing(place.settings, place.partitions, later) as markers:
            await markers.heal(ids)
            before = await markers.states(ids)
            self.user_partitions.ended(before)
            # Frames name only the partitions of committed transactions.
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
