"""The format as Spark sees it, without Spark."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from oncegate_spark.errors import BadId, BadOption, BrokenMessages
from oncegate_spark.spark import logs
from oncegate_spark.spark.datasource import BatchWriter, Message, OncegateSource, StreamWriter
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers import target
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME
from oncegate_spark.spark.writers.empty import EmptyWrite

SCHEMA = StructType([StructField("id", StringType()), StructField("n", LongType()), StructField("x", DoubleType())])
GIVEN = {"url": "http://127.0.0.1:1", "topic": "t"}
CLAIM = {"url": "http://127.0.0.1:1", "write": "claim", "sink": "a:b"}


@pytest.fixture(autouse=True)
def nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the question to the gateway before any task, which test_target covers."""
    monkeypatch.setattr(target, "check_target", lambda options, schema: AS_THEY_COME)


def source(**given: str) -> OncegateSource:
    return OncegateSource({**GIVEN, **given})


def test_the_shim_is_what_spark_looks_for() -> None:
    from pyspark_oncegate import DefaultSource

    assert DefaultSource.name() == "oncegate"


def test_the_client_needs_no_spark() -> None:
    code = "import oncegate_spark, sys; sys.exit(any(name.startswith('pyspark') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_batch_and_stream_have_a_writer_each(tmp_path: Path) -> None:
    assert isinstance(source().writer(SCHEMA, False), BatchWriter)
    assert isinstance(source().streamWriter(SCHEMA, False), StreamWriter)


def test_overwriting_is_refused_on_the_driver() -> None:
    for make in (source().writer, source().streamWriter):
        with pytest.raises(BadOption, match="append"):
            make(SCHEMA, True)


def test_first_wins_without_a_write_id_is_refused_for_df_write_only() -> None:
    options = {"onReplayMismatch": "first_wins"}
    with pytest.raises(BadOption, match="writeId"):
        source(**options).writer(SCHEMA, False)
    source(**options, writeId="w").writer(SCHEMA, False)
    source(**options).streamWriter(SCHEMA, False)


def test_a_checkpoint_without_offsets_is_no_micro_batch(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="Continuous mode"):
        source(checkpointLocation=str(tmp_path)).streamWriter(SCHEMA, False)


@pytest.mark.parametrize("given", [CLAIM, {**GIVEN, "write": "ids"}], ids=["claim", "ids"])
@pytest.mark.parametrize(("id_col", "told"), [("x", "type double"), ("id,y", "idCol names y")])
def test_a_column_that_cannot_be_an_id_is_refused_on_the_driver(given: dict[str, str], id_col: str, told: str) -> None:
    with pytest.raises(BadId, match=told):
        OncegateSource({**given, "idCol": id_col}).writer(SCHEMA, False)


@pytest.mark.parametrize("write", ["staged", "ids", "plain"])
def test_a_key_column_that_is_not_there_is_refused_on_the_driver(write: str) -> None:
    made = source(write=write, **({"idCol": "id"} if write == "ids" else {}), keyCol="x,y")
    for make in (made.writer, made.streamWriter):
        with pytest.raises(BadOption, match="keyCol names y, and the rows have id, n, x"):
            make(SCHEMA, False)


class Recorder:
    """A writer that only records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def write(self, batches: Any, token: str, task: Any) -> Any:
        raise AssertionError("only commit and abort are called here")

    def commit(self, messages: Any, batch_id: int | None) -> None:
        self.calls.append(("commit", list(messages), batch_id))

    def abort(self, messages: Any) -> None:
        self.calls.append(("abort", list(messages)))


def test_a_message_that_is_missing_stops_the_commit_and_not_the_abort() -> None:
    recorder = Recorder()
    empty = EmptyWrite(Options.read(GIVEN), SCHEMA)
    batch, stream = BatchWriter(recorder, empty), StreamWriter(recorder, empty)
    for commit in (batch.commit, lambda messages: stream.commit(messages, 7)):
        with pytest.raises(BrokenMessages, match="1 of 2 tasks"):
            commit([Message("a", 1), None])
    batch.abort([None, Message("a", 1)])
    stream.abort([None], 7)
    stream.commit([Message("a", 1), Message("b", 0)], 7)
    assert recorder.calls == [("abort", ["a"]), ("abort", []), ("commit", ["a", "b"], 7)]


def test_log_lines_are_shown_without_a_logging_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("oncegate_spark")
    monkeypatch.setattr(log, "hasHandlers", lambda: False)
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    monkeypatch.setattr(log, "level", logging.NOTSET)
    logs.be_heard()
    assert len(log.handlers) == 1
    assert log.level == logging.INFO
