"""Kafka as lanes see it: one partition, a transaction per lane, epochs that fence, commits that arrive late."""

from dataclasses import dataclass, field

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass
class Written:
    """A record in the partition, and the rows that its transaction wrote to the user's topic."""

    lane: int
    data: bytes
    sequences: tuple[int, ...]
    state: str = OPEN


@dataclass
class Lane:
    """The coordinator's view of a lane: its epoch and open records. `late`: the epoch of a commit under way."""

    epoch: int = 0
    open: list[Written] = field(default_factory=list)


@dataclass
class Kafka:
    """The partition and its lanes. `low`: the first retained record."""

    log: list[Written] = field(default_factory=list)
    lanes: dict[int, Lane] = field(default_factory=dict)
    low: int = 0

    def start(self, lane: int) -> int:
        """Fences the previous producer and aborts its open records. Returns the new epoch."""
        known = self.lanes.setdefault(lane, Lane())
        self._end(known, ABORTED)
        known.epoch += 1
        return known.epoch

    def write(self, lane: int, epoch: int, data: bytes, sequences: tuple[int, ...]) -> bool:
        """Writes a record. Returns whether it was accepted."""
        known = self.lanes[lane]
        if known.epoch == epoch:
            known.open.append(Written(lane, data, sequences))
            self.log.append(known.open[-1])
        return known.epoch == epoch

    def commit(self, lane: int, epoch: int) -> bool:
        """Commits. Returns whether the commit was accepted; repeating an accepted one changes nothing."""
        known = self.lanes[lane]
        if known.epoch == epoch:
            self._end(known, COMMITTED)
        return known.epoch == epoch

    def _end(self, known: Lane, state: str) -> None:
        for one in known.open:
            one.state = state
        known.open = []

    @property
    def stable(self) -> int:
        """Returns the last stable offset."""
        return next((at for at, one in enumerate(self.log) if one.state == OPEN), len(self.log))

    def rows(self, lane: int) -> list[int]:
        """Returns the committed rows of a lane."""
        return sorted(n for one in self.log if one.lane == lane and one.state == COMMITTED for n in one.sequences)
