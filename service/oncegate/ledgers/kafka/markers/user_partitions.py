"""Repairs hanging transactions of earlier producers in users' partitions.

Frames name the partitions that rows were written to. The coordinator's state between one start and the next shows the
outcome of a producer's last transaction (see `healing`), and is kept until the partitions were checked. If it does not
prove a commit and the producer is fenced, the frames may prove that nothing was committed; the transaction is then
aborted. All other cases are logged and left unchanged.
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

# About a megabyte of names. The partitions added first are dropped; later rows add them again.
PARTITIONS_MAX = 10_000
# Producers remembered while some partition has no leader; each failure or opening adds one.
PRODUCERS_MAX = 1_000
# Partitions per request, which keeps requests far below the brokers' limit.
_ASKED_AT_ONCE = 1_000
_LOG = logging.getLogger(__name__)
# Returns, of open transactions with their transactional ids, those that the ledger proves not to be committed.
Unwritten = Callable[[Mapping[Open, str]], Awaitable[Collection[Open]]]


class Unreadable(Exception):
    """The ledger's frames cannot be read now."""


class NewestPartitions(dict[Partition, None]):
    """The `PARTITIONS_MAX` most recently added partitions, in the order of their addition."""

    def add(self, partitions: Iterable[Partition]) -> None:
        """Adds partitions in order; the last becomes the newest."""
        for partition in partitions:
            self.pop(partition, None)
            self[partition] = None
        while len(self) > PARTITIONS_MAX:
            del self[next(iter(self))]

    def take(self) -> list[Partition]:
        """Drains the set: returns all partitions, oldest first, and removes them."""
        partitions = list(self)
        self.clear()
        return partitions


class UserPartitions:
    """Repairs transactions that earlier producers of one ledger left open in users' partitions."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._caller = Caller.of(settings)
        self._due = NewestPartitions()
        # Coordinators' states without a transaction under way, by producer id and epoch.
        self._ended: dict[tuple[int, int], State] = {}
        # Transactional ids by producer id; an id gets a new producer id when the epochs are used up.
        self._names: dict[int, str] = {}
        self._turn = asyncio.Lock()

    def ended(self, states: Iterable[State]) -> None:
        """Records coordinators' states of earlier producers,
        as queried before or after their ids were started again.
        """
        for state in states:
            self._names[state.producer_id] = state.transactional_id
            if state.name == NOTHING_UNDER_WAY:
                self._ended[state.producer_id, state.epoch] = state
        while len(self._ended) > PRODUCERS_MAX:
            del self._ended[next(iter(self._ended))]
        while len(self._names) > PRODUCERS_MAX:
            del self._names[next(iter(self._names))]

    def look_at(self, partitions: Iterable[Partition]) -> None:
        """Adds partitions that superseded producers wrote to; `heal` checks them."""
        self._due.add(partitions)

    def is_due(self, partitions: Iterable[Partition]) -> bool:
        """Returns whether `heal` still has to check any of these partitions."""
        return any(one in self._due for one in partitions)

    async def heal(self, wait_s: float, unwritten: Unwritten) -> None:
        """Writes the missing markers. Partitions that cannot be queried now are left to the next call. Never raises.

        `wait_s`: timeout. `unwritten`: may raise Unreadable, KafkaError, OSError.
        """
        async with self._turn:
            if not self._due:
                return
            due = list(self._due)
            # With brokers too old for these requests, this fails once per maintenance run.
            with suppress(KafkaError, OSError, NotImplementedError, Unreadable):
                async with asyncio.timeout(wait_s), brokers_of(self._settings, ()) as brokers:
                    later = await self._heal(brokers, due, unwritten)
                    for partition in set(due).difference(later):
                        self._due.pop(partition, None)

    async def _heal(self, brokers: Brokers, due: Sequence[Partition], unwritten: Unwritten) -> list[Partition]:
        """Checks the partitions in `due`; returns those to query again later."""
        later, unproved = list[Partition](), dict[Open, str]()
        for node, led in brokers.by_leader(due).items():
            # Partitions of a deleted topic (None) are dropped: they have no readers.
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
        """Commits the hanging transactions that were provably committed.

        Returns the other transactions of fenced producers, with their transactional ids.
        """
        unproved: dict[Open, str] = {}
        for one in found:
            if (one.producer_id, one.epoch + 1) in self._ended:
                await self._commit(brokers, one)
            elif (name := self._followed(one)) is not None:
                unproved[one] = name
        return unproved

    def _followed(self, one: Open) -> str | None:
        """Returns the transactional id of an open transaction if its producer is fenced, otherwise None."""
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
