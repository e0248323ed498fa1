"""The gateway's counts of why rows were repeated, from the task attempts of a real Spark.

`test_executors` covers the causes that only executors show: a stage that reruns, and speculation.
"""

from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import pytest
from pyspark.sql import functions as F

from oncegate_spark import __version__, dedup, foreach_batch
from tests.spark.jobs.faults import FaultySource, first_time, wait_for
from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark

Options = Callable[..., dict[str, str]]
CAUSES = "duplicates_"


@pytest.fixture(params=["ids", "claim"])
def by_id(request: pytest.FixtureRequest, job: Job) -> Options:
    job.spark.dataSource.register(FaultySource)

    def made(**more: str) -> dict[str, str]:
        more = {"faultFolder": str(job.folder), **more}
        return job.claim_options(**more) if request.param == "claim" else job.options(write="ids", idCol="id", **more)

    return made


def causes(job: Job) -> dict[str, int]:
    found = {name.removeprefix(CAUSES): count for name, count in job.counters().items() if name.startswith(CAUSES)}
    return {cause: count for cause, count in found.items() if count}


def test_a_task_that_was_killed_and_runs_again_is_a_task_retry(job: Job, by_id: Options) -> None:
    job.add_file(*range(20))
    job.run(job.stream().coalesce(1), "oncegate_faulty", **by_id(fault="kill_after_write"))
    assert causes(job) == {"task_retry": 20}


def test_a_batch_that_a_new_run_of_the_query_replays_is_a_batch_replay(job: Job, by_id: Options) -> None:
    job.add_file(*range(20))
    job.run(job.stream().repartition(2), "oncegate_faulty", **by_id(fault="none"))
    job.forget_last_commit()
    job.run(job.stream().repartition(3), "oncegate_faulty", **by_id(fault="none"))
    assert causes(job) == {"batch_replay": 20}


def test_rows_twice_in_a_source_have_their_own_cause_in_one_batch_and_in_two(job: Job, by_id: Options) -> None:
    job.add_file(1, 2, 3)
    job.add_file(3, 4)
    job.run(job.stream().coalesce(1), "oncegate_faulty", **by_id(fault="none"))
    assert causes(job) == {"upstream": 1}
    twice = job.stream().withColumn("k", F.explode(F.array(F.lit(0), F.lit(1)))).repartition(2, "k").drop("k")
    job.add_file(7, 8)
    job.run(twice, "oncegate_faulty", **by_id(fault="none"))
    assert causes(job) == {"upstream": 3}, "a row in each of two tasks of one stage"


def test_rows_of_another_job_are_another_jobs_even_without_a_writer_name(job: Job, by_id: Options) -> None:
    job.add_file(1, 2)
    job.run(job.stream().coalesce(1), "oncegate_faulty", **by_id(fault="none"))
    job.write(job.rows(1, 2, 3), "oncegate_faulty", **by_id(fault="none"))
    assert causes(job) == {"other_job": 2}
    job.write(job.rows(3, 4), "oncegate_faulty", **by_id(fault="none"))
    assert causes(job) == {"other_job": 3}


def test_a_named_batch_job_that_runs_again_replays_its_batch(job: Job) -> None:
    for _ in range(2):
        job.write(job.rows(1, 2), **job.options(txnAppId="nightly", txnVersion="1"))
    assert causes(job) == {"batch_replay": 2}


def test_a_task_of_a_run_that_was_given_up_and_still_writes_is_a_zombie(job: Job) -> None:
    job.spark.dataSource.register(FaultySource)
    options = job.options(write="ids", idCol="id", faultFolder=str(job.folder))
    job.add_file(*range(20))
    with pytest.raises(Exception, match="partition 0 was made to fail"):
        job.run(job.stream().repartition(2), "oncegate_faulty", **options, fault="late_zombie")
    job.run(job.stream().repartition(3), "oncegate_faulty", **options, fault="none")
    assert causes(job) == {"batch_replay": 5}
    assert first_time(str(job.folder), "replayed")
    wait_for(str(job.folder), "zombie-wrote")
    assert causes(job) == {"batch_replay": 5, "zombie": 5}
    assert job.published() == dict.fromkeys(range(20), 1)


def test_a_write_inside_foreach_batch_is_known_by_its_query(job: Job) -> None:
    job.add_file(1, 2, 3)

    def write(df: Any, batch: int) -> None:
        job.write(df, **job.options(write="ids", idCol="id"))

    job.run_each(job.stream(), foreach_batch(write))
    job.forget_last_commit()
    job.run_each(job.stream(), foreach_batch(write))
    assert causes(job) == {"batch_replay": 3}


def test_a_batch_staged_or_committed_twice_has_the_cause_of_its_rows(job: Job) -> None:
    job.spark.dataSource.register(FaultySource)
    job.add_file(*range(20))
    options = job.options(fault="kill_after_write", faultFolder=str(job.folder))
    job.run(job.stream().coalesce(1), "oncegate_faulty", **options)
    assert causes(job) == {"task_retry": 20}
    job.forget_last_commit()
    job.run(job.stream().coalesce(1), "oncegate_faulty", **options)
    assert causes(job) == {"task_retry": 20, "batch_replay": 20}


def test_ids_that_dedup_finds_taken_are_another_jobs(job: Job) -> None:
    where = {"gateway": job.gateway.url, "namespace": job.gateway.namespace}
    taken = [dedup(job.rows(1, 2, 3), "id", job_key=key, **where).count() for key in ("a", "b")]
    assert taken == [3, 0]
    assert causes(job) == {"other_job": 3}


def test_the_gateway_counts_spark_by_the_version_of_its_client(job: Job) -> None:
    job.write(job.rows(1, 2), **job.options(write="ids", idCol="id"))
    with urlopen(f"{job.gateway.url}/metrics") as page:
        text = page.read().decode()
    assert f'oncegate_client_ids_total{{client="oncegate-spark",version="{__version__}"}}' in text
