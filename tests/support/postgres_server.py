"""A real PostgreSQL server for tests, on a free port of 127.0.0.1."""

import shutil
from pathlib import Path
from typing import Any, Self

import psycopg

from deploy.ports import free_port
from tests.support.own_server import OwnServer, program

USER = "postgres"


def _program(name: str) -> str:
    """Returns the newest version on this machine; Debian keeps them out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return program(str(found[-1]) if found else shutil.which(name), "PostgreSQL", "postgresql")


class PostgresServer(OwnServer):
    """A server; clients connect with `dsn`."""

    def __init__(self) -> None:
        self._initdb, self._postgres = _program("initdb"), _program("postgres")
        super().__init__(USER)
        self._port = free_port()

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self._port} user={USER} dbname=postgres"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn) as database:
            return database.execute(query).fetchall()

    def __enter__(self) -> Self:
        data = str(self.folder / "data")
        make = [self._initdb, "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        serve = [self._postgres, "-D", data, "-h", "127.0.0.1", "-p", str(self._port), "-k", ""]
        self.start(make, serve, self._answers)
        return self

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.dsn, connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False
