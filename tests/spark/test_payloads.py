"""digestCols on a real Spark: a repeated id with another payload fails the job, or is dropped and counted."""

from typing import Any

import pytest

from tests.spark.jobs.job import SCHEMA, Job

pytestmark = pytest.mark.spark


def rows(job: Job, *pairs: tuple[str, int]) -> Any:
    return job.spark.createDataFrame(list(pairs), SCHEMA).coalesce(1)


def test_an_id_with_another_payload_fails_the_write_by_claim_before_anything_of_it_is_written(job: Job) -> None:
    options = job.claim_options(digestCols="n")
    job.write(rows(job, ("a", 1), ("b", 2)), **options)
    job.write(rows(job, ("a", 1), ("b", 2)), **options)
    with pytest.raises(Exception, match=r"id column id, payload n: .*1 of 2 ids came with another payload .* 'b'"):
        job.write(rows(job, ("c", 3), ("b", 7)), **options)
    assert job.written() == {1: 1, 2: 1}
    job.write(rows(job, ("c", 3)), **options)
    assert job.written() == {1: 1, 2: 1, 3: 1}


def test_with_on_conflict_drop_a_stream_by_ids_continues_and_reports_how_many(job: Job) -> None:
    options = job.options(write="ids", idCol="id", digestCols="n", onConflict="drop")
    job.add_file(1, 2)
    job.run(job.stream(), **options)
    job.add_file(2, 3)
    changed = job.stream().selectExpr("id", "IF(n = 2, 9, n) AS n")
    job.run(changed, **options)
    assert job.published() == {1: 1, 2: 1, 3: 1}
    assert "batch 1: conflicts=1 rows dropped" in job.log()
    assert "1 of 2 ids came with another payload than before, the first: 'id-2'; dropped" in job.log()
    assert job.counters()["conflicts"] == 1
