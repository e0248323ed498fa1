"""The writers without Spark, and their reports of written rows."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from deploy.ports import free_port
from oncegate_spark import Gateway
from oncegate_spark.errors import BadOption, NoIdentity, Outcome, TaskFailed
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark import sinks
from oncegate_spark.spark.task_identity import Task
from tests.support.spark_writes import Write, batches, published
from tests.support.stub_gateway import LOST, Answer, StubGateway, problem

pytestmark = pytest.mark.server


def test_no_identity_fails_the_task_before_it_reads_a_row(gateway: Gateway) -> None:
    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a row was read")
        yield

    write = Write(gateway, None)
    with pytest.raises(TaskFailed, match=r'option\("txnAppId"') as raised:
        write.writer.write(never(), new_token(), Task(partition=3, attempt=2))
    assert isinstance(raised.value.__cause__, NoIdentity)
    assert "partition 3, attempt 2" in str(raised.value)
    assert raised.value.outcome is Outcome.NOT_WRITTEN


class BrokenSink:
    """Fails in its second write."""

    def open(self, context: sinks.SinkContext) -> None:
        self.writes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.writes += 1
        if self.writes == 2:
            raise OSError("no space left on device")

    def close(self) -> None:
        pass


def test_a_sinks_error_reports_what_is_written_and_what_is_unknown(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "files", BrokenSink)
    write = Write(gateway, None, write="claim", idCol="id", sink="oncegate_spark.spark.sinks:files")
    message = r"OSError: no space left.*unknown: 1 rows were passed to the sink.*; 1 rows were written and completed"
    with pytest.raises(TaskFailed, match=message) as raised:
        write.writer.write(batches(1, 2, 3), new_token(), Task())
    assert raised.value.outcome is Outcome.UNKNOWN


class ClosedSink:
    """Raises in the call named by `breaks`, and counts how often it was closed."""

    breaks, closed = "", 0

    def open(self, context: sinks.SinkContext) -> None:
        self._called("open")

    def write(self, rows: pa.RecordBatch) -> None:
        self._called("write")

    def close(self) -> None:
        ClosedSink.closed += 1

    def _called(self, name: str) -> None:
        if name == self.breaks:
            raise OSError("no route to host")


@pytest.mark.parametrize(("breaks", "outcome"), [("open", Outcome.NOT_WRITTEN), ("write", Outcome.UNKNOWN), ("", None)])
def test_a_sink_is_closed_once_whatever_its_calls_raised(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, breaks: str, outcome: Outcome | None
) -> None:
    monkeypatch.setattr(ClosedSink, "breaks", breaks)
    monkeypatch.setattr(ClosedSink, "closed", 0)
    monkeypatch.setattr(sinks, "files", ClosedSink)
    write = Write(gateway, None, write="claim", idCol="id", sink="oncegate_spark.spark.sinks:files")
    if breaks:
        with pytest.raises(TaskFailed, match=rf"the sink's {breaks}\(\) raised OSError: no route") as raised:
            write.writer.write(batches(1), new_token(), Task())
        assert raised.value.outcome is outcome
    else:
        assert write.writer.write(batches(1), new_token(), Task()).written == 1
    assert ClosedSink.closed == 1


def test_a_sink_that_is_not_there_fails_with_its_name(gateway: Gateway) -> None:
    write = Write(gateway, None, write="claim", idCol="id", sink="my_job.sinks:open")
    with pytest.raises(TaskFailed, match=r"my_job.*every executor needs the module") as raised:
        write.task(1)
    assert isinstance(raised.value.__cause__, BadOption)


def test_claimed_rows_are_counted_over_all_tasks(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    files = {"sink": "oncegate_spark.spark.sinks:files", "sinkPath": str(tmp_path)}
    write = Write(gateway, None, write="claim", idCol="id", **files)
    write.writer.commit([write.task(1, 2), write.task(2, 3, 2)], 7)
    assert 'batch 7 by id in dedup scope "": rows=5 written=3 suppressed=2 takeovers=0' in caplog.text
    table = sinks.read_files(tmp_path)
    assert table is not None
    assert sorted(table.column("n").to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["staged", "ids", "claim", "plain"])
def test_without_a_gateway_each_writer_reports_that_nothing_was_written(
    gateway: Gateway, mode: str, tmp_path: Path
) -> None:
    more = {"idCol": "id"} if mode in ("ids", "claim") else {}
    if mode == "claim":
        more |= {"sink": "oncegate_spark.spark.sinks:files", "sinkPath": str(tmp_path)}
    write = Write(gateway, None, timeoutMs="1000", write=mode, **more)
    write.writer.options = replace(write.options, url=f"http://127.0.0.1:{free_port()}")
    message = rf"write={mode} through .*{write.writer.options.url}.*Refused.*nothing was written by this task"
    with pytest.raises(TaskFailed, match=message) as raised:
        write.task(1)
    assert raised.value.outcome is Outcome.NOT_WRITTEN


def test_plain_reports_what_it_has_written_and_what_is_unknown(gateway: Gateway) -> None:
    answers = [Answer(body=b'{"rows": 1, "offsets": []}'), problem(413, "TOO_LARGE", "fix")]
    with StubGateway(*answers, otherwise=lambda asked: LOST) as stub:
        write = Write(gateway, None, write="plain", timeoutMs="1000")
        write.writer.options = replace(write.options, url=stub.url)
        for told, outcome in (("1 rows were written by this task", Outcome.WRITTEN), ("unknown: ", Outcome.UNKNOWN)):
            with pytest.raises(TaskFailed, match=told) as raised:
                write.writer.write(large(2), new_token(), Task())
            assert raised.value.outcome is outcome


@pytest.mark.parametrize("mode", ["staged", "ids", "plain"])
def test_a_row_over_the_limit_is_reported_with_one_statement_of_what_is_written(gateway: Gateway, mode: str) -> None:
    write = Write(gateway, None, write=mode, **({"idCol": "id"} if mode == "ids" else {}))
    rows = [pa.RecordBatch.from_pydict({"id": [f"{n}"], "v": ["x" * size]}) for n, size in enumerate([9, 33 * 2**20])]
    with pytest.raises(TaskFailed, match=r"one row takes .*GET /v1/limits .*split the row; ") as raised:
        write.writer.write(iter(rows), new_token(), Task(query="q", batch="4"))
    assert str(raised.value).count("written by this task") == 1
    assert "nothing was written; " not in str(raised.value)


def large(count: int) -> Iterator[pa.RecordBatch]:
    """Yields batches of one chunk each."""
    for _ in range(count):
        yield pa.RecordBatch.from_pydict({"n": ["x" * 5_000_000]})


def test_an_unknown_namespace_is_answered_with_the_line_that_creates_it(gateway: Gateway) -> None:
    write = Write(gateway, None)
    write.writer.options = replace(write.options, namespace="nowhere")
    with pytest.raises(TaskFailed, match=r"NOT_FOUND.*PUT.*nowhere.*nothing was written by this task"):
        write.task(1)


def test_plain_is_loud(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    write = Write(gateway, None, write="plain")
    write.writer.commit([write.task(1), write.task(1)], None)
    assert "AT LEAST once" in caplog.text
    write.writer.abort([write.task(2)])
    assert "stay in topic t" in caplog.text
    assert published(gateway) == {1: 2, 2: 1}


def test_staged_rows_that_their_keys_divide_are_read_back_from_the_disk(gateway: Gateway) -> None:
    """Each partition's part of a chunk has other bytes than the chunk, and a digest of its own."""
    gateway.create_topic("t", partitions=2)
    write = Write(gateway, keyCol="id")
    write.writer.commit([write.task(*range(50))], 4)
    assert sum(published(gateway).values()) == 50
    assert all(high > 0 for high in gateway.topic("t").high_offsets)
