"""Kafka as lanes see it: one partition of records, a transaction a lane, epochs that fence, commits that come late."""

from dataclasses import dataclass, field

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass
class Written:
    """A record in the partition, and the rows that its transaction has in the user's topic."""

    lane: int
    data: bytes
    sequences: tuple[int, ...]
    state: str = OPEN


@dataclass
class Lane:
    """The coordinator's view: who started last, and what he has open. `late`: the epoch whose commit is on its way."""

    epoch: int = 0
    open: list[Written] = field(default_factory=list)


@dataclass
class Kafka:
    """`low`: the first record that is kept."""

    log: list[Written] = field(default_factory=list)
    lanes: dict[int, Lane] = field(default_factory=dict)
    low: int = 0

    def start(self, lane: int) -> int:
        """Fences who was there, and aborts what he has open; the new epoch."""
        known = self.lanes.setdefault(lane, Lane())
        self._end(known, ABORTED)
        known.epoch += 1
        return known.epoch

    def write(self, lane: int, epoch: int, data: bytes, sequences: tuple[int, ...]) -> bool:
        """Whether it was taken."""
        known = self.lanes[lane]
        if known.epoch == epoch:
            known.open.append(Written(lane, data, sequences))
            self.log.append(known.open[-1])
        return known.epoch == epoch

    def commit(self, lane: int, epoch: int) -> bool:
        """Whether the commit was taken; one that was is taken again and changes nothing."""
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
        """Up to where readers of committed records get."""
        return next((at for at, one in enumerate(self.log) if one.state == OPEN), len(self.log))

    def rows(self, lane: int) -> list[int]:
        """What readers of committed rows find of a lane."""
        return sorted(n for one in self.log if one.lane == lane and one.state == COMMITTED for n in one.sequences)
