"""Pieces of work that write into several users' topics at once, and a load that makes a ledger grow."""

import threading
from contextlib import suppress

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.matrix.life import ASK_MS, IDS, Life, Outcome
from tests.matrix.world import World
from tests.support.staged_batches import Batch

LATER_RUN = "a-later-run"
# The number of ids by which a ledger grows at a time: some 16 KiB of entries.
GROWS = 1_000


class Delivery(Life):
    """Writes rows by id to each topic in one request, then a batch for each topic: staged, and committed. Three
    appends."""

    def __init__(self, world: World, number: int, deduplicated: bool = True) -> None:
        super().__init__(world, number, deduplicated)
        self.batch_ids = [f"{one}-staged" for one in self.ids]
        self._runs = 0

    def _work(self) -> None:
        self._try_until_done(self._produce)
        self._try_until_done(self._publish)

    def ask_again(self) -> Outcome:
        """Repeats all of it, as other work under the same names would, and reads every topic."""
        with self._client(ASK_MS) as client, client.attempt() as attempt:
            new = int(attempt.produce("ids-of-several", self._rows(self.ids), id_col="key").rows)
            new += self._commit(client, LATER_RUN) != "DUPLICATE"
        read = [self._read(topic) for topic in self.world.topics]
        there = [each[one] for each in read for one in (*self.ids, *self.batch_ids)]
        return Outcome(sum(max(times - 1, 0) for times in there), new + there.count(0))

    def _produce(self) -> None:
        with self._client() as client, client.attempt() as attempt:
            attempt.produce("ids-of-several", self._rows(self.ids), id_col="key")

    def _publish(self) -> None:
        with self._client() as client:
            self._commit(client, "the-only-run")

    def _commit(self, client: Gateway, run: str) -> str:
        batch = self._new_batch(client, run)
        batch.stage(self._rows(self.batch_ids))
        return str(batch.commit().outcome)

    def _new_batch(self, client: Gateway, run: str) -> Batch:
        return Batch(client, "batches-of-several", run, app=self.world.prefix, version=self.number + 1)

    def _rows(self, ids: list[str]) -> pa.Table:
        """Returns a row for each id and topic, with a distinct key each."""
        topics = [topic for topic in self.world.topics for _ in range(IDS)]
        keys = [f"{topic}/{one}" for topic in self.world.topics for one in ids]
        return pa.table({"key": keys, "value": ids * len(self.world.topics), "topic": topics})


class Growth(threading.Thread):
    """Claims ids and releases them until `is_enough`: a collection leaves nothing of these entries.

    Claims many ids at a time: the ledger must grow to twice its last collected size, and each run makes that larger.
    """

    def __init__(self, world: World) -> None:
        super().__init__(name="growth", daemon=True)
        self._world = world
        self.is_enough = threading.Event()

    def run(self) -> None:
        ids = [f"{self._world.prefix}-grows-{number}" for number in range(GROWS)]
        while not self.is_enough.is_set():
            with suppress(OncegateError), Gateway(self._world.url, timeout_ms=2_000) as client:
                attempt = client.attempt()
                attempt.release(attempt.claim(ids, lease_ms=1_000))
