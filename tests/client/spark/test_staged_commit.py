"""Messages of staged writes, their commit, and its refusals."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import BatchConflict, BrokenMessages, SecondWrite, TaskFailed
from oncegate_spark.protocol import marks
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark.checkpoint import BatchInput, DriverNotes, read_input
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.staged import TaskStaged
from tests.support.spark_writes import READ, Write, batches, published

pytestmark = pytest.mark.server


def test_only_the_attempts_that_spark_names_are_published(gateway: Gateway) -> None:
    write = Write(gateway)
    write.task(1, 2)
    winner, other = write.task(1, 2), write.task(3)
    write.writer.commit([winner, other], 4)
    assert published(gateway) == {1: 1, 2: 1, 3: 1}


def test_every_attempt_has_a_token_of_its_own(gateway: Gateway) -> None:
    write = Write(gateway)
    assert len({write.task(1).token for _ in range(5)}) == 5


def test_an_abort_names_tokens_and_leaves_everything_else(gateway: Gateway) -> None:
    """A zombie's abort must not delete its successor's stages of the same name."""
    zombie, successor = Write(gateway), Write(gateway)
    stale, fresh = zombie.task(1), successor.task(1)
    zombie.writer.abort([stale])
    successor.writer.commit([fresh], 4)
    zombie.writer.abort([stale])
    successor.writer.abort([fresh])
    assert published(gateway) == {1: 1}


def test_the_digest_travels_with_the_messages_and_must_be_the_batchs(gateway: Gateway) -> None:
    write = Write(gateway, BatchInput(5, "0c" * 32, None))
    with pytest.raises(BrokenMessages, match=r"batch 4 began while the newest entry .* was 5"):
        write.writer.commit([write.task(1)], 4)
    with pytest.raises(BrokenMessages, match="Spark commits batch 5, but the tasks wrote batch 4"):
        Write(gateway).writer.commit([Write(gateway).task(1)], 5)
    message = Write(gateway).task(1)
    assert message.read == READ
    # In streaming Spark creates another writer for the commit, whose own input does not matter.
    Write(gateway, BatchInput(99, "0d" * 32, None)).writer.commit([message], 4)
    assert published(gateway) == {1: 1}


def test_a_zombies_commit_brings_the_input_it_began_with(gateway: Gateway, tmp_path: Path) -> None:
    """If it were read at the commit, it would be the successor's input, whose rows would then be dropped as a
    replay."""

    def begins(input_of_the_batch: str) -> Write:
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / "4").write_text(input_of_the_batch)
        return Write(gateway, read_input(str(tmp_path)), checkpointLocation=str(tmp_path))

    zombie = begins("v1 {files: a}")
    stale = zombie.task(1, run="zombie")
    successor = begins("v1 {files: b}")
    fresh = successor.task(2, 3, run="successor")
    zombie.writer.commit([stale], 4)
    with pytest.raises(BatchConflict, match="other input"):
        successor.writer.commit([fresh], 4)
    assert published(gateway) == {1: 1}


def test_messages_of_different_batches_are_never_committed_together(gateway: Gateway) -> None:
    write = Write(gateway)
    mixed = [write.task(1), replace(write.task(2), run="another")]
    with pytest.raises(BrokenMessages, match="belong to different batches"):
        write.writer.commit(mixed, 4)


def test_no_message_no_effect(gateway: Gateway) -> None:
    write = Write(gateway)
    write.writer.commit([], 4)
    write.writer.abort([])
    assert gateway.describe()["counters"]["committed_rows"] == 0


def test_empty_partitions_are_part_of_the_batch(gateway: Gateway) -> None:
    write = Write(gateway)
    write.writer.commit([write.task(), write.task(1), write.task()], 4)
    again = Write(gateway)
    again.writer.commit([again.task(1, run="s")], 4)
    empty = Write(gateway, BatchInput(5, "0f" * 32, READ.digest))
    empty.writer.commit([empty.task(batch="5")], 5)
    assert published(gateway) == {1: 1}


def test_the_stages_of_a_raising_task_are_dropped_at_once(gateway: Gateway) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": ["x" * 5_000_000]}).slice(0, 0)
        yield from batches(1)
        raise RuntimeError("the source broke")

    write = Write(gateway)
    with pytest.raises(RuntimeError, match="the source broke"):
        write.writer.write(broken(), new_token(), Task(query="q", batch="4"))
    assert gateway.describe()["counters"]["stage_bytes"] == 0


def test_a_task_keeps_sending_after_its_batch_is_committed_so_that_rows_can_be_compared(gateway: Gateway) -> None:
    first = Write(gateway, None)
    first.writer.commit([first.task(1, 2)], 4)
    same, other = Write(gateway, None), Write(gateway, None)
    message = same.task(2, 1, run="s")
    assert (message.rows, message.chunks) == (2, 1)
    same.writer.commit([message], 4)
    with pytest.raises(BatchConflict, match=r'committed at .*"txnAppId".*option\("onReplayMismatch", "first_wins"\)'):
        other.writer.commit([other.task(1, 3, run="s2")], 4)
    told = Write(gateway, None, onReplayMismatch="first_wins")
    told.writer.commit([told.task(1, 3, run="s3")], 4)
    assert published(gateway) == {1: 1, 2: 1}


def test_a_second_write_of_one_run_names_the_option_to_add(gateway: Gateway) -> None:
    write, second = Write(gateway), Write(gateway)
    write.writer.commit([write.task(1)], 4)
    with pytest.raises(SecondWrite, match=r'option\("writeId"'):
        second.writer.commit([second.task(2)], 4)
    named = Write(gateway, writeId="second")
    named.writer.commit([named.task(2)], 4)
    assert published(gateway) == {1: 1, 2: 1}


def test_one_line_per_batch_explains_the_results_of_its_rows(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    for run in ("r", "s"):
        write = Write(gateway)
        write.writer.commit([write.task(1, 2, run=run)], 4)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert "batch 4 of q to topic t: COMMITTED rows=2 suppressed=0 takeovers=0 rows_before=0" in lines[0]
    assert "DUPLICATE rows=2 suppressed=2" in lines[1]
    assert "all 2 rows are suppressed and none was written: a batch of this name is committed" in lines[2]


@pytest.mark.parametrize("write_ids", [("", "second"), ("first", ""), ("first", "second")])
def test_rows_before_the_first_batch_warn_of_a_deleted_checkpoint_unless_they_are_of_this_batch(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, write_ids: tuple[str, str]
) -> None:
    """Two writes of one foreachBatch, at least one with a writeId: the second finds the rows of the first."""

    def write(query: str) -> None:
        for number, write_id in enumerate(write_ids):
            write = Write(gateway, BatchInput(0, "0a" * 32, None), **({"writeId": write_id} if write_id else {}))
            task = Task(query=query, batch="0", run=query * 8)
            write.writer.commit([write.writer.write(batches(number), new_token(), task)], None)

    write("q")
    assert "checkpoint was deleted" not in caplog.text
    write("r")
    warned = [record.getMessage() for record in caplog.records if "checkpoint was deleted" in record.getMessage()]
    assert len(warned) == 1, "its first write, named or not, finds what another query has written"
    assert "the topic already had 2 offsets in use. If the query's checkpoint was deleted" in warned[0]


def test_an_unknown_input_is_warned_of_once(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """Commit warns only inside foreachBatch: for a stream's own writes the driver has warned before the tasks."""
    write = Write(gateway, None)
    write.writer.commit([write.task(1)], None)
    assert "input is unknown" in caplog.text
    assert "oncegate_spark.foreach_batch(fn)" in caplog.text
    assert 'option("checkpointLocation"' in caplog.text
    caplog.clear()
    write.writer.commit([write.task(1, batch="5")], 5)
    noted = write.task(1, batch="6", notes=DriverNotes())
    write.writer.commit([noted], None)
    named = Write(gateway, None, txnAppId="daily", txnVersion="1")
    named.writer.commit([named.task(1, batch=None, run=None)], None)
    assert "unknown" not in caplog.text


