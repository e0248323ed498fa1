"""Heals users' partitions: a committed transaction of a producer before this one gets the marker that brokers forgot.

Frames name the partitions that rows went to. What became of a producer's last transaction is what its coordinator says
behind a start and before the next one, as `healing` has it: that is kept until the partitions were looked at. Whatever
is not proved to be committed is named in the log and left as it is.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka.errors import ClusterAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError, for_code

from oncegate.ledgers.kafka.guard import Partition
from oncegate.ledgers.kafka.markers.brokers import NOTHING_UNDER_WAY, Brokers, Open, State, brokers_of
from oncegate.ledgers.kafka.refusals import Caller

# About a megabyte of names: the partitions that were written first are let go of, which later rows name again.
PARTITIONS_MAX = 10_000
# Producers that were ended while some partition had no leader; each is of a bad end or of an opening.
PRODUCERS_MAX = 1_000
# One request of names stays far below what a broker takes.
_ASKED_AT_ONCE = 1_000
_log = logging.getLogger(__name__)


class NewestPartitions:
    """Holds the partitions that were named last, `PARTITIONS_MAX` at most."""

    def __init__(self) -> None:
        self._named: dict[Partition, None] = {}

    def add(self, partitions: Iterable[Partition]) -> None:
        """Names these, the last of them being the newest."""
        for partition in partitions:
            self._named.pop(partition, None)
            self._named[partition] = None
        while len(self._named) > PARTITIONS_MAX:
            del self._named[next(iter(self._named))]

    def take(self) -> list[Partition]:
        """Returns all, which are forgotten."""
        found, self._named = list(self._named), {}
        return found

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._named)


class UserPartitions:
    """Heals what producers before this one have left open in users' partitions of one ledger."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._caller = Caller.of(settings)
        self._due = NewestPartitions()
        # By producer id and epoch, what its coordinator said when nothing was under way.
        self._ended: dict[tuple[int, int], State] = {}
        self._turn = asyncio.Lock()

    def ended(self, states: Iterable[State]) -> None:
        """Notes what coordinators say of producers that were followed, before their next start or behind it."""
        for state in states:
            if state.name == NOTHING_UNDER_WAY:
                self._ended[state.producer_id, state.epoch] = state
        while len(self._ended) > PRODUCERS_MAX:
            del self._ended[next(iter(self._ended))]

    def look_at(self, partitions: Iterable[Partition]) -> None:
        """Has these looked at by `heal`: producers that were followed have written there."""
        self._due.add(partitions)

    async def heal(self, wait_s: float) -> None:
        """Writes the markers that are missing; what cannot be asked now is left for the next call. Raises nothing.

        `wait_s`: what it may take.
        """
        async with self._turn:
            if not len(self._due):
                return
            due = self._due.take()
            try:
                async with asyncio.timeout(wait_s), brokers_of(self._settings, ()) as brokers:
                    self._due.add(await self._heal(brokers, due))
            except (KafkaError, OSError, NotImplementedError):
                # Brokers too old to be asked are asked in vain, once an upkeep.
                self._due.add(due)

    async def _heal(self, brokers: Brokers, due: Sequence[Partition]) -> list[Partition]:
        """Returns the partitions that are to be asked about again."""
        later: list[Partition] = []
        for node, led in brokers.by_leader(due).items():
            # A topic that is gone has no readers.
            if node is not None and node < 0:
                later += led
            elif node is not None:
                for at in range(0, len(led), _ASKED_AT_ONCE):
                    later += await self._heal_at(brokers, node, led[at : at + _ASKED_AT_ONCE])
        return later

    async def _heal_at(self, brokers: Brokers, node: int, led: Sequence[Partition]) -> list[Partition]:
        found, refused = await brokers.open_at(node, led)
        for one in found:
            await self._decide(brokers, one)
        return [partition for partition, code in refused.items() if not self._is_forbidden(partition, code)]

    def _is_forbidden(self, partition: Partition, code: int) -> bool:
        if for_code(code) is not TopicAuthorizationFailedError:
            return False
        _log.warning(
            "topic %s: whether brokers forgot a marker there is not known: allow %s to READ it",
            partition.topic,
            self._caller,
        )
        return True

    async def _decide(self, brokers: Brokers, one: Open) -> None:
        if (one.producer_id, one.epoch + 1) in self._ended:
            await self._commit(brokers, one)
        elif any(producer_id == one.producer_id for producer_id, _ in self._ended):
            _log.warning(
                "%s: brokers left a transaction open, and nothing proves that it was committed; readers wait there. "
                "kafka-transactions.sh abort gives its records up: right where no client was told that they are "
                "written",
                one,
            )

    async def _commit(self, brokers: Brokers, one: Open) -> None:
        try:
            await brokers.write_commit_marker(one)
        except ClusterAuthorizationFailedError:
            _log.warning(
                "%s: brokers committed a transaction and forgot its marker, and readers wait there: allow %s to ALTER "
                "the cluster, then open the ledger anew",
                one,
                self._caller,
            )
