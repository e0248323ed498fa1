"""Checkpoints in every location that Spark supports: the digest is stored there, so a replay is recognized."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import functions as F

import oncegate_spark
from oncegate_spark import foreach_batch
from oncegate_spark.spark.checkpoint import find_input, read_input
from oncegate_spark.spark.checkpoint.hadoop import of_session
from tests.spark.jobs.job import Job
from tests.support.s3_server import s3
from tests.support.webhdfs_server import webhdfs

pytestmark = pytest.mark.spark
ODD = "a b%20c#d?e=é"


def shuffled(stream: Any) -> Any:
    """Returns a plan whose output differs each time."""
    return stream.withColumn("n", (F.col("n") + F.floor(F.rand() * 1_000_000) * 1_000).cast("bigint"))


def replayed(job: Job, **options: str) -> None:
    """Runs two batches whose rows differ at each reading, the last one twice, and checks that each was written once."""
    job.add_file(*range(10))
    job.add_file(*range(10, 20))
    job.run(shuffled(job.stream()), **job.options(**options))
    first = job.published()
    assert sum(first.values()) == 20
    assert job.forget_last_commit() == 1
    job.run(shuffled(job.stream()), **job.options(**options))
    assert job.published() == first
    assert "DUPLICATE rows=10" in job.log()
    assert "input is unknown" not in job.log()


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "file:///{}/../{name}//"])
def test_a_folder_is_found_under_each_spelling(job: Job, spelling: str) -> None:
    job.checkpoint = job.folder / ODD
    job.location = spelling.format(job.checkpoint, name=ODD)
    replayed(job)


def test_hdfs_is_read_through_webhdfs(job: Job) -> None:
    with webhdfs(job.folder) as server:
        job.location = server.url("checkpoint")
        replayed(job)
        assert any(line == "OPEN /checkpoint/offsets/1" for line in server.asked)


def test_a_bucket_is_read_where_the_checkpoint_is_a_mirror_of_it(job: Job) -> None:
    """The offset log that a real Spark has written, in S3; the replay reads only that copy."""
    job.add_file(*range(10))
    job.run(shuffled(job.stream()))
    first = job.published()
    job.forget_last_commit()
    with s3() as server:
        server.put(job.checkpoint, "checkpoint")
        job.run(shuffled(job.stream()), **job.options(checkpointUrl=server.url("checkpoint")))
    assert job.published() == first
    assert "DUPLICATE rows=10" in job.log()


def test_a_session_is_asked_for_its_settings_and_the_bucket_is_read_by_them(job: Job) -> None:
    job.add_file(1)
    job.run(job.stream())
    with s3() as server:
        server.put(job.checkpoint, "checkpoint")
        given = server.settings()
        for name, value in given.items():
            job.spark.conf.set(name, value)
        try:
            found = of_session(job.spark)
        finally:
            for name in given:
                job.spark.conf.unset(name)
        assert found["fs.defaultFS"] == "file:///"
        assert find_input("s3a://bucket/checkpoint", found) == read_input(str(job.checkpoint))


@pytest.fixture
def registered(spark: Any) -> Iterator[Any]:
    """Yields a session for tests that set options before `register`; restores its settings afterwards."""
    kept = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    yield spark
    if kept is None:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    oncegate_spark.register(spark)


def test_the_sessions_place_of_checkpoints_is_found_with_the_querys_name(job: Job, registered: Any) -> None:
    registered.conf.set("spark.sql.streaming.checkpointLocation", str(job.folder))
    oncegate_spark.register(registered)

    def run() -> None:
        writer = shuffled(job.stream()).writeStream.format("oncegate").options(**job.options())
        query = writer.queryName("checkpoint").trigger(availableNow=True).start()
        query.awaitTermination(120)

    job.add_file(*range(10))
    run()
    first = job.published()
    assert job.forget_last_commit() == 0
    run()
    assert job.published() == first
    assert "DUPLICATE rows=10" in job.log()


def test_unknown_facts_are_logged_before_the_first_batch(job: Job) -> None:
    job.add_file(1)
    job.add_file(2)
    job.run(job.stream(), **job.options(checkpointUrl="webhdfs://127.0.0.1:1/checkpoint"))
    said = [line for line in job.log().splitlines() if " oncegate_spark: " in line]
    assert "input is unknown: /checkpoint in HDFS at 127.0.0.1:1 cannot be read" in said[0]
    assert 'option("checkpointUrl"' in said[0]
    assert "COMMITTED" in said[1]
    assert job.published() == {1: 1, 2: 1}


def test_a_wrong_location_is_reported_before_the_first_batch(job: Job) -> None:
    job.add_file(1)
    (job.folder / "empty").mkdir()
    with pytest.raises(Exception, match=r"/empty contains no offsets.*checkpointUrl.*nothing was written"):
        job.run(job.stream(), **job.options(checkpointUrl=(job.folder / "empty").as_uri()))
    other = Job(job.spark, job.gateway, job.folder / "other", job._log)
    other.add_file(2)
    other.run(other.stream(), **job.options(topic="other"))
    with pytest.raises(Exception, match=r"belongs to query .*, and this is query .*nothing was written"):
        job.run(job.stream(), **job.options(checkpointUrl=other.checkpoint.as_uri()))
    assert job.published() == {}


def inside(job: Job, **options: str) -> Any:
    def fn(df: Any, batch: int) -> None:
        job.write(df.withColumn("n", (F.rand() * 10**9).cast("bigint")), **job.options(**options))

    return fn


@pytest.mark.parametrize("way", ["the option alone", "the wrapper, which asks Spark", "the wrapper, in HDFS"])
def test_the_input_is_known_inside_foreach_batch(job: Job, way: str) -> None:
    with webhdfs(job.folder) as server:
        if way.endswith("HDFS"):
            job.location = server.url("checkpoint")
        option = {"checkpointLocation": str(job.checkpoint)} if way == "the option alone" else {}
        fn = inside(job, **option)
        job.add_file(*range(10))
        job.run_each(job.stream(), fn if option else foreach_batch(fn))
        first = job.published()
        job.forget_last_commit()
        job.run_each(job.stream(), fn if option else foreach_batch(fn))
    assert job.published() == first
    assert sum(first.values()) == 10
    assert "input is unknown" not in job.log()


def test_another_querys_checkpoint_is_refused_inside_even_at_the_same_batch(job: Job) -> None:
    other = Job(job.spark, job.gateway, job.folder / "other", job._log)
    for one in (job, other):
        one.add_file(1)
    other.run(other.stream(), **job.options(topic="other"))
    with pytest.raises(Exception, match=r"is the checkpoint of query .*, and this is query .*nothing was written"):
        job.run_each(job.stream(), foreach_batch(inside(job), checkpoint=str(other.checkpoint)))
    shutil.rmtree(job.checkpoint)
    with pytest.raises(Exception, match=r"belongs to query .*, and this is query .*nothing was written"):
        job.run_each(job.stream(), inside(job, checkpointLocation=str(other.checkpoint)))
    assert job.published() == {}
