"""The ways to write without Spark around them: what travels in messages, and what commit refuses."""

import logging
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import Gateway, marks, sinks
from oncegate_spark.checkpoint import DriverNotes, Input
from oncegate_spark.errors import BadOption, BrokenMessages, Conflict, NoIdentity, Outcome, SecondWrite, TaskFailed
from oncegate_spark.identity import Task
from oncegate_spark.options import Options
from oncegate_spark.protocol import new_token
from oncegate_spark.writers import way_of
from oncegate_spark.writers.staged import Staged
from tests.support.gateway_process import free_port
from tests.support.stub_gateway import LOST, Answer, StubGateway, problem

pytestmark = pytest.mark.server
READ = Input(4, "0a" * 32, "0b" * 32)


class Write:
    """A driver and its tasks, by hand: each `task` is one attempt, its message as Spark carries it."""

    def __init__(self, gateway: Gateway, read: Input | None = READ, **more: str) -> None:
        self.options = Options.read({"url": gateway.url, "namespace": gateway.namespace, "topic": "t", **more})
        self.way: Any = way_of(self.options, read)

    def task(self, *numbers: int, run: str | None = "r" * 8, batch: str | None = "4", **more: Any) -> Any:
        task = Task(query="q" if batch else None, batch=batch, run=run, **more)
        return carried(carried(self.way).write(batches(*numbers), new_token(), task))


def carried(thing: Any) -> Any:
    """As Spark does with writers and messages."""
    return pickle.loads(pickle.dumps(thing))


def batches(*numbers: int) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        yield pa.RecordBatch.from_pydict({"id": [f"id-{number}"], "n": pa.array([number], pa.int64())})


def published(gateway: Gateway) -> Counter[int]:
    table = gateway.read("t")
    return Counter() if table is None else Counter(table.column("n").to_pylist())


def test_only_the_attempts_that_spark_names_are_published(gateway: Gateway) -> None:
    write = Write(gateway)
    write.task(1, 2)
    winner, other = write.task(1, 2), write.task(3)
    write.way.commit([winner, other], 4)
    assert published(gateway) == {1: 1, 2: 1, 3: 1}


def test_every_attempt_has_a_token_of_its_own(gateway: Gateway) -> None:
    write = Write(gateway)
    assert len({write.task(1).token for _ in range(5)}) == 5


def test_an_abort_names_tokens_and_leaves_everything_else(gateway: Gateway) -> None:
    """A zombie's abort must not delete what its successor has staged under the same name."""
    zombie, successor = Write(gateway), Write(gateway)
    stale, fresh = zombie.task(1), successor.task(1)
    zombie.way.abort([stale])
    successor.way.commit([fresh], 4)
    zombie.way.abort([stale])
    successor.way.abort([fresh])
    assert published(gateway) == {1: 1}


def test_the_digest_travels_with_the_messages_and_must_be_the_batchs(gateway: Gateway) -> None:
    """Read when the batch began: at its commit a zombie would find its successor's."""
    write = Write(gateway, Input(5, "0c" * 32, None))
    with pytest.raises(BrokenMessages, match=r"batch 4 began while the newest entry .* was 5"):
        write.way.commit([write.task(1)], 4)
    with pytest.raises(BrokenMessages, match="Spark commits batch 5, and the tasks wrote batch 4"):
        Write(gateway).way.commit([Write(gateway).task(1)], 5)
    message = Write(gateway).task(1)
    assert message.read == READ
    Write(gateway, Input(99, "0d" * 32, None)).way.commit([message], 4)
    with pytest.raises(Conflict):
        write.way.commit([replace(write.task(1), read=Input(4, "0e" * 32, None), run="s")], 4)


def test_messages_of_different_batches_are_never_committed_together(gateway: Gateway) -> None:
    write = Write(gateway)
    mixed = [write.task(1), replace(write.task(2), run="another")]
    with pytest.raises(BrokenMessages, match="name different batches"):
        write.way.commit(mixed, 4)


def test_no_message_no_effect(gateway: Gateway) -> None:
    write = Write(gateway)
    write.way.commit([], 4)
    write.way.abort([])
    assert gateway.describe()["counters"]["committed_rows"] == 0


