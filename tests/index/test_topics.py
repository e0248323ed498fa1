"""Topics by their entries: partitions count separately, retention drops whole spans, and an undo leaves no trace."""

import copy

import pytest

from oncegate.core.entries.kinds import Committed, Entry, Name, Produced, Span, TopicCreated, TopicSet, Trimmed
from oncegate.index.topics import KEPT, PartitionState, TopicIndex, TopicState
from oncegate.packed import PackedList

ID = bytes(16)


class Told:
    """A topic index and the position of the next entry."""

    def __init__(self, *entries: Entry) -> None:
        self.index, self.position = TopicIndex(), 0
        for entry in entries:
            self.tell(entry)

    def tell(self, entry: Entry) -> None:
        self.position += 1
        self.index.apply(self.position, entry)

    @property
    def topic(self) -> TopicState:
        topic = self.index.get("t")
        assert topic is not None
        return topic

    def undone(self, entry: Entry) -> tuple[TopicState | None, TopicState | None]:
        """Returns the topic before the entry, and after applying and undoing it."""
        before = copy.deepcopy(self.index.get("t"))
        undo = self.index.apply(self.position + 1, entry)
        assert undo is not None
        assert self.index.get("t") != before
        undo()
        return before, self.index.get("t")


def created(partitions: int = 2, retention_ms: int = 0, retention_bytes: int = 0) -> TopicCreated:
    return TopicCreated("t", partitions, b"s", retention_ms, retention_bytes, 10)


def produced(partition: int, first_offset: int, rows: int, size_bytes: int = 100, wall_ms: int = 20) -> Produced:
    return Produced("t", partition, first_offset, rows, size_bytes, ID, ID, 1, ID, wall_ms, b"", b"")


def committed(*spans: Span, wall_ms: int = 30) -> Committed:
    rows = sum(span.rows for span in spans)
    return Committed(Name("a", "0", "t"), None, ID, (), None, ID, rows, spans, wall_ms)


def kept_of(*values: int) -> PackedList:
    kept = PackedList(KEPT)
    kept.append(*values)
    return kept


def test_a_topic_that_was_never_made_begins_at_zero() -> None:
    index = TopicIndex()
    assert (index.get("t"), index.names(), index.high_offset("t", 0)) == (None, [], 0)


def test_each_partition_counts_its_own_offsets() -> None:
    told = Told(created(3), produced(0, 0, 5), produced(2, 0, 7), produced(0, 5, 1))
    assert [told.index.high_offset("t", partition) for partition in range(3)] == [6, 0, 7]


def test_a_commit_extends_every_partition_that_its_rows_went_to() -> None:
    told = Told(created(), produced(1, 0, 2), committed(Span(0, 0, 4, 50), Span(1, 2, 3, 60)))
    assert [partition.high_offset for partition in told.topic.partitions] == [4, 5]
    assert [partition.size_bytes for partition in told.topic.partitions] == [50, 160]
    assert list(told.topic.partitions[1].kept) == [(0, 100, 20), (2, 60, 30)]


def test_a_commit_without_rows_changes_no_topic_and_needs_none() -> None:
    index = TopicIndex()
    assert index.apply(1, committed()) is None
    assert index.names() == []


def test_every_write_is_a_turn_and_the_topic_knows_the_last_position_that_changed_it() -> None:
    told = Told(created(), produced(0, 0, 5), produced(1, 0, 5), committed(Span(0, 5, 1, 1), Span(1, 5, 1, 1)))
    assert (told.topic.turns, told.topic.position) == (3, 4)
    told.tell(TopicSet("t", b"s", 1, 1, 0))
    told.tell(Trimmed("t", 0, 5, 0))
    assert (told.topic.turns, told.topic.position) == (3, 6)


