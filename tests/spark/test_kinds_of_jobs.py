"""Jobs beyond a map: counts, joins, several outputs per row, moved rows, a chain; killed and replayed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from demo.matrix.plans import OUTPUTS_OF_ONE, PLANS, Input, Plan
from oncegate_spark import foreach_batch
from tests.spark.jobs.faults import FaultySource, OlderSource
from tests.spark.jobs.job import Job

pytestmark = [pytest.mark.spark, pytest.mark.slow]
BATCHES = 2
WAYS = {"staged": {}, "ids": {"write": "ids", "idCol": "id"}, "plain": {"write": "plain"}}
ONE_JOB = [plan for plan in PLANS.values() if not plan.chained]


class Killed:
    """A job of a plan whose first task is killed after its write, and whose last batch is replayed."""

    def __init__(self, job: Job, plan: Plan, way: str) -> None:
        job.spark.dataSource.register(FaultySource)
        self.job, self.plan, self.way = job, plan, way
        self.given = Input(job.folder, BATCHES)
        self.given.write()

    def run(self, topic: str = "t", reads: str | None = None) -> None:
        """Runs the query with the kill, and again after its last entry in the commit log was deleted."""
        for parts in (2, 3):
            self._start(self.plan.output(lambda side: self._stream(side, reads), parts), topic)
            if parts == 2:
                assert self.job.forget_last_commit() == BATCHES - 1
        assert (self.job.folder / "killed").exists()

    def _stream(self, side: str, reads: str | None) -> Any:
        if reads is None:
            return self.given.stream(self.job.spark, side)
        rows = str(self.given.rows)  # a batch of the second job has the rows of one of the first
        where = {"url": self.job.gateway.url, "namespace": self.job.gateway.namespace, "maxRowsPerBatch": rows}
        return self.job.spark.readStream.format("oncegate").options(**where).load(reads)

    def _start(self, stream: Any, topic: str) -> None:
        fault = {"fault": "kill_after_write", "faultFolder": str(self.job.folder)}
        options = {**self.job.options(**fault), **WAYS[self.way], "topic": topic}

        def write(df: Any, _: int) -> None:
            self.job.write(df, "oncegate_faulty", **options)

        if self.plan.updates:
            each = foreach_batch(write, checkpoint=str(self.job.checkpoint))
            self.job.drain(stream.writeStream.outputMode("update").foreachBatch(each))
        else:
            self.job.run(stream, "oncegate_faulty", **options)


def ids(job: Job, topic: str = "t") -> Counter[str]:
    table = job.gateway.read(topic)
    assert table is not None
    return Counter(table.column("id").to_pylist())


@pytest.mark.parametrize("way", ["staged", "ids"])
@pytest.mark.parametrize("plan", ONE_JOB, ids=lambda plan: plan.name)
def test_every_output_is_there_once_after_a_kill_and_a_replay(job: Job, plan: Plan, way: str) -> None:
    killed = Killed(job, plan, way)
    killed.run()
    assert ids(job) == plan.expected(killed.given)


def test_without_a_gateways_help_the_same_kill_and_replay_write_outputs_twice(job: Job) -> None:
    """The baseline: shows that the faults above do cause duplicates."""
    killed = Killed(job, PLANS["count"], "plain")
    killed.run()
    written = ids(job)
    assert set(written) == set(PLANS["count"].expected(killed.given))
    assert max(written.values()) > 1


def test_by_the_id_of_the_input_alone_one_of_its_outputs_is_left(job: Job) -> None:
    """Shows why each output needs its own id."""
    given = Input(job.folder, batches=1)
    given.write()
    outputs = given.stream(job.spark, "left").selectExpr("id", f"explode(sequence(1, {OUTPUTS_OF_ONE})) part")
    job.run(outputs, **job.options(**WAYS["ids"]))
    assert ids(job) == Counter(f"id-{n}" for n in given.all_numbers())
    rows = given.rows
    assert f"rows={rows * OUTPUTS_OF_ONE} written={rows} suppressed={rows * (OUTPUTS_OF_ONE - 1)}" in job.log()


@pytest.mark.parametrize("way", ["staged", "ids"])
def test_a_count_of_what_another_job_writes_is_exact_when_both_are_killed_and_replayed(
    job: Job, spark_log: Path, way: str
) -> None:
    first = Killed(job, Plan("first", lambda streams, parts: streams("left").repartition(parts), each_row), way)
    first.run("first")
    second = Killed(Job(job.spark, job.gateway, job.folder / "second", spark_log), PLANS["chain"], way)
    second.run("second", reads="first")
    assert ids(job, "first") == first.plan.expected(first.given)
    assert ids(job, "second") == second.plan.expected(second.given)


def each_row(given: Input) -> Iterator[str]:
    return (f"id-{n}" for n in given.all_numbers())


def test_a_restored_checkpoint_of_the_same_files_continues(job: Job) -> None:
    """The offset log's entry contains a time, so it differs, although the batch reads the same input."""

    def stream() -> Any:
        return job.stream().withColumn("at", F.current_timestamp()).withColumn("random", F.expr("uuid()"))

    job.add_file(1, 2)
    job.run(stream())
    saved = job.save_checkpoint()
    for number in (3, 4):
        job.add_file(number)
        job.run(stream())
    job.restore_checkpoint(saved)
    job.add_file(5)
    job.run(stream())
    job.add_file(6)
    job.run(stream())
    assert job.published() == dict.fromkeys((1, 2, 3, 4, 5, 6), 1)
    assert job.counters()["duplicate_commits"] == 2


def test_a_query_of_a_client_that_did_not_report_its_input_continues(job: Job) -> None:
    """The older client's commits are identified only by the entries of the offset log, which a replay repeats."""
    job.spark.dataSource.register(OlderSource)
    job.add_file(1, 2)
    job.run(job.stream(), OlderSource.name(), **job.options())
    job.forget_last_commit()
    job.run(job.stream())
    job.add_file(3)
    job.run(job.stream())
    assert job.published() == {1: 1, 2: 1, 3: 1}
    assert job.counters()["duplicate_commits"] == 1


def test_a_restored_checkpoint_of_the_same_files_writes_nothing_again_by_id(job: Job) -> None:
    by_id = job.options(**WAYS["ids"])
    job.add_file(1, 2)
    job.run(job.stream(), **by_id)
    saved = job.save_checkpoint()
    job.add_file(3)
    job.run(job.stream(), **by_id)
    job.restore_checkpoint(saved)
    job.run(job.stream(), **by_id)
    assert job.published() == {1: 1, 2: 1, 3: 1}
