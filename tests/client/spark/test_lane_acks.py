"""The ack position of a query's lanes: the notes of its batches that are in the commit log."""

import json
import logging
from pathlib import Path

import pytest

from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers.direct import acked

GIVEN = {"url": "http://127.0.0.1:1", "write": "direct", "producerCol": "lane", "sequenceCol": "at"}


def options(folder: Path | str, topic: str = "t") -> Options:
    return Options.read({**GIVEN, "topic": topic, "checkpointLocation": str(folder)})


def note(folder: Path, batch: int, **upto: int) -> None:
    acked.note(options(folder), str(folder), batch, [upto])


def log(folder: Path, *batches: int) -> None:
    """Sets the batches in Spark's commit log."""
    (folder / "commits").mkdir(exist_ok=True)
    for file in (folder / "commits").iterdir():
        file.unlink()
    for batch in batches:
        (folder / "commits" / str(batch)).write_text("v1")
        (folder / "commits" / f".{batch}.crc").write_bytes(b"")


def test_a_batch_is_acked_once_the_commit_log_names_it_and_never_before(tmp_path: Path) -> None:
    assert acked.known(options(tmp_path)) == {}
    note(tmp_path, 0, a=5, b=7)
    assert acked.known(options(tmp_path)) == {}
    log(tmp_path, 0)
    assert acked.known(options(tmp_path)) == {"a": 5, "b": 7}
    note(tmp_path, 1, a=9)
    assert acked.known(options(tmp_path)) == {"a": 5, "b": 7}, "batch 1 may come again"
    log(tmp_path, 0, 1)
    assert acked.known(options(tmp_path)) == {"a": 9, "b": 7}


def test_the_results_of_one_batchs_tasks_and_writes_are_one_note(tmp_path: Path) -> None:
    acked.note(options(tmp_path), str(tmp_path), 3, [{"a": 5}, {"a": 9, "b": 1}, {"a": 7}])
    note(tmp_path, 3, b=2)
    note(tmp_path, 3, a=1)
    log(tmp_path, 3)
    assert acked.known(options(tmp_path)) == {"a": 9, "b": 2}
    assert acked.known(options(tmp_path, "other")) == {}, "each topic has lanes of its own"


def test_a_commit_log_that_is_written_late_acks_late(tmp_path: Path) -> None:
    """The case of asynchronous progress tracking: not every batch has an entry."""
    for batch in range(3):
        note(tmp_path, batch, a=batch)
        assert acked.known(options(tmp_path)) == {}
    log(tmp_path, 2)
    assert acked.known(options(tmp_path)) == {"a": 2}


def test_of_a_checkpoint_that_was_set_back_nothing_later_is_known(tmp_path: Path) -> None:
    """Its rows come again: a later ack would refuse them permanently."""
    for batch in range(5):
        note(tmp_path, batch, a=10 * batch)
        log(tmp_path, *range(batch + 1))
    log(tmp_path, 0, 1)
    assert acked.known(options(tmp_path)) == {}
    note(tmp_path, 2, a=20)
    log(tmp_path, 0, 1, 2)
    assert acked.known(options(tmp_path)) == {"a": 20}


def test_of_a_batch_that_was_set_back_before_the_next_one_only_its_own_note_is_dropped(tmp_path: Path) -> None:
    for batch in range(2):
        note(tmp_path, batch, a=10 * batch)
        log(tmp_path, batch)
    log(tmp_path, 0)
    assert acked.known(options(tmp_path)) == {"a": 0}


def test_a_note_that_cannot_be_read_or_kept_is_reported_and_fails_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "oncegate_spark")
    note(tmp_path, 0, a=1)
    (file,) = (tmp_path / "oncegate" / "lanes").iterdir()
    assert json.loads(file.read_text())["upto"] == {"a": 1}
    file.write_text("{")
    assert acked.known(options(tmp_path)) == {}
    assert "cannot be read" in caplog.text
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("no folder")
    note(tmp_path, 0, a=1)
    assert "cannot store" in caplog.text


def test_without_a_checkpoint_here_the_log_warns_that_no_lane_is_acked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "oncegate_spark")
    acked.note(options("s3://b/c"), "s3://b/c", 4, [{"a": 1}])
    assert "batch 4: its lanes are not acked" in caplog.text
    assert acked.known(options("s3://b/c")) == {}
    caplog.clear()
    acked.note(options("s3://b/c"), None, None, [{"a": 1}])
    assert caplog.text == "", "a df.write is of no batch"
