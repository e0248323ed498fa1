"""Writes inside foreachBatch: two of one batch, in threads, replayed, with and without the input's digest."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from oncegate_spark import foreach_batch
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark
Fn = Callable[[Any, int], None]


class Crashed(Exception):
    pass


def two_writes(job: Job, equal: bool, crash: list[int], write_id: str | None = None) -> Fn:
    """Writes twice to one topic. `crash`: batches in which the driver fails between the two writes, once each."""

    def fn(df: Any, batch: int) -> None:
        other = df if equal else df.withColumn("n", F.col("n") + 1_000)
        job.write(df, **job.options())
        if batch in crash:
            crash.remove(batch)
            raise Crashed
        job.write(other, **job.options(**({"writeId": write_id} if write_id else {})))

    return fn


def wrapped(job: Job, fn: Fn, known: bool) -> Fn:
    return foreach_batch(fn, checkpoint=str(job.checkpoint)) if known else fn


@pytest.mark.parametrize("known", [True, False], ids=["digest", "no-digest"])
@pytest.mark.parametrize("crashes", [False, True], ids=["straight", "crash-between"])
@pytest.mark.parametrize("equal", [True, False], ids=["equal", "different"])
def test_two_writes_of_one_batch_lose_nothing_when_the_message_is_obeyed(
    job: Job, equal: bool, crashes: bool, known: bool
) -> None:
    """The second write is refused, never dropped in silence; with a writeId, each row is stored as often as it was
    written."""
    job.add_file(1, 2, 3)
    if crashes:
        with pytest.raises(Exception, match="Crashed"):
            job.run_each(job.stream(), wrapped(job, two_writes(job, equal, [0]), known))
        assert job.published() == {1: 1, 2: 1, 3: 1}
    with pytest.raises(Exception, match=r'SECOND_WRITE.*option\("writeId"'):
        job.run_each(job.stream(), wrapped(job, two_writes(job, equal, []), known))
    assert job.published() == {1: 1, 2: 1, 3: 1}
    job.add_file(4)
    job.run_each(job.stream(), wrapped(job, two_writes(job, equal, [], "second"), known))
    once = dict.fromkeys([1, 2, 3, 4], 1)
    assert job.published() == (dict.fromkeys(once, 2) if equal else once | {n + 1_000: 1 for n in once})
    assert job.batches() == [0, 1]


def test_two_named_writes_with_a_crash_between_are_published_once_each(job: Job) -> None:
    job.add_file(1, 2)
    with pytest.raises(Exception, match="Crashed"):
        job.run_each(job.stream(), wrapped(job, two_writes(job, False, [0], "second"), True))
    job.run_each(job.stream(), wrapped(job, two_writes(job, False, [], "second"), True))
    assert job.published() == {1: 1, 2: 1, 1_001: 1, 1_002: 1}


@pytest.mark.parametrize("write_ids", [("", "second"), ("first", "")])
def test_the_rows_of_the_first_write_of_a_batch_are_no_deleted_checkpoint(job: Job, write_ids: tuple[str, str]) -> None:
    def fn(df: Any, batch: int) -> None:
        for number, write_id in enumerate(write_ids):
            rows = df.withColumn("n", F.col("n") + 1_000 * number)
            job.write(rows, **job.options(**({"writeId": write_id} if write_id else {})))

    job.add_file(1)
    job.run_each(job.stream(), wrapped(job, fn, True))
    assert job.published() == {1: 1, 1_001: 1}
    assert "rows_before=1" in job.log()
    assert "checkpoint was deleted" not in job.log()


def test_the_input_is_known_inside_so_a_replay_with_other_rows_is_a_replay(job: Job) -> None:
    def fn(df: Any, batch: int) -> None:
        job.write(df.withColumn("n", (F.rand() * 10**9).cast("bigint")), **job.options())

    job.add_file(*range(10))
    job.run_each(job.stream(), wrapped(job, fn, True))
    first = job.published()
    job.forget_last_commit()
    job.run_each(job.stream(), wrapped(job, fn, True))
    assert job.published() == first
    assert sum(first.values()) == 10


def test_another_input_under_an_old_number_stops_the_job_inside_too(job: Job) -> None:
    def fn(df: Any, batch: int) -> None:
        job.write(df.limit(0).union(df.limit(1)), **job.options())

    job.add_file(1)
    job.run_each(job.stream(), wrapped(job, fn, True))
    (job.checkpoint / "commits" / "0").unlink()
    (job.checkpoint / "commits" / ".0.crc").unlink()
    for log, member in (("offsets", b'"batchTimestampMs":'), ("sources/0", b'"timestamp":')):
        (job.checkpoint / log / ".0.crc").unlink()
        entry = job.checkpoint / log / "0"
        entry.write_bytes(entry.read_bytes().replace(member + b"1", member + b"2"))
    with pytest.raises(Exception, match="BATCH_CONFLICT"):
        job.run_each(job.stream(), wrapped(job, fn, True))
    assert job.published() == {1: 1}


def test_another_querys_checkpoint_is_refused(job: Job) -> None:
    job.add_file(1)
    job.add_file(2)
    (job.folder / "other" / "offsets").mkdir(parents=True)
    (job.folder / "other" / "offsets" / "7").write_text("v1")
    fn = foreach_batch(lambda df, n: job.write(df, **job.options()), checkpoint=str(job.folder / "other"))
    with pytest.raises(Exception, match=r"newest entry in .*other/offsets is 7"):
        job.run_each(job.stream(), fn)
    assert job.published() == {}


def in_thread(job: Job, **options: str) -> Fn:
    """Writes in a thread that foreachBatch starts and waits for; the thread's error fails the batch."""

    def fn(df: Any, batch: int) -> None:
        errors: list[BaseException] = []

        def write() -> None:
            try:
                job.activate()
                job.write(df, **job.options(**{k: v.format(batch=batch) for k, v in options.items()}))
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]

    return fn


def test_a_thread_inside_has_no_identity_and_gets_the_line_to_add(job: Job) -> None:
    job.add_file(1, 2)
    message = r'this write has no name.*option\("txnAppId".*option\("txnVersion".*nothing was written by this task'
    with pytest.raises(Exception, match=message):
        job.run_each(job.stream(), in_thread(job))
    assert job.published() == {}
    threaded = in_thread(job, txnAppId="departures", txnVersion="{batch}")
    job.run_each(job.stream(), threaded)
    job.forget_last_commit()
    job.run_each(job.stream(), threaded)
    assert job.published() == {1: 1, 2: 1}


def test_two_writes_in_threads_of_one_batch_are_distinguished_by_the_run(job: Job) -> None:
    """Both digests are equal there; without the run the second write would pass for a replay and be dropped."""
    one = in_thread(job, txnAppId="departures", txnVersion="{batch}")

    def twice(df: Any, batch: int) -> None:
        one(df, batch)
        one(df.withColumn("n", F.col("n") + 1_000), batch)

    job.add_file(1)
    with pytest.raises(Exception, match="SECOND_WRITE"):
        job.run_each(job.stream(), wrapped(job, twice, True))
    assert job.published() == {1: 1}
