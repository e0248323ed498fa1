"""Replayed batches: unchanged, with other partitions, other rows, or another input under an old number."""

import shutil
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark


def shuffled(stream: Any) -> Any:
    """Returns a plan whose output differs each time."""
    return stream.withColumn("n", (F.col("n") + F.floor(F.rand() * 1_000_000) * 1_000).cast("bigint"))


def test_a_batch_replayed_with_other_partitions_is_published_once(job: Job) -> None:
    job.add_file(*range(30))
    job.add_file(*range(30, 60))
    job.run(job.stream().repartition(2))
    assert job.forget_last_commit() == 1
    job.run(job.stream().repartition(5))
    assert job.published() == dict.fromkeys(range(60), 1)
    assert job.batches() == [0, 1]
    assert "DUPLICATE rows=30 suppressed=30" in job.log()
    assert job.counters()["duplicate_commits"] == 1


def test_claimed_rows_replayed_with_other_partitions_are_written_once(job: Job) -> None:
    job.add_file(*range(30))
    job.run(job.stream().repartition(2), **job.claim_options())
    job.forget_last_commit()
    job.run(job.stream().repartition(5), **job.claim_options())
    assert job.written() == dict.fromkeys(range(30), 1)
    assert job.counters()["takeovers"] == 0


def test_plain_publishes_a_replayed_batch_again(job: Job) -> None:
    job.add_file(1, 2)
    job.run(job.stream(), **job.options(write="plain"))
    job.forget_last_commit()
    job.run(job.stream(), **job.options(write="plain"))
    assert job.published() == {1: 2, 2: 2}


def test_the_first_output_of_a_plan_that_is_not_deterministic_wins(job: Job) -> None:
    """The digest of the input is the same, so the run counts as a replay, whatever its rows."""
    job.add_file(*range(20))
    job.run(shuffled(job.stream()))
    first = job.published()
    job.forget_last_commit()
    job.run(shuffled(job.stream()).repartition(3))
    assert job.published() == first
    assert sum(first.values()) == 20
    assert "WARNING oncegate_spark" in job.log()


def test_another_output_stops_the_job_when_the_input_is_unknown_and_the_first_wins_on_request(job: Job) -> None:
    def write(df: Any, batch: int, **more: str) -> None:
        job.write(df, **job.options(**more))

    job.add_file(*range(20))
    job.run_each(shuffled(job.stream()), write)
    first = job.published()
    job.forget_last_commit()
    with pytest.raises(Exception, match=r"BATCH_CONFLICT.*first_wins.*txnAppId"):
        job.run_each(shuffled(job.stream()), write)
    assert "input is unknown: inside foreachBatch" in job.log()
    with pytest.raises(Exception, match=r'option\("writeId"'):
        job.run_each(shuffled(job.stream()), lambda df, n: write(df, n, onReplayMismatch="first_wins"))
    assert job.published() == first


def test_a_restored_checkpoint_with_another_input_stops_the_job(job: Job) -> None:
    job.add_file(1, 2)
    job.run(job.stream())
    saved = job.save_checkpoint()
    job.add_file(3)
    job.run(job.stream())
    job.restore_checkpoint(saved)
    sorted(job.input.iterdir())[-1].unlink()
    job.add_file(4, 5)
    with pytest.raises(Exception, match=r"batch 1 of .* to topic t.*committed at .* with 1 rows.*txnAppId"):
        job.run(job.stream())
    assert job.published() == {1: 1, 2: 1, 3: 1}
    job.run(job.stream(), **job.options(txnAppId="departures, again"))
    assert job.published() == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}


def test_a_named_application_continues_with_a_new_checkpoint_if_it_reads_the_same_files(job: Job) -> None:
    options = job.options(txnAppId="departures")
    job.add_file(1, 2)
    job.run(job.stream(), **options)
    shutil.rmtree(job.checkpoint)
    job.add_file(3)
    job.run(job.stream(), **options)
    assert job.published() == {1: 1, 2: 1, 3: 1}


def test_a_deleted_checkpoint_is_a_conflict_with_a_named_application_that_reads_other_files(job: Job) -> None:
    options = job.options(txnAppId="departures")
    job.add_file(1, 2)
    job.run(job.stream(), **options)
    shutil.rmtree(job.checkpoint)
    sorted(job.input.iterdir())[-1].unlink()
    job.add_file(3)
    with pytest.raises(Exception, match=r"BATCH_CONFLICT.*batch 0 of departures"):
        job.run(job.stream(), **options)
    assert job.published() == {1: 1, 2: 1}


def test_a_lower_number_as_txn_version_is_skipped_with_a_warning_and_a_date_is_not(job: Job) -> None:
    for version, number in (("10", 1), ("9", 2), ("11", 3), ("2026-11-20", 4), ("2026-11-19", 5)):
        job.write(job.rows(number), **job.options(txnAppId="load", txnVersion=version))
    assert job.published() == dict.fromkeys((1, 3, 4, 5), 1)
    assert job.counters()["lower_versions"] == 1
    (told,) = [line for line in job.log().splitlines() if "is skipped, as Delta Lake skips it" in line]
    assert "version 9 of load to topic t" in told
    assert "all 1 rows are suppressed and none was written: version 10 is committed" in job.log()


def test_a_deleted_checkpoint_without_a_name_publishes_again_and_warns_with_the_count(job: Job) -> None:
    job.add_file(1, 2)
    job.run(job.stream())
    shutil.rmtree(job.checkpoint)
    job.run(job.stream())
    assert job.published() == {1: 2, 2: 2}
    (warned,) = [line for line in job.log().splitlines() if "a query that this gateway does not know" in line]
    assert "the topic already had 2 offsets in use" in warned


def test_a_restored_checkpoint_writes_no_claimed_row_twice(job: Job) -> None:
    job.add_file(1, 2)
    job.run(job.stream(), **job.claim_options())
    saved = job.save_checkpoint()
    job.add_file(3)
    job.run(job.stream(), **job.claim_options())
    job.restore_checkpoint(saved)
    job.add_file(4)
    job.run(job.stream(), **job.claim_options())
    shutil.rmtree(job.checkpoint)
    job.run(job.stream(), **job.claim_options())
    assert job.written() == {1: 1, 2: 1, 3: 1, 4: 1}


def test_a_txn_version_on_a_stream_is_refused(job: Job) -> None:
    job.add_file(1)
    with pytest.raises(Exception, match="the version of a stream is its batch id"):
        job.run(job.stream(), **job.options(txnAppId="a", txnVersion="1"))
    assert job.published() == {}
