"""Streams that are refused, and the errors of a job without its gateway."""

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from deploy.ports import free_port
from oncegate_spark import Gateway
from tests.spark.jobs.job import Job
from tests.support.before_any_task import refused_on_driver
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.spark


def test_continuous_mode_is_refused_because_it_commits_without_writing(job: Job) -> None:
    stream = job.spark.readStream.format("rate").load().selectExpr("cast(value as string) id", "value n")
    writer = stream.writeStream.format("oncegate").options(**job.options())
    query = writer.option("checkpointLocation", str(job.checkpoint)).trigger(continuous="1 second").start()
    try:
        with pytest.raises(Exception, match=r"(?s)contains no offsets.*Continuous mode does not work.*processingTime"):
            query.awaitTermination(60)
    finally:
        query.stop()
    assert job.published() == {}


def test_complete_mode_is_refused(job: Job) -> None:
    job.add_file(1, 2)
    counted = job.stream().groupBy("id").count()
    writer = counted.writeStream.format("oncegate").outputMode("complete").options(**job.options())
    with pytest.raises(Exception, match="topics are append-only"):
        job.drain(writer)
    assert job.published() == {}


def test_without_a_gateway_the_driver_fails_after_its_deadline_and_starts_no_task(job: Job) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    options = {**job.options(txnAppId="a", txnVersion="1"), "url": url, "timeoutMs": "1000"}
    refused_on_driver(job, rf"before any task: .*{url}.*ConnectionRefusedError.*nothing was written", **options)


def test_reasons_to_refuse_a_write_are_found_before_any_task(job: Job) -> None:
    named = job.options(txnAppId="a", txnVersion="1")
    refused_on_driver(job, "no namespace nowhere", **{**named, "namespace": "nowhere"})
    refused_on_driver(job, "topic is 'no such name'; a topic name has", **{**named, "topic": "no such name"})
    secure = job.gateway.url.replace("http:", "https:")
    refused_on_driver(job, "does not speak TLS: write http://", **{**named, "url": secure, "timeoutMs": "600000"})
    months = job.rows(1).selectExpr("id", "interval '1' year as lasts")
    refused_on_driver(job, r"lasts is of type interval year.*cast\(.string.\)", months, **named)
    job.write(months.selectExpr("id", "cast(lasts as string) lasts"), **{**named, "topic": "months"})
    refused_on_driver(job, "x is of type void", job.rows(1).selectExpr("id", "null as x"), **named)
    job.gateway.create_topic("other", schema=pa.schema([("n", pa.int32())]))
    line = re.escape('the topic has no id; n is int64 and int32 there: write df.select(F.col("n").cast("int"))')
    refused_on_driver(job, line, **{**named, "topic": "other"})
    job.write(job.rows(1).select(F.col("n").cast("int")), **{**named, "topic": "other"})
    assert job.published("other") == {1: 1}
    refused_on_driver(job, "the rows have no columns", job.rows(1, 2).select(), **named)
    assert job.published() == {}


def test_a_stream_is_refused_before_any_task_too(job: Job) -> None:
    job.add_file(1)
    with pytest.raises(Exception, match=r"before any task: .*no namespace nowhere"):
        job.run(job.stream(), **{**job.options(), "namespace": "nowhere"})
    with pytest.raises(Exception, match=r"gone is of type void"):
        job.run(job.stream().selectExpr("id", "null as gone"))
    assert job.published() == {}
    job.run(job.stream())
    assert job.published() == {1: 1}


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
    message = r'idCol has no effect with write=staged; add .option\("write", "ids"\) \(or write=claim\) or omit idCol'
    with pytest.raises(Exception, match=message):
        job.write(job.rows(1), **job.options(txnAppId="a", txnVersion="1", idCol="id"))
    with pytest.raises(Exception, match="no option compression with write=plain: omit it; the options are"):
        job.write(job.rows(1), **job.options(write="plain", compression="zstd"))
    with pytest.raises(Exception, match="mergeSchema has no effect with write=claim"):
        job.write(job.rows(1), **job.claim_options(mergeSchema="true"))
    with pytest.raises(Exception, match="idCol has no effect on a read"):
        job.spark.read.format("oncegate").options(**job.options(idCol="id")).load()
    assert job.published() == {}
