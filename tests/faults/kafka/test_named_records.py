"""Frames prove that no frame names a record: it is missing in the frame that would have to name it."""

import pytest

from oncegate.ledgers.catalog import Location, Wrote
from oncegate.ledgers.frames import AnyChange, Body, Frame, Owned, Sent
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.shard.blobs import OUTPUTS, STAGES
from oncegate.ledgers.kafka.shard.unwritten import NamedRecords

HERE, ELSEWHERE = Partition("t", 0), Partition("t", 1)
OFFSET, GENERATION = 10, 7


def sent(offset: int, at: Partition = HERE) -> Sent:
    return Sent(at.topic, at.number, offset, 3)


def wrote(topic: int, offset: int, length: int = 5) -> Wrote:
    return Wrote(bytes(16), 1, Location(0, topic, offset, length, bytes(32)))


def owned(generation: int) -> Owned:
    return Owned(generation, b"")


@pytest.mark.parametrize(
    ("frames", "lacks"),
    [
        pytest.param([[owned(7)]], True, id="its generation begins there"),
        pytest.param([[owned(6)], [owned(8)]], True, id="one before its generation begins there"),
        pytest.param([[owned(8)]], False, id="an entry after its generation begins there"),
        pytest.param([[sent(9)]], True, id="rows before it are named"),
        pytest.param([[sent(0)]], True, id="rows at the beginning of its partition are named"),
        pytest.param([[sent(11)]], False, id="only later rows are named"),
        pytest.param([[sent(9, ELSEWHERE)]], False, id="rows before it of another partition are"),
        pytest.param([[owned(1)], [sent(9)], [sent(10)]], False, id="it is named"),
        pytest.param([[owned(1)], [sent(10, ELSEWHERE)]], True, id="its like of another partition is named"),
        pytest.param([[owned(1)], [sent(-1), sent(9)]], False, id="brokers did not give the location of some rows"),
        pytest.param([[wrote(OUTPUTS, 9)]], False, id="a range before it in outputs is named"),
        pytest.param([[wrote(STAGES, 9)]], True, id="a range before it is named"),
        pytest.param([[owned(1)], [wrote(STAGES, 10)]], False, id="it begins a range that is named"),
        pytest.param([[wrote(STAGES, 0, length=0)]], False, id="a range without bytes has no location"),
        pytest.param([], False, id="no frame is there"),
    ],
)
def test_a_record_was_never_written_where_the_frames_that_are_kept_would_name_it(
    frames: list[list[AnyChange]], lacks: bool
) -> None:
    named = NamedRecords([(HERE, OFFSET)], (ELSEWHERE, HERE))
    for changes in frames:
        named.take(Frame(0, 1, 1, 0, bytes(16), bytes(16), bytes(16), Body((), changes)))
    assert named.lacks(HERE, OFFSET, GENERATION) == lacks
