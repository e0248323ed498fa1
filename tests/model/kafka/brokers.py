"""Brokers of a model: partitions with transactions and their markers, transactional ids with epochs, deletions.

As Kafka does it: an end of a transaction writes a marker into each partition, and a marker decides all open records of
its producer there. An abort that meets a partition without a leader leaves its records open, and is complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from oncegate.ledgers.kafka.guard import Partition

OPEN, COMMITTED, ABORTED, MARKER = "open", "committed", "aborted", "marker"
Pair = tuple[bytes | None, bytes | None]


class Fenced(Exception):
    """A newer producer has the transactional id."""


class Away(Exception):
    """The partition has no leader."""


@dataclass
class Entry:
    """A record, or a marker; `producer`: of a transaction, None where there is none."""

    producer: str | None
    state: str
    key: bytes | None = None
    value: bytes | None = None


@dataclass
class Log:
    """One partition."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    has_leader: bool = True

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def stable(self) -> int:
        """Up to where records of transactions are decided."""
        open_ones = (at for at in range(self.start, self.end) if self.entries[at].state == OPEN)
        return next(open_ones, self.end)

    def committed(self, first: int, end: int) -> list[tuple[int, Entry]]:
        """What whoever reads committed records sees between two offsets."""
        until = min(end, self.stable)
        return [(at, self.entries[at]) for at in range(first, until) if self.entries[at].state == COMMITTED]


@dataclass
class Producer:
    """What a coordinator knows of a transactional id."""

    epoch: int = 0
    partitions: set[Partition] = field(default_factory=set)
    ongoing: bool = False


class Brokers:
    """Each method is a request as the brokers handle it, at one moment."""

    def __init__(self) -> None:
        self.logs: dict[Partition, Log] = {}
        self.producers: dict[str, Producer] = {}

    def log(self, partition: Partition) -> Log:
        return self.logs.setdefault(Partition(*partition), Log())

    def init(self, name: str) -> int:
        """The next epoch of an id; its open transaction is aborted."""
        producer = self.producers.setdefault(name, Producer())
        producer.epoch += 1
        if producer.ongoing:
            self._mark(name, producer, ABORTED)
        return producer.epoch

    def produce(self, name: str, epoch: int, partition: Partition, records: Sequence[Pair]) -> int:
        """The offset of the first record. Fenced, Away."""
        producer, log = self._newest(name, epoch), self.log(partition)
        if not log.has_leader:
            raise Away
        producer.ongoing = True
        producer.partitions.add(partition)
        first = log.end
        log.entries += [Entry(name, OPEN, *pair) for pair in records]
        return first

    def end(self, name: str, epoch: int, committed: bool) -> None:
        """Ends what is open; of nothing it is nothing. Fenced."""
        producer = self._newest(name, epoch)
        if producer.ongoing:
            self._mark(name, producer, COMMITTED if committed else ABORTED)

    def put(self, partition: Partition, pair: Pair) -> None:
        """A record without a transaction."""
        self.log(partition).entries.append(Entry(None, COMMITTED, *pair))

    def delete(self, partition: Partition, before: int) -> None:
        log = self.log(partition)
        log.start = max(log.start, min(before, log.end))

    def _newest(self, name: str, epoch: int) -> Producer:
        producer = self.producers[name]
        if producer.epoch != epoch:
            raise Fenced
        return producer

    def _mark(self, name: str, producer: Producer, state: str) -> None:
        for partition in sorted(producer.partitions):
            log = self.log(partition)
            # A commit waits for the leader; an abort does not.
            if state == ABORTED and not log.has_leader:
                continue
            for entry in log.entries:
                if entry.producer == name and entry.state == OPEN:
                    entry.state = state
            log.entries.append(Entry(name, MARKER))
        producer.ongoing, producer.partitions = False, set()