def test_empty_partitions_are_part_of_the_batch(gateway: Gateway) -> None:
    write = Write(gateway)
    write.way.commit([write.task(), write.task(1), write.task()], 4)
    again = Write(gateway)
    again.way.commit([again.task(1, run="s")], 4)
    empty = Write(gateway, Input(5, "0f" * 32, READ.digest))
    empty.way.commit([empty.task(batch="5")], 5)
    assert published(gateway) == {1: 1}


def test_what_a_raising_task_has_staged_is_dropped_at_once(gateway: Gateway) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": ["x" * 5_000_000]}).slice(0, 0)
        yield from batches(1)
        raise RuntimeError("the source broke")

    write = Write(gateway)
    with pytest.raises(RuntimeError, match="the source broke"):
        write.way.write(broken(), new_token(), Task(query="q", batch="4"))
    assert gateway.describe()["counters"]["stage_bytes"] == 0


def test_a_task_goes_on_sending_when_its_batch_is_committed_so_that_rows_can_be_compared(gateway: Gateway) -> None:
    first = Write(gateway, None)
    first.way.commit([first.task(1, 2)], 4)
    same, other = Write(gateway, None), Write(gateway, None)
    message = same.task(2, 1, run="s")
    assert (message.rows, message.chunks) == (2, 1)
    same.way.commit([message], 4)
    with pytest.raises(Conflict, match=r'committed at .*"txnAppId".*option\("onReplayMismatch", "first_wins"\)'):
        other.way.commit([other.task(1, 3, run="s2")], 4)
    told = Write(gateway, None, onReplayMismatch="first_wins")
    told.way.commit([told.task(1, 3, run="s3")], 4)
    assert published(gateway) == {1: 1, 2: 1}


def test_a_second_write_of_one_run_says_what_to_add(gateway: Gateway) -> None:
    write, second = Write(gateway), Write(gateway)
    write.way.commit([write.task(1)], 4)
    with pytest.raises(SecondWrite, match=r'option\("writeId"'):
        second.way.commit([second.task(2)], 4)
    named = Write(gateway, writeId="second")
    named.way.commit([named.task(2)], 4)
    assert published(gateway) == {1: 1, 2: 1}


