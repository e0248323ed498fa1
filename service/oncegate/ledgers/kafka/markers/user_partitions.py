"""Heals users' partitions: writes markers that brokers forgot for committed transactions of earlier producers.

Frames name the partitions that rows went to. The outcome of a producer's last transaction is what its coordinator
says after a start and before the next one (`healing`), and is kept until the partitions were looked at. If that does
not prove a commit, the frames may prove that it was not committed, once its producer was fenced: then it is aborted.
Everything else is logged and left as it is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from aiokafka.errors import ClusterAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError, for_code

from oncegate.ledgers.kafka.markers.brokers import NOTHING_UNDER_WAY, Brokers, Open, State, brokers_of
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.refusals import Caller

# About a megabyte of names: the partitions that were written first are let go of, which later rows name again.
PARTITIONS_MAX = 10_000
# Producers that were ended while some partition had no leader; each is of a bad end or of an opening.
PRODUCERS_MAX = 1_000
# One request of names stays far below what a broker takes.
_ASKED_AT_ONCE = 1_000
_LOG = logging.getLogger(__name__)
# Told of open transactions, each with its transactional id, returns those that the ledger proves not to be written.
Unwritten = Callable[[Mapping[Open, str]], Awaitable[Collection[Open]]]


class Unreadable(Exception):
    """Says that the ledger cannot be asked now what it holds."""


class NewestPartitions(dict[Partition, None]):
    """Holds the partitions that were added last, in that order: `PARTITIONS_MAX` at most."""

    def add(self, partitions: Iterable[Partition]) -> None:
        """Adds partitions, the last of them as the newest."""
        for partition in partitions:
            self.pop(partition, None)
            self[partition] = None
        while len(self) > PARTITIONS_MAX:
            del self[next(iter(self))]

    def take(self) -> list[Partition]:
        """Returns all partitions, oldest first, and empties this."""
        partitions = list(self)
        self.clear()
        return partitions


class UserPartitions:
    """Heals what producers before this one have left open in users' partitions of one ledger."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._caller = Caller.of(settings)
        self._due = NewestPartitions()
        # By producer id and epoch, what its coordinator said when nothing was under way.
        self._ended: dict[tuple[int, int], State] = {}
        # The transactional id of a producer id: when its epochs are used up it has another one.
        self._names: dict[int, str] = {}
        self._turn = asyncio.Lock()

    def ended(self, states: Iterable[State]) -> None:
        """Notes what coordinators say of producers that were followed, before their next start or behind it."""
        for state in states:
            self._names[state.producer_id] = state.transactional_id
            if state.name == NOTHING_UNDER_WAY:
                self._ended[state.producer_id, state.epoch] = state
        while len(self._ended) > PRODUCERS_MAX:
            del self._ended[next(iter(self._ended))]
        while len(self._names) > PRODUCERS_MAX:
            del self._names[next(iter(self._names))]

    def look_at(self, partitions: Iterable[Partition]) -> None:
        """Adds partitions to those that `heal` looks at: superseded producers have written there."""
        self._due.add(partitions)

    def is_due(self, partitions: Iterable[Partition]) -> bool:
        """Returns whether `heal` has still to look at one of these."""
        return any(one in self._due for one in partitions)

    async def heal(self, wait_s: float, unwritten: Unwritten) -> None:
        """Writes the markers that are missing; what cannot be asked now is left for the next call. Raises nothing.

        `wait_s`: what it may take. `unwritten`: may raise Unreadable, KafkaError, OSError.
        """
        async with self._turn:
            if not self._due:
                return
            due = list(self._due)
            # Brokers too old to be asked are asked in vain, once an upkeep.
            with suppress(KafkaError, OSError, NotImplementedError, Unreadable):
                async with asyncio.timeout(wait_s), brokers_of(self._settings, ()) as brokers:
                    later = await self._heal(brokers, due, unwritten)
                    for partition in set(due).difference(later):
                        self._due.pop(partition, None)

    async def _heal(self, brokers: Brokers, due: Sequence[Partition], unwritten: Unwritten) -> list[Partition]:
        """Returns the partitions to ask about again later."""
        later, unproved = list[Partition](), dict[Open, str]()
        for node, led in brokers.by_leader(due).items():
            # A topic that is gone has no readers.
            if node is not None and node < 0:
                later += led
            elif node is not None:
                for at in range(0, len(led), _ASKED_AT_ONCE):
                    found, refused = await brokers.open_at(node, led[at : at + _ASKED_AT_ONCE])
                    unproved |= await self._heal_committed(brokers, found)
                    later += [one for one, code in refused.items() if not self._is_forbidden(one, code)]
        if unproved:
            await self._give_up(brokers, unproved, await unwritten(unproved))
        return later

    async def _heal_committed(self, brokers: Brokers, found: Iterable[Open]) -> dict[Open, str]:
        """Returns what is not proved to be committed, of producers that were followed, with their transactional ids."""
        unproved: dict[Open, str] = {}
        for one in found:
            if (one.producer_id, one.epoch + 1) in self._ended:
                await self._commit(brokers, one)
            elif (name := self._followed(one)) is not None:
                unproved[one] = name
        return unproved

    def _followed(self, one: Open) -> str | None:
        """Returns the transactional id of an open transaction whose producer was fenced; None: it may go on."""
        name = self._names.get(one.producer_id)
        ended = (state for state in self._ended.values() if state.transactional_id == name)
        return name if any(state.has_followed(one) for state in ended) else None

    def _is_forbidden(self, partition: Partition, code: int) -> bool:
        if for_code(code) is not TopicAuthorizationFailedError:
            return False
        _LOG.warning(
            "topic %s: whether brokers forgot a marker there is not known: allow %s to READ it",
            partition.topic,
            self._caller,
        )
        return True

    async def _give_up(self, brokers: Brokers, unproved: Iterable[Open], unwritten: Collection[Open]) -> None:
        for one in unproved:
            if one in unwritten:
                with self._allowed(one, "aborted"):
                    await brokers.write_abort_marker(one)
            else:
                _LOG.warning(
                    "%s: brokers left a transaction open, and nothing proves whether it was committed; readers wait "
                    "there. kafka-transactions.sh abort gives its records up: right where no client was told that they "
                    "are written",
                    one,
                )

    async def _commit(self, brokers: Brokers, one: Open) -> None:
        with self._allowed(one, "committed"):
            await brokers.write_commit_marker(one)

    @contextmanager
    def _allowed(self, one: Open, what: str) -> Iterator[None]:
        """Logs which right is missing if a marker is refused for want of it."""
        try:
            yield
        except ClusterAuthorizationFailedError:
            _LOG.warning(
                "%s: brokers %s a transaction and forgot its marker, and readers wait there: allow %s to ALTER the "
                "cluster, then open the ledger anew",
                one,
                what,
                self._caller,
            )