def test_settings_are_replaced_whole_and_an_empty_schema_is_set_once() -> None:
    told = Told(TopicCreated("t", 1, b"", 5, 6, 0), TopicSet("t", b"s", 7, 0, 0))
    assert (told.topic.schema, told.topic.retention_ms, told.topic.retention_bytes) == (b"s", 7, 0)
    with pytest.raises(AssertionError, match="set once"):
        told.tell(TopicSet("t", b"other", 7, 0, 0))


def test_a_schema_that_is_set_is_replaced_by_one_of_more_columns_alone_and_undone_like_all() -> None:
    told = Told(TopicCreated("t", 1, b"s", 5, 6, 0))
    index = TopicIndex()
    index.apply(1, TopicCreated("t", 1, b"s", 5, 6, 0))
    undo = index.apply(2, TopicSet("t", b"wider", 5, 6, 0, added=1))
    topic = index.get("t")
    assert topic is not None
    assert topic.schema == b"wider"
    assert undo is not None
    undo()
    assert topic.schema == b"s"
    told.tell(TopicSet("t", b"wider", 5, 6, 0, added=1))
    assert told.topic.schema == b"wider"


@pytest.mark.parametrize(("first_offset", "partition"), [(4, 0), (6, 0), (5, 1)], ids=["again", "hole", "elsewhere"])
def test_an_offset_with_a_hole_or_twice_is_refused(first_offset: int, partition: int) -> None:
    told = Told(created(), produced(0, 0, 5))
    with pytest.raises(AssertionError, match="no holes"):
        told.tell(produced(partition, first_offset, 1))


def test_trimmed_rows_are_no_longer_kept_and_offsets_continue() -> None:
    told = Told(created(), produced(0, 0, 5), produced(0, 5, 5, size_bytes=7), Trimmed("t", 0, 5, 40))
    assert told.topic.partitions[0] == PartitionState(
        low_offset=5, high_offset=10, size_bytes=7, kept=kept_of(5, 7, 20)
    )
    assert told.topic.partitions[1] == PartitionState()
    told.tell(produced(0, 10, 1))
    assert told.index.high_offset("t", 0) == 11


def test_a_partition_may_be_trimmed_to_its_end() -> None:
    told = Told(created(), produced(0, 0, 5), Trimmed("t", 0, 5, 40))
    assert told.topic.partitions[0] == PartitionState(low_offset=5, high_offset=5)


@pytest.mark.parametrize("before_offset", [4, 11], ids=["below the low end", "beyond the high end"])
def test_missing_rows_cannot_be_trimmed(before_offset: int) -> None:
    told = Told(created(), produced(0, 0, 5), produced(0, 5, 5), Trimmed("t", 0, 5, 40))
    with pytest.raises(AssertionError, match="was there"):
        told.tell(Trimmed("t", 0, before_offset, 50))


@pytest.mark.parametrize(
    "entry",
    [
        produced(1, 0, 3),
        committed(Span(0, 10, 1, 1), Span(1, 0, 2, 2)),
        TopicSet("t", b"s", 9, 9, 0),
        Trimmed("t", 0, 5, 40),
        Trimmed("t", 0, 10, 40),
    ],
    ids=str,
)
def test_a_change_taken_back_was_never_there(entry: Entry) -> None:
    told = Told(created(), produced(0, 0, 5), produced(0, 5, 5, size_bytes=7, wall_ms=25))
    before, after = told.undone(entry)
    assert after == before


def test_a_topic_taken_back_was_never_there() -> None:
    assert Told().undone(created()) == (None, None)


def test_changes_are_taken_back_one_by_one_newest_first() -> None:
    told = Told(created(), produced(0, 0, 5))
    states, undos = [], []
    entries: list[Entry] = [
        produced(0, 5, 5),
        Trimmed("t", 0, 5, 0),
        committed(Span(0, 10, 2, 2)),
        Trimmed("t", 0, 12, 0),
    ]
    for position, entry in enumerate(entries, 3):
        states.append(copy.deepcopy(told.topic))
        undos.append(told.index.apply(position, entry))
    while undos:
        undo = undos.pop()
        assert undo is not None
        undo()
        assert told.topic == states.pop()
