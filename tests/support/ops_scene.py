"""A gateway under load that meets one fault after another, for pictures of the dashboards."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.support.gateway_process import GatewayProcess
from tests.support.staged_batches import Batch

# The settings of this gateway: few requests in flight, and quotas that a greedy tenant exceeds.
SETTINGS = {"ONCEGATE_REQUESTS_IN_FLIGHT": "3", "ONCEGATE_IDS_PER_SECOND": "40000"}
NAMESPACES = ("flights", "mail")
LEASE_MS = 1_000
PAUSE_S = 0.05


class Scene:
    """Generates load and plays faults one after the other. `_rows` numbers the ids, so that all are new."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._rows = count()

    def client(self, namespace: str) -> Gateway:
        """Returns a client of one namespace with a short timeout."""
        return Gateway(self._gateway.url, namespace, timeout_ms=20_000)

    def ids(self, number: int) -> list[str]:
        return [f"order-{next(self._rows)}" for _ in range(number)]

    @contextmanager
    def load(self) -> Iterator[None]:
        """Runs a steady load in each namespace during the block: claims of new ids, some of them twice."""
        over = threading.Event()

        def work(namespace: str) -> None:
            while not over.wait(PAUSE_S):
                with suppress(OncegateError), self.client(namespace) as client, client.attempt() as attempt:
                    known = self.ids(2)
                    attempt.complete(attempt.claim([*known, *self.ids(16)]))
                    attempt.complete(attempt.claim(known))

        with ThreadPoolExecutor(len(NAMESPACES)) as threads:
            working = [threads.submit(work, namespace) for namespace in NAMESPACES]
            try:
                yield
            finally:
                over.set()
        assert [one.exception() for one in working] == [None] * len(working)

    def play(self, fault: Callable[["Scene"], None], seconds: float, quiet_s: float) -> None:
        """Repeats a fault for `seconds`, then pauses for `quiet_s`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            fault(self)
        time.sleep(quiet_s)

    def retries(self) -> None:
        """Claims every id twice: half of the answers are duplicates."""
        with self.client("flights") as client:
            ids = self.ids(200)
            for _ in range(2):
                with client.attempt() as attempt:
                    attempt.complete(attempt.claim(ids))

    def other_payloads(self) -> None:
        """Claims ids again with another payload."""
        with self.client("mail") as client:
            ids = self.ids(20)
            for payload in ("one", "another"):
                with client.attempt() as attempt, suppress(OncegateError):
                    attempt.complete(attempt.claim(ids, payloads=[payload] * len(ids), on_conflict="drop"))

    def dead_writers(self) -> None:
        """Leaves claims open as a dead writer does; another writer takes them over after the lease."""
        with self.client("flights") as client:
            ids = self.ids(30)
            client.attempt().claim(ids, LEASE_MS)
            time.sleep(1.2 * LEASE_MS / 1_000)
            with client.attempt() as attempt:
                attempt.complete(attempt.claim(ids, LEASE_MS))

    def batches(self) -> None:
        """Commits a batch, replays it, and replays it with other rows."""
        with self.client("mail") as client:
            version = next(self._rows)
            for run, number in enumerate((100, 100, 90)):
                batch = Batch(client, "letters", run=f"run-{run:04}", app="letters", version=version)
                batch.stage(pa.table({"letter": [str(row) for row in range(number)]}))
                batch.commit(on_replay_mismatch="first_wins")

    def overload(self) -> None:
        """Sends more requests at once than may be in flight."""

        def claim(_: int) -> None:
            with suppress(OncegateError), Gateway(self._gateway.url, "flights", timeout_ms=1_000) as client:
                client.attempt().claim(self.ids(3_000), LEASE_MS)

        with ThreadPoolExecutor(24) as threads:
            list(threads.map(claim, range(48)))

    def stalls(self) -> None:
        """Suspends the process, as a machine that swaps does: the claims in flight are late."""

        def claims(_: int) -> None:
            with suppress(OncegateError), self.client("flights") as client:
                for _ in range(30):
                    client.attempt().claim(self.ids(500), LEASE_MS)

        with ThreadPoolExecutor(8) as threads:
            asking = threads.map(claims, range(8))
            time.sleep(0.1)
            self._gateway.signal(signal.SIGSTOP)
            time.sleep(0.7)
            self._gateway.signal(signal.SIGCONT)
            list(asking)

    def killed(self) -> None:
        """Kills the gateway and restarts it after a while."""
        self._gateway.kill()
        time.sleep(5)
        self._gateway.start()


# In playing order, each with its duration in seconds; a pause follows each.
FAULTS: tuple[tuple[Callable[[Scene], None], float], ...] = (
    (Scene.retries, 10),
    (Scene.other_payloads, 5),
    (Scene.dead_writers, 8),
    (Scene.batches, 8),
    (Scene.overload, 10),
    (Scene.stalls, 6),
    (Scene.killed, 1),
)
