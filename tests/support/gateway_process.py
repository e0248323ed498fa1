"""A real gateway process that tests start, kill and restart on the same folder and port."""

import http.client
import json
import os
import resource
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.ports import free_port

# Long enough to compile all kernels on a busy machine.
START_S = 480


class GatewayProcess:
    """`oncegate serve` on 127.0.0.1; the port survives restarts.

    `runner` is a command prefix, `ledger` a URL (default: a data folder in `folder`), `module` the Python module to
    run, `tls` the client's context if the gateway serves TLS.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        files_max: int | None = None,
        runner: tuple[str, ...] = (),
        ledger: str | None = None,
        module: str = "oncegate",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.ledger = ledger
        self.arguments = arguments
        self.files_max = files_max
        self.runner = runner
        self.module = module
        self.tls = tls
        self.port = free_port()
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def command(self) -> str:
        """Returns the command line that `start` runs."""
        where = f"--data {self.data}" if self.ledger is None else f"--ledger {self.ledger}"
        flags = [where, "--port", str(self.port), *self.arguments]
        return " ".join([*self.runner, sys.executable, "-m", self.module, "serve", *flags])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        path = self.folder / "gateway.log"
        return path.read_text() if path.exists() else ""

    def start(self) -> "GatewayProcess":
        """Starts the process and returns once it is ready. Raises AssertionError with its log if it exits first."""
        self.spawn()
        return self.wait_until("is ready", self.is_ready)

    def spawn(self) -> None:
        """Starts the process without waiting."""
        with (self.folder / "gateway.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command.split(), stdout=log, stderr=log, preexec_fn=self._limit if self.files_max else None
            )
        self.starts += 1

    @property
    def is_alive(self) -> bool:
        """Returns whether the process runs; a process stopped by a signal counts as running."""
        return self._process is not None and self._process.poll() is None

    def wait_until(self, what: str, so: Callable[[], bool]) -> "GatewayProcess":
        """Returns once the condition holds. Raises AssertionError with the log if the process exits first."""
        end = time.monotonic() + START_S
        while not so():
            assert self.is_alive, f"the gateway ended before it {what}:\n{self.log[-2000:]}"
            assert time.monotonic() < end, f"not after {START_S} s: the gateway {what}:\n{self.log[-2000:]}"
            time.sleep(0.01)
        return self

    def stand_by(self) -> "GatewayProcess":
        """Starts the process and returns once it is a standby."""
        self.spawn()
        return self.wait_until("stands by", self.stands_by)

    def stands_by(self) -> bool:
        """Returns whether it is up and reports STANDBY for every namespace."""
        states = self.states()
        return bool(states) and set(states.values()) == {"STANDBY"}

    def states(self) -> dict[str, str]:
        """Returns the state of each namespace; empty while the gateway is not up."""
        try:
            found: dict[str, str] = self.ask("GET", "/healthz/ready")[1].get("namespaces", {})
        except (OSError, http.client.HTTPException):
            return {}
        return found

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def _limit(self) -> None:
        assert self.files_max is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.files_max, self.files_max))

    def is_ready(self) -> bool:
        connection = self._connection(5)
        try:
            connection.request("GET", "/healthz/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout_s, context=self.tls)

    def ask(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        """Sends a request on a new connection and returns its status and JSON document."""
        connection = self._connection(20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def kill(self) -> None:
        """Sends SIGKILL and waits for the process to end."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def __enter__(self) -> "GatewayProcess":
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.is_alive:
            self.kill()
