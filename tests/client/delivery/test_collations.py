"""The database sink on SQLite, PostgreSQL and MariaDB: ids that a collation considers equal, and locks."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oncegate_spark import Gateway, InDoubt, SinkRefused
from oncegate_spark.delivery import DatabaseSink, Delivered, Delivery, Record
from tests.support.mariadb_server import MariadbServer
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.server
CI = "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
# Ids that some collation considers equal: by case, accent, normal form, trailing blank, width, ligature.
LIKE = ["Order-a", "order-A", "Order-a ", "Order-\u00e4", "Order-a\u0308", "Order-\uff41", "stra\u00dfe", "strasse"]
RECORDS = [Record(one, number) for number, one in enumerate(LIKE)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        with psycopg.connect(server.dsn) as database:
            database.execute(CI)
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbServer]:
    with MariadbServer() as server:
        yield server


class Place:
    """A database with an empty table of rows and no table of ids."""

    def __init__(self, connect: Callable[[], Any], mark: str) -> None:
        self.connect, self.mark = connect, mark
        self.run("DROP TABLE IF EXISTS oncegate_ids", "DROP TABLE IF EXISTS orders", "CREATE TABLE orders (n integer)")

    def run(self, *queries: str) -> list[Any]:
        """Runs queries and returns the answer of the last."""
        with closing(self.connect()) as database:
            cursor = database.cursor()
            for query in queries:
                cursor.execute(query)
            answer = [row[0] for row in cursor.fetchall()] if cursor.description else []
            database.commit()
        return answer

    def sink(self) -> DatabaseSink:
        """Returns a sink of these tables."""

        def rows(cursor: Any, records: Sequence[Record]) -> None:
            insert = f"INSERT INTO orders VALUES ({self.mark})"
            cursor.executemany(insert, [(one.body,) for one in records])

        return DatabaseSink(self.connect, rows, placeholder=self.mark)

    @property
    def ids(self) -> list[str]:
        """Returns the ids in the table, sorted by their bytes."""
        outcome = self.run("SELECT id FROM oncegate_ids")
        return sorted(one.decode() if isinstance(one, bytes) else one for one in outcome)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(lambda: sqlite3.connect(tmp_path / "db"), "?")
    server = request.getfixturevalue("postgres" if request.param == "postgresql" else "mariadb")
    return Place(server.connect if request.param == "mariadb" else lambda: psycopg.connect(server.dsn), "%s")


def test_ids_that_collations_take_as_equal_are_written_each(gateway: Gateway, place: Place) -> None:
    sink = place.sink()
    sink.create_table()
    with closing(sink):
        assert Delivery(gateway, sink).deliver(RECORDS) == Delivered(written=len(LIKE))
        assert Delivery(gateway, sink).deliver(RECORDS) == Delivered(duplicates=len(LIKE))
        assert sink.find([*LIKE, "ORDER-A", "Order-a  "]) == set(LIKE)
    assert place.ids == sorted(LIKE)
    assert sorted(place.run("SELECT n FROM orders")) == list(range(len(LIKE)))


OTHER_TABLES = {
    "sqlite": [f"(id {column} PRIMARY KEY)" for column in ("text COLLATE NOCASE", "text COLLATE RTRIM", "integer")],
    "postgresql": ['(id text COLLATE "ci" PRIMARY KEY)', "(id char(200) PRIMARY KEY)"],
    "mariadb": [
        "(id varchar(700) PRIMARY KEY)",
        "(id varchar(700) COLLATE utf8mb4_bin PRIMARY KEY)",
        "(id varbinary(900) PRIMARY KEY) ENGINE=MyISAM",
        "(id varchar(700) CHARACTER SET latin1 COLLATE latin1_general_cs PRIMARY KEY)",
    ],
}


@pytest.mark.parametrize("number", range(4))
def test_a_table_that_merges_distinct_ids_is_refused_and_stays_unchanged(
    gateway: Gateway, place: Place, number: int, request: pytest.FixtureRequest
) -> None:
    tables = OTHER_TABLES[request.node.callspec.params["place"]]
    place.run(f"CREATE TABLE oncegate_ids {tables[number % len(tables)]}")
    sink = place.sink()
    message = (
        r"^table oncegate_ids (considers different|keeps rows|does not return).*make its column id var.*nothing was"
    )
    with closing(sink):
        with pytest.raises(SinkRefused, match=message):
            sink.create_table()
        with pytest.raises(SinkRefused, match=message):
            Delivery(gateway, sink).deliver(RECORDS[:1])
        assert gateway.explain(LIKE[0])["state"] == "ABSENT"
    assert place.ids == place.run("SELECT n FROM orders") == []


def test_row_that_was_there_already_leaves_nothing_locked(gateway: Gateway, place: Place) -> None:
    sink = place.sink()
    sink.create_table()
    with closing(sink):
        sink.write(RECORDS[:1])
        with pytest.raises(Exception, match=r"(?i)unique|duplicate") as raised:
            sink.write(RECORDS[:1])
        assert not isinstance(raised.value, InDoubt)
        # The error is kept, with the frames and cursors that it refers to.
        with closing(place.connect()) as other:
            other.cursor().execute("INSERT INTO orders VALUES (7)")
            other.commit()
        assert sink.find(LIKE) == {LIKE[0]}
    assert sorted(place.run("SELECT n FROM orders")) == [0, 7]


def test_cursor_of_the_rows_function_that_stays_open_locks_nothing(place: Place) -> None:
    """A closed connection of SQLite keeps its transaction while a cursor has unread rows."""
    with closing(place.connect()) as database:
        # otherwise a read locks the file too, which a rollback does not undo
        if isinstance(database, sqlite3.Connection):
            database.execute("PRAGMA journal_mode=WAL")
    place.run("INSERT INTO orders VALUES (1)", "INSERT INTO orders VALUES (2)")
    kept: list[Any] = []

    def rows(cursor: Any, records: Sequence[Record]) -> None:
        kept.append(cursor.connection.cursor())
        kept[0].execute("SELECT n FROM orders")
        kept[0].fetchone()
        cursor.execute("INSERT INTO orders VALUES (3)")
        raise ValueError("no")

    sink = DatabaseSink(place.connect, rows, placeholder=place.mark)
    sink.create_table()
    with closing(sink):
        with pytest.raises(SinkRefused, match="no; nothing was written"):
            sink.write(RECORDS[:1])
        place.run("INSERT INTO orders VALUES (4)")
    assert sorted(place.run("SELECT n FROM orders")) == [1, 2, 4]
    assert place.ids == []


def test_connections_are_closed_after_each_kind_of_error(place: Place) -> None:
    opened: list[Any] = []
    closed: list[Any] = []

    class Seen:
        """A counted connection."""

        def __init__(self) -> None:
            self._connection = place.connect()
            opened.append(self)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def close(self) -> None:
            self._connection.close()
            closed.append(self)

    def rows(cursor: Any, records: Sequence[Record]) -> None:
        body = records[0].body
        if isinstance(body, BaseException):
            raise body
        cursor.execute(body)

    sink = DatabaseSink(Seen, rows, placeholder=place.mark)
    with pytest.raises(
        SinkRefused, match=r"cannot insert ids into table .*; create_table\(\) creates it; nothing was written"
    ):
        sink.write(RECORDS[:1])
    with pytest.raises(Exception, match="oncegate_ids"):
        sink.find(LIKE)
    assert opened == closed
    sink.create_table()
    for body, error in (
        ("SELEC", SinkRefused),
        (ValueError("no"), SinkRefused),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ):
        with pytest.raises(error):
            sink.write([Record("o-1", body)])
        place.run("DELETE FROM orders")  # not locked
    sink.close()
    assert len(opened) == len(closed)
    assert place.ids == []


def test_id_that_is_equal_by_a_collation_is_not_there(place: Place, request: pytest.FixtureRequest) -> None:
    """A sink that only reads, such as a Resolver's, checks no table."""
    place.run(f"CREATE TABLE oncegate_ids {OTHER_TABLES[request.node.callspec.params['place']][0]}")
    place.run("INSERT INTO oncegate_ids VALUES ('Order-a')")
    with closing(place.sink()) as sink:
        assert sink.find(["Order-a", "order-A"]) == {"Order-a"}
