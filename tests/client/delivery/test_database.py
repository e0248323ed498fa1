"""The database sink against a real PostgreSQL: rows and ids in one transaction, and lost commits read back."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oncegate_spark import Gateway, InDoubt, SinkRefused
from oncegate_spark.delivery import DatabaseSink, Delivered, Delivery, Record, Resolved, Resolver
from oncegate_spark.errors import BadOption, Outcome
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.server
TWO = [Record("o-1", 1200), Record("o-2", 350)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(server: PostgresServer) -> PostgresServer:
    with psycopg.connect(server.dsn) as database:
        database.execute("DROP TABLE IF EXISTS orders, oncegate_ids")
        database.execute("CREATE TABLE orders (id text, cents int CHECK (cents > 0))")
    return server


def insert(cursor: Any, records: Sequence[Record]) -> None:
    cursor.executemany("INSERT INTO orders VALUES (%s, %s)", [(one.id, one.body) for one in records])


class Cut:
    """A connection whose first commit is lost, `before` or after it reaches the server."""

    def __init__(self, dsn: str, before: bool) -> None:
        self._connection, self._before = psycopg.connect(dsn), before
        self.cursor, self.rollback, self.close = (
            self._connection.cursor,
            self._connection.rollback,
            self._connection.close,
        )

    def commit(self) -> None:
        if not self._before:
            self._connection.commit()
        self._connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def sink_of(postgres: PostgresServer, *connections: Callable[[], Any]) -> DatabaseSink:
    made = iter(connections)
    sink = DatabaseSink(lambda: next(made, lambda: psycopg.connect(postgres.dsn))(), insert)
    with psycopg.connect(postgres.dsn) as database:
        database.execute("CREATE TABLE IF NOT EXISTS oncegate_ids (id varchar(1024) PRIMARY KEY)")
    return sink


def orders(postgres: PostgresServer) -> list[tuple[Any, ...]]:
    return postgres.rows("SELECT id, cents FROM orders ORDER BY 1")


@pytest.mark.parametrize("before", [True, False])
def test_a_commit_whose_answer_is_lost_is_read_back(gateway: Gateway, postgres: PostgresServer, before: bool) -> None:
    sink = sink_of(postgres, lambda: Cut(postgres.dsn, before))
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    sink.close()
    assert orders(postgres) == [("o-1", 1200), ("o-2", 350)]


def test_a_connection_that_ends_in_the_middle_of_a_transaction_has_written_nothing(
    gateway: Gateway, postgres: PostgresServer
) -> None:
    ends = iter([True])

    def cut_off(cursor: Any, records: Sequence[Record]) -> None:
        insert(cursor, records)
        if next(ends, False):
            postgres.rows(f"SELECT pg_terminate_backend({cursor.connection.info.backend_pid})")
            cursor.execute("SELECT 1")

    sink = DatabaseSink(lambda: psycopg.connect(postgres.dsn), cut_off)
    sink.create_table()
    with pytest.raises(SinkRefused, match="nothing was written"):
        Delivery(gateway, sink).deliver(TWO)
    assert orders(postgres) == []
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    sink.close()
    assert orders(postgres) == [("o-1", 1200), ("o-2", 350)]


def test_a_writer_that_commits_after_it_was_taken_over_is_undone_by_the_database(
    gateway: Gateway, postgres: PostgresServer
) -> None:
    gateway.attempt().claim(["o-1"], 1_000)
    sink, late = sink_of(postgres), sink_of(postgres)
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    with pytest.raises(psycopg.IntegrityError):
        late.write(TWO[:1])
    assert orders(postgres) == [("o-1", 1200), ("o-2", 350)]
    sink.close()
    late.close()


def test_a_resolver_settles_what_a_dead_writer_left_by_the_table_of_ids(
    gateway: Gateway, postgres: PostgresServer
) -> None:
    gateway.attempt().claim(["o-1", "o-2"], 1_000)
    sink = sink_of(postgres)
    sink.write(TWO[:1])
    while gateway.explain("o-1")["state"] != "CLAIMED_OVER":
        pass
    assert Resolver(gateway, sink).resolve(["o-1", "o-2"]) == Resolved(completed=1, released=1)
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=1, duplicates=1)
    sink.close()
    assert orders(postgres) == [("o-1", 1200), ("o-2", 350)]


def test_rows_that_the_database_refuses_leave_no_id_and_are_free(gateway: Gateway, postgres: PostgresServer) -> None:
    sink = sink_of(postgres)
    with pytest.raises(SinkRefused, match="orders_cents_check"):
        Delivery(gateway, sink).deliver([*TWO, Record("o-3", -1)])
    assert postgres.rows("SELECT id FROM oncegate_ids") == orders(postgres) == []
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    sink.close()


def test_an_error_that_the_rows_function_catches_undoes_everything_and_is_raised(
    gateway: Gateway, postgres: PostgresServer
) -> None:
    """PostgreSQL undoes the whole transaction after any error, and answers the following commit as if it had
    succeeded."""

    def forgiving(cursor: Any, records: Sequence[Record]) -> None:
        with suppress(psycopg.Error):
            insert(cursor, records)

    sink = DatabaseSink(lambda: psycopg.connect(postgres.dsn), forgiving)
    sink.create_table()
    with pytest.raises(SinkRefused, match="rolled back"):
        Delivery(gateway, sink).deliver([*TWO, Record("o-3", -1)])
    assert {gateway.explain(one)["state"] for one in ("o-1", "o-2", "o-3")} == {"ABSENT"}
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    sink.close()
    assert orders(postgres) == [("o-1", 1200), ("o-2", 350)]


def test_ids_with_a_failed_rollback_are_reported_as_unknown(gateway: Gateway, postgres: PostgresServer) -> None:
    def hasty(cursor: Any, records: Sequence[Record]) -> None:
        cursor.connection.commit()
        insert(cursor, records)

    sink = DatabaseSink(lambda: psycopg.connect(postgres.dsn), hasty)
    sink.create_table()
    with pytest.raises(InDoubt, match="orders_cents_check") as caught:
        Delivery(gateway, sink).deliver([Record("o-3", -1)])
    sink.close()
    assert (caught.value.ids, caught.value.outcome) == (["o-3"], Outcome.UNKNOWN)


def test_another_driver_and_its_placeholder(gateway: Gateway, tmp_path: Path) -> None:
    def rows(cursor: Any, records: Sequence[Record]) -> None:
        cursor.executemany("INSERT INTO orders VALUES (?, ?)", [(one.id, one.body) for one in records])

    sink = DatabaseSink(lambda: sqlite3.connect(tmp_path / "db"), rows, table="main.taken", placeholder="?")
    sink.create_table()
    with sqlite3.connect(tmp_path / "db") as database:
        database.execute("CREATE TABLE orders (id, cents)")
    for expected in (Delivered(written=2), Delivered(duplicates=2)):
        assert Delivery(gateway, sink).deliver(TWO) == expected
    sink.close()
    assert database.execute("SELECT * FROM orders ORDER BY 1").fetchall() == [("o-1", 1200), ("o-2", 350)]
    database.close()


class OfMysql:
    """A connection like those of pymysql and mysqlclient: `autocommit` is a setter, and another method the getter."""

    def autocommit(self, on: bool) -> None: ...

    def get_autocommit(self) -> bool:
        return True

    def close(self) -> None: ...


def test_autocommit_and_a_table_that_is_no_name_are_refused(postgres: PostgresServer) -> None:
    for connect in (
        lambda: psycopg.connect(postgres.dsn, autocommit=True),
        lambda: sqlite3.connect(":memory:", isolation_level=None),
        OfMysql,
    ):
        with pytest.raises(BadOption, match="autocommit"):
            DatabaseSink(connect, insert).create_table()
    with pytest.raises(BadOption, match="table"):
        DatabaseSink(lambda: None, insert, table="ids; DROP TABLE orders")