def test_one_line_per_batch_tells_what_became_of_its_rows(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    for run in ("r", "s"):
        write = Write(gateway)
        write.way.commit([write.task(1, 2, run=run)], 4)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "batch 4 of q to topic t: COMMITTED rows=2 suppressed=0 takeovers=0 first_offset=0" in lines[0]
    assert "DUPLICATE rows=2 suppressed=2" in lines[1]


def test_an_unknown_input_is_warned_of(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    write = Write(gateway, None)
    write.way.commit([write.task(1)], 4)
    assert "digest is unknown" in caplog.text
    assert "foreach_batch(fn, checkpoint=…)" in caplog.text
    caplog.clear()
    named = Write(gateway, None, txnAppId="daily", txnVersion="1")
    named.way.commit([named.task(1, batch=None, run=None)], None)
    assert "digest" not in caplog.text


def test_the_newest_mark_is_kept_beside_the_checkpoint_and_brought_back(gateway: Gateway, tmp_path: Path) -> None:
    write = Write(gateway, READ, checkpointLocation=str(tmp_path))
    message: Staged = write.task(1)
    write.way.commit([message], 4)
    kept = marks.read(tmp_path, gateway.namespace)
    assert kept is not None
    assert message.kept.mark is not None
    assert int(kept.split(":")[1]) > int(message.kept.mark.split(":")[1])
    assert Write(gateway, READ, checkpointLocation=str(tmp_path)).way.mark == kept
    noted = DriverNotes(None, str(tmp_path), None, {gateway.namespace: kept[:-1] + ("0" if kept[-1] != "0" else "1")})
    with pytest.raises(TaskFailed, match=r"LEDGER_BEHIND.*nothing was written by this task"):
        Write(gateway, None).task(2, notes=noted)


def test_no_identity_fails_the_task_before_it_reads_a_row(gateway: Gateway) -> None:
    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a row was read")
        yield

    write = Write(gateway, None)
    with pytest.raises(TaskFailed, match=r'option\("txnAppId"') as raised:
        write.way.write(never(), new_token(), Task(partition=3, attempt=2))
    assert isinstance(raised.value.__cause__, NoIdentity)
    assert "partition 3, attempt 2" in str(raised.value)
    assert raised.value.outcome is Outcome.NOT_WRITTEN


class BrokenSink:
    """Breaks in its second write."""

    def open(self, context: sinks.SinkContext) -> None:
        self.writes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.writes += 1
        if self.writes == 2:
            raise OSError("no space left on device")

    def close(self) -> None:
        pass


def test_a_sinks_error_says_what_is_written_and_what_is_unknown(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "files", BrokenSink)
    write = Write(gateway, None, write="claim", idCol="id", sink="oncegate_spark.sinks:files")
    told = r"OSError: no space left.*unknown: 1 rows were handed to the sink.*; 1 rows were written and completed"
    with pytest.raises(TaskFailed, match=told) as raised:
        write.way.write(batches(1, 2, 3), new_token(), Task())
    assert raised.value.outcome is Outcome.UNKNOWN


def test_a_sink_that_is_not_there_fails_with_its_name(gateway: Gateway) -> None:
    write = Write(gateway, None, write="claim", idCol="id", sink="my_job.sinks:open")
    with pytest.raises(TaskFailed, match=r"my_job.*every executor needs the module") as raised:
        write.task(1)
    assert isinstance(raised.value.__cause__, BadOption)


def test_claimed_rows_are_counted_over_all_tasks(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    files = {"sink": "oncegate_spark.sinks:files", "sinkPath": str(tmp_path)}
    write = Write(gateway, None, write="claim", idCol="id", **files)
    write.way.commit([write.task(1, 2), write.task(2, 3, 2)], 7)
    assert "batch 7: rows=5 written=3 suppressed=2 takeovers=0" in caplog.text
    table = sinks.read_files(tmp_path)
    assert table is not None
    assert sorted(table.column("n").to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("way", ["staged", "claim", "plain"])
def test_without_a_gateway_each_way_says_that_nothing_was_written(gateway: Gateway, way: str, tmp_path: Path) -> None:
    given = {"write": way, "idCol": "id", "sink": "oncegate_spark.sinks:files", "sinkPath": str(tmp_path)}
    write = Write(gateway, None, timeoutMs="1000", **given)
    write.way.options = replace(write.options, url=f"http://127.0.0.1:{free_port()}")
    told = rf"write={way} through .*{write.way.options.url}.*Refused.*nothing was written by this task"
    with pytest.raises(TaskFailed, match=told) as raised:
        write.task(1)
    assert raised.value.outcome is Outcome.NOT_WRITTEN


def test_plain_says_what_it_has_written_and_what_is_unknown(gateway: Gateway) -> None:
    answers = [Answer(body=b'{"rows": 1}'), problem(413, "TOO_LARGE", "fix")]
    with StubGateway(*answers, otherwise=lambda asked: LOST) as stub:
        write = Write(gateway, None, write="plain", timeoutMs="1000")
        write.way.options = replace(write.options, url=stub.url)
        for told, outcome in (("1 rows were written by this task", Outcome.WRITTEN), ("unknown: ", Outcome.UNKNOWN)):
            with pytest.raises(TaskFailed, match=told) as raised:
                write.way.write(large(2), new_token(), Task())
            assert raised.value.outcome is outcome


def large(count: int) -> Iterator[pa.RecordBatch]:
    """Batches that are a chunk each."""
    for _ in range(count):
        yield pa.RecordBatch.from_pydict({"n": ["x" * 5_000_000]})


def test_an_unknown_namespace_is_answered_with_the_line_that_creates_it(gateway: Gateway) -> None:
    write = Write(gateway, None)
    write.way.options = replace(write.options, namespace="nowhere")
    with pytest.raises(TaskFailed, match=r"NOT_FOUND.*PUT.*nowhere.*nothing was written by this task"):
        write.task(1)


def test_plain_is_loud(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    write = Write(gateway, None, write="plain")
    write.way.commit([write.task(1), write.task(1)], None)
    assert "AT LEAST once" in caplog.text
    write.way.abort([write.task(2)])
    assert "stay in topic t" in caplog.text
    assert published(gateway) == {1: 2, 2: 1}
