"""The index of lanes: entered sequences are known, undone newest first, and restored from a snapshot."""

import struct

import pytest

from oncegate.core.entries.codec import decode, encode
from oncegate.core.entries.kinds import SnapshotPiece
from oncegate.core.entries.producers import LaneOpened, LaneWritten
from oncegate.index.lanes import LaneIndex
from oncegate.index.shard import ShardIndex

FIRST = LaneOpened(1, "t", "p", 1, 0)


def written(lane: int, offset: int, *spans: tuple[int, int]) -> LaneWritten:
    return LaneWritten(lane, offset, b"".join(struct.pack("<QQ", *span) for span in spans), 0)


def within(index: LaneIndex, first: int, last: int, producer: str = "p") -> list[list[int]]:
    lane = index.get("t", producer)
    assert lane is not None
    found: list[list[int]] = lane.within(first, last).tolist()
    return found


@pytest.fixture
def index() -> LaneIndex:
    found = LaneIndex()
    found.apply(1, FIRST)
    return found


def test_adjacent_spans_are_merged_and_a_question_gets_its_part_of_them(index: LaneIndex) -> None:
    index.apply(2, written(1, 0, (3, 4), (8, 9)))
    index.apply(3, written(1, 2, (5, 7)))
    assert within(index, 0, 20) == [[3, 9]]
    assert within(index, 4, 5) == [[4, 5]]
    assert within(index, 0, 2) == []
    assert within(index, 10, 20) == []


def test_the_highest_sequence_there_may_be_is_known(index: LaneIndex) -> None:
    last = 2**64 - 2
    index.apply(2, written(1, 0, (last, last)))
    assert within(index, 0, last) == [[last, last]]


def test_entries_are_undone_newest_first(index: LaneIndex) -> None:
    undos = [
        index.apply(position, entry)
        for position, entry in (
            (2, written(1, 4, (1, 2))),
            (3, LaneOpened(2, "u", "q", 0, 0)),
            (4, written(1, 6, (3, 3))),
        )
    ]
    assert (index.next_offset(1), index.writes("u"), len(index), index.rows) == (7, True, 2, 3)
    for undo in reversed(undos):
        assert undo is not None
        undo()
    assert (index.next_offset(1), index.writes("u"), len(index), index.rows) == (0, False, 1, 0)
    assert within(index, 0, 9) == []
    assert index.writes("t")


def test_a_lane_is_found_by_its_number_and_another_topic_has_another(index: LaneIndex) -> None:
    index.apply(2, LaneOpened(2, "u", "p", 0, 0))
    first, second = index.numbered(1), index.numbered(2)
    assert first is not None
    assert second is not None
    assert (first.topic, second.topic) == ("t", "u")
    assert index.numbered(3) is None


def test_lanes_come_back_from_a_snapshot_with_where_they_are_read_on() -> None:
    before, after = ShardIndex(), ShardIndex()
    for position, entry in enumerate((FIRST, LaneOpened(2, "t", "q", 0, 0), written(1, 4, (1, 2), (5, 5))), 1):
        before.apply(position, entry, 0)
    for piece in before.snapshot():
        restored = decode(encode(piece))
        assert isinstance(restored, SnapshotPiece)
        after.replayed(3, restored)
    assert within(after.lanes, 0, 9) == [[1, 2], [5, 5]]
    assert (after.lanes.next_offset(1), after.lanes.next_offset(0), len(after.lanes)) == (5, 0, 2)
    assert after.lanes.snapshot() == before.lanes.snapshot()
    assert after.lanes.rows == before.lanes.rows == 3
    after.apply(4, LaneOpened(3, "t", "r", 1, 0), 0)


def test_a_snapshot_that_is_not_whole_is_refused() -> None:
    with pytest.raises(ValueError, match="not two columns"):
        LaneIndex().restore(([(1, "t", "p", 0, 1, bytes(8))], {}))
    with pytest.raises(ValueError, match="out of order"):
        LaneIndex().restore(([(1, "t", "p", 0, 1, struct.pack("<QQ", 2, 1))], {}))
