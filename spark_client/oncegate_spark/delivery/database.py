"""Writes records into a database by DB-API 2.0 (PEP 249): rows and ids in one transaction."""

import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from oncegate_spark.delivery.sink import Record
from oncegate_spark.errors import BadOption, InDoubt, OncegateError, SinkRefused

_TABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
# The type of a column that compares ids byte by byte, by the database. MySQL's own binary collation of text takes
# trailing blanks as equal, and a key of 1,024 characters is too long for its index.
_COLUMNS = {
    "sqlite": "varchar(1024) COLLATE BINARY",
    "postgresql": 'varchar(1024) COLLATE "C"',
    "mysql": "varbinary(1024)",
}
_PLAIN = "varchar(1024)"
# Endings of ids that only bytes tell apart: what collations take as equal, by case, accent, normal form, blank, width,
# kana, ligature or punctuation; and digits, which a column of numbers would cut.
_ASCII = ("a", "A", "a ", "-a", "")
_UNICODE = (*_ASCII, "\u00e4", "a\u0308", "\uff41", "\u3042", "\u30a2", "ss", "\u00df")


class DatabaseSink:
    """Calls a function of yours to write rows, and enters their ids into a table beside them, in one transaction.

    connect: makes a connection, with autocommit off. rows: `rows(cursor, records)` writes them, and neither commits nor
    rolls back; an error of the database that it catches may have undone all, and is raised then. It closes the cursors
    it makes: one with rows left to read keeps a file of SQLite locked that has no write-ahead log. table: of the ids,
    made by `create_table`. placeholder: the driver's, `%s` of psycopg, `?` of sqlite3.

    Promise: once. The ids are a primary key, so of two transactions with one id the database undoes the later; a
    commit whose answer is lost is read back. The table of ids has to be kept for as long as the gateway knows ids. It
    has to compare ids byte by byte and to take part in transactions: before its first write a sink tries both, by a
    transaction that it rolls back.
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
        self._connect, self._rows, self._table = connect, rows, table
        self._insert = f"INSERT INTO {table} (id) VALUES ({placeholder})"  # noqa: S608 - a checked name
        self._select = f"SELECT id FROM {table} WHERE id = {placeholder}"  # noqa: S608
        self._delete = f"DELETE FROM {table} WHERE id = {placeholder}"  # noqa: S608
        self._connection: Any = None
        self._is_checked = False

    def create_table(self) -> None:
        """Create the table of ids where there is none; its ids are compared byte by byte.

        Raises SinkRefused where there is one that cannot hold ids; it stays as it is.
        """
        try:
            column = _COLUMNS.get(self._database(), _PLAIN)
            with self._cursor() as cursor:
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {self._table} (id {column} PRIMARY KEY)")
            self._connection.commit()
        except BaseException:
            self.close()
            raise
        self._check_table()

    def write(self, records: Sequence[Record]) -> None:
        """Write rows and ids in one transaction.

        Raises SinkRefused where it was undone, and no id is there, or where the table cannot hold ids; InDoubt where
        ids are there that should have been undone.
        """
        self._check_table()
        ids, is_entered = [record.id for record in records], False
        try:
            with self._cursor() as cursor:
                cursor.executemany(self._insert, [(record_id,) for record_id in ids])
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
        except BaseException:
            self.close()
            raise
        try:
            self._connection.commit()
        except BaseException:
            self.close()  # whether it is committed is read by another connection
            raise

    def find(self, ids: Sequence[str]) -> set[str]:
        """Read which ids are in the table, by a connection of its own, since the one before may be broken.

        A commit that is still under way on the server is not seen. It holds its ids' keys: who writes them again waits
        for it, and is then undone.
        """
        self.close()
        try:
            with self._cursor() as cursor:
                present = {record_id for record_id in ids if record_id in self._equal_to(cursor, record_id)}
            self._connection.rollback()
        except BaseException:
            self.close()
            raise
        return present

    def close(self) -> None:
        """Roll back what is not committed, and close the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # Closing alone leaves a file of SQLite locked for as long as something refers to a cursor, as a traceback does.
        for step in (connection.rollback, connection.close):
            with suppress(Exception):  # of a connection that is broken
                step()

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        cursor = self._connected().cursor()
        try:
            yield cursor
        finally:
            with suppress(Exception):  # of a connection that is broken
                cursor.close()

    def _equal_to(self, cursor: Any, record_id: str) -> list[str]:
        """The ids in the table that it takes as equal to this one."""
        cursor.execute(self._select, (record_id,))
        return [_text(row[0]) for row in cursor.fetchall()]

    def _check_open(self, record_id: str) -> None:
        """Raises where the transaction is undone already, and rows() has caught the error: a commit would say nothing.

        So PostgreSQL after any error, MySQL after a deadlock.
        """
        with self._cursor() as cursor:
            if not self._equal_to(cursor, record_id):
                raise RuntimeError("rows() has undone the transaction, and the ids that were entered before it")

    def _check_table(self) -> None:
        """Tries, once for a sink, whether the table tells all ids apart and can undo them. Raises SinkRefused."""
        if self._is_checked:
            return
        try:
            wrong = self._fault(_UNICODE)
            wrong = self._fault(_ASCII) if wrong is None else wrong
            if wrong:
                column = _COLUMNS.get(self._database(), f"{_PLAIN} with a binary collation")
                raise SinkRefused(
                    f"table {self._table} {wrong}. Ids are compared byte by byte: make its column id {column} PRIMARY "
                    "KEY; nothing was written"
                )
        except OncegateError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise SinkRefused(
                f"table {self._table} takes no ids: {_line(error)}; create_table() makes it; nothing was written"
            ) from error
        self._is_checked = True

    def _fault(self, endings: Sequence[str]) -> str | None:
        """Enters ids and rolls them back: why the table cannot hold ids, "" where it can.

        None: the database does not have some of these characters, and refuses ids that have them.
        """
        number = uuid.uuid4().int
        ids = [f"00{number}{ending}" for ending in endings]
        with self._cursor() as cursor:
            try:
                cursor.executemany(self._insert, [(record_id,) for record_id in ids])
                changed = [record_id for record_id in ids if self._equal_to(cursor, record_id) != [record_id]]
            except Exception as error:
                self._connection.rollback()
                if _is_integrity(error):
                    return f"takes different ids as equal: {_line(error)}"
                if endings is _ASCII:
                    raise
                return None
        self._connection.rollback()
        with self._cursor() as cursor:
            if self._equal_to(cursor, ids[0]):
                cursor.executemany(self._delete, [(record_id,) for record_id in ids])
                self._connection.commit()
                return "keeps what is rolled back, as tables of MySQL's engine MyISAM do"
        self._connection.rollback()
        return f"does not give back id {changed[0]!r} as it was entered" if changed else ""

    def _database(self) -> str:
        """Which of _COLUMNS the database is, "" for another one."""
        for query in ("SELECT version()", "SELECT sqlite_version()"):
            with self._cursor() as cursor:
                try:
                    cursor.execute(query)
                    answer = _text(cursor.fetchone()[0])
                except Exception:  # it has no such function
                    answer = ""
            self._connection.rollback()
            if answer.startswith("PostgreSQL"):
                return "postgresql"
            if re.match(r"\d+\.\d+\.\d+", answer):
                return "sqlite" if "sqlite" in query else "mysql"
        return ""

    def _connected(self) -> Any:
        if self._connection is None:
            connection = self._connect()
            try:
                is_autocommit = _is_autocommit(connection)
            except BaseException:
                connection.close()
                raise
            if is_autocommit:
                connection.close()
                raise BadOption(
                    "connect() made a connection with autocommit: rows and ids would not be one transaction"
                )
            self._connection = connection
        return self._connection


def _text(value: Any) -> str:
    """An id as the driver gives it back: a binary column's are bytes."""
    return bytes(value).decode(errors="replace") if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _line(error: Exception) -> str:
    """What a database says, in one line."""
    return " ".join(str(error).split()).rstrip(".")


def _is_integrity(error: Exception) -> bool:
    """Whether it is PEP 249's IntegrityError, of whichever driver."""
    return any(kind.__name__ == "IntegrityError" for kind in type(error).__mro__)


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
