"""The built-in sinks, and how a user's sink is found."""

import importlib
import os
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark.errors import BadOption
from oncegate_spark.spark import sinks


def context(folder: Path | None, token: str = "t1") -> sinks.SinkContext:
    return sinks.SinkContext(token, 0, 0, "default", "", {"sinkpath": str(folder)} if folder else {})


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})


def numbers(folder: Path) -> list[int]:
    table = sinks.read_files(folder)
    return [] if table is None else table.column("n").to_pylist()


def opened(folder: Path, token: str = "t1") -> sinks.Sink:
    sink = sinks.load("oncegate_spark.spark.sinks:files")()
    sink.open(context(folder, token))
    return sink


def test_rows_of_all_attempts_are_read_back(tmp_path: Path) -> None:
    for token, written in (("a", (1, 2)), ("b", (3,))):
        sink = opened(tmp_path, token)
        for number in written:
            sink.write(rows(number))
        sink.close()
    assert numbers(tmp_path) == [1, 2, 3]


def test_every_batch_is_synced_before_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(tmp_path)
    sink.write(rows(1))
    sizes: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (sizes.append(os.fstat(fd).st_size), real(fd)))
    sink.write(rows(2))
    sink.write(rows(3))
    (file,) = tmp_path.iterdir()
    assert len(sizes) == 2
    assert 0 < sizes[0] < sizes[1] == file.stat().st_size
    sink.close()


def test_a_file_cut_anywhere_gives_its_whole_batches(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    for number in range(3):
        sink.write(rows(number, number))
    (file,) = tmp_path.iterdir()  # not closed: the state that a killed writer leaves
    whole = file.read_bytes()
    seen = set()
    for size in range(len(whole) + 1):
        file.write_bytes(whole[:size])
        found = numbers(tmp_path)
        assert found == [n for n in range(3) for _ in range(2)][: len(found)]
        assert len(found) % 2 == 0
        seen.add(len(found))
    assert seen == {0, 2, 4, 6}
    sink.close()


def test_an_attempt_that_writes_nothing_leaves_no_file(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert list(tmp_path.iterdir()) == []
    assert sinks.read_files(tmp_path) is None


def test_no_file_is_ever_written_by_two(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.write(rows(1))
    with pytest.raises(FileExistsError):
        second.write(rows(2))
    first.close()


def test_the_file_sink_needs_a_folder() -> None:
    with pytest.raises(BadOption, match=r'option\("sinkPath"'):
        sinks.load("oncegate_spark.spark.sinks:files")().open(context(None))


@pytest.mark.parametrize(
    "place", ["", "files", ":files", "no_such_module:x", "oncegate_spark.spark.sinks:no_such_factory"]
)
def test_a_sink_that_is_not_there_is_refused(place: str) -> None:
    with pytest.raises(BadOption):
        sinks.load(place)


def test_the_sink_that_ships_is_found_under_its_short_name_too(tmp_path: Path) -> None:
    """Options of jobs name it `oncegate_spark.sinks:files`, and their sinks import SinkContext from there."""
    sink = sinks.load("oncegate_spark.sinks:files")()
    sink.open(context(tmp_path))
    sink.write(rows(1))
    sink.close()
    assert numbers(tmp_path) == [1]
    short = importlib.import_module("oncegate_spark.sinks")
    assert all(getattr(short, name) is getattr(sinks, name) for name in short.__all__)
    assert {"FileSink", "Sink", "SinkContext", "files", "read_files"} <= set(short.__all__)
