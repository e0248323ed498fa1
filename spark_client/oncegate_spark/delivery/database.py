"""Writes records into a database through DB-API 2.0 (PEP 249), rows and ids in one transaction."""

import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from oncegate_spark.delivery.sink import Record
from oncegate_spark.errors import BadOption, InDoubt, OncegateError, SinkRefused

_TABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
# Column types that compare ids byte by byte. MySQL's binary collation of text ignores trailing blanks, and a key of
# 1,024 characters exceeds its index limit.
_COLUMNS = {
    "sqlite": "varchar(1024) COLLATE BINARY",
    "postgresql": 'varchar(1024) COLLATE "C"',
    "mysql": "varbinary(1024)",
}
_PLAIN = "varchar(1024)"
# Suffixes that only a byte-wise comparison distinguishes. Collations ignore case, accent, normal form, blanks, width,
# kana, ligatures or punctuation; a numeric column would cut the digits.
_ASCII = ("a", "A", "a ", "-a", "")
_UNICODE = (*_ASCII, "\u00e4", "a\u0308", "\uff41", "\u3042", "\u30a2", "ss", "\u00df")


class DatabaseSink:
    """Calls a user function that writes rows, and inserts their ids into a table in the same transaction.

    Args:
        connect: opens a connection with autocommit off
        rows: `rows(cursor, records)` writes the rows. It neither commits nor rolls back, and closes the cursors it
            opens: an unread cursor keeps a SQLite file without a write-ahead log locked. It must not suppress database
            errors, which may have rolled back the transaction
        table: the table of ids, created by `create_table`
        placeholder: of the driver, `%s` for psycopg, `?` for sqlite3

    Guarantee: once. The ids are a primary key, so of two transactions with one id the database rolls back the later. A
    commit whose reply is lost is read back. The table must be kept for as long as the gateway keeps ids. It must
    compare ids byte by byte and be transactional; a sink checks both before its first write, in a transaction that it
    rolls back.
    """

    records_max = 1_000  # one transaction; longer ones hold row locks for longer

    def __init__(
        self,
        connect: Callable[[], Any],
        rows: Callable[[Any, Sequence[Record]], None],
        *,
        table: str = "oncegate_ids",
        placeholder: str = "%s",
    ) -> None:
        if not _TABLE.fullmatch(table):
            raise BadOption(f"table is {table!r}; it must be a name, or schema.name, of letters, digits and _")
        self._connect, self._rows, self._table = connect, rows, table
        self._insert = f"INSERT INTO {table} (id) VALUES ({placeholder})"  # noqa: S608 - a checked name
        self._select = f"SELECT id FROM {table} WHERE id = {placeholder}"  # noqa: S608
        self._delete = f"DELETE FROM {table} WHERE id = {placeholder}"  # noqa: S608
        self._connection: Any = None
        self._is_checked = False

    def create_table(self) -> None:
        """Creates the table of ids if it does not exist; its ids are compared byte by byte.

        Raises SinkRefused if the existing table cannot hold ids; it is unchanged.
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
        """Writes rows and ids in one transaction.

        Raises SinkRefused if it was rolled back and no id is present, or if the table cannot hold ids. Raises InDoubt
        if ids are present that should have been rolled back.
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
            self.close()  # nothing was committed, nor can be any more
            if not self.find(ids):
                raise SinkRefused(f"the transaction was rolled back: {error}; nothing was written") from error
            if is_entered:
                raise InDoubt(_stayed(error), ids=ids) from error
            raise
        except BaseException:
            self.close()
            raise
        try:
            self._connection.commit()
        except BaseException:
            self.close()  # a new connection must read whether it was committed
            raise

    def find(self, ids: Sequence[str]) -> set[str]:
        """Returns the ids that are in the table, read over a new connection, since the old one may be broken.

        A commit still in progress on the server is not visible. It holds its ids' keys, so that a later writer of these
        ids waits for it, and is then rolled back.
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
        """Rolls back uncommitted work and closes the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # Closing alone would leave a SQLite file locked while anything, such as a traceback, refers to a cursor.
        for step in (connection.rollback, connection.close):
            with suppress(Exception):  # the connection is broken
                step()

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        cursor = self._connected().cursor()
        try:
            yield cursor
        finally:
            with suppress(Exception):  # the connection is broken
                cursor.close()

    def _equal_to(self, cursor: Any, record_id: str) -> list[str]:
        """Returns the ids in the table that it considers equal to this one."""
        cursor.execute(self._select, (record_id,))
        return [_text(row[0]) for row in cursor.fetchall()]

    def _check_open(self, record_id: str) -> None:
        """Raises if the transaction was already rolled back and rows() suppressed the error: the commit would then
        succeed silently.

        PostgreSQL does this after any error, MySQL after a deadlock.
        """
        with self._cursor() as cursor:
            if not self._equal_to(cursor, record_id):
                raise RuntimeError("rows() rolled back the transaction, including the ids inserted before")

    def _check_table(self) -> None:
        """Checks, once per sink, that the table distinguishes all ids and can roll them back. Raises SinkRefused."""
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
                f"cannot insert ids into table {self._table}: {_line(error)}; create_table() creates it; nothing was "
                "written"
            ) from error
        self._is_checked = True

    def _fault(self, endings: Sequence[str]) -> str | None:
        """Inserts ids and rolls them back; returns why the table cannot hold ids, "" if it can.

        Returns None if the database does not support some of these characters, and rejects ids with them.
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
                    return f"considers different ids equal: {_line(error)}"
                if endings is _ASCII:
                    raise
                return None
        self._connection.rollback()
        with self._cursor() as cursor:
            if self._equal_to(cursor, ids[0]):
                cursor.executemany(self._delete, [(record_id,) for record_id in ids])
                self._connection.commit()
                return "keeps rows after a rollback, as tables of MySQL's engine MyISAM do"
        self._connection.rollback()
        return f"does not return id {changed[0]!r} as it was inserted" if changed else ""

    def _database(self) -> str:
        """Returns the key of _COLUMNS for this database, "" if unknown."""
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
                    "connect() returned a connection with autocommit: rows and ids would not be one transaction"
                )
            self._connection = connection
        return self._connection


def _text(value: Any) -> str:
    """Returns an id as text; drivers return bytes for a binary column."""
    return bytes(value).decode(errors="replace") if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _line(error: Exception) -> str:
    """Returns a database's error message as one line."""
    return " ".join(str(error).split()).rstrip(".")


def _is_integrity(error: Exception) -> bool:
    """True for PEP 249's IntegrityError of any driver."""
    return any(kind.__name__ == "IntegrityError" for kind in type(error).__mro__)


def _stayed(error: Exception) -> str:
    return (
        f"unknown: rows() failed with {error!r}, and its ids are still in the table: rows() committed, connect() "
        "returned "
        "a connection with autocommit, or another writer inserted them. Check which rows are there: the next delivery "
        "takes them for written"
    )


def _is_autocommit(connection: Any) -> bool:
    """Returns whether autocommit is on: an attribute, `get_autocommit()` in MySQL's drivers, or sqlite3's isolation
    level.
    """
    said = getattr(connection, "autocommit", None)
    if isinstance(said, bool):
        return said
    if isinstance(connection, sqlite3.Connection):
        return connection.isolation_level is None
    return bool(getattr(connection, "get_autocommit", bool)())
