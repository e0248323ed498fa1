"""Tables and views of Spark SQL over topics, and Spark 4.3's treatment of their options."""

import itertools
import re
from typing import Any

import pytest

from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark
COUNT = itertools.count()
COLUMNS = "(id string, n bigint)"


class Sql:
    """One session's SQL over one namespace."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.name = f"departures_{next(COUNT)}"

    def options(self, **more: str) -> str:
        given = {"url": self.job.gateway.url, "namespace": self.job.gateway.namespace, "topic": "t", **more}
        return ", ".join(f"{name} '{value}'" for name, value in given.items())

    def run(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.job.spark.sql(text.replace("$t", self.name)).collect()]

    def refused(self, text: str, told: str) -> None:
        with pytest.raises(Exception, match=told) as raised:
            self.run(text)
        assert "\n" not in re.search(told, str(raised.value))[0]  # type: ignore[index]


@pytest.fixture
def sql(job: Job) -> Sql:
    return Sql(job)


def test_rows_are_inserted_into_a_view_and_selected_from_another(sql: Sql) -> None:
    options = sql.options(write="ids", idCol="id")
    sql.run(f"CREATE TEMPORARY VIEW $t_in {COLUMNS} USING oncegate OPTIONS ({options})")
    sql.run("INSERT INTO $t_in VALUES ('a', 1), ('b', 2)")
    sql.run("INSERT INTO $t_in SELECT id, n + 1 FROM VALUES ('b', 1), ('c', 2) AS x(id, n)")
    sql.run("INSERT INTO $t_in (n, id) VALUES (4, 'd')")
    sql.run(f"CREATE TEMPORARY VIEW $t USING oncegate OPTIONS ({sql.options()})")
    assert sql.run("SELECT id, n FROM $t ORDER BY id") == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    sql.refused("INSERT OVERWRITE $t_in VALUES ('a', 1)", r"topics are append-only; write .*in SQL INSERT INTO")


def test_a_named_insert_that_is_repeated_is_published_once(sql: Sql) -> None:
    for run in ("2026-11-20", "2026-11-20", "2026-11-21"):
        named = sql.options(txnAppId="daily", txnVersion=run)
        sql.run(f"CREATE OR REPLACE TEMPORARY VIEW $t {COLUMNS} USING oncegate OPTIONS ({named})")
        sql.run("INSERT INTO $t VALUES ('a', 1)")
    assert sql.job.published() == {1: 2}


def test_a_table_keeps_its_options_for_every_read_of_it(sql: Sql) -> None:
    sql.job.write(sql.job.rows(1, 2, 3), **sql.job.options(write="plain"))
    sql.run(f"CREATE TABLE $t USING oncegate OPTIONS ({sql.options()})")
    assert sql.run("SELECT sum(n) FROM $t") == [(6,)]
    from_the_second = "SELECT count(*) FROM $t WITH (startingOffsets = '{\"0\": 1}')"
    assert sql.run(from_the_second) == [(2,)]
    table = sql.job.spark.table(sql.name)
    assert table.columns == ["id", "n"]
    seen: list[int] = []
    sql.job.run_each(sql.job.spark.readStream.table(sql.name), lambda df, number: seen.append(df.count()))
    assert seen == [3]
    named = f"url = '{sql.job.gateway.url}', namespace = '{sql.job.gateway.namespace}', topic = 't', write = 'plain'"
    sql.run(f"INSERT INTO $t WITH ({named}) VALUES ('d', 4)")
    assert sql.run("SELECT sum(n) FROM $t") == [(10,)]
    sql.run("DROP TABLE $t")
    assert sql.job.published() == {1: 1, 2: 1, 3: 1, 4: 1}


def test_a_table_of_a_topic_that_is_not_there_or_with_an_option_that_does_nothing_is_refused(sql: Sql) -> None:
    sql.refused(f"CREATE TABLE $t USING oncegate OPTIONS ({sql.options()})", "no topic t in namespace")
    options = sql.options(write="ids", idCol="id")
    sql.refused(
        f"CREATE TABLE $t USING oncegate OPTIONS ({options})", "idCol has no effect on a read|write has no effect on"
    )
    sql.refused(f"CREATE TABLE $t USING oncegate OPTIONS ({sql.options()}) LOCATION '/x'", "has no LOCATION")


def test_no_write_goes_to_a_table_by_its_name_alone(sql: Sql) -> None:
    """In INSERT INTO b SELECT * FROM a the rows' columns identify a, and Spark passes nothing about b."""
    sql.job.write(sql.job.rows(1), **sql.job.options(write="plain"))
    sql.run(f"CREATE TABLE $t USING oncegate OPTIONS ({sql.options()})")
    sql.run(f"CREATE TABLE $t_b {COLUMNS} USING oncegate OPTIONS ({sql.options(topic='b', write='plain')})")
    line = r"the target of the write is missing, and Spark 4\.3 passes on no OPTIONS .*INSERT INTO <table> WITH"
    sql.refused("INSERT INTO $t VALUES ('a', 1)", line)
    sql.refused("INSERT INTO $t_b SELECT * FROM $t", line)
    sql.refused(f"CREATE TABLE $t_c USING oncegate OPTIONS ({sql.options()}) AS SELECT 1 AS n", line)
    for write in (
        lambda df: df.write.insertInto(f"{sql.name}_b"),
        lambda df: df.writeTo(f"{sql.name}_b").append(),
        lambda df: df.write.format("oncegate").mode("append").saveAsTable(f"{sql.name}_b"),
    ):
        with pytest.raises(Exception, match=line):
            write(sql.job.spark.table(sql.name))
    assert sql.job.published() == {1: 1}
    sql.refused("SELECT * FROM $t_b", r"For a table: Spark 4\.3 keeps the OPTIONS .*CREATE TEMPORARY VIEW")
    for verb in ("TRUNCATE TABLE $t", "DELETE FROM $t WHERE n = 1", "UPDATE $t SET n = 1"):
        sql.refused(verb, "does not support")


def test_a_stream_is_written_to_a_topic_and_not_to_a_table(sql: Sql) -> None:
    sql.job.write(sql.job.rows(1), **sql.job.options(write="plain"))
    sql.run(f"CREATE TABLE $t USING oncegate OPTIONS ({sql.options()})")
    writer = sql.job.spark.readStream.table(sql.name).writeStream
    query = writer.option("checkpointLocation", str(sql.job.checkpoint)).toTable(sql.name)
    try:
        with pytest.raises(Exception, match=r"start\('<topic>'\) in place of toTable"):
            query.awaitTermination(60)
    finally:
        query.stop()
    assert sql.job.published() == {1: 1}
