"""What a stream is refused for, and what a job without its gateway says."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from oncegate_spark import Gateway
from tests.spark.jobs.job import Job
from tests.support.gateway_process import GatewayProcess, free_port

pytestmark = pytest.mark.spark


def test_continuous_mode_is_refused_because_it_commits_without_writing(job: Job) -> None:
    stream = job.spark.readStream.format("rate").load().selectExpr("cast(value as string) id", "value n")
    writer = stream.writeStream.format("oncegate").options(**job.options())
    query = writer.option("checkpointLocation", str(job.checkpoint)).trigger(continuous="1 second").start()
    try:
        with pytest.raises(Exception, match=r"(?s)holds no offsets.*Continuous mode does not work.*processingTime"):
            query.awaitTermination(60)
    finally:
        query.stop()
    assert job.published() == {}


def test_complete_mode_is_refused(job: Job) -> None:
    job.add_file(1, 2)
    counted = job.stream().groupBy("id").count()
    writer = counted.writeStream.format("oncegate").outputMode("complete").options(**job.options())
    with pytest.raises(Exception, match="a topic only grows"):
        job.drain(writer)
    assert job.published() == {}


def test_without_a_gateway_the_task_fails_after_its_deadline_and_says_what_is_written(job: Job) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    options = {**job.options(txnAppId="a", txnVersion="1"), "url": url, "timeoutMs": "1000"}
    with pytest.raises(Exception, match=rf"(?s){url}.*ConnectionRefusedError.*nothing was written by this task"):
        job.write(job.rows(1, partitions=1), **options)


def test_an_older_copy_of_the_ledger_is_noticed_by_its_mark(spark: Any, tmp_path: Path, spark_log: Path) -> None:
    (tmp_path / "gateway").mkdir()
    """A backup put back, witness and all: only the client knows better, and it brings what it knows."""
    with GatewayProcess(tmp_path / "gateway") as process, Gateway(process.url) as client:
        job = Job(spark, client, tmp_path / "job", spark_log)
        job.add_file(1)
        job.run(job.stream())
        (kept,) = (job.checkpoint / "oncegate").iterdir()
        assert kept.read_text().count(":") == 2
        process.stop()
        shutil.copytree(process.folder, tmp_path / "backup")
        process.start()
        job.add_file(2)
        job.run(job.stream())
        process.stop()
        shutil.rmtree(process.folder)
        shutil.copytree(tmp_path / "backup", process.folder)
        process.start()
        job.add_file(3)
        with pytest.raises(Exception, match="LEDGER_BEHIND"):
            job.run(job.stream())
        assert job.batches() == [0, 1]


def test_an_option_of_another_way_is_refused_before_a_task_starts(job: Job) -> None:
    told = r'idCol does nothing with write=staged; add .option\("write", "ids"\) \(or write=claim\) or leave idCol out'
    with pytest.raises(Exception, match=told):
        job.write(job.rows(1), **job.options(txnAppId="a", txnVersion="1", idCol="id"))
    with pytest.raises(Exception, match="no option mergeschema with write=plain: leave it out; there are"):
        job.write(job.rows(1), **job.options(write="plain", mergeSchema="true"))
    with pytest.raises(Exception, match="idCol does nothing on a read"):
        job.spark.read.format("oncegate").options(**job.options(idCol="id")).load()
    assert job.published() == {}
