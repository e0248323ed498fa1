"""The target of a row of the matrix: brokers with a proxy, and gateway processes over one prefix."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from demo.proxy import Proxy
from tests.matrix import failpoints
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.kafka_proxy import KafkaProxy

# Long enough for any event, even on a busy machine.
PATIENCE_S = 240
# For rows about collections: the smallest size at which a ledger is collected, and almost no finished claims, so that
# the next collection does not wait until twice as many entries are written.
COLLECTING = ("ONCEGATE_COLLECT_BYTES=1", "ONCEGATE_SETTLED_CLAIMS_BYTES=1")
# Attempts to start a gateway that exits because a busy machine slows the brokers.
STARTS_MAX = 5
# Users' topics of one world.
TOPICS = 2
_worlds = count()


def wait_until(what: str, is_so: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Returns once `is_so()`; raises AssertionError with `what` after `patience_s` seconds."""
    end = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < end, f"after {patience_s:.0f} s not: {what}"
        time.sleep(0.005)


class KafkaProxyThread:
    """Runs the proxy of a broker in a thread. `proxy` is armed and read from any thread."""

    def __init__(self, broker: Broker) -> None:
        self.proxy = KafkaProxy(broker.behind)
        self._port = broker.proxy_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kafka proxy", daemon=True)
        self._ready, self._stop = threading.Event(), asyncio.Event()

    def __enter__(self) -> "KafkaProxyThread":
        self._thread.start()
        self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self.proxy.forget)
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self.proxy.serve, "127.0.0.1", self._port)
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def do(self, work: Callable[[], None]) -> None:
        """Runs `work` between two frames; returns when it is done."""

        async def done() -> None:
            work()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(PATIENCE_S)


class StruckGateway(GatewayProcess):
    """A gateway that is killed or stopped at a failpoint; `folder` is its own."""

    def __init__(self, folder: Path, ledger: str, collecting: bool) -> None:
        folder.mkdir(parents=True)
        variables = [f"{failpoints.FOLDER}={folder}"]
        variables += COLLECTING if collecting else ()
        super().__init__(folder, ledger=ledger, runner=("env", *variables), module="tests.matrix.gateway")

    def start(self) -> "StruckGateway":
        """Starts the process as a supervisor does: a start for which the brokers are too slow is repeated."""
        for _ in range(STARTS_MAX - 1):
            try:
                super().start()
                return self
            except AssertionError as ended:
                if "cannot be reached" not in str(ended).splitlines()[-1]:
                    raise
        super().start()
        return self

    def arm(self, point: str, wanted: signal.Signals = signal.SIGKILL, passes: int = 0) -> None:
        """Schedules a signal at a point."""
        failpoints.arm(self.folder, point, wanted, passes)

    @property
    def is_struck(self) -> bool:
        """Returns whether the armed point was met."""
        return (self.folder / failpoints.STRUCK).exists()

    def await_end(self) -> None:
        """Waits until the killed process is dead."""
        wait_until("the gateway is dead", lambda: not self.is_alive)

    def go_on(self) -> None:
        """Resumes the stopped process."""
        os.kill(self.pid, signal.SIGCONT)

    def settle(self) -> None:
        """Ensures that it runs and serves, whatever happened to it."""
        failpoints.disarm(self.folder)
        if not self.is_alive:
            self.start()


class World:
    """One prefix of topics, the gateway that serves it, and the proxies on both sides of it.

    `topics`: those that hold rows, of one partition each; `topic`: the first. `url`: the clients' address of the
    present gateway, through `http`, which can lose answers.
    """

    def __init__(
        self, broker: Broker, kafka: KafkaProxyThread | None, folder: Path, collecting: bool, wait_ms: int
    ) -> None:
        self.broker = broker
        self.kafka = kafka
        self.prefix = f"matrix-{next(_worlds)}"
        self.topics = [broker.topic(**{"max.message.bytes": "1048588"}).topic for _ in range(TOPICS)]
        self.topic = self.topics[0]
        self._folder = folder / self.prefix
        self._collecting, self._wait_ms = collecting, wait_ms
        self._made: list[StruckGateway] = []
        self.gateway = self.another()
        self.http = Proxy(self.gateway.port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.port}"

    @property
    def proxy(self) -> KafkaProxy:
        assert self.kafka is not None
        return self.kafka.proxy

    @property
    def ledger(self) -> str:
        replicas = len(self.broker.cluster.nodes)
        durable = f"replication={replicas}&min_insync={max(1, replicas - 1)}"
        where = self.broker.cluster.bootstrap if self.kafka is None else self.broker.proxied_bootstrap
        return f"kafka://{where}/{self.prefix}?{durable}&bare_key=yes&send_ms={self._wait_ms}&commit_ms={self._wait_ms}"

    def another(self) -> StruckGateway:
        """Creates a gateway over the same prefix without starting it."""
        folder = self._folder / f"gateway-{len(self._made)}"
        self._made.append(StruckGateway(folder, self.ledger, self._collecting))
        return self._made[-1]

    def end(self) -> None:
        """Kills every gateway that still runs."""
        for gateway in self._made:
            if gateway.is_alive:
                gateway.kill()

    def follow(self, newer: StruckGateway) -> None:
        """Directs clients to this gateway."""
        self.http.upstream_port, self.gateway = newer.port, newer


@contextmanager
def world(
    broker: Broker, kafka: KafkaProxyThread | None, folder: Path, collecting: bool = False, wait_ms: int = 4_000
) -> Iterator[World]:
    """Yields a new prefix with a gateway that serves it."""
    made = World(broker, kafka, folder, collecting, wait_ms)
    with ExitStack() as stack:
        stack.enter_context(made.http)
        stack.callback(made.end)
        made.gateway.start()
        yield made
