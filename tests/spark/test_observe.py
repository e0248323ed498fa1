"""Rows written, suppressed and taken over in each batch of a real Spark, as `observe` reports them."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from oncegate_spark import BatchCounts, dedup, foreach_batch, observe
from tests.spark.jobs.faults import FaultySource
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark
SOON_S = 60
ROOT = Path(__file__).parents[2]


class Told:
    """The batches that a listener has reported, in order."""

    def __init__(self, spark: Any) -> None:
        self._queue: Queue[BatchCounts] = Queue()
        self.listener = observe(spark, on_batch=self._queue.put)

    def next(self) -> BatchCounts:
        return self._queue.get(timeout=SOON_S)

    def numbers(self) -> tuple[int, int, int, int, int]:
        """Returns the next batch's number, rows, written, suppressed and takeovers."""
        counts = self.next()
        return counts.batch, counts.rows, counts.written, counts.suppressed, counts.takeovers

    def nothing_more(self) -> bool:
        return self._queue.empty()


@pytest.fixture
def told(spark: Any) -> Iterator[Told]:
    seen = Told(spark)
    yield seen
    seen.listener.close()


def test_of_a_hundred_rows_of_which_52_are_written_48_are_written_and_a_replay_writes_none(
    job: Job, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    ids = job.options(write="ids", idCol="id")
    job.add_file(*range(52))
    job.add_file(*range(100))
    job.run(job.stream().repartition(3), **ids)
    assert [told.numbers() for _ in range(2)] == [(0, 52, 52, 0, 0), (1, 100, 48, 52, 0)]
    assert told.listener.last is not None
    assert told.listener.last.writes[0].target == "t"
    assert f"batch 1 of {told.listener.last.query}: rows=100 written=48 suppressed=52 own=0 takeovers=0" in caplog.text
    job.forget_last_commit()
    job.run(job.stream().repartition(5), **ids)
    assert told.numbers() == (1, 100, 0, 100, 0)
    assert told.nothing_more()


@pytest.mark.parametrize("write", ["staged", "claim"])
def test_a_replay_is_reported_again_by_each_way_to_write(job: Job, told: Told, write: str) -> None:
    options = job.claim_options() if write == "claim" else job.options()
    job.add_file(*range(30))
    job.run(job.stream(), **options)
    job.forget_last_commit()
    job.run(job.stream().repartition(3), **options)
    assert [told.numbers() for _ in range(2)] == [(0, 30, 30, 0, 0), (0, 30, 0, 30, 0)]


@pytest.mark.parametrize("fault", ["fail_before_commit", "fail_after_commit"])
def test_a_batch_partly_written_by_a_failed_run_reports_what_its_next_run_writes(
    job: Job, told: Told, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """The first run writes 52 rows of the batch, and its driver fails; the next run brings all 100."""
    job.spark.dataSource.register(FaultySource)
    options = job.options(write="ids", idCol="id", fault=fault, faultFolder=str(job.folder))
    job.add_file(*range(100))
    with pytest.raises(Exception, match="the driver was made to fail"):
        job.run(job.stream().where("n < 52"), "oncegate_faulty", **options)
    assert job.published() == dict.fromkeys(range(52), 1)
    job.run(job.stream(), "oncegate_faulty", **options)
    assert told.numbers() == (0, 100, 48, 52, 0)
    assert told.nothing_more()
    assert job.published() == dict.fromkeys(range(100), 1)
    assert ("is unfinished and will be repeated: rows=52 written=52" in caplog.text) == (fault == "fail_after_commit")


def test_a_batch_whose_driver_was_killed_is_reported_by_the_next_driver_with_its_own_writes(
    job: Job, told: Told
) -> None:
    """The first driver writes 52 of the 100 rows and stores its counts, and is killed before Spark's commit log."""
    job.add_file(0, 1)
    job.add_file(*range(100))
    where = [job.gateway.url, job.gateway.namespace, str(job.folder)]
    command = [sys.executable, "-m", "tests.spark.jobs.killed_observed", *where]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert killed.returncode != 0
    assert job.batches() == [0], killed.stderr[-4000:]
    assert job.published() == dict.fromkeys(range(52), 1)
    assert (job.folder / "reported").read_text() == "batch 0: 2 of 2\n"
    job.run(job.stream(), **job.options(write="ids", idCol="id"))
    assert told.numbers() == (1, 100, 48, 52, 0)
    assert told.nothing_more()
    assert job.published() == dict.fromkeys(range(100), 1)


def test_two_writes_of_one_batch_are_reported_together_and_leftovers_of_a_crash_are_not_counted(
    job: Job, told: Told
) -> None:
    crashes = [True]

    def fn(df: Any, batch: int) -> None:
        job.write(df, **job.options())
        if crashes and crashes.pop():
            raise RuntimeError("made to fail between two writes")
        job.write(df.withColumn("n", F.col("n") + 1_000), **job.options(writeId="second"))
        job.write(df.limit(1), **job.options(topic="u", write="ids", idCol="id"))

    each = foreach_batch(fn, checkpoint=str(job.checkpoint))
    job.add_file(1, 2, 3)
    with pytest.raises(Exception, match="made to fail between"):
        job.run_each(job.stream(), each)
    job.run_each(job.stream(), each)
    counts = told.next()
    assert [(one.target, one.write_id, one.rows, one.written, one.suppressed) for one in counts.writes] == [
        ("t", "", 3, 0, 3),
        ("t", "second", 3, 3, 0),
        ("u", "", 1, 1, 0),
    ]
    assert (counts.batch, counts.rows, counts.written, counts.suppressed) == (0, 7, 4, 3)
    assert told.nothing_more()


def test_two_concurrent_queries_are_distinguished(job: Job, told: Told) -> None:
    job.add_file(1, 2)
    queries = {}
    for topic in ("t", "u"):
        writer = job.stream().writeStream.format("oncegate").options(**job.options(topic=topic)).queryName(topic)
        kept = writer.option("checkpointLocation", f"{job.checkpoint}-{topic}").trigger(availableNow=True)
        queries[topic] = kept.start()
    for query in queries.values():
        assert query.awaitTermination(120)
    seen = {counts.name: counts for counts in (told.next(), told.next())}
    for topic, query in queries.items():
        assert (seen[topic].query, seen[topic].run) == (query.id, query.runId)
        assert ([one.target for one in seen[topic].writes], seen[topic].written) == ([topic], 2)


def test_a_listener_that_is_closed_leaves_nothing_and_hears_nothing(job: Job, told: Told) -> None:
    folder = told.listener.folder
    job.add_file(1)
    told.listener.close()
    job.run(job.stream())
    assert job.spark.conf.get("spark.oncegate.observed", None) is None
    assert not folder.exists()
    assert told.nothing_more()


def test_inside_foreach_batch_an_observation_reports_the_ids_dropped_by_dedup(job: Job) -> None:
    seen: list[dict[str, int]] = []

    def fn(df: Any, batch: int) -> None:
        observation = Observation()
        where = {"gateway": job.gateway.url, "namespace": job.gateway.namespace}
        dedup(df, "id", job_key=f"load/{batch}", observation=observation, **where).count()
        seen.append(observation.get)

    job.add_file(1, 2, 2)
    job.add_file(2, 3)
    job.run_each(job.stream(), fn)
    assert seen == [
        {"rows": 3, "duplicates": 1, "taken": 2, "dropped": 0},
        {"rows": 2, "duplicates": 0, "taken": 1, "dropped": 1},
    ]
