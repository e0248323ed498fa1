"""A piece of work that is retried until it is done: ids claimed, written and completed; rows produced by id.

Each object keeps its answers next to its ids, so that the work can be repeated and compared afterwards.
"""

import http.client
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError, Refused
from oncegate_spark.sync.attempt import Attempt
from tests.matrix.audit import open_transactions
from tests.matrix.world import PATIENCE_S, World

IDS = 5
LEASE_MS = 5_000
# Appends of one piece of work: a claim, its completion, and rows.
STEPS = 3
PAUSE_S = 0.02
# The final check is requested once and must be answered on a busy machine too.
ASK_MS = 180_000


@dataclass(frozen=True)
class Outcome:
    """The outcome of one piece of work: ids written twice without a takeover, and ids acknowledged and later new."""

    duplicated: int
    lost: int


class Life(threading.Thread):
    """Works once. Unless `deduplicated`, each attempt writes its rows as new ones, as a writer without a gateway
    does."""

    def __init__(self, world: World, number: int, deduplicated: bool = True) -> None:
        super().__init__(name=f"life-{number}", daemon=True)
        self.world, self.number, self.deduplicated = world, number, deduplicated
        self.ids = [f"{world.prefix}-{number}-{one}" for one in range(IDS)]
        self.rows = pa.table({"key": self.ids, "value": self.ids})
        self.sink: Counter[str] = Counter()
        self.takeovers = 0
        self.failure: BaseException | None = None

    @property
    def step(self) -> int:
        """Returns the append that is struck: the lives of a row take turns."""
        return self.number % STEPS

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.failure = error

    def _work(self) -> None:
        if self.deduplicated:
            self._try_until_done(self._claim)
            self._try_until_done(self._produce)
        else:
            for _ in range(STEPS):
                self._write_until_answered()

    def finish(self) -> None:
        """Waits for its end, and restarts the gateway if it died meanwhile."""
        while self.is_alive():
            if not self.world.gateway.is_alive:
                self.world.gateway.settle()
            self.join(PAUSE_S)
        if self.failure is not None:
            raise self.failure

    def ask_again(self) -> Outcome:
        """Claims and writes the ids again in another attempt, and reads the rows."""
        if not self.deduplicated:
            return Outcome(sum(self._read(self.world.topic).values()) - STEPS * IDS, 0)
        with self._client(ASK_MS) as client, client.attempt() as attempt:
            new = self._granted_now(attempt) + int(attempt.produce(self.world.topic, self.rows, id_col="key").rows)
        read = self._read(self.world.topic)
        extra = sum(times - 1 for times in self.sink.values()) - self.takeovers
        extra += sum(max(read[one] - 1, 0) for one in self.ids)
        return Outcome(max(extra, 0), new + sum(read[one] == 0 for one in self.ids))

    def _granted_now(self, attempt: Attempt) -> int:
        claimed = attempt.claim(self.ids, lease_ms=LEASE_MS)
        if granted := len(list(claimed.granted)):
            attempt.release(claimed)
        return granted

    def _read(self, topic: str) -> Counter[str]:
        """Counts each of its rows, as another client reads the topic after every open transaction has ended."""
        open_transactions(self.world.broker, topic)
        values = [value.decode() for value in self.world.broker.values(topic)]
        return Counter(one for one in values if one.startswith(f"{self.world.prefix}-{self.number}-"))

    def _client(self, timeout_ms: int = 30_000) -> Gateway:
        return Gateway(self.world.url, timeout_ms=timeout_ms)

    def _try_until_done(self, attempt_once: Callable[[], None]) -> None:
        """Retries as a task is retried: each attempt is a new one."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return attempt_once()
            except Refused:
                raise
            except OncegateError:
                if time.monotonic() > end:
                    raise

    def _claim(self) -> None:
        with self._client() as client:
            attempt = client.attempt()
            claimed = attempt.claim(self.ids, lease_ms=LEASE_MS)
            self.takeovers += claimed.verdicts.takeovers
            self.sink.update(claimed.granted)
            attempt.complete(claimed)

    def _produce(self) -> None:
        with self._client() as client, client.attempt() as attempt:
            attempt.produce(self.world.topic, self.rows, id_col="key")

    def _write_until_answered(self) -> None:
        """Sends one request after another, each with a new token, until one is answered with 200."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            body = {"token": uuid.uuid4().hex, "call": 0, "records": [{"value": one} for one in self.ids]}
            connection = http.client.HTTPConnection("127.0.0.1", self.world.http.port, timeout=30)
            try:
                path = f"/v1/namespaces/default/topics/{self.world.topic}/records:produce"
                connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(PAUSE_S)
        raise AssertionError("no answer")
