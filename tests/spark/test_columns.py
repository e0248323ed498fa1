"""Rows matched to their topic by column name on a real Spark: order, missing or new columns, case, id types,
collation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from oncegate_spark import dedup
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark
WAYS: dict[str, dict[str, str]] = {
    "staged": {"txnAppId": "job"},
    "ids": {"write": "ids", "idCol": "id"},
    "plain": {"write": "plain"},
}
EXAMPLE = "'a' id, 1 n, timestamp'2026-11-20 08:15:00Z' at, cast(1.5 as decimal(10,2)) price"


@contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    """Changes a setting of the session within the context."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def write_options(job: Job, way: str, run: str, **more: str) -> dict[str, str]:
    """Returns the options of one write in the given mode."""
    version = {"txnVersion": run} if way == "staged" else {}
    return job.options(**WAYS[way], **version, **more)


def single_row(job: Job, columns: str) -> Any:
    return job.spark.sql(f"select {columns}")


def rows_in(job: Job) -> list[dict[str, Any]]:
    read = job.spark.read.format("oncegate").options(**job.options()).load().orderBy("id")
    return [row.asDict() for row in read.collect()]


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_another_order_a_narrower_type_or_fewer_columns_are_written(job: Job, way: str) -> None:
    job.write(single_row(job, "'a' id, 1L n, 1.5D x"), **write_options(job, way, "1"))
    job.write(single_row(job, "cast(2.5 as float) x, 'b' id, 2 n"), **write_options(job, way, "2"))
    with setting(job.spark, "spark.sql.session.timeZone", "Asia/Tokyo"):
        job.write(single_row(job, "'c' id"), **write_options(job, way, "3"))
    job.write(single_row(job, "'D' as `ID`, 4L as `N`"), **write_options(job, way, "4"))
    expected = [("D", 4, None), ("a", 1, 1.5), ("b", 2, 2.5), ("c", None, None)]
    assert [(row["id"], row["n"], row["x"]) for row in rows_in(job)] == expected
    with pytest.raises(Exception, match=r'n is string and int64 there: write df.select\("id", F.col\("n"\).cast'):
        job.write(single_row(job, "'e' id, '5' n"), **write_options(job, way, "5"))


@pytest.mark.parametrize("way", WAYS)
def test_columns_are_added_permanently_with_merge_schema(job: Job, way: str) -> None:
    job.write(single_row(job, "'a' id"), **write_options(job, way, "1"))
    wider = single_row(job, "map('k', 1) counts, 'b' id, date'2026-11-20' day")
    with pytest.raises(Exception, match=r"the topic has no counts, day: .*mergeSchema"):
        job.write(wider, **write_options(job, way, "2"))
    job.write(wider, **write_options(job, way, "2", mergeSchema="true"))
    job.write(single_row(job, "'c' id"), **write_options(job, way, "3", mergeSchema="true"))
    found = [(row["id"], row["counts"], str(row["day"])) for row in rows_in(job)]
    assert found == [("a", None, "None"), ("b", {"k": 1}, "2026-11-20"), ("c", None, "None")]


def test_names_are_as_case_sensitive_as_the_session(job: Job) -> None:
    job.write(single_row(job, "'a' id, 1 n"), **write_options(job, "ids", "1"))
    with setting(job.spark, "spark.sql.caseSensitive", "true"):
        with pytest.raises(Exception, match=r"caseSensitive is true here, so .*ID for id"):
            job.write(single_row(job, "'b' as `ID`, 2 n"), **write_options(job, "ids", "2"))
        job.write(single_row(job, "'c' id, 3 n"), **write_options(job, "ids", "3"))
    job.write(single_row(job, "'d' id, 4 n"), **{**write_options(job, "ids", "4"), "idCol": "Id"})
    assert [row["id"] for row in rows_in(job)] == ["a", "c", "d"]


