"""First attempts of users of other connectors, on a real Spark."""

from datetime import UTC, datetime
from typing import Any

import pytest

from oncegate_spark import register
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark
AT = datetime(2026, 11, 23, 2, 30, tzinfo=UTC)
NESTED = "id string, n bigint, a array<int>, m map<string,double>, s struct<x:int,y:date>, e decimal(10,2), t timestamp"


def reader(job: Job, spark_reader: Any, **options: str) -> Any:
    given = {"url": job.gateway.url, "namespace": job.gateway.namespace, "timeoutMs": "20000", **options}
    return spark_reader.format("oncegate").options(**given)


def write(job: Job, *numbers: int) -> None:
    job.write(job.rows(*numbers, partitions=1), **job.options(write="plain"))


def test_a_topic_is_read_with_the_options_of_kafkas_source(job: Job) -> None:
    write(job, 0, 1, 2, 3, 4)
    some = {"subscribe": "t", "startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":-1}}'}
    read = reader(job, job.spark.read, **some).load()
    assert sorted(row["n"] for row in read.collect()) == [1, 2, 3, 4]
    batches: list[list[int]] = []
    by_two = {"subscribe": "t", "startingOffsets": '{"t":{"0":-2}}', "maxOffsetsPerTrigger": "2"}
    stream = reader(job, job.spark.readStream, **by_two).load()
    job.run_each(stream, lambda df, number: batches.append(sorted(row["n"] for row in df.collect())))
    assert batches == [[0, 1], [2, 3], [4]]


def test_an_option_of_another_connector_is_answered_before_any_task(job: Job) -> None:
    write(job, 1)
    with pytest.raises(Exception, match=r"startingTimestamp is an option of Kafka; .*did you mean .*startingOffsets"):
        reader(job, job.spark.read, startingTimestamp="1").load("t")
    with pytest.raises(Exception, match=r'kafka.bootstrap.servers is an option of Kafka; did you mean .option\("url"'):
        job.write(job.rows(1), **{**job.options(), "kafka.bootstrap.servers": "b:9092"})


@pytest.mark.parametrize("mode", [None, "error", "ignore"])
def test_the_default_save_mode_is_refused_by_spark_with_the_modes_there_are(job: Job, mode: str | None) -> None:
    writer = job.rows(1).write.format("oncegate").options(**job.options(write="plain"))
    with pytest.raises(Exception, match=r'cannot be written in the "\w+" mode\. Please use either the "Append" or'):
        (writer if mode is None else writer.mode(mode)).save()
    assert job.published() == {}


def test_overwrite_is_answered_with_append(job: Job) -> None:
    writer = job.rows(1).write.format("oncegate").options(**job.options(write="plain"))
    with pytest.raises(Exception, match=r'topics are append-only; write df\.write\.mode\("append"\)'):
        writer.mode("overwrite").save()
    assert job.published() == {}


def test_register_does_not_warn_where_the_package_is_installed(job: Job) -> None:
    register(job.spark)
    register(job.spark)
    write(job, 1)
    assert "registered data source" not in job.log()


def test_a_stream_that_was_started_before_the_first_row_reads_it_when_it_comes(job: Job) -> None:
    batches: list[list[int]] = []
    waits = reader(job, job.spark.readStream.schema("id string, n bigint"), waitForTopic="true").load("t")
    writer = waits.writeStream.foreachBatch(lambda df, number: batches.append(sorted(row["n"] for row in df.collect())))
    query = writer.option("checkpointLocation", str(job.checkpoint)).start()
    try:
        query.processAllAvailable()
        assert not any(batches)
        write(job, 1, 2)
        query.processAllAvailable()
        write(job, 3)
        query.processAllAvailable()
    finally:
        query.stop()
    assert [batch for batch in batches if batch] == [[1, 2], [3]]
    assert "topic t does not exist yet, or has no columns: the stream waits for its first row" in job.log()
    write(job, 4)
    job.run_each(waits, lambda df, number: batches.append(sorted(row["n"] for row in df.collect())))
    assert batches[-1] == [4]


@pytest.mark.parametrize("write_mode", ["staged", "ids", "plain"])
def test_a_write_of_no_rows_makes_the_topic_with_its_columns(job: Job, write_mode: str) -> None:
    more = {"staged": {"txnAppId": "a"}, "ids": {"idCol": "id"}, "plain": {}}[write_mode]
    for run in ("1", "2"):
        named = {"txnVersion": run} if write_mode == "staged" else {}
        options = job.options(write=write_mode, **more, **named)
        rows = job.spark.createDataFrame([] if run == "1" else [("a", 1, [1], {"k": 1.0}, (1, None), None, AT)], NESTED)
        job.write(rows, **options)
        read = reader(job, job.spark.read).load("t")
        assert read.dtypes == rows.dtypes
        assert read.count() == rows.count()


def test_a_stream_whose_batches_are_empty_makes_its_topic_too(job: Job) -> None:
    job.add_file(1)
    job.run(job.stream().where("n > 5"))
    assert reader(job, job.spark.read).load("t").count() == 0
    job.add_file(7)
    job.run(job.stream().where("n > 5"))
    assert job.published() == {7: 1}
