"""df.write: re-runs, ids, and two jobs at once."""

import threading
from collections.abc import Callable

import pytest
from pyspark.sql import functions as F

from oncegate_spark import register
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark


def test_a_named_run_that_is_repeated_is_published_once(job: Job) -> None:
    named = job.options(txnAppId="daily", txnVersion="2026-11-20")
    job.write(job.rows(1, 2, 3), **named)
    job.write(job.rows(3, 2, 1, partitions=3), **named)
    job.write(job.rows(4), **job.options(txnAppId="daily", txnVersion="2026-11-21"))
    assert job.published() == {1: 1, 2: 1, 3: 1, 4: 1}


def test_a_named_run_repeated_with_other_rows_stops(job: Job) -> None:
    named = job.options(txnAppId="daily", txnVersion="2026-11-20")
    job.write(job.rows(1, 2), **named)
    with pytest.raises(Exception, match=r"BATCH_CONFLICT.*txnAppId"):
        job.write(job.rows(1, 3), **named)
    with pytest.raises(Exception, match=r'option\("writeId"'):
        job.write(job.rows(1, 3), **named, onReplayMismatch="first_wins")
    assert job.published() == {1: 1, 2: 1}


def test_a_write_without_a_name_fails_with_the_line_to_add(job: Job) -> None:
    message = r'option\("txnAppId", "<a name for this job>"\)\.option\("txnVersion".*nothing was written by this task'
    with pytest.raises(Exception, match=message):
        job.write(job.rows(1), **job.options())
    assert job.published() == {}


def test_the_format_can_be_registered_by_hand(job: Job) -> None:
    register(job.spark)
    job.write(job.rows(1), **job.options(txnAppId="a", txnVersion="1"))
    assert job.published() == {1: 1}


def test_plain_needs_no_name_and_writes_every_time(job: Job) -> None:
    for _ in range(2):
        job.write(job.rows(1), **job.options(write="plain"))
    assert job.published() == {1: 2}


def test_no_rows_and_empty_partitions_are_written_like_any(job: Job) -> None:
    named = job.options(txnAppId="a", txnVersion="1")
    job.write(job.rows(1, partitions=4), **named)
    job.write(job.rows(1).where("n > 5"), **job.options(txnAppId="a", txnVersion="2"))
    assert job.published() == {1: 1}


def test_a_null_id_fails_the_task_before_any_effect(job: Job) -> None:
    rows = job.spark.createDataFrame([("a", 1), (None, 2)], "id string, n bigint").coalesce(1)
    with pytest.raises(Exception, match=r"id column id: 1 of 2 rows .*null.*df\.where\(.*nothing was written"):
        job.write(rows, **job.claim_options())
    assert job.written() == {}
    assert job.counters()["granted"] == 0


def test_an_id_of_three_columns_is_never_joined_by_chance(job: Job) -> None:
    rows = [("a", "bc", 1, 1), ("ab", "c", 1, 2), ("a", "bc", 2, 3), ("a", "bc", 1, 4), ("", "abc", 1, 5)]
    df = job.spark.createDataFrame(rows, "x string, y string, z int, n bigint")
    options = job.claim_options(idCol="x, y, z")
    job.write(df.coalesce(1), **options)
    assert job.written() == {1: 1, 2: 1, 3: 1, 5: 1}
    job.write(df.repartition(3), **options)
    assert sum(job.written().values()) == 4


def test_integers_and_binary_are_ids_and_other_types_are_refused_on_the_driver(job: Job) -> None:
    df = job.rows(1, 2)
    job.write(df, **job.claim_options(idCol="n"))
    job.write(df.withColumn("id", F.col("n").cast("string")), **job.claim_options())
    assert job.written() == {1: 1, 2: 1}  # one number, one id: as a number or as its text
    other = job.claim_options(sinkPath=str(job.folder / "other"))
    job.write(df.withColumn("id", F.encode("id", "utf-8")), **other)
    job.write(df.withColumn("id", F.encode("id", "utf-8")), **other)
    assert job.written(job.folder / "other") == {1: 1, 2: 1}
    with pytest.raises(Exception, match=r'id column id is of type double.*cast\("string"\)'):
        job.write(df.withColumn("id", F.lit(1.5)), **job.claim_options())
    with pytest.raises(Exception, match="idCol names nope, and the rows have id, n"):
        job.write(df, **job.claim_options(idCol="nope"))


def test_an_id_twice_in_one_partition_is_written_once_near_and_far(job: Job, small_batches: None) -> None:
    """At ten rows a batch, 0 repeats within its batch, 1 in the next, 2 three batches later."""
    numbers = [0, 1, 2, 0, *range(10, 16), 1, *range(20, 39), 2]
    df = job.spark.createDataFrame([(f"id-{n}", n) for n in numbers], "id string, n bigint").coalesce(1)
    job.write(df, **job.claim_options())
    assert job.written() == dict.fromkeys(set(numbers), 1)
    assert "suppressed=1 " in job.log()  # rows that this attempt itself has written are not counted


def test_two_jobs_at_once_write_each_id_once(job: Job) -> None:
    """The ids overlap and arrive in opposite orders: the second claimant waits, and no deadlock ends in a takeover."""
    ids = list(range(400))
    frames = [job.rows(*ids[:300]), job.rows(*reversed(ids[100:]))]
    at_once(job, *(lambda df=df: job.write(df, **job.claim_options(leaseMs="10000")) for df in frames))
    assert job.written() == dict.fromkeys(ids, 1)
    assert job.counters()["takeovers"] == 0


def test_two_named_jobs_at_once_share_a_topic(job: Job) -> None:
    writes = [(job.rows(1, 2), "a"), (job.rows(3, 4), "b"), (job.rows(3, 4), "b")]
    named = [(df, job.options(txnAppId=app, txnVersion="1")) for df, app in writes]
    at_once(job, *(lambda df=df, o=o: job.write(df, **o) for df, o in named))
    assert job.published() == {1: 1, 2: 1, 3: 1, 4: 1}


def at_once(job: Job, *writes: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def run(one: Callable[[], None]) -> None:
        try:
            job.activate()
            one()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in writes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
