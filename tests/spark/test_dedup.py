"""dedup on a real Spark: each id once within a job and across jobs, however often the plan is evaluated."""

import subprocess
import sys
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from oncegate_spark import dedup
from oncegate_spark.errors import BadId, BadOption, Refused
from tests.spark.jobs.faults import dies_once_when
from tests.spark.jobs.job import SCHEMA, Job

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


def once(job: Job, df: Any, key: str = "load-1", id_col: Any = "id", **more: Any) -> Any:
    return dedup(df, id_col, job_key=key, gateway=job.gateway.url, namespace=job.gateway.namespace, **more)


def numbers(df: Any) -> Counter[int]:
    return Counter(row.n for row in df.collect())


def test_one_row_of_each_id_is_left_however_often_it_is_evaluated(job: Job, small_batches: None) -> None:
    """Equal ids are in one Arrow batch, in several, and in other partitions: claims alone would grant them again."""
    df = once(job, job.rows(*(n % 70 for n in range(200)), partitions=3))
    assert numbers(df) == dict.fromkeys(range(70), 1)
    # the sort's sampling evaluates the plan first
    assert [row.n for row in df.orderBy("n").collect()] == list(range(70))
    assert df.count() == 70


def test_another_job_gets_only_what_is_new_and_a_re_run_the_same_again(job: Job) -> None:
    assert numbers(once(job, job.rows(*range(20)), "monday")) == dict.fromkeys(range(20), 1)
    assert numbers(once(job, job.rows(*range(10, 30)), "tuesday")) == dict.fromkeys(range(20, 30), 1)
    again = once(job, job.rows(*range(20), partitions=5), "monday")
    assert numbers(again) == dict.fromkeys(range(20), 1)


def test_an_observation_reports_the_result_of_every_row(job: Job) -> None:
    assert once(job, job.rows(1, 2), "monday").count() == 2
    seen, nothing = Observation(), Observation("none came")
    assert once(job, job.rows(1, 2, 3, 4, 4, 4), "tuesday", observation=seen).count() == 2
    assert seen.get == {"rows": 6, "duplicates": 2, "taken": 2, "dropped": 2}
    assert once(job, job.rows(1).where("n > 1"), observation=nothing).count() == 0
    assert nothing.get == {"rows": 0, "duplicates": 0, "taken": 0, "dropped": 0}


def test_a_worker_killed_after_it_took_its_ids_loses_none(job: Job, small_batches: None) -> None:
    df = once(job, job.rows(*range(60)))
    assert numbers(df.mapInArrow(dies_once_when(str(job.folder), 25), SCHEMA)) == dict.fromkeys(range(60), 1)
    assert (job.folder / "killed-25").exists()


def test_a_job_killed_after_it_took_its_ids_gets_them_again_by_its_key_and_no_other_job_does(job: Job) -> None:
    took = job.folder / "took"
    where = [job.gateway.url, job.gateway.namespace, "monday", str(took)]
    command = [sys.executable, "-m", "tests.spark.jobs.killed_dedup", *where]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert took.read_text() == "40", killed.stderr[-4000:]
    assert killed.returncode != 0
    assert numbers(once(job, job.rows(*range(50)), "tuesday")) == dict.fromkeys(range(40, 50), 1)
    assert numbers(once(job, job.rows(*range(40), partitions=3), "monday")) == dict.fromkeys(range(40), 1)


def test_ids_written_in_the_same_scope_are_dropped_and_taken_ones_are_not_written_there(job: Job) -> None:
    job.write(job.rows(1, 2), **job.claim_options(idSet="t"))
    job.write(job.rows(3), **job.options(write="ids", idCol="id"))
    assert numbers(once(job, job.rows(*range(6)), id_set="t")) == {0: 1, 4: 1, 5: 1}
    job.write(job.rows(4, 6), **job.options(write="ids", idCol="id"))
    assert job.published() == {3: 1, 6: 1}


def test_ids_taken_by_a_job_are_new_to_every_topic(job: Job) -> None:
    assert numbers(once(job, job.rows(1, 2))) == {1: 1, 2: 1}
    for topic in ("t", "u"):
        job.write(job.rows(1, 2), **job.options(write="ids", idCol="id", topic=topic))
        table = job.gateway.read(topic)
        assert table is not None
        assert sorted(table.column("n").to_pylist()) == [1, 2]


def test_an_id_that_another_is_writing_is_waited_for(job: Job) -> None:
    """The other attempt never completes the id: its lease runs out, and this job takes it over."""
    with job.gateway.attempt(id_set="dedup") as other:
        claimed = other.claim(["id-1"], lease_ms=1_000)
        assert numbers(once(job, job.rows(0, 1, 2))) == {0: 1, 1: 1, 2: 1}
        assert job.counters()["takeovers"] == 1
        other.settle(claimed, "complete")


