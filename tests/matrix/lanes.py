"""Rows that a client writes into Kafka itself, a few more each time, while its gateway is struck."""

from functools import partial

from oncegate_spark.direct import DirectRow, DirectWriter
from tests.matrix.life import ASK_MS, IDS, Life, Outcome
from tests.matrix.rows import Row, answer_lost, followed, killed
from tests.matrix.world import World

PRODUCER = "events-0"


class LaneWriting(Life):
    """Writes a lane of its own topic; each part repeats the rows before it. Three appends and more."""

    def __init__(self, world: World, number: int, deduplicated: bool = True) -> None:
        super().__init__(world, number, deduplicated)
        self.lane_topic = world.broker.topic().topic

    def _work(self) -> None:
        for count in (1, IDS // 2, IDS):
            self._try_until_done(partial(self._write, count))

    def _write(self, count: int, timeout_ms: int = 30_000) -> int:
        """Writes the first `count` rows and returns how many were new. Bypasses the brokers' proxy, whose faults are
        for the gateway."""
        rows = [DirectRow(place, one.encode()) for place, one in enumerate(self.ids[:count])]
        brokers = {"bootstrap.servers": self.world.broker.cluster.bootstrap}
        with self._client(timeout_ms) as client:
            return DirectWriter(client, self.lane_topic, PRODUCER, config=brokers).write(rows).written

    def ask_again(self) -> Outcome:
        """Writes all rows once more, and reads the topic."""
        new, read = self._write(IDS, ASK_MS), self._read(self.lane_topic)
        return Outcome(sum(max(read[one] - 1, 0) for one in self.ids), new + sum(read[one] == 0 for one in self.ids))


LANES = tuple(
    Row(f"lanes-{name}", of, f"rows that a client writes itself: {what}", strike, made=LaneWriting)
    for name, of, what, strike in (
        ("answer-lost", "L1", "the answer to its question is lost", answer_lost("ask")),
        ("kill-before-end", "L3", "the owner is killed when it has read, before it has entered", killed("all sent")),
        ("kill-committed", "L3", "the owner is killed when it has entered, before it answers", killed("committed")),
        ("sleep-before-end", "L4", "the owner sleeps before it enters, is followed, wakes", followed("all sent")),
    )
)
