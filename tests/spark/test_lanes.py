"""Sequences of a source on a real Spark: each row once by its position, acked after the commit log; refused plans."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncegate_spark import acknowledger, assign_sequences
from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.spark import assign_sequences as sequencing
from oncegate_spark.spark.options import Options
from tests.spark.jobs.faults import FaultySource
from tests.spark.jobs.job import Job
from tests.spark.jobs.stub_kafka import NAME, StubKafka, hold, numbers

pytestmark = pytest.mark.spark
LANES = {"producerCol": "oncegate_producer", "sequenceCol": "oncegate_sequence"}
ROOT = Path(__file__).parents[2]
Events = Callable[..., Any]


@pytest.fixture
def log(job: Job) -> Path:
    return job.folder / "log.json"


@pytest.fixture
def events(job: Job, log: Path, monkeypatch: pytest.MonkeyPatch) -> Events:
    """Returns a reader that gives the stream in the form of the Kafka source."""
    monkeypatch.setattr(sequencing, "SOURCE", NAME)
    job.spark.dataSource.register(StubKafka)
    job.spark.dataSource.register(FaultySource)

    def read(**options: str) -> Any:
        hold(log, p0=0)
        return job.spark.readStream.format(NAME).option("log", str(log)).options(**options).load()

    return read


def by_place(job: Job, write: str, lease_ms: int = 10_000, **more: str) -> dict[str, str]:
    options = job.options(**LANES, write=write, **more)
    if write == "ids":
        return options
    return {**options, "sink": "oncegate_spark.spark.sinks:files", "sinkPath": str(job.out), "leaseMs": str(lease_ms)}


def there(job: Job, write: str) -> Any:
    return job.written() if write == "claim" else job.published()


def once(numbers: list[int]) -> dict[int, int]:
    return dict.fromkeys(numbers, 1)


def standing(job: Job, partition: int, write: str = "ids") -> tuple[int | None, int | None]:
    """Returns the watermark and the highest claimed sequence of a partition on its way to the target of this mode."""
    target = Options.read(by_place(job, write)).target
    explained = job.gateway.producer(f"events-{partition}@{target}", driver="any").explain()
    return explained["watermark"], explained["claimed_to"]


@pytest.mark.parametrize("write", ["claim", "ids"])
def test_a_batch_replayed_before_its_commit_was_logged_writes_nothing_twice_and_a_later_one_is_acked(
    job: Job, events: Events, log: Path, write: str
) -> None:
    """The driver dies after the sink and before Spark's commit log; then again with the commit log written."""
    stream = assign_sequences(events().where("n % 5 <> 0").coalesce(2))
    kept = [n for n in numbers(p0=40, p1=25, p2=9) if n % 5]
    hold(log, p0=40, p1=25, p2=9)
    job.run(stream, **by_place(job, write))
    job.forget_last_commit()
    assert standing(job, 0, write) == (None, 39)
    job.run(stream, **by_place(job, write))
    assert there(job, write) == once(kept)
    assert f"rows={len(kept)} written=0 suppressed={len(kept)}" in job.log()
    hold(log, p0=60, p1=25, p2=20)
    job.run(stream, **by_place(job, write))
    assert standing(job, 0, write) == (39, 59)
    assert standing(job, 1, write) == (24, 24)
    assert there(job, write) == once([n for n in numbers(p0=60, p1=25, p2=20) if n % 5])
    assert job.counters()["takeovers"] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_driver_killed_before_the_commit_log_is_acked_up_to_the_previous_batch_and_its_successor_continues(
    job: Job, events: Events, log: Path
) -> None:
    """Kills the JVM and the driver's Python with SIGKILL when the gateway and the sink have all of batch 1."""
    stream = assign_sequences(events())
    where = [job.gateway.url, job.gateway.namespace, str(job.folder)]
    command = [sys.executable, "-m", "tests.spark.jobs.killed_lanes", *where]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert killed.returncode != 0
    assert job.batches() == [0], killed.stderr[-4000:]
    assert standing(job, 0) == (39, 59)
    assert job.published() == once(numbers(p0=60, p1=25))
    job.run(stream, **by_place(job, "ids"))
    assert "rows=17 written=0 suppressed=17" in job.log()
    hold(log, p0=70, p1=25)
    job.run(stream, **by_place(job, "ids"))
    assert standing(job, 0) == (59, 68)
    assert job.published() == once(numbers(p0=70, p1=25))


@pytest.mark.parametrize("fault", ["kill_after_write", "twin", "fail_after_commit"])
def test_an_attempt_that_dies_its_twin_and_a_failed_driver_leave_each_row_once(
    job: Job, events: Events, log: Path, fault: str
) -> None:
    stream = assign_sequences(events())
    hold(log, p0=40, p1=25)
    options = by_place(job, "claim", fault=fault, faultFolder=str(job.folder))
    if fault == "fail_after_commit":
        with pytest.raises(Exception, match="made to fail after its commit"):
            job.run(stream, "oncegate_faulty", **options)
        assert job.batches() == []
    job.run(stream, "oncegate_faulty", **options)
    assert job.written() == once(numbers(p0=40, p1=25))
    assert job.counters()["takeovers"] == 0