def test_an_id_may_have_several_columns_and_be_a_number(job: Job) -> None:
    df = job.spark.createDataFrame([("a", 1), ("a", 2), ("b", 1), ("a", 1)], "k string, n int")
    assert once(job, df, id_col="k, n").count() == 3
    assert once(job, df, "other", ["k", "n"]).count() == 0
    assert once(job, df, id_col="n").count() == 2


def test_every_column_passes_through_as_it_is(job: Job) -> None:
    schema = (
        "id binary not null, a array<int>, m map<string,double>, s struct<x:int,y:array<string>>, d decimal(20,3), "
        "t timestamp, l date, b boolean, `odd.name` tinyint"
    )
    values = [1, 2], {"k": 0.5}, (7, ["y", None]), Decimal("1.500"), None, date(2026, 11, 20), True, 3
    df = job.spark.createDataFrame([(bytearray(b"\0\1"), *values), (bytearray(b"\2"), *[None] * 8)], schema)
    kept = once(job, df)
    assert kept.schema == df.schema
    assert sorted(kept.collect(), key=lambda row: row.id) == sorted(df.collect(), key=lambda row: row.id)


@pytest.mark.parametrize(("bad", "told"), [(None, r"null in id.*isNotNull"), ("", r"empty in id.*F\.length")])
def test_a_row_without_an_id_fails_the_job_before_anything_is_taken(job: Job, bad: str | None, told: str) -> None:
    df = job.spark.createDataFrame([("a", 1), (bad, 2), ("b", 3)], SCHEMA)
    with pytest.raises(Exception, match=rf"(?s)dedup: a row has an id that is {told}"):
        once(job, df).collect()
    assert numbers(once(job, df.where(F.length("id") > 0), "another")) == {1: 1, 3: 1}


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"id_col": "key"}, BadId, "id_col names key, and the rows have id, n"),
        ({"id_col": "x"}, BadId, "of type double"),
        ({"id_col": "c"}, BadId, 'different bytes are equal.*cast\\("string"\\)'),
        ({"id_col": []}, BadOption, "set id_col"),
        ({"key": ""}, BadOption, "job_key is empty"),
        ({"key": 20261120}, BadOption, 'job_key is 20261120, not a text; .*job_key="load-2026-11-20"'),
        ({"timeout_ms": 0}, BadOption, "write timeout_ms=120_000"),
        ({"timeout_ms": None}, BadOption, "write timeout_ms=120_000"),
        ({"on_down": "spill"}, BadOption, "here it must be block or fail"),
    ],
)
def test_missing_options_are_reported_on_the_driver(job: Job, given: dict[str, Any], error: type, told: str) -> None:
    df = job.rows(1).withColumns({"x": F.lit(0.5), "c": F.col("id").cast("string collate UTF8_LCASE")})
    with pytest.raises(error, match=told):
        once(job, df, **given)
    with pytest.raises(BadOption, match=r"write .http://gateway:8080"):
        dedup(df, "id", job_key="k", gateway="gateway:8080")
    with pytest.raises(BadOption, match="distinct column names"):
        once(job, df.select("id", "id"))


def test_without_a_gateway_the_task_reports_where_and_that_nothing_is_lost(job: Job) -> None:
    where = r"(?s)dedup as k through http://127.0.0.1:9, partition "
    for on_down, how in (("block", ""), ("fail", "on_down allows no further retries, after 1 tries")):
        request = {"gateway": "http://127.0.0.1:9", "timeout_ms": 1_000, "on_down": on_down}
        df = dedup(job.rows(1), "id", job_key="k", **request)
        with pytest.raises(Exception, match=f"{where}.*{how}.*granted to it again"):
            df.collect()


def test_a_stream_is_refused_with_what_to_use_instead(job: Job) -> None:
    with pytest.raises(Refused, match=r'option\("write", "ids"\).*foreachBatch'):
        once(job, job.stream())


def test_inside_foreach_batch_the_key_names_the_batch(job: Job) -> None:
    """Under one key for all batches, an id that repeats in a later batch would be granted to the same job again."""
    job.add_file(1, 2, 2)
    job.add_file(2, 3)
    with pytest.raises(Exception, match=r"job_key is 'load' in batch 0 of a stream"):
        job.run_each(job.stream(), lambda df, n: once(job, df, "load").count())
    passed: Counter[int] = Counter()
    job.run_each(job.stream(), lambda df, n: passed.update(numbers(once(job, df, f"load/{n}"))))
    assert passed == {1: 1, 2: 1, 3: 1}
