"""The folder sink: whole files, each written once, even by late writers."""

import os
from pathlib import Path

import pytest

from oncegate_spark import Gateway, SinkRefused
from oncegate_spark.delivery import Delivered, Delivery, FolderSink, Record

pytestmark = pytest.mark.server
TWO = [Record("2026/11/a", b"first"), Record(".b", b"second")]


def test_each_record_is_a_file_of_its_own_below_the_folder(gateway: Gateway, tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "out", ".txt")
    for expected in (Delivered(written=2), Delivered(duplicates=2)):
        assert Delivery(gateway, sink).deliver(TWO) == expected
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"2026%2F11%2Fa.txt": b"first", "%2Eb.txt": b"second"}


def test_a_writer_that_wakes_up_late_replaces_nothing(gateway: Gateway, tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    gateway.attempt().claim([TWO[0].id], 1_000)
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=2)
    sink.write([Record(TWO[0].id, b"late")])  # the writer that claimed first
    assert sink.path(TWO[0].id).read_bytes() == b"first"
    assert len(list(tmp_path.iterdir())) == 2


def test_rows_of_a_dead_writer_are_found(gateway: Gateway, tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    gateway.attempt().claim([record.id for record in TWO], 1_000)
    sink.write(TWO[:1])
    (tmp_path / ".0123").write_bytes(b"half a fi")  # a file that it was writing when it died
    assert Delivery(gateway, sink).deliver(TWO) == Delivered(written=1, found=1)
    assert sink.path(".b").read_bytes() == b"second"


def test_a_write_that_the_disk_refuses_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(28, "No space left on device")

    sink = FolderSink(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="No space"):
            sink.write(TWO)
    assert list(tmp_path.iterdir()) == []
    sink.write(TWO)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("record", [Record("a", "no bytes"), Record("x" * 300, b"")])
def test_a_body_or_an_id_that_makes_no_file_is_refused(gateway: Gateway, tmp_path: Path, record: Record) -> None:
    with pytest.raises(SinkRefused, match="nothing was written"):
        Delivery(gateway, FolderSink(tmp_path)).deliver([record])
    assert list(tmp_path.iterdir()) == []