def test_the_last_batch_is_acked_when_its_progress_is_reported(job: Job, events: Events, log: Path) -> None:
    stream = assign_sequences(events())
    hold(log, p0=20)
    listener = acknowledger(str(job.checkpoint))
    job.spark.streams.addListener(listener)
    try:
        job.run(stream, **by_place(job, "ids"))
        acked = job.checkpoint / "oncegate" / "acks"
        wait_until(lambda: not list(acked.glob("*.json")))
    finally:
        job.spark.streams.removeListener(listener)
    assert standing(job, 0) == (19, 19)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits for the result of another thread; raises AssertionError after 30 s."""
    import threading

    pause = threading.Event()
    for _ in range(3_000):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("it never came")


def test_a_lane_that_was_shuffled_after_the_check_of_the_plan_fails_and_is_not_green(
    job: Job, events: Events, log: Path
) -> None:
    stream = assign_sequences(events()).repartition(2)
    hold(log, p0=60)
    with pytest.raises(Exception, match=r"(?s)(OUT_OF_ORDER|contiguous range|PRODUCER_BUSY)"):
        job.run(stream, **by_place(job, "claim", lease_ms=1_000))
    assert job.batches() == []


def test_ids_of_a_batch_are_forgotten_once_the_next_begins(job: Job) -> None:
    options = job.options(write="ids", idCol="id", scope="retry")
    job.add_file(1, 2)
    job.run(job.stream(), **options)
    job.forget_last_commit()
    job.run(job.stream(), **options)
    assert job.published() == once([1, 2])
    assert job.gateway.explain("id-1", id_set="t")["state"] == "DONE"
    job.add_file(3)
    job.run(job.stream(), **options)
    assert job.gateway.explain("id-1", id_set="t")["state"] == "ABSENT"
    assert job.gateway.explain("id-3", id_set="t")["state"] == "DONE"
    assert job.published() == once([1, 2, 3])


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "repartition": (lambda df: df.repartition(3), "Repartition comes between"),
    "by a column": (lambda df: df.repartition("partition"), "RepartitionByExpression comes between"),
    "sort within tasks": (lambda df: df.sortWithinPartitions("n"), "Sort comes between"),
    "aggregate": (lambda df: df.dropDuplicates(["topic", "partition", "offset"]), "Deduplicate comes between"),
    "join": (lambda df: df.join(df.sparkSession.range(3).toDF("n"), "n"), "Join comes between"),
    "union": (lambda df: df.union(df), "Union comes between"),
    "explode": (lambda df: df.selectExpr("*", "explode(array(1, 2)) e"), "Generate comes between"),
    "limit": (lambda df: df.limit(3), "Limit comes between"),
    "any function": (lambda df: df.mapInArrow(lambda rows: rows, df.schema), "MapInArrow comes between"),
    "no offset": (lambda df: df.drop("offset"), "columns topic, partition and offset"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_may_split_or_shuffle_a_lane_is_refused_with_the_way_that_works(events: Events, case: str) -> None:
    change, told = REFUSED[case]
    with pytest.raises(Refused, match=rf'(?s){told}.*option\("idCol", "topic,partition,offset"\).*staged'):
        assign_sequences(change(events()))


@pytest.mark.parametrize("option", ["minPartitions", "maxRecordsPerPartition", "MINPARTITIONS"])
def test_a_source_that_reads_one_partition_in_several_tasks_is_refused(events: Events, option: str) -> None:
    with pytest.raises(Refused, match=rf"(?i)with {option} several tasks read one partition of the Kafka source"):
        assign_sequences(events(**{option: "8"}))


def test_rows_of_another_source_are_refused_whatever_their_columns(job: Job) -> None:
    files = "cast(id as string) topic, cast(n as int) partition, n offset"
    made = job.spark.createDataFrame([("id-1", 1)], "id string, n bigint")
    for df in (job.stream().selectExpr(*files.split(", ")), made.selectExpr(*files.split(", "))):
        with pytest.raises(Refused, match="there is no Kafka stream here"):
            assign_sequences(df)


def test_what_leaves_rows_in_their_task_and_order_is_taken(events: Events) -> None:
    df = events().where("n > 3").selectExpr("*", "n + 1 as m", "timestamp_seconds(n) as ts").coalesce(2)
    df = df.withWatermark("ts", "1 minute")
    assigned = assign_sequences(df, producer="lane", sequence="at")
    assert assigned.columns[-2:] == ["lane", "at"]
    with pytest.raises(BadOption, match="column LANE already exists"):
        assign_sequences(assigned, producer="LANE")