def test_a_batch_replayed_by_a_job_that_orders_its_columns_otherwise_is_the_same_batch(job: Job) -> None:
    """Another job may have added a column meanwhile: the fingerprint covers only the row's own columns."""
    job.add_file(1, 2)
    job.run(job.stream())
    job.gateway.create_topic("t", schema=pa.schema([("late", pa.string())]), merge_schema=True)
    job.forget_last_commit()
    job.run(job.stream().selectExpr("n", "id"))
    assert job.published() == {1: 1, 2: 1}
    assert "suppressed=2" in job.log()
    assert "is not deterministic or the job was changed" not in job.log()


@pytest.mark.parametrize("column", ["price", "at", "cast(at as date)", "cast(at as timestamp_ntz)"])
def test_an_id_of_any_type_is_the_same_in_every_zone_and_every_way(job: Job, column: str) -> None:
    """ANSI mode, time zones and wider types change the result of a cast to string; none of them changes the id's
    text."""
    with setting(job.spark, "spark.sql.session.timeZone", "UTC"):
        made = single_row(job, EXAMPLE).selectExpr(f"{column} as id").localCheckpoint()
    ids = write_options(job, "ids", "1", idSet="s")
    # The plan's casts depend on the session, so the value is computed once.
    job.write(made, **ids)
    with setting(job.spark, "spark.sql.session.timeZone", "Pacific/Kiritimati"):
        job.write(made, **ids)
        job.write(made, **job.claim_options(idSet="s"))
        gateway = {"gateway": job.gateway.url, "namespace": job.gateway.namespace}
        assert dedup(made, "id", job_key="k", id_set="s", **gateway).count() == 0
    text = {"price": "1.5", "at": "2026-11-20T08:15:00Z", "cast(at as date)": "2026-11-20"}
    state = job.gateway.explain(text.get(column, "2026-11-20T08:15:00"), id_set="s")["state"]
    assert state == "DONE"
    assert job.gateway.topic("t").high_offsets == (1,)
    assert not job.written()


def test_a_collation_is_refused_where_it_would_be_lost_and_kept_where_it_is_not(job: Job) -> None:
    rows = single_row(job, "'a' id, 'x' collate UNICODE_CI name")
    with pytest.raises(Exception, match=r'name is of type string collate UNICODE_CI.*F.col\("name"\).cast\("string"\)'):
        job.write(rows, **write_options(job, "ids", "1"))
    job.write(rows.withColumn("name", F.col("name").cast("string")), **write_options(job, "ids", "1"))
    assert rows_in(job) == [{"id": "a", "name": "x"}]
    kept = dedup(rows, "ID", job_key="k", gateway=job.gateway.url, namespace=job.gateway.namespace)
    assert kept.schema["name"].dataType.simpleString() == "string collate UNICODE_CI"
    assert kept.where("name = 'X'").count() == 1
    with pytest.raises(Exception, match=r"column name is of type string collate"):
        dedup(rows, "name", job_key="k", gateway=job.gateway.url, namespace=job.gateway.namespace)


def test_dedup_finds_on_the_driver_what_no_python_task_can_read(job: Job) -> None:
    months = single_row(job, "'a' id, interval '1' year lasts")
    with pytest.raises(Exception, match=r"lasts is of type interval year.*which cannot be written"):
        dedup(months, "id", job_key="k", gateway=job.gateway.url)


def test_a_variant_comes_back_as_a_variant_also_where_it_is_null(job: Job) -> None:
    inside = "array(parse_json('7'), null) l, named_struct('in', parse_json('\"x\"')) s, map('k', parse_json('1.5')) m"
    job.write(
        single_row(job, f"'a' id, parse_json('{{\"k\":[1,null]}}') v, {inside}"), **write_options(job, "plain", "1")
    )
    job.write(single_row(job, "'b' id, cast(null as variant) v"), **write_options(job, "plain", "2"))
    read = job.spark.read.format("oncegate").options(**job.options()).load().orderBy("id")
    kinds = [field.dataType.simpleString() for field in read.schema.fields]
    assert kinds == ["string", "variant", "array<variant>", "struct<in:variant>", "map<string,variant>"]
    shown = read.selectExpr("to_json(v)", "to_json(l[0])", "to_json(l[1])", "to_json(s.in)", "to_json(m['k'])")
    assert [list(row) for row in shown.collect()] == [['{"k":[1,null]}', "7", None, '"x"', "1.5"], [None] * 5]
