"""Runs the redis-server of the ledger, which syncs each append before its reply; it can be killed and restarted."""

import contextlib
import shutil
import socket
import subprocess
import time
from pathlib import Path

from demo.processes import HOST, tail
from deploy.ports import free_port

_START_S_MAX = 60
_STOP_S_MAX = 30
_POLL_S = 0.05
_DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction")


class RedisServer:
    """A context manager for one server on a fixed port. Raises RuntimeError if no redis-server is installed."""

    def __init__(self, folder: Path, log: Path) -> None:
        path = shutil.which("redis-server")
        if path is None:
            raise RuntimeError("redis-server is missing; install it (apt-get install redis-server)")
        self._folder, self._log = folder, log
        self.port = free_port()
        self._command = [path, "--port", str(self.port), "--bind", HOST, "--dir", str(folder), *_DURABLE]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "RedisServer":
        self._folder.mkdir(parents=True)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def ledger(self, prefix: str, takeover_ms: int) -> str:
        """Returns the URL of ledgers below a prefix, with keys in plain text (`bare_key`, for trials only)."""
        return f"redis://{HOST}:{self.port}/{prefix}?bare_key=yes&takeover_ms={takeover_ms}"

    def start(self) -> None:
        """Starts the server and waits until it answers. Raises RuntimeError with the end of its log."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + _START_S_MAX
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"redis-server did not start; {self._log} ends:\n{tail(self._log)}")
            time.sleep(_POLL_S)

    def answers(self) -> bool:
        """Returns whether the server answers; not while it still loads its files."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(5) == b"+PONG"
        return False

    def kill(self) -> int:
        """Kills it with SIGKILL; returns the exit status, -9 if it was alive."""
        assert self._process is not None, "started before"
        self._process.kill()
        return self._process.wait()
