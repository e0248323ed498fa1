"""A real MariaDB server for tests, on a socket in its folder. Its collation ignores case."""

import shutil
from typing import Any, Self

import pymysql

from tests.support.own_server import OwnServer, program

USER = "mysql"
COLLATION = "utf8mb4_general_ci"


def _program(name: str) -> str:
    return program(shutil.which(name) or shutil.which(name, path="/usr/sbin"), "MariaDB", "mariadb-server")


class MariadbServer(OwnServer):
    """A server; `connect` returns a connection."""

    def __init__(self) -> None:
        self._install, self._serve = _program("mariadb-install-db"), _program("mariadbd")
        super().__init__(USER)

    def connect(self, **more: Any) -> Any:
        """Returns a connection with autocommit off, as users make it."""
        return pymysql.connect(unix_socket=str(self.folder / "socket"), user="root", database="test", **more)

    def rows(self, *queries: str) -> list[tuple[Any, ...]]:
        """Runs queries with autocommit and returns the rows of the last one."""
        connection = self.connect(autocommit=True)
        try:
            with connection.cursor() as cursor:
                for query in queries:
                    cursor.execute(query)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def __enter__(self) -> Self:
        data = f"--datadir={self.folder / 'data'}"
        make = [self._install, "--no-defaults", data, "--auth-root-authentication-method=normal"]
        serve = [self._serve, "--no-defaults", data, f"--socket={self.folder / 'socket'}", "--skip-networking"]
        serve += ["--character-set-server=utf8mb4", f"--collation-server={COLLATION}"]
        self.start(make, serve, self._answers)
        self.rows(f"ALTER DATABASE test CHARACTER SET utf8mb4 COLLATE {COLLATION}")
        return self

    def _answers(self) -> bool:
        if not (self.folder / "socket").exists():  # pymysql leaks a socket when it cannot connect
            return False
        try:
            self.connect().close()
        except pymysql.OperationalError:
            return False
        return True
