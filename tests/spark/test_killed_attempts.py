"""Task attempts that die: SIGKILL of the worker, exceptions, and a zombie that continues to write."""

from pathlib import Path

import pytest

from tests.spark.jobs.job import Job

pytestmark = pytest.mark.spark


@pytest.fixture
def faults(job: Job) -> dict[str, str]:
    job.spark.dataSource.register(_faulty())
    return {"faultFolder": str(job.folder)}


def _faulty() -> type:
    from tests.spark.jobs.faults import FaultySource

    return FaultySource


def test_a_worker_killed_after_it_staged_everything_publishes_nothing_twice(job: Job, faults: dict[str, str]) -> None:
    job.add_file(*range(50))
    job.run(job.stream().repartition(2), "oncegate_faulty", **job.options(fault="kill_after_write", **faults))
    assert (job.folder / "killed").exists()
    assert job.published() == dict.fromkeys(range(50), 1)
    assert job.counters()["staged_rows"] > 50
    assert job.counters()["stage_bytes"] == 0


def test_a_worker_killed_in_the_middle_of_its_rows_is_written_once(job: Job, small_batches: None) -> None:
    from tests.spark.jobs.faults import dies_once_when

    job.add_file(*range(50))
    job.run(job.stream().coalesce(1).mapInArrow(dies_once_when(str(job.folder), 25), "id string, n bigint"))
    assert (job.folder / "killed-25").exists()
    assert job.published() == dict.fromkeys(range(50), 1)


def test_three_failures_of_four_still_publish_once(job: Job, faults: dict[str, str]) -> None:
    job.add_file(*range(10))
    job.run(job.stream().repartition(2), "oncegate_faulty", **job.options(fault="raise_thrice", **faults))
    assert job.published() == dict.fromkeys(range(10), 1)


def test_plain_writes_again_what_a_killed_worker_had_written(job: Job, faults: dict[str, str]) -> None:
    """The baseline, which the other ways to write improve on."""
    job.add_file(1, 2, 3)
    options = job.options(write="plain", fault="kill_after_write", **faults)
    job.run(job.stream().coalesce(1), "oncegate_faulty", **options)
    assert job.published() == {1: 2, 2: 2, 3: 2}
    assert "AT LEAST once" in job.log()


def test_claim_suppresses_what_a_killed_worker_had_completed(job: Job, faults: dict[str, str]) -> None:
    job.add_file(1, 2, 3)
    options = job.claim_options(fault="kill_after_write", **faults)
    job.run(job.stream().coalesce(1), "oncegate_faulty", **options)
    assert job.written() == {1: 1, 2: 1, 3: 1}
    assert job.counters()["takeovers"] == 0
    assert "rows=3 written=0 suppressed=3 takeovers=0" in job.log()


@pytest.mark.parametrize("sink", ["DyingFileSink", "RaisingFileSink"])
def test_claim_writes_twice_only_what_was_taken_over(
    job: Job, faults: dict[str, str], small_batches: None, sink: str
) -> None:
    """The second Arrow batch is on disk and was not reported: its lease must run out, and its rows may be written
    twice."""
    job.add_file(*range(35))
    job.run(job.stream().coalesce(1), **job.claim_options(sink=f"tests.spark.jobs.faults:{sink}", **faults))
    written = job.written()
    assert set(written) == set(range(35))
    assert {n for n, times in written.items() if times == 2} == set(range(10, 20))
    assert job.counters()["takeovers"] == 10
    assert "takeovers=10" in job.log()


def test_a_sink_slower_than_its_lease_keeps_it(job: Job) -> None:
    options = job.claim_options(sink="tests.spark.jobs.faults:SlowFileSink", pauseS="2.5")
    job.write(job.rows(1, 2, partitions=1), **options)
    assert job.written() == {1: 1, 2: 1}
    assert job.counters()["takeovers"] == 0


def test_a_zombie_that_stages_after_the_abort_changes_nothing(job: Job, faults: dict[str, str]) -> None:
    job.add_file(*range(20))
    stream = job.stream().repartition(2)
    zombie = job.options(fault="zombie", **faults)
    with pytest.raises(Exception, match="partition 0 was made to fail"):
        job.run(stream, "oncegate_faulty", **zombie)
    _wait_for(job.folder / "zombie-wrote")
    assert job.published() == {}
    job.run(stream)
    assert job.published() == dict.fromkeys(range(20), 1)
    assert job.counters()["stage_bytes"] == 0


def _wait_for(path: Path) -> None:
    from tests.spark.jobs.faults import wait_for

    wait_for(str(path.parent), path.name)


@pytest.mark.parametrize("fault", ["fail_before_commit", "fail_after_commit"])
def test_a_driver_that_fails_around_its_commit_publishes_once(job: Job, faults: dict[str, str], fault: str) -> None:
    """Spark also aborts after a commit that took effect."""
    job.add_file(*range(20))
    options = job.options(fault=fault, **faults)
    with pytest.raises(Exception, match="the driver was made to fail"):
        job.run(job.stream().repartition(2), "oncegate_faulty", **options)
    assert job.published() == ({} if fault == "fail_before_commit" else dict.fromkeys(range(20), 1))
    job.run(job.stream().repartition(3), "oncegate_faulty", **options)
    assert job.published() == dict.fromkeys(range(20), 1)
    assert job.batches() == [0]
