"""Data read from a query's checkpoint, and data kept beside it."""

import hashlib
import logging
from pathlib import Path

import pytest

from oncegate_spark.protocol import marks
from oncegate_spark.protocol.marks import Newest
from oncegate_spark.spark.checkpoint import BatchInput, CheckpointLocation, local_folder, offset_log, read_input

LEDGER, OTHER = "0" * 32, "f" * 32


def mark(position: int, ledger: str = LEDGER) -> str:
    return f"{ledger}:{position}:{position:016x}"


def offsets(checkpoint: Path, *numbers: int) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (checkpoint / "offsets" / str(number)).write_text(f"v1\n{number}")
        (checkpoint / "offsets" / f".{number}.crc").write_text("x")


def digest(number: int) -> str:
    return hashlib.sha256(f"v1\n{number}".encode()).hexdigest()


def test_the_newest_entry_is_the_batch_that_begins(tmp_path: Path) -> None:
    offsets(tmp_path, 8, 9, 10)
    assert read_input(str(tmp_path)) == BatchInput(10, digest(10), digest(9))
    assert read_input(tmp_path.as_uri()) == BatchInput(10, digest(10), digest(9))


def test_the_first_batch_has_none_before_it(tmp_path: Path) -> None:
    offsets(tmp_path, 0)
    assert read_input(str(tmp_path)) == BatchInput(0, digest(0), None)


@pytest.mark.parametrize("where", [None, "dbfs:/c", "hdfs:/c", "abfss://container/c"])
def test_an_input_out_of_reach_is_unknown(where: str | None) -> None:
    assert read_input(where) is None


def test_a_checkpoint_without_offsets_is_unknown(tmp_path: Path) -> None:
    assert read_input(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize(
    ("named", "folder"),
    [
        ("/a b", "/a b"),
        ("a/b/", "a/b"),
        ("file:/a%20b", "/a%20b"),
        ("file:///a#b?c=d", "/a#b?c=d"),
        ("file://localhost/a", "/a"),
        ("//a//b/../c/.", None),
        ("/a:b", "/a:b"),
        ("file:///", "/"),
        ("file://elsewhere/a", None),
        ("hdfs:/a", None),
        ("dbfs:/a", None),
    ],
)
def test_a_folder_is_named_as_spark_names_it_with_nothing_escaped(named: str, folder: str | None) -> None:
    assert local_folder(named) == (None if folder is None else Path(folder))


@pytest.mark.parametrize(
    ("named", "whole"),
    [
        ("/a", "hdfs://cluster/a"),
        ("hdfs:/a", "hdfs://cluster/a"),
        ("hdfs:///a", "hdfs://cluster/a"),
        ("hdfs://other:8020/a", "hdfs://other:8020/a"),
        ("s3a://bucket/a/", "s3a://bucket/a"),
        ("file:/a", "/a"),
    ],
)
def test_parts_missing_in_a_location_come_from_the_default_file_system(named: str, whole: str) -> None:
    assert str(CheckpointLocation.of(named).within("hdfs://cluster")) == whole


def test_a_checkpoint_names_its_query(tmp_path: Path) -> None:
    offsets(tmp_path, 0)
    for written, query in (('{"id":"q"}', "q"), ("not JSON", None), ("[]", None)):
        (tmp_path / "metadata").write_text(written)
        assert read_input(str(tmp_path)) == BatchInput(0, digest(0), None, query)


def test_where_the_sources_go_on_is_read_with_the_batchs_input(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"events":{"0":17, "1":4}}\n-\n51')
    read = read_input(str(tmp_path))
    assert read is not None
    assert read.offsets == '[{"events":{"0":17,"1":4}},null,51]'


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("v2\n{}\n0:{}", "does not support the format of the offset log ('v2')"),
        ("v1\n{}\nnot JSON", "the offsets of a source are not JSON"),
        ('v1\n{}\n"' + "x" * (64 << 10) + '"', "exceed 65536 bytes"),
    ],
)
def test_unreadable_source_offsets_are_unknown_and_the_log_explains_it_once(
    entry: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    offset_log._unknown.cache_clear()
    for _ in range(2):
        assert offset_log.source_offsets(entry.encode()) is None
    assert [why in line for line in caplog.messages] == [True]


def test_an_entry_without_sources_has_no_source_offsets() -> None:
    assert [offset_log.source_offsets(entry) for entry in (b"v1", b"v1\n{}", b"v1\n{}\n")] == [None] * 3


def test_the_newest_mark_of_a_ledger_wins_and_another_ledgers_replaces_it() -> None:
    newest = Newest()
    for header in (None, "", "rubbish", mark(5), mark(9), mark(7)):
        newest.note(header)
    assert newest.mark == mark(9)
    # the same position of another history: the first one counts
    newest.note(mark(9).rpartition(":")[0] + ":0123456789abcdef")
    assert newest.mark == mark(9)
    newest.note(f"{mark(2, OTHER)}")
    assert newest.mark == mark(2, OTHER)


def test_a_mark_is_kept_per_namespace_and_never_goes_back(tmp_path: Path) -> None:
    marks.keep(tmp_path, "flights/x", mark(5))
    marks.keep(tmp_path, "flights/x", mark(3))
    marks.keep(tmp_path, "other", mark(1))
    assert marks.read(tmp_path, "flights/x") == mark(5)
    assert marks.read_all(tmp_path) == {"flights/x": mark(5), "other": mark(1)}
    assert marks.read(tmp_path, "unknown") is None
    assert marks.read_all(None) == {}


def test_a_mark_that_cannot_be_kept_is_a_warning_because_the_rows_are_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "oncegate").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        marks.keep(tmp_path, "default", mark(5))
    assert "cannot store the ledger position" in caplog.text
