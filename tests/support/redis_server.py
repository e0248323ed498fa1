"""Real redis-servers for tests, on free ports and in their own folders, with another client's view of them.

Their tests are skipped if it is not installed; with CI=true they fail.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.ports import free_port

START_S = 60
# The settings that a production ledger has: synced before each answer, no other persistence.
DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": '""'}
# By default a server waits five seconds for more replicas before it syncs one.
QUICK = {"repl-diskless-sync-delay": "0"}
_folders = count()


def _redis_server() -> str:
    """Returns the path of this machine's server."""
    found = shutil.which("redis-server")
    if found is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("redis-server is not installed: apt-get install redis-server")
    return found


class RedisServer:
    """A redis-server that tests start, stop, kill and pause; its port stays the same. `options`: its settings.

    SIGKILL keeps its written data; `replace` begins with an empty folder, like a replaced machine.
    """

    def __init__(self, folder: Path, **options: str) -> None:
        self._parent = folder
        self.folder = folder / f"redis-{next(_folders)}"
        self.folder.mkdir()
        self.port = free_port()
        self.options = DURABLE | QUICK | {name.replace("_", "-"): value for name, value in options.items()}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "RedisServer":
        """Starts the server and returns once it answers."""
        given = [word for name, value in self.options.items() for word in (f"--{name}", *value.split())]
        command = [_redis_server(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *given], stdout=log, stderr=log)
        with self.client() as client:
            while not _answers(client):
                assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        return self

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Yields another client of the server."""
        with redis.Redis("127.0.0.1", self.port, retry=None, socket_timeout=START_S) as client:
            yield client

    def run(self, *command: Any) -> Any:
        """Runs one command and returns the answer."""
        with self.client() as client:
            return client.execute_command(*command)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Sends SIGKILL and waits for the process to end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kills the server and restarts it on its folder."""
        self.kill()
        self.start()

    def replace(self) -> None:
        """Kills the server and starts an empty one on its port."""
        self.kill()
        self.folder = self._parent / f"redis-{next(_folders)}"
        self.folder.mkdir()
        self.start()

    def followed_by(self, replica: "RedisServer") -> None:
        """Returns once the replica has everything: WAIT without a timeout."""
        self.run("SET", "followed", "yes")
        with self.client() as client:
            client.set("followed", "again")
            while client.wait(1, 1_000) < 1:
                assert replica.is_alive, "the replica ended"

    @property
    def is_alive(self) -> bool:
        """Returns whether the process runs; a process stopped by a signal counts as running."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> "RedisServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def _answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except (TimeoutError, redis.exceptions.ConnectionError):
        return False
