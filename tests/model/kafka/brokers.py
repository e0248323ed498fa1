"""Brokers of a model: partitions with transactions and markers, transactional ids with epochs, deletions.

The behaviour is that of Kafka 4.3.1, as measured:

    the end of a transaction writes a marker into each partition, which decides all open records of its producer there
    an abort skips a partition without a leader: its records stay open, and the abort is complete
    a coordinator that is killed after its answer to a commit may skip a partition when it restarts
    a start increases the epoch by one, or by two if it had to abort something
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from oncegate.ledgers.kafka.partition import Partition

OPEN, COMMITTED, ABORTED, MARKER = "open", "committed", "aborted", "marker"
# States of transactional ids, by Kafka's names.
EMPTY, ONGOING = "Empty", "Ongoing"
_ENDED = {COMMITTED: "CompleteCommit", ABORTED: "CompleteAbort"}
Pair = tuple[bytes | None, bytes | None]


class Fenced(Exception):
    """A newer producer has the transactional id."""


class Away(Exception):
    """The partition has no leader."""


@dataclass
class Entry:
    """A record or a marker. `producer` is None outside a transaction.

    `due`: the coordinator's decision, even if the marker is missing. `at_s`: the time of the write, or in a
    transaction, of the producer's start.
    """

    producer: str | None
    state: str
    key: bytes | None = None
    value: bytes | None = None
    epoch: int = 0
    due: str | None = None
    at_s: float = 0.0

    @property
    def is_promised(self) -> bool:
        """Returns whether it is committed, or will be once the marker arrives."""
        return COMMITTED in (self.state, self.due)


@dataclass
class Log:
    """A partition."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    has_leader: bool = True

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def stable(self) -> int:
        """Returns the last stable offset."""
        open_ones = (at for at in range(self.start, self.end) if self.entries[at].state == OPEN)
        return next(open_ones, self.end)

    def committed(self, first: int, end: int) -> list[tuple[int, Entry]]:
        """Returns the committed records between two offsets."""
        until = min(end, self.stable)
        return [(at, self.entries[at]) for at in range(first, until) if self.entries[at].state == COMMITTED]


@dataclass
class Producer:
    """A coordinator's knowledge of a transactional id. `number`: the producer id; `state`: Kafka's name; `began_s`: the
    time of its last start."""

    number: int
    began_s: float = 0.0
    epoch: int = 0
    partitions: set[Partition] = field(default_factory=set)
    state: str = EMPTY

    @property
    def ongoing(self) -> bool:
        return self.state == ONGOING


class Brokers:
    """Each method handles one request, atomically. `now` returns the time in seconds."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self._now = now
        self.logs: dict[Partition, Log] = {}
        self.producers: dict[str, Producer] = {}
        # Records whose marker contradicted their coordinator.
        self.undone: list[Entry] = []

    def log(self, partition: Partition) -> Log:
        return self.logs.setdefault(Partition(*partition), Log())

    def init(self, name: str, passed_over: Collection[Partition] = ()) -> int:
        """Aborts the open transaction of an id and returns its next epoch. `passed_over`: partitions without a
        leader."""
        producer = self.producers.setdefault(name, Producer(len(self.producers)))
        producer.epoch, producer.began_s = producer.epoch + 1, self._now()
        if producer.ongoing:
            self._mark(name, producer, ABORTED, passed_over)
            producer.epoch += 1
        producer.state = EMPTY
        return producer.epoch

    def produce(self, name: str, epoch: int, partition: Partition, records: Sequence[Pair]) -> int:
        """Appends records and returns the offset of the first. Raises Fenced, Away."""
        producer, log = self._newest(name, epoch), self.log(partition)
        if not log.has_leader:
            raise Away
        producer.state = ONGOING
        producer.partitions.add(partition)
        first = log.end
        log.entries += [Entry(name, OPEN, *pair, epoch, at_s=producer.began_s) for pair in records]
        return first

    def end(self, name: str, epoch: int, committed: bool, passed_over: Collection[Partition] = ()) -> None:
        """Ends the open transaction, if any. `passed_over`: partitions whose marker is lost. Raises Fenced."""
        producer = self._newest(name, epoch)
        if producer.ongoing:
            self._mark(name, producer, COMMITTED if committed else ABORTED, passed_over)

    def put(self, partition: Partition, pair: Pair) -> None:
        """Appends a record without a transaction."""
        self.log(partition).entries.append(Entry(None, COMMITTED, *pair, at_s=self._now()))

    def delete(self, partition: Partition, before: int) -> None:
        log = self.log(partition)
        log.start = max(log.start, min(before, log.end))

    def decide(self, partition: Partition, name: str, state: str) -> None:
        """Writes a marker of a producer into one partition."""
        log = self.log(partition)
        for entry in log.entries:
            if entry.producer == name and entry.state == OPEN:
                entry.state = state
                if entry.due not in (None, state):
                    self.undone.append(entry)
        log.entries.append(Entry(name, MARKER))

    def open_in(self, partition: Partition) -> dict[str, tuple[int, int]]:
        """Returns the epoch and first open offset of each producer with open records."""
        found: dict[str, tuple[int, int]] = {}
        for offset, entry in enumerate(self.log(partition).entries):
            if entry.state == OPEN and entry.producer is not None:
                found.setdefault(entry.producer, (entry.epoch, offset))
        return found

    def mend(self) -> None:
        """Gives every partition a leader and aborts the records that aborts have left open, as an operator does."""
        for partition, log in self.logs.items():
            log.has_leader = True
            for name in self.open_in(partition):
                if all(one.due == ABORTED for one in log.entries if (one.producer, one.state) == (name, OPEN)):
                    self.decide(partition, name, ABORTED)

    def are_hidden(self, partitions: Collection[Partition]) -> bool:
        """Returns whether several starts have hidden a commit whose records are open in one of these partitions."""
        return any(
            entry.state == OPEN
            and entry.due == COMMITTED
            and self.producers[str(entry.producer)].epoch > entry.epoch + 1
            for partition in partitions
            for entry in self.log(partition).entries
        )

    def _newest(self, name: str, epoch: int) -> Producer:
        producer = self.producers[name]
        if producer.epoch != epoch:
            raise Fenced
        return producer

    def _mark(self, name: str, producer: Producer, state: str, passed_over: Collection[Partition] = ()) -> None:
        for partition in sorted(producer.partitions):
            log = self.log(partition)
            for entry in log.entries:
                if entry.producer == name and entry.state == OPEN:
                    entry.due = entry.due or state
            # A commit waits for the leader; an abort does not.
            if partition not in passed_over and (state == COMMITTED or log.has_leader):
                self.decide(partition, name, state)
        producer.state, producer.partitions = _ENDED[state], set()
