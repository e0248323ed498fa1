"""A real MariaDB for tests, on a socket in a data folder of its own; upper and lower case are equal by its collation.

Where none is installed its tests are skipped; with CI=true they fail.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pymysql
import pytest

USER = "mysql"  # the server refuses to run as root
COLLATION = "utf8mb4_general_ci"


def _program(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if path is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("MariaDB is not installed: apt-get install mariadb-server")
    return path


class MariadbServer:
    """One server that is started and stopped; `connect` makes a connection."""

    def __init__(self) -> None:
        self._install, self._serve = _program("mariadb-install-db"), _program("mariadbd")
        self._folder = Path(tempfile.mkdtemp(prefix="mariadb-"))  # pytest's own folders are closed to other users
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER, USER)
            self._as = {"user": USER, "group": USER, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self, **more: Any) -> Any:
        """A connection as users make it, with autocommit off."""
        return pymysql.connect(unix_socket=str(self._folder / "socket"), user="root", database="test", **more)

    def rows(self, *queries: str) -> list[tuple[Any, ...]]:
        """What the last of some queries answers, once all are committed."""
        connection = self.connect(autocommit=True)
        try:
            with connection.cursor() as cursor:
                for query in queries:
                    cursor.execute(query)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def __enter__(self) -> "MariadbServer":
        data = f"--datadir={self._folder / 'data'}"
        make = [self._install, "--no-defaults", data, "--auth-root-authentication-method=normal"]
        subprocess.run(make, check=True, capture_output=True, cwd=self._folder, **self._as)
        serve = [self._serve, "--no-defaults", data, f"--socket={self._folder / 'socket'}", "--skip-networking"]
        serve += ["--character-set-server=utf8mb4", f"--collation-server={COLLATION}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(serve, stdout=log, stderr=log, cwd=self._folder, **self._as)
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        self.rows(f"ALTER DATABASE test CHARACTER SET utf8mb4 COLLATE {COLLATION}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        if not (self._folder / "socket").exists():  # pymysql leaves a socket open that it could not connect
            return False
        try:
            self.connect().close()
        except pymysql.OperationalError:
            return False
        return True
