"""spark.read and spark.readStream over topics of a real gateway."""

import datetime
import decimal
import shutil
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from oncegate_spark import Gateway
from oncegate_spark.protocol import codecs
from tests.spark.jobs.job import Job
from tests.spark.jobs.stub_topic import StubTopic

pytestmark = pytest.mark.spark

TOKEN = "6f1c0000000000000000000000000001"


def produce(gateway: Gateway, *numbers: int, key_col: str = "") -> None:
    rows = pa.record_batch({"id": [f"id-{n}" for n in numbers], "n": pa.array(numbers, pa.int64())})
    gateway.produce("t", TOKEN, 0, codecs.stream([rows]), key_col=key_col)


def reader(job: Job, spark_reader: Any, **options: str) -> Any:
    given = {"url": job.gateway.url, "namespace": job.gateway.namespace, "timeoutMs": "20000", **options}
    return spark_reader.format("oncegate").options(**given)


def batch(job: Job, **options: str) -> Any:
    return reader(job, job.spark.read, **options).load("t")


def stream(job: Job, **options: str) -> Any:
    return reader(job, job.spark.readStream, **options).load("t")


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


class Collected:
    """Runs a stream and collects the rows of each micro-batch by its number."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.batches: dict[int, list[int]] = {}

    def run(self, read: Any) -> list[list[int]]:
        self.batches = {}
        self.job.run_each(read, self._keep)
        return [self.batches[number] for number in sorted(self.batches)]

    def _keep(self, df: Any, number: int) -> None:
        self.batches[number] = sorted(row["n"] for row in df.select("n").collect())


def test_a_batch_read_gives_the_topics_rows_in_their_types(job: Job) -> None:
    values = [
        (
            "é",
            None,
            1.5,
            decimal.Decimal("1.50"),
            datetime.date(2026, 11, 21),
            datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
            b"\0",
        ),
        (None, 7, None, None, None, None, None),
    ]
    written = job.spark.createDataFrame(
        values, "s string, i int, x double, e decimal(10,2), d date, t timestamp, b binary"
    ).withColumns({"a": F.array("s", F.lit("y")), "m": F.create_map(F.lit("k"), "i"), "r": F.struct("i", "t")})
    job.write(written.coalesce(1), **job.options(write="plain"))
    read = batch(job)
    assert read.dtypes == written.dtypes
    assert sorted(map(str, read.collect())) == sorted(map(str, written.collect()))


def test_a_batch_ends_where_the_topic_ended_when_it_was_first_planned(job: Job) -> None:
    produce(job.gateway, 1, 2, 3)
    read = batch(job)
    assert [row["n"] for row in read.select("n").collect()] == [1, 2, 3]
    produce(job.gateway, 4)
    assert read.count() == 3  # one DataFrame, one end: its actions agree with each other
    assert batch(job).count() == 4
    some = batch(job, startingOffsets='{"0": 1}', endingOffsets='{"0": 3}', includeOffsets="true")
    assert [tuple(row) for row in some.collect()] == [("id-2", 2, 0, 1), ("id-3", 3, 0, 2)]


def test_only_the_wanted_columns_are_read(job: Job) -> None:
    produce(job.gateway, 1, 2)
    assert batch(job, columns="n").columns == ["n"]
    assert batch(job, columns="n").count() == 2
    only = reader(job, job.spark.read.schema("n bigint")).load("t")
    assert [tuple(row) for row in only.collect()] == [(1,), (2,)]


def test_a_large_range_is_read_by_several_tasks_each_row_once(job: Job) -> None:
    for part in range(3):
        produce(job.gateway, *range(part * 200_000, (part + 1) * 200_000))
    read = batch(job, includeOffsets="true")
    assert read.rdd.getNumPartitions() == 3
    seen = read.agg(F.count("n"), F.sum("n"), F.countDistinct("_offset"), F.count_if(F.col("n") != F.col("_offset")))
    assert tuple(seen.first()) == (600_000, 600_000 * 599_999 // 2, 600_000, 0)


def test_each_partition_of_a_topic_is_read_once_and_in_order(job: Job) -> None:
    job.gateway.create_topic("t", partitions=3)
    for first in (0, 60):
        produce(job.gateway, *range(first, first + 60), key_col="id")
    rows = batch(job, includeOffsets="true").orderBy("_partition", "_offset").collect()
    high = job.gateway.topic("t").high_offsets
    assert [(row["_partition"], row["_offset"]) for row in rows] == [(p, n) for p in range(3) for n in range(high[p])]
    assert all(high)
    assert sorted(row["n"] for row in rows) == list(range(120))
    batches = Collected(job).run(stream(job, maxRowsPerBatch="50"))
    assert [len(numbers) for numbers in batches] == [50, 50, 20]
    assert sorted(n for numbers in batches for n in numbers) == list(range(120))


def test_a_stream_reads_what_is_new_since_its_last_run_in_batches_of_a_size(job: Job) -> None:
    collected = Collected(job)
    produce(job.gateway, *range(25))
    assert collected.run(stream(job, maxRowsPerBatch="10")) == [
        list(range(10)), list(range(10, 20)), list(range(20, 25))
    ]  # fmt: skip
    assert collected.run(stream(job, maxRowsPerBatch="10")) == []
    produce(job.gateway, 25, 26)
    assert collected.run(stream(job, maxRowsPerBatch="10")) == [[25, 26]]


def test_a_stream_begins_at_its_configured_offset_and_its_checkpoint_keeps_it(job: Job) -> None:
    produce(job.gateway, 0, 1, 2, 3)
    collected = Collected(job)
    assert collected.run(stream(job, startingOffsets='{"0": 2}')) == [[2, 3]]
    assert collected.run(stream(job, startingOffsets="earliest")) == []
    shutil.rmtree(job.checkpoint)
    assert collected.run(stream(job, startingOffsets="latest")) == [[]]  # Spark stores the starting offsets
    produce(job.gateway, 4)
    assert collected.run(stream(job, startingOffsets="earliest")) == [[4]]


def test_a_replayed_batch_brings_the_very_rows_it_brought(job: Job) -> None:
    collected = Collected(job)
    produce(job.gateway, *range(8))
    first = collected.run(stream(job, maxRowsPerBatch="5"))
    assert job.forget_last_commit() == 1
    produce(job.gateway, 8, 9)
    again = collected.run(stream(job))
    assert first == [list(range(5)), list(range(5, 8))]
    assert again == [list(range(5, 8)), [8, 9]]


def test_a_missing_topic_is_reported_on_the_driver(job: Job) -> None:
    for read in (batch, stream):
        with pytest.raises(Exception, match=r"(?s)look at topic t .*NOT_FOUND.*no topic t in namespace"):
            read(job)


def test_a_wrong_option_is_reported_on_the_driver(job: Job) -> None:
    produce(job.gateway, 1)
    with pytest.raises(Exception, match=r"failOnDataLoss is 'perhaps'"):
        batch(job, failOnDataLoss="perhaps")
    with pytest.raises(Exception, match=r"offset 9 for partition 0, and topic t ends there at 1"):
        Collected(job).run(stream(job, startingOffsets='{"0": 9}'))
    with pytest.raises(Exception, match=r"endingOffsets is for spark\.read"):
        Collected(job).run(stream(job, endingOffsets="latest"))


def test_what_retention_took_is_counted_and_named(job: Job) -> None:
    produce(job.gateway, 0, 1, 2)
    produce(job.gateway, 3)
    job.gateway.create_topic("t", retention_bytes=1)
    wait_until(lambda: job.gateway.topic("t").low_offsets == (3,))
    from_the_start = {"startingOffsets": '{"0": 1}'}
    with pytest.raises(Exception, match=r"2 rows of topic t, partition 0, are lost: the offsets 1 to 2 were trimmed"):
        batch(job, **from_the_start).collect()
    assert [row["n"] for row in batch(job, **from_the_start, failOnDataLoss="false").collect()] == [3]
    assert [row["n"] for row in batch(job).collect()] == [3]


def test_trimmed_rows_stop_a_stream_until_it_is_configured_to_continue(job: Job) -> None:
    topic = StubTopic([0, 0], [4, 2])
    with topic.gateway() as stub:
        url, collected = {"url": stub.url}, Collected(job)
        assert collected.run(stream(job, **url)) == [[0, 0, 1, 1, 2, 3]]
        topic.low, topic.high = [6, 0], [8, 2]
        with pytest.raises(Exception, match=r'2 rows of topic t, partition 0, are lost.*"failOnDataLoss", "false"'):
            collected.run(stream(job, **url))
        assert collected.run(stream(job, **url, failOnDataLoss="false")) == [[6, 7]]
    assert "WARNING oncegate_spark: 2 rows of topic t, partition 0, are lost" in job.log()


def test_a_topic_that_ends_before_what_was_read_stops_a_stream(job: Job) -> None:
    """An older copy of the ledger was restored: new rows get offsets that were read already."""
    topic = StubTopic([0], [4])
    with topic.gateway() as stub:
        assert Collected(job).run(stream(job, url=stub.url)) == [[0, 1, 2, 3]]
        topic.high = [3]
        with pytest.raises(Exception, match=r"was read up to 4 and ends at 3.*older copy of its ledger"):
            Collected(job).run(stream(job, url=stub.url))
