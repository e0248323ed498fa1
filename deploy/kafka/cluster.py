"""Starts, stops, kills and pauses one or three Apache Kafka brokers as processes of this machine."""

import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from deploy.kafka.jars import fetched, java
from deploy.kafka.properties import ADDRESS, Ports, properties

# A broker starts in two seconds, three of them in twelve on a busy machine.
START_S = 120
# The last broker of three waits minutes for a quorum that has gone; it is killed after this.
STOP_S = 10
# Of a cluster that lives as long as its folder; 22 characters, as Kafka's own are.
CLUSTER_ID = "b25jZWdhdGUtdGVzdC0wMQ"
_HEAP = "256m"
_LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel"


class BrokerDied(RuntimeError):
    """A broker ended at its start, or does not answer; the end of its log says why."""


class Cluster:
    """Brokers 1 to `brokers` over a folder; what they hold outlives them. Use as a context, or call `start`, `stop`.

    `first_port`: broker n listens on `first_port + n - 1`; without it on free ports. `more`: properties of each broker.
    """

    def __init__(
        self, folder: Path, brokers: int = 1, first_port: int | None = None, more: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.more = dict(more or {})
        free = free_ports(2 * brokers)
        clients = range(first_port, first_port + brokers) if first_port else free[brokers:]
        self.ports = [Ports(*pair) for pair in zip(clients, free, strict=False)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """What clients are given: host and port of each broker, joined by commas."""
        return ",".join(f"{ADDRESS}:{one.clients}" for one in self.ports)

    @property
    def nodes(self) -> range:
        """The brokers' numbers, from 1."""
        return range(1, len(self.ports) + 1)

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all brokers; returns when each answers and knows of all. BrokerDied with its log where one ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            for node in self.nodes:
                self._spawn(node)
            for node in self.nodes:
                self._await(node, len(self.ports))
        except BaseException:
            self.stop()
            raise

    def start_node(self, node: int) -> None:
        """Starts one broker again, with what it held; returns when it answers."""
        self._spawn(node)
        self._await(node, 1)

    def stop(self) -> None:
        """Stops what runs: all are asked at once, and killed when they take too long."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for node in list(self._processes):
            self._gone(node)

    def kill_node(self, node: int) -> None:
        """Kills one broker at once, as a failure of its machine would."""
        self._processes[node].kill()
        self._gone(node)

    def pause_node(self, node: int) -> None:
        """Stops one broker's time; its connections stay open and nothing answers."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def resume_node(self, node: int) -> None:
        """Lets a paused broker go on."""
        self._processes[node].send_signal(signal.SIGCONT)

    def log(self, node: int) -> str:
        """What a broker printed, over all its starts."""
        return (self.folder / f"broker-{node}.log").read_text()

    def _spawn(self, node: int) -> None:
        require_free(self.ports[node - 1].clients)
        path = self.folder / f"broker-{node}.properties"
        path.write_text(properties(self.folder, node, self.ports, self.more))
        if not (self.folder / f"broker-{node}/meta.properties").exists():
            asked = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path)]
            done = subprocess.run(_java(*asked), capture_output=True, text=True, timeout=START_S, check=False)
            if done.returncode:
                raise BrokerDied(f"broker {node} has no folder: {done.stdout[-500:]}{done.stderr[-1000:]}")
        with (self.folder / f"broker-{node}.log").open("ab") as log:
            command = _java("kafka.Kafka", str(path))
            self._processes[node] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _await(self, node: int, brokers: int) -> None:
        end = time.monotonic() + START_S
        while brokers_seen(self.ports[node - 1].clients) < brokers:
            if self._processes[node].poll() is not None:
                raise BrokerDied(f"broker {node} ended at its start:\n{self.log(node)[-2000:]}")
            if time.monotonic() > end:
                raise BrokerDied(f"broker {node} does not answer after {START_S} s:\n{self.log(node)[-2000:]}")
            time.sleep(0.05)

    def _gone(self, node: int) -> None:
        process = self._processes.pop(node)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def brokers_seen(port: int) -> int:
    """How many brokers the one on this port knows of; 0 where it does not answer (Kafka protocol, Metadata v1)."""
    header = struct.pack(">hhih", 3, 1, 1, 2) + b"up"
    body = header + struct.pack(">i", 0)
    try:
        with socket.create_connection((ADDRESS, port), 1) as connection:
            connection.settimeout(3)
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.recv(12, socket.MSG_WAITALL)
            return int(struct.unpack_from(">i", answer, 8)[0])
    except (OSError, struct.error):
        return 0


def free_ports(count: int) -> list[int]:
    """Gives ports of 127.0.0.1 on which nobody listens now, each another one."""
    with ExitStack() as held:
        probes = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for probe in probes:
            probe.bind((ADDRESS, 0))
        return [probe.getsockname()[1] for probe in probes]


def require_free(port: int) -> None:
    """Raises BrokerDied where somebody listens on the port: another broker there would answer for the one to start."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise BrokerDied(
                f"port {port} is taken ({error.strerror}): stop what listens there, or take another"
            ) from None


def _java(*asked: str) -> list[str]:
    memory = [f"-Xms{_HEAP}", f"-Xmx{_HEAP}", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]
    return [java(), *memory, f"{_LOG_LEVEL}=warn", "-cp", f"{fetched()}/*", *asked]
