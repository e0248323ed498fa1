"""The input of a batch, from checkpoints of Spark 4.3: equal if a restored checkpoint reads it again."""

import json
from pathlib import Path
from typing import Any

import pytest

from oncegate_spark.spark.checkpoint.reads import Reads, reads_of
from oncegate_spark.spark.checkpoint.stores import LocalDisk

FILE = {"path": "file:///in/0001.parquet", "timestamp": 1_600_000_000_000, "batchId": 0}


def entry(*sources: object, at_ms: int = 1, watermark_ms: int = 0, **settings: str) -> bytes:
    metadata = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": at_ms, "conf": settings}
    lines = [one if isinstance(one, str) else json.dumps(one) for one in sources]
    return "\n".join(["v1", json.dumps(metadata), *lines]).encode()


class Checkpoint:
    """A checkpoint on disk, whose source 0 has a log."""

    def __init__(self, folder: Path) -> None:
        self.store, self.log = LocalDisk(folder), folder / "sources" / "0"
        self.log.mkdir(parents=True)

    def files(self, name: str, *some: dict[str, Any]) -> None:
        (self.log / name).write_text("\n".join(["v1", *map(json.dumps, some)]))

    def reads(self, number: int, before: bytes | None, now: bytes) -> Reads | None:
        return reads_of(self.store, number, before, now)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def digest(reads: Reads | None) -> str:
    assert reads is not None
    return reads.digest


def test_files_are_known_by_name_and_time_of_change_whenever_the_batch_was_made(checkpoint: Checkpoint) -> None:
    checkpoint.files("0", FILE, {**FILE, "path": "file:///in/0000.parquet"})
    first = checkpoint.reads(0, None, entry({"logOffset": 0}))
    assert first is not None
    assert first.is_whole
    checkpoint.files("0", {**FILE, "path": "file:///in/0000.parquet"}, FILE)  # listed in another order
    later = entry({"logOffset": 0}, at_ms=99, **{"spark.sql.shuffle.partitions": "7"})
    assert checkpoint.reads(0, None, later) == first
    checkpoint.files("0", FILE)
    assert digest(checkpoint.reads(0, None, later)) != first.digest, "a file less"
    checkpoint.files("0", {**FILE, "timestamp": 2}, {**FILE, "path": "file:///in/0000.parquet"})
    assert digest(checkpoint.reads(0, None, later)) != first.digest, "a file that was written again"


def test_only_the_files_of_the_batch_count_and_its_number_in_the_log_does_not(checkpoint: Checkpoint) -> None:
    checkpoint.files("0", {**FILE, "path": "file:///in/0000.parquet"})
    checkpoint.files("1", {**FILE, "batchId": 1})
    before, now = entry({"logOffset": 0}), entry({"logOffset": 1})
    alone = checkpoint.reads(1, before, now)
    (checkpoint.log / "0").unlink()
    (checkpoint.log / "1").unlink()
    checkpoint.files("9.compact", {**FILE, "path": "file:///in/0000.parquet"}, {**FILE, "batchId": 1})
    assert checkpoint.reads(1, before, now) == alone, "as a compacted log has it"
    checkpoint.files("19.compact", {**FILE, "batchId": 1}, {**FILE, "path": "x", "batchId": 1})
    assert checkpoint.reads(1, before, now) == alone, "the next log that has it"
    checkpoint.files("5", {**FILE, "batchId": 5})
    assert checkpoint.reads(6, entry({"logOffset": 4}), entry({"logOffset": 5})) == Reads(digest(alone), True)


def test_several_batches_of_the_log_are_one_batch_of_the_query(checkpoint: Checkpoint) -> None:
    checkpoint.files("0", FILE)
    checkpoint.files("1", {**FILE, "path": "file:///in/0002.parquet", "batchId": 1})
    both = checkpoint.reads(0, None, entry({"logOffset": 1}))
    assert digest(both) != digest(checkpoint.reads(0, None, entry({"logOffset": 0})))
    assert digest(both) != digest(checkpoint.reads(1, entry({"logOffset": 0}), entry({"logOffset": 1})))


def test_kafkas_offsets_count_from_where_to_where_and_not_by_their_bytes(checkpoint: Checkpoint) -> None:
    (checkpoint.log / "0").write_bytes(b'\x00v1\n{"events":{"0":0,"1":0}}')
    now = {"events": {"0": 5, "1": 7}}
    first = checkpoint.reads(0, None, entry(now))
    assert first is not None
    assert not first.is_whole
    assert checkpoint.reads(0, None, entry('{"events": {"1": 7, "0": 5}}', at_ms=9)) == first
    (checkpoint.log / "0").write_bytes(b'\x00v1\n{"events":{"0":1,"1":0}}')
    assert digest(checkpoint.reads(0, None, entry(now))) != first.digest, "it begins elsewhere"
    before = entry({"events": {"0": 4, "1": 7}})
    second = digest(checkpoint.reads(1, before, entry(now)))
    assert digest(checkpoint.reads(1, entry({"events": {"0": 3, "1": 7}}), entry(now))) != second
    assert digest(checkpoint.reads(1, before, entry({"events": {"0": 6, "1": 7}}))) != second


def test_the_watermark_is_part_of_the_digest_because_it_decides_which_rows_are_late(checkpoint: Checkpoint) -> None:
    source = {"events": {"0": 5}}
    first, second = (checkpoint.reads(0, None, entry(source, watermark_ms=ms)) for ms in (0, 1))
    assert digest(first) != digest(second)


def test_without_offsets_of_the_rows_their_number_is_compared_too(checkpoint: Checkpoint) -> None:
    offsets, (files, kafka) = Reads("a" * 64, False), (Reads("a" * 64, True), Reads("b" * 64, False))
    assert offsets.digest_with(3, 17) == offsets.digest_with(3, 17) != "a" * 64
    others = {offsets.digest_with(*some) for some in ((3, 17), (4, 17), (3, 18))} | {kafka.digest_with(3, 17)}
    assert len(others) == 4
    assert files.digest_with(3, 17) == files.digest_with(4, 18) == "a" * 64


def test_sources_are_distinguished_by_their_order(checkpoint: Checkpoint) -> None:
    one, other = {"a": {"0": 1}}, {"b": {"0": 1}}
    assert digest(checkpoint.reads(0, None, entry(one, other))) != digest(checkpoint.reads(0, None, entry(other, one)))
    assert checkpoint.reads(0, None, entry("-", other)) is not None, "one that had nothing yet"


@pytest.mark.parametrize(
    ("number", "before", "now"),
    [
        (0, None, b"v2\n{}\n{}"),
        (0, None, b"v1\nno json\n{}"),
        (0, None, b"v1"),
        (3, None, entry({"a": {"0": 1}})),
        (1, b"v2\n{}", entry({"a": {"0": 1}})),
    ],
    ids=["another form", "no metadata", "nothing", "the one before is gone", "the one before has another form"],
)
def test_what_cannot_be_read_is_unknown(checkpoint: Checkpoint, number: int, before: bytes | None, now: bytes) -> None:
    assert checkpoint.reads(number, before, now) is None


def test_files_whose_log_is_gone_are_known_by_their_offsets_and_rows(checkpoint: Checkpoint) -> None:
    found = checkpoint.reads(1, entry({"logOffset": 0}), entry({"logOffset": 1}))
    assert found is not None
    assert not found.is_whole
