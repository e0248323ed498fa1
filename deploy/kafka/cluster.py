"""Starts, stops, kills and pauses one or three Apache Kafka brokers as processes on this machine."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir

from deploy.kafka.access import OPEN, SCRAM, USERS, Access, Files
from deploy.kafka.jars import fetched, java
from deploy.kafka.probe import ADDRESS, brokers_seen
from deploy.kafka.properties import Ports, as_file, properties
from deploy.ports import free_ports

# One broker starts in two seconds, three in twelve on a busy machine.
START_S = 120
# The last of three brokers would wait minutes for its lost quorum; it is killed after this.
STOP_S = 10
# Constant for the folder's lifetime; 22 characters, like Kafka's own ids.
CLUSTER_ID = "b25jZWdhdGUtdGVzdC0wMQ"
HEAP = "256m"
_LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel"


class BrokerDied(RuntimeError):
    """A broker exited during its start, or does not respond; the message has the end of its log."""


class Cluster:
    """Brokers 1 to `brokers` over a folder, which keeps their data. Use as a context, or call `start` and `stop`.

    `first_port`: broker n listens on `first_port + n - 1`; by default on free ports. `more`: properties of each broker.
    `access`: their access options; `files`: passwords and certificates, created at the first start.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        first_port: int | None = None,
        more: Mapping[str, str] | None = None,
        access: Access = OPEN,
    ) -> None:
        self.folder = folder
        self.more = dict(more or {})
        self.access, self.files = access, Files(folder)
        free = free_ports(2 * brokers)
        clients = range(first_port, first_port + brokers) if first_port else free[brokers:]
        self.ports = [Ports(*pair) for pair in zip(clients, free, strict=False)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """Addresses for clients: host and port of each broker, separated by commas."""
        return ",".join(f"{ADDRESS}:{port.clients}" for port in self.ports)

    def ledger(self, prefix: str) -> str:
        """Returns the URL of a ledger below `prefix` with one replica and a bare key, for tests and measurements."""
        return f"kafka://{self.bootstrap}/{prefix}?replication=1&min_insync=1&bare_key=yes"

    @property
    def nodes(self) -> range:
        return range(1, len(self.ports) + 1)

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all brokers; returns once each responds and knows the others. Raises BrokerDied with the log if one
        exits.

        Raises AccessRefused if the folder was created with other access options.
        """
        self.files.make(self.access)
        try:
            for node in self.nodes:
                self._spawn(node)
            for node in self.nodes:
                self._await(node, len(self.ports))
        except BaseException:
            self.stop()
            raise

    def start_node(self, node: int) -> None:
        """Restarts one broker with its data; returns once it responds."""
        self._spawn(node)
        self._await(node, 1)

    def stop(self) -> None:
        """Stops all brokers concurrently; kills those that take too long."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for node in list(self._processes):
            self._gone(node)

    def kill_node(self, node: int) -> None:
        """Kills one broker, like a machine failure."""
        self._processes[node].kill()
        self._gone(node)

    def pause_node(self, node: int) -> None:
        """Suspends one broker: its connections stay open, and nothing responds."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def resume_node(self, node: int) -> None:
        """Resumes a suspended broker."""
        self._processes[node].send_signal(signal.SIGCONT)

    def log(self, node: int) -> str:
        """Returns a broker's output over all its starts."""
        return (self.folder / f"broker-{node}.log").read_text()

    def _spawn(self, node: int) -> None:
        require_free(self.ports[node - 1].clients)
        path = self.folder / f"broker-{node}.properties"
        path.touch(mode=0o600)
        path.write_text(as_file(properties(self.folder, node, self.ports, self.more, self.access)))
        if not (self.folder / f"broker-{node}/meta.properties").exists():
            self._format(node, path)
        with (self.folder / f"broker-{node}.log").open("ab") as log:
            command = [java(), *_options("kafka.Kafka", str(path))]
            self._processes[node] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _format(self, node: int, properties_file: Path) -> None:
        """Formats a broker's folder. Passwords are passed in an argument file of Java, since every user can see command
        lines.
        """
        command = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties_file)]
        if self.access.sasl:
            for user in USERS:
                command += ["--add-scram", f"{SCRAM}=[name={user},password={self.files.password(user)}]"]
        arguments = self.folder / f"format-{node}.arguments"
        arguments.touch(mode=0o600)
        arguments.write_text("\n".join(f'"{word}"' for word in _options(*command)))
        try:
            done = subprocess.run(
                [java(), f"@{arguments}"], capture_output=True, text=True, timeout=START_S, check=False
            )
        finally:
            arguments.unlink()
        if done.returncode:
            raise BrokerDied(f"broker {node} could not format its folder: {done.stdout[-500:]}{done.stderr[-1000:]}")

    def _await(self, node: int, brokers: int) -> None:
        end = time.monotonic() + START_S
        while brokers_seen(self.ports[node - 1].clients, self.access, self.files) < brokers:
            if self._processes[node].poll() is not None:
                raise BrokerDied(f"broker {node} exited during its start:\n{self.log(node)[-2000:]}")
            if time.monotonic() > end:
                raise BrokerDied(f"broker {node} does not respond after {START_S} s:\n{self.log(node)[-2000:]}")
            time.sleep(0.05)

    def _gone(self, node: int) -> None:
        process = self._processes.pop(node)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def require_free(port: int) -> None:
    """Raises BrokerDied if the port is in use: another broker there would respond for the new one."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise BrokerDied(
                f"port {port} is in use ({error.strerror}): stop the process that listens there, or choose another"
            ) from None


def _options(*options: str) -> list[str]:
    """Returns Java's options, the class name and its arguments."""
    memory = [f"-Xms{HEAP}", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-Djava.awt.headless=true"]
    # A killed broker leaves its temporary files; Java ignores TMPDIR.
    traces = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={os.environ.get('TMPDIR') or gettempdir()}"]
    return [*memory, *traces, f"{_LOG_LEVEL}=warn", "-cp", f"{fetched()}/*", *options]
