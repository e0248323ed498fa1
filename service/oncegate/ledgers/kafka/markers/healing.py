"""Repairs hanging transactions: the coordinator committed them but never wrote the marker to some partition.

A coordinator killed between its answer to EndTxn and the markers resumes writing them after a restart, but skips a
partition that has no leader at that moment (Kafka 4.3.1). Readers of committed records are then stuck there forever.

The state of the transactional id shows the outcome once a later start has fenced the producer. A start raises the
producer's epoch by one, or by two if it had to abort a transaction. If the coordinator has nothing under way, the
outcome of records in epoch e follows from the current producer:

    epoch e + 1               committed: the marker is written again
    later epoch               unknown, after several starts or an abort: MarkersLost
    another producer id       unknown, the old one's epochs are used up (32,766 is the last): MarkersLost

After the fencing start, no producer can write in epoch e any more, and brokers reject markers of an older epoch.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from aiokafka.errors import ClusterAuthorizationFailedError, IncompatibleBrokerVersion, KafkaError

from oncegate.clock import now_s, sleep_s
from oncegate.ledgers.kafka.markers.brokers import Brokers, Open, State, brokers_of
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.refusals import Caller

# Restarted brokers know the leaders, and coordinators their ids, within seconds.
PATIENCE_S = 10.0
_POLL_S = 0.1
T = TypeVar("T")


class MarkersLost(KafkaError):  # type: ignore[misc]
    """A hanging transaction that cannot be repaired; the text names it and a remedy for the operator."""


class Healing:
    """Repairs hanging transactions in the partitions of one ledger. `caller`: the client, for messages.
    Created by `healing`.
    """

    def __init__(self, brokers: Brokers, partitions: Sequence[Partition], caller: Caller, later: "Later") -> None:
        self._brokers = brokers
        self._partitions = partitions
        self._caller = caller
        self._later = later
        # Partitions of `later` that `heal` has skipped or could not decide.
        self.left: set[Partition] = set()
        # Transactional ids by producer id as queried so far: a start may assign a new producer id.
        self._names: dict[int, str] = {}

    async def heal(self, transactional_ids: Iterable[str]) -> None:
        """Writes the missing markers for transactions of these ids; transactions of other ids are left alone.

        Raises MarkersLost; KafkaError, OSError: retry.
        """
        names = list(transactional_ids)
        await self._until_answered(lambda: self._heal(names))

    async def states(self, transactional_ids: Iterable[str]) -> list[State]:
        """Returns the states of these ids at their coordinators. Raises as `heal`."""
        names = list(transactional_ids)
        return await self._until_answered(lambda: self._brokers.states(names)) or []

    async def is_open(self) -> bool:
        """Returns whether a transaction is open in one of the partitions. Raises as `heal`."""
        return bool(await self._until_answered(lambda: self._brokers.open_in(self._partitions)))

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Retries `ask` while leaders or coordinators are unknown;
        returns None if the brokers are too old for the request.
        """
        until = now_s() + PATIENCE_S
        while True:
            try:
                return await ask()
            except (IncompatibleBrokerVersion, NotImplementedError):
                return None
            except KafkaError as error:
                if not error.retriable or now_s() > until:
                    raise
            await sleep_s(_POLL_S)
            await self._brokers.refresh()

    async def _heal(self, transactional_ids: Sequence[str]) -> None:
        asked = self._asked()
        found = await self._brokers.open_in(asked)
        if not found:
            return
        states = {state.transactional_id: state for state in await self._brokers.states(transactional_ids)}
        self._names |= {state.producer_id: name for name, state in states.items()}
        # If it is still open after the state was read, no marker was under way.
        still = set(await self._brokers.open_in(asked))
        for one in found:
            state = states.get(self._names.get(one.producer_id, ""))
            if one in still and state is not None and state.has_followed(one):
                await self._decide(one, state)

    def _asked(self) -> list[Partition]:
        if not self._later.is_away_allowed:
            return list(self._partitions)
        away = self._brokers.by_leader(self._later.partitions).get(-1, [])
        self.left.update(away)
        return [one for one in self._partitions if one not in away]

    async def _decide(self, one: Open, state: State) -> None:
        if state.producer_id != one.producer_id or state.epoch > one.epoch + 1:
            if one.partition in self._later.partitions:
                self.left.add(one.partition)
                return
            raise MarkersLost(
                f"{one}: brokers left a transaction of {state.transactional_id} open, and whether it was committed is "
                "not known any more; nothing was changed. kafka-transactions.sh abort gives its records up: that is "
                "right where no client was told that they are written"
            )
        try:
            await self._brokers.write_commit_marker(one)
        except ClusterAuthorizationFailedError as error:
            raise MarkersLost(
                f"{one}: brokers committed a transaction of {state.transactional_id} and forgot its marker; nothing is "
                f"lost. Allow {self._caller} to ALTER the cluster until this ledger was opened once, then start again"
            ) from error


class Later(NamedTuple):
    """Partitions whose hanging transactions the ledger's frames may decide later, if the transactional id does not.

    `is_away_allowed`: they are also skipped while they have no leader.
    """

    partitions: Sequence[Partition] = ()
    is_away_allowed: bool = False


NOTHING_LATER = Later()


@asynccontextmanager
async def healing(
    settings: Mapping[str, Any], partitions: Sequence[Partition], later: Later = NOTHING_LATER
) -> AsyncIterator[Healing]:
    """Connects to the brokers of these partitions. Raises KafkaError, OSError: none can be reached."""
    async with brokers_of(settings, partitions) as brokers:
        yield Healing(brokers, partitions, Caller.of(settings), later)
