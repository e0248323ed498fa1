"""The guarantees of a job, explained before it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from oncegate_spark import explain_job
from oncegate_spark.errors import BadId, BadOption

pytestmark = pytest.mark.spark
ROOT = str(Path(__file__).parents[2])
# No server listens there: an explanation sends no request to a gateway.
TARGET = {"url": "http://127.0.0.1:1", "topic": "t"}


def stream(spark: Any, source: str = "rate") -> Any:
    return spark.readStream.format(source).option("host", "127.0.0.1").option("port", "1").load()


def test_a_stream_with_its_checkpoint_is_effectively_once_and_shows_its_conditions(spark: Any) -> None:
    explanation = explain_job(stream(spark), **TARGET, checkpointLocation="/data/checkpoint")
    assert (explanation.write, explanation.guarantee) == ("staged", "effectively_once")
    assert "the input of a replayed batch is compared, in the checkpoint /data/checkpoint" in explanation.because
    assert "write=staged is the default" in explanation.because
    assert not [one for one in explanation.unless if "no checkpoint" in one or "not deterministic" in one]
    assert str(explanation).splitlines()[0] == f"write=staged, effectively_once: {explanation.keeps}"


def test_a_stream_without_a_named_checkpoint_shows_the_effect_of_a_replay(spark: Any) -> None:
    explanation = explain_job(stream(spark), **TARGET)
    assert [one for one in explanation.unless if one.startswith("no checkpoint is set") and "BATCH_CONFLICT" in one]


def test_a_plan_that_makes_other_values_at_each_run_is_seen(spark: Any) -> None:
    rows = stream(spark).withColumn("id", F.expr("uuid()"))
    explanation = explain_job(rows, **TARGET, guarantee="effectively_once", idCol="id")
    assert explanation.write == "ids"
    assert "guarantee=effectively_once selects write=ids" in explanation.because
    assert 'a row is recognised by its id in dedup scope "t"' in explanation.because
    assert [one for one in explanation.unless if "uuid()" in one and "never a duplicate" in one]
    (first_stays,) = [one for one in explain_job(rows, **TARGET).unless if "uuid()" in one]
    assert "published first stay" in first_stays


def test_a_source_that_cannot_be_read_again_is_named(spark: Any) -> None:
    explanation = explain_job(stream(spark, "socket"), **TARGET)
    assert [one for one in explanation.unless if one.startswith("source socket cannot be read again")]
    assert not [one for one in explain_job(stream(spark), **TARGET).unless if "cannot be read again" in one]


def test_a_batch_job_without_a_name_gets_a_warning(spark: Any) -> None:
    unnamed = explain_job(spark.range(3), **TARGET)
    assert [one for one in unnamed.unless if "txnAppId and txnVersion" in one]
    named = explain_job(spark.range(3), **TARGET, txnAppId="load", txnVersion="1")
    assert "a batch is recognised by txnAppId load and txnVersion 1" in named.because
    assert not [one for one in named.unless if "txnVersion" in one]


def test_reasons_to_refuse_the_write_are_reported_here(spark: Any) -> None:
    with pytest.raises(BadOption, match="cannot undo"):
        explain_job(spark.range(3), **TARGET, guarantee="effectively_once", sink="a:b")
    with pytest.raises(BadId, match="idCol names nowhere"):
        explain_job(spark.range(3), **TARGET, write="ids", idCol="nowhere")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_kafka_source_that_reads_uncommitted_rows_gets_a_warning_with_the_line_to_write(tmp_path: Path) -> None:
    """Uses the real connector, in a separate process: its jars must be present before Spark starts."""
    command = [sys.executable, "-m", "tests.spark.jobs.uncommitted"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ROOT})
    assert done.returncode == 0, done.stderr[-4000:]
    line = '.option("kafka.isolation.level", "read_committed")'
    answer = json.loads(done.stdout.splitlines()[-1])
    assert {name: line in text for name, text in answer.items()} == {
        "explain_job of a stream": True,
        "explain_job of a batch": True,
        "explain_job of committed rows": False,
        "assign_sequences": True,
        "assign_sequences of committed rows": False,
    }
