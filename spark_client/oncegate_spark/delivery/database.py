"""Writes records into a database by DB-API 2.0 (PEP 249): rows and ids in one transaction."""

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from oncegate_spark.delivery.sink import Record
from oncegate_spark.errors import BadOption, InDoubt, SinkRefused

_TABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")


class DatabaseSink:
    """Calls a function of yours to write rows, and enters their ids into a table beside them, in one transaction.

    connect: makes a connection, with autocommit off. rows: `rows(cursor, records)` writes them, and neither commits nor
    rolls back; an error of the database that it catches may have undone all, and is raised then. table: of the ids,
    made by `create_table`. placeholder: the driver's, `%s` of psycopg, `?` of sqlite3.

    Promise: once. The ids are a primary key, so of two transactions with one id the database undoes the later; a
    commit whose answer is lost is read back. The table of ids has to be kept for as long as the gateway knows ids.
    """

    records_max = 1_000  # one transaction; longer ones hold the rows' locks for longer

    def __init__(
        self,
        connect: Callable[[], Any],
        rows: Callable[[Any, Sequence[Record]], None],
        *,
        table: str = "oncegate_ids",
        placeholder: str = "%s",
    ) -> None:
        if not _TABLE.fullmatch(table):
            raise BadOption(f"table is {table!r}; it is a name, or schema.name, of letters, digits and _")
        self._connect, self._rows = connect, rows
        self._insert = f"INSERT INTO {table} (id) VALUES ({placeholder})"  # noqa: S608 - a checked name
        self._select = f"SELECT id FROM {table} WHERE id = {placeholder}"  # noqa: S608
        self._create = f"CREATE TABLE IF NOT EXISTS {table} (id varchar(1024) PRIMARY KEY)"
        self._connection: Any = None

    def create_table(self) -> None:
        """Create the table of ids where there is none."""
        self._connected().cursor().execute(self._create)
        self._connection.commit()

    def write(self, records: Sequence[Record]) -> None:
        """Write rows and ids in one transaction.

        Raises SinkRefused where it was undone, and no id is there; InDoubt where ids are there that should have been
        undone.
        """
        connection, ids, is_entered = self._connected(), [record.id for record in records], False
        try:
            cursor = connection.cursor()
            cursor.executemany(self._insert, [(one,) for one in ids])
            is_entered = True
            self._rows(cursor, records)
            self._check_open(ids[-1])
        except Exception as error:
            self.close()  # nothing was committed, and nothing of it can be any more
            if not self.find(ids):
                raise SinkRefused(f"the transaction was undone: {error}; nothing was written") from error
            if is_entered:
                raise InDoubt(_stayed(error), ids=ids) from error
            raise
        try:
            connection.commit()
        except Exception:
            self.close()  # whether it is committed is read by another connection
            raise

    def find(self, ids: Sequence[str]) -> set[str]:
        """Read which ids are in the table, by a connection of its own, since the one before may be broken.

        A commit that is still under way on the server is not seen. It holds its ids' keys: who writes them again waits
        for it, and is then undone.
        """
        self.close()
        try:
            cursor, found = self._connected().cursor(), set()
            for one in ids:
                cursor.execute(self._select, (one,))
                found |= {row[0] for row in cursor.fetchall()}
            self._connection.rollback()
        except Exception:
            self.close()
            raise
        return found

    def close(self) -> None:
        """Close the connection; what it has not committed is undone."""
        if self._connection is not None:
            with suppress(Exception):  # of a connection that is broken
                self._connection.close()
            self._connection = None

    def _check_open(self, one: str) -> None:
        """Raises where the transaction is undone already, and rows() has caught the error: a commit would say nothing.

        So PostgreSQL after any error, MySQL after a deadlock.
        """
        cursor = self._connection.cursor()
        cursor.execute(self._select, (one,))
        if not cursor.fetchall():
            raise RuntimeError("rows() has undone the transaction, and the ids that were entered before it")

    def _connected(self) -> Any:
        if self._connection is None:
            connection = self._connect()
            if _is_autocommit(connection):
                connection.close()
                raise BadOption(
                    "connect() made a connection with autocommit: rows and ids would not be one transaction"
                )
            self._connection = connection
        return self._connection


def _stayed(error: Exception) -> str:
    return (
        f"unknown: rows() failed by {error!r}, and its ids stayed in the table: rows() commits, connect() makes a "
        "connection with autocommit, or another writer has entered them meanwhile. Look which rows are there: the next "
        "delivery takes them for written"
    )


def _is_autocommit(connection: Any) -> bool:
    """As a driver says it: by an attribute, or by `get_autocommit()` as those of MySQL; and sqlite3 by its level."""
    said = getattr(connection, "autocommit", None)
    if isinstance(said, bool):
        return said
    if isinstance(connection, sqlite3.Connection):
        return connection.isolation_level is None
    return bool(getattr(connection, "get_autocommit", bool)())