def test_reading_another_querys_checkpoint_stops_the_task(gateway: Gateway) -> None:
    write = Write(gateway, replace(READ, query="another"))
    with pytest.raises(TaskFailed, match=r"belongs to query another, and this is query q.*nothing was written"):
        write.task(1)
    assert gateway.describe()["counters"]["staged_rows"] == 0
    known = Write(gateway, replace(READ, query="q"))
    assert known.task(1).read == replace(READ, query="q")


def test_a_checkpoint_read_outside_a_batch_counts_only_for_its_version(gateway: Gateway) -> None:
    """A thread inside foreachBatch has no batch; a df.write may name a checkpoint for its ledger position."""
    for version, read in (("4", READ), ("5", None), ("2026-11-20", None)):
        write = Write(gateway, READ, txnAppId="daily", txnVersion=version)
        assert write.task(1, batch=None).read == read


def test_the_newest_mark_is_kept_beside_the_checkpoint_and_brought_back(gateway: Gateway, tmp_path: Path) -> None:
    write = Write(gateway, READ, checkpointLocation=str(tmp_path))
    message: TaskStaged = write.task(1)
    write.writer.commit([message], 4)
    kept = marks.read(tmp_path, gateway.namespace)
    assert kept is not None
    assert message.task_mark.mark is not None
    assert int(kept.split(":")[1]) > int(message.task_mark.mark.split(":")[1])
    assert Write(gateway, READ, checkpointLocation=str(tmp_path)).writer.mark == kept
    noted = DriverNotes(None, str(tmp_path), None, {gateway.namespace: kept[:-1] + ("0" if kept[-1] != "0" else "1")})
    with pytest.raises(TaskFailed, match=r"LEDGER_BEHIND.*nothing was written by this task"):
        Write(gateway, None).task(2, notes=noted)
