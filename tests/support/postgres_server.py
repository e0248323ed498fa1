"""A real PostgreSQL for tests, on a free port of 127.0.0.1 and in a data folder of its own.

Where none is installed their tests are skipped; with CI=true they fail.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deploy.ports import free_port

USER = "postgres"  # the server refuses to run as root


def _program(name: str) -> str:
    """This machine's, of the newest version; Debian keeps them out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    path = str(found[-1]) if found else shutil.which(name)
    if path is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("PostgreSQL is not installed: apt-get install postgresql")
    return path


class PostgresServer:
    """One server that is started and stopped; `dsn` is where clients connect."""

    def __init__(self) -> None:
        self._initdb, self._postgres = _program("initdb"), _program("postgres")
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # pytest's own folders are closed to other users
        self._port = free_port()
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER, USER)
            self._as = {"user": USER, "group": USER, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Where clients connect."""
        return f"host=127.0.0.1 port={self._port} user={USER} dbname=postgres"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query answers."""
        with psycopg.connect(self.dsn) as database:
            return database.execute(query).fetchall()

    def __enter__(self) -> "PostgresServer":
        data = str(self._folder / "data")
        make = [self._initdb, "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, cwd=self._folder, **self._as)
        serve = [self._postgres, "-D", data, "-h", "127.0.0.1", "-p", str(self._port), "-k", ""]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(serve, stdout=log, stderr=log, cwd=self._folder, **self._as)
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.dsn, connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False
