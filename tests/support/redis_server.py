"""Real redis-servers for tests, on free ports and in folders of their own, with what another client sees of them.

Where none is installed their tests are skipped; with CI=true they fail.
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
# What a ledger of real use would have: synced before each answer, nothing saved beside.
DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": '""'}
# A server waits five seconds for more replicas to come before it gives one what it has.
QUICK = {"repl-diskless-sync-delay": "0"}
_folders = count()


def _redis_server() -> str:
    """This machine's."""
    found = shutil.which("redis-server")
    if found is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("redis-server is not installed: apt-get install redis-server")
    return found


class RedisServer:
    """One redis-server that is started, stopped, killed and paused; its port stays the same. `options`: its settings.

    SIGKILL leaves what it has written; `replaced` begins with an empty folder, as a machine does that was replaced.
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
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> "RedisServer":
        """Starts it, and returns once it answers."""
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
        """Another client of it."""
        with redis.Redis("127.0.0.1", self.port, retry=None, socket_timeout=START_S) as client:
            yield client

    def run(self, *command: Any) -> Any:
        """Runs one command and returns the answer."""
        with self.client() as client:
            return client.execute_command(*command)

    def signal(self, number: signal.Signals) -> None:
        """Sends the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kills it and starts it again over what its folder holds."""
        self.kill()
        self.start()

    def replace(self) -> None:
        """Kills it, and starts one on its port that holds nothing."""
        self.kill()
        self.folder = self._parent / f"redis-{next(_folders)}"
        self.folder.mkdir()
        self.start()

    def followed_by(self, replica: "RedisServer") -> None:
        """Returns once the replica has all that this one has: WAIT without end."""
        self.run("SET", "followed", "yes")
        with self.client() as client:
            client.set("followed", "again")
            while client.wait(1, 1_000) < 1:
                assert replica.is_alive, "the replica ended"

    @property
    def is_alive(self) -> bool:
        """Whether the process runs, or is stopped by a signal."""
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
