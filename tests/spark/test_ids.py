"""write=ids on a real Spark: each row takes effect once by its id, whichever attempt sends it again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.proxy import Proxy, Trap
from oncegate_spark import Gateway
from tests.spark.jobs.faults import FaultySource, dies_once_when, wait_for
from tests.spark.jobs.job import SCHEMA, Job
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.spark
ONCE = {"write": "ids", "idCol": "id"}


@pytest.fixture
def by_id(job: Job) -> Callable[..., dict[str, str]]:
    """Returns the options of a write by ids; with `fault`, for format("oncegate_faulty")."""
    job.spark.dataSource.register(FaultySource)
    return lambda **more: job.options(**ONCE, **({"faultFolder": str(job.folder)} if "fault" in more else {}), **more)


Options = Callable[..., dict[str, str]]


def once(*numbers: int) -> dict[int, int]:
    return dict.fromkeys(numbers, 1)


def test_rows_sent_twice_by_an_upstream_take_effect_once(job: Job, by_id: Options) -> None:
    """Duplicates occur within a partition, across partitions, and across batches."""
    job.add_file(*range(20), *range(10))
    job.add_file(*range(5, 30))
    job.run(job.stream().repartition(3), **by_id())
    assert job.published() == once(*range(30))
    assert job.batches() == [0, 1]
    assert 'batch 0 by id in dedup scope "t" to topic t: rows=30 written=20 suppressed=10 own=0' in job.log()
    assert 'batch 1 by id in dedup scope "t" to topic t: rows=25 written=10 suppressed=15 own=0' in job.log()


def test_a_task_that_fails_after_its_rows_were_written_is_dropped_by_its_retry(job: Job, by_id: Options) -> None:
    job.add_file(*range(50))
    job.run(job.stream().repartition(2), "oncegate_faulty", **by_id(fault="kill_after_write"))
    assert (job.folder / "killed").exists()
    assert job.published() == once(*range(50))
    assert job.counters()["takeovers"] == 0


def test_a_worker_killed_in_the_middle_of_its_rows_loses_none(job: Job, by_id: Options, small_batches: None) -> None:
    job.add_file(*range(50))
    job.run(job.stream().coalesce(1).mapInArrow(dies_once_when(str(job.folder), 25), SCHEMA), **by_id())
    assert (job.folder / "killed-25").exists()
    assert job.published() == once(*range(50))


def test_a_replayed_batch_writes_nothing_whatever_its_partitions(job: Job, by_id: Options) -> None:
    job.add_file(*range(30))
    job.run(job.stream().repartition(2), **by_id())
    job.forget_last_commit()
    job.run(job.stream().repartition(5), **by_id())
    assert job.published() == once(*range(30))
    assert "rows=30 written=0 suppressed=30 own=0 takeovers=0" in job.log()


def test_a_restored_checkpoint_writes_only_what_is_new(job: Job, by_id: Options) -> None:
    """Ids do not depend on batches: the same batch number with other rows is no conflict."""
    job.add_file(1, 2)
    job.run(job.stream(), **by_id())
    saved = job.save_checkpoint()
    job.add_file(3)
    job.run(job.stream(), **by_id())
    job.restore_checkpoint(saved)
    job.add_file(4)
    job.run(job.stream(), **by_id())
    assert job.published() == once(1, 2, 3, 4)


def test_two_attempts_of_one_task_at_once_write_its_rows_once(job: Job, by_id: Options) -> None:
    """Two attempts run at once, as under speculation. Both succeed, and Spark takes the message of one."""
    job.write(job.rows(*range(40)), "oncegate_faulty", **by_id(fault="twin"))
    assert job.published() == once(*range(40))
    assert job.counters()["duplicates"] == 40


def test_a_zombie_that_writes_after_the_abort_writes_what_its_successor_drops(job: Job, by_id: Options) -> None:
    job.add_file(*range(20))
    with pytest.raises(Exception, match="partition 0 was made to fail"):
        job.run(job.stream().repartition(2), "oncegate_faulty", **by_id(fault="zombie"))
    wait_for(str(job.folder), "zombie-wrote")
    job.run(job.stream().repartition(3), **by_id())
    assert job.published() == once(*range(20))


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """Yields a gateway that a test may kill."""
    (tmp_path / "gateway").mkdir()
    with GatewayProcess(tmp_path / "gateway") as process:
        yield process


@pytest.mark.parametrize("killed", [False, True], ids=["reply lost", "gateway killed"])
def test_a_produce_whose_answer_never_came_is_asked_for_again_and_written_once(
    spark: Any, own_gateway: GatewayProcess, tmp_path: Path, spark_log: Path, killed: bool
) -> None:
    struck: list[str] = []
    repeated: list[str] = []

    def strike(request: str) -> None:
        struck.append(request)
        if killed:
            own_gateway.kill()
            own_gateway.start()

    with Proxy(own_gateway.port) as proxy, Gateway(f"http://127.0.0.1:{proxy.port}") as through:
        job = Job(spark, through, tmp_path / "job", spark_log)
        proxy.arm(Trap("produce", lambda: True, strike, repeated.append))
        job.add_file(*range(30))
        job.run(job.stream().coalesce(1), **job.options(**ONCE))
        assert len(struck) == 1
        assert set(repeated) == set(struck)
        assert job.published() == once(*range(30))
        assert "rows=30 written=0 suppressed=0 own=30 takeovers=0" in job.log()


def test_rows_claimed_and_written_elsewhere_in_one_set_are_not_written_to_the_topic_nor_the_other_way_round(
    job: Job, by_id: Options
) -> None:
    """A dedup scope grants an id once, whichever way the row was written."""
    job.write(job.rows(*range(10)), **job.claim_options(idSet="t"))
    job.write(job.rows(*range(5, 15)), **by_id())
    job.write(job.rows(*range(20)), **job.claim_options(idSet="t"))
    assert job.published() == once(*range(10, 15))
    assert job.written() == once(*range(10), *range(15, 20))


def test_a_row_whose_holder_died_is_waited_for_and_counted_as_taken_over(job: Job, by_id: Options) -> None:
    with job.gateway.attempt(id_set="t") as other:
        claimed = other.claim(["id-3"], lease_ms=1_000)
        job.write(job.rows(*range(6)), **by_id())
        other.settle(claimed, "complete")
    assert job.published() == once(*range(6))
    assert "rows=6 written=6 suppressed=0 own=0 takeovers=1" in job.log()


def test_an_id_may_have_several_columns_and_a_key_chooses_the_partition(job: Job, by_id: Options) -> None:
    job.gateway.create_topic("t", partitions=3)
    rows = job.rows(*range(60)).selectExpr("id", "n", "n % 6 as k")
    for _ in range(2):
        job.write(rows, **{**by_id(), "idCol": "k,n", "keyCol": "k"})
    held = [set(table.column("k").to_pylist()) for p in range(3) if (table := job.gateway.fetch("t", partition=p)[0])]
    assert sum(len(keys) for keys in held) == 6
    assert job.published() == once(*range(60))


def test_a_null_id_fails_the_job_with_the_rows_to_leave_out(job: Job, by_id: Options) -> None:
    rows = job.rows(1, 2, 3, partitions=1).selectExpr("case when n < 3 then null else id end id", "n")
    with pytest.raises(Exception, match=r"(?s)id column id: 2 of 3 rows .* null.*df\.where.*nothing was written by"):
        job.write(rows, **by_id())
    assert job.published() == {}


def test_a_run_without_new_rows_reports_that_where_spark_counts_output(job: Job) -> None:
    options = job.options(write="ids", idCol="id")
    job.write(job.rows(1, 2), **options)
    assert "are suppressed" not in job.log()
    job.write(job.rows(1, 2), **options)
    assert "df.write: all 2 rows are suppressed and none was written: each is already written" in job.log()
    assert job.published() == {1: 1, 2: 1}
