"""Source offsets: the newest entry of each job counts, and beyond the limit the oldest are forgotten."""

import pytest

from oncegate.core.entries.kinds import Committed, Entry, Name, SnapshotPiece
from oncegate.core.entries.producers import Acked
from oncegate.index import source_offsets
from oncegate.index.shard import ShardIndex
from oncegate.index.source_offsets import SourceOffsets


def committed(version: int, offsets: bytes, topic: str = "t", write_id: str = "") -> Committed:
    return Committed(Name("a", str(version), topic, write_id), None, bytes(16), (), None, bytes(16), 0, (), 0, offsets)


def acked(offsets: bytes, topic: str = "t", driver: str = "d") -> Acked:
    return Acked(driver, 1, 0, b"", 0, b"", topic, offsets)


def index_after(entries: list[Entry]) -> SourceOffsets:
    index = SourceOffsets()
    for position, entry in enumerate(entries, 1):
        index.apply(position, entry)
    return index


def offsets_of(index: SourceOffsets, *key: str) -> bytes | None:
    found = index.get(*key)
    return None if found is None else found.offsets


def test_each_app_topic_and_write_has_its_newest() -> None:
    index = index_after(
        [committed(0, b"0"), committed(0, b"u", "u"), committed(0, b"w", write_id="w"), committed(1, b"1")]
    )
    assert [offsets_of(index, "a", *key) for key in (("t",), ("u",), ("t", "w"), ("v",))] == [b"1", b"u", b"w", None]
    assert offsets_of(index, "b", "t") is None


def test_an_entry_that_brings_none_makes_it_unknown() -> None:
    """Otherwise a reader would begin before rows that are already written."""
    assert offsets_of(index_after([committed(0, b"0"), committed(1, b"")]), "a", "t") is None
    assert offsets_of(index_after([acked(b"0"), acked(b"")]), "d", "t") is None


def test_an_ack_without_a_topic_has_no_source_offsets() -> None:
    index = index_after([acked(b"0"), acked(b"1", "u"), acked(b"", "")])
    assert (offsets_of(index, "d", "t"), offsets_of(index, "d", "u"), offsets_of(index, "d", "")) == (b"0", b"1", None)


def test_beyond_the_byte_limit_the_first_recorded_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_offsets, "BYTES_IN_ALL", 1_000)
    entries: list[Entry] = [committed(0, b"x" * 20, f"t{number}") for number in range(3)]
    index = index_after([*entries, committed(1, b"y", "t0"), committed(0, b"z", "t3")])
    assert [offsets_of(index, "a", f"t{number}") for number in range(4)] == [b"y", None, b"x" * 20, b"z"]


def test_source_offsets_forgotten_for_an_undone_entry_are_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_offsets, "BYTES_IN_ALL", 700)
    index = index_after([committed(0, b"0", "t0"), committed(0, b"1", "t1")])
    before = index.snapshot()
    undo = index.apply(3, committed(1, b"2" * 400, "t1"))
    assert (undo is not None, index.snapshot() == before) == (True, False)
    if undo is not None:
        undo()
    assert sorted(index.snapshot()) == sorted(before)


def test_a_snapshot_of_an_older_build_has_none_and_is_taken() -> None:
    index, again = ShardIndex(), ShardIndex()
    index.apply(1, committed(0, b"0"), 0)
    pieces = [piece for step in index.snapshot_steps() for piece in step]
    for piece in pieces:
        assert isinstance(piece, SnapshotPiece)
        if piece.what != "source_offsets":
            again.replayed(2, piece)
    assert (len(again.batches.committed), again.source_offsets.snapshot()) == (1, [])
