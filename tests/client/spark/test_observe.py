"""The notes of a commit for the listener of its driver, and the counts from them, by hand, without Spark."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from oncegate_spark import BatchCounts, Gateway, WriteCounts, observe
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark.checkpoint import DriverNotes
from oncegate_spark.spark.observe.counts import Mailbox, collect, leave
from oncegate_spark.spark.observe.listener import BatchListener
from oncegate_spark.spark.task_identity import Task
from tests.support.spark_writes import READ, Write, batches, pickled

pytestmark = pytest.mark.server
QUERY, RUN, NEXT_RUN = (str(UUID(int=number)) for number in (1, 2, 3))
ROWS = WriteCounts(mode="staged", target="t", rows=3, written=3)


class Listening:
    """A listener over a folder, without a session; `told`: the arguments of its callback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[BatchCounts] = []
        self.listener = BatchListener(None, folder, self.told.append)

    def leave(self, batch: int, counts: WriteCounts = ROWS, run: str = RUN) -> None:
        leave(Mailbox(str(self.folder), run, batch), counts)

    def progress(self, batch: int, run: str = RUN) -> None:
        self.listener.onQueryProgress(
            SimpleNamespace(progress=SimpleNamespace(id=UUID(QUERY), runId=UUID(run), name=None, batchId=batch))
        )

    def terminated(self, run: str = RUN) -> None:
        self.listener.onQueryTerminated(SimpleNamespace(id=UUID(QUERY), runId=UUID(run)))


@pytest.fixture
def listening(tmp_path: Path) -> Listening:
    return Listening(tmp_path)


def run_batch(gateway: Gateway, folder: Path, *numbers: int, run: str = RUN, **options: str) -> list[WriteCounts]:
    """Commits a batch of two tasks, the second without rows, and returns its notes."""
    write = Write(gateway, READ, **options)
    tasks = [write.task(*some, run=run, observed=str(folder)) for some in (numbers, ())]
    pickled(write.writer).commit(tasks, 4)
    return [one for writes in collect(folder, run, None).values() for one in writes]


def test_a_staged_replay_counts_as_suppressed_and_a_named_write_shows_its_name(
    gateway: Gateway, tmp_path: Path
) -> None:
    first = run_batch(gateway, tmp_path, 1, 2, 3, writeId="w")
    assert first == [WriteCounts(mode="staged", target="t", write_id="w", rows=3, written=3)]
    again = run_batch(gateway, tmp_path, 1, 2, 3, run=NEXT_RUN, writeId="w")
    assert again == [WriteCounts(mode="staged", target="t", write_id="w", rows=3, written=0, suppressed=3)]


@pytest.mark.parametrize("write", ["ids", "claim"])
def test_rows_that_are_written_already_count_as_suppressed(gateway: Gateway, tmp_path: Path, write: str) -> None:
    sink = "oncegate_spark.spark.sinks:files"
    claim = {"sink": sink, "sinkPath": str(tmp_path / "out")} if write == "claim" else {}
    target = sink if write == "claim" else "t"
    run_batch(gateway, tmp_path, *range(52), write=write, idCol="id", **claim)
    counts = run_batch(gateway, tmp_path, *range(100), run=NEXT_RUN, write=write, idCol="id", **claim)
    assert counts == [WriteCounts(mode=write, target=target, rows=100, written=48, suppressed=52)]


def test_a_takeover_and_an_own_row_are_counted(gateway: Gateway, tmp_path: Path) -> None:
    with gateway.attempt(id_set="t") as silent:
        claimed = silent.claim(["id-1"], lease_ms=1_000)
        (counts,) = run_batch(gateway, tmp_path, 1, 2, 2, write="ids", idCol="id")
        silent.settle(claimed, "complete")
    assert (counts.rows, counts.written, counts.takeovers) == (3, 2, 1)
    assert counts.own + counts.suppressed == 1


def test_plain_suppresses_nothing(gateway: Gateway, tmp_path: Path) -> None:
    for _ in range(2):
        counts = run_batch(gateway, tmp_path, 1, 2, write="plain")
        assert counts == [WriteCounts(mode="plain", target="t", rows=2, written=2)]


def test_a_write_of_no_known_batch_leaves_nothing_and_a_thread_knows_it_by_its_notes(
    gateway: Gateway, tmp_path: Path
) -> None:
    noted = DriverNotes(READ, None, RUN)
    for task, left in ((Task(), 0), (Task(run=RUN, notes=noted), 1)):
        write = Write(gateway, None, write="plain")
        seen = Task(run=task.run, notes=task.notes, observed=str(tmp_path))
        write.writer.commit([write.writer.write(batches(1), new_token(), seen)], None)
        assert len(list(tmp_path.iterdir())) == left
    assert list(collect(tmp_path, RUN, None)) == [READ.number]


def test_the_counts_of_a_batch_are_those_of_its_run_and_are_reported_once(listening: Listening) -> None:
    for run, rows in ((NEXT_RUN, 5), (RUN, 3), (RUN, 4)):
        listening.leave(7, WriteCounts(mode="ids", target="t", rows=rows, written=1, suppressed=rows - 1), run)
    listening.leave(8)
    listening.progress(7)
    listening.progress(7)
    (counts,) = listening.told
    assert counts is listening.listener.last
    assert (counts.query, counts.run, counts.batch) == (QUERY, RUN, 7)
    assert (counts.rows, counts.written, counts.suppressed, len(counts.writes)) == (7, 2, 5, 2)
    listening.progress(9)
    assert [one.batch for one in listening.told] == [7, 8], "a batch whose event was lost is reported with the next one"
    listening.progress(7, NEXT_RUN)
    assert listening.told[-1].rows == 5


def test_each_batch_is_one_line_of_the_log_with_every_number(
    listening: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncegate_spark")
    many = {"rows": 100, "written": 40, "suppressed": 52, "own": 5, "takeovers": 2, "conflicts": 3}
    listening.leave(0, WriteCounts(mode="ids", target="t", **many))
    listening.leave(0, WriteCounts(mode="claim", target="s", **many))
    listening.progress(0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (f"batch 0 of {QUERY}: rows=200 written=80 suppressed=104 own=10 takeovers=4 conflicts=6 writes=2")


def test_the_counts_of_an_unfinished_batch_are_only_in_the_log(
    listening: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    listening.leave(3)
    listening.leave(3, run=NEXT_RUN)
    listening.terminated()
    assert f"batch 3 of {QUERY} is unfinished and will be repeated: rows=3 written=3" in caplog.text
    assert (listening.told, listening.listener.last) == ([], None)
    listening.progress(3, NEXT_RUN)
    assert listening.told[0].rows == 3


def test_a_callback_that_raises_is_logged_and_the_next_batch_is_reported(
    listening: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    def on_batch(counts: BatchCounts) -> None:
        raise RuntimeError("the metrics are full")

    listening.listener = BatchListener(None, listening.folder, on_batch)
    for batch in (0, 1):
        listening.leave(batch)
        listening.progress(batch)
    assert caplog.text.count("RuntimeError: the metrics are full") == 2
    assert listening.listener.last is not None
    assert listening.listener.last.batch == 1


def test_counts_that_cannot_be_left_are_logged_and_a_folder_that_is_gone_gets_none(
    listening: Listening, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(Mailbox(str(listening.folder / "gone"), RUN, 0), ROWS)
    assert not (listening.folder / "gone").exists()

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    listening.leave(0)
    assert "batch 0: its counts cannot be stored" in caplog.text


def test_through_spark_connect_observe_explains_where_the_counts_are() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(BadOption, match=r"Spark Connect.*Spark's log.*describe\(\)"):
        observe(session)
