"""Dedup scopes: how often each was forgotten, and the topics elsewhere to which its rows went."""

from oncegate.core.entries.kinds import Entry, IdentifiedBy, SetForgotten, SetWritten, SnapshotPiece
from oncegate.hashing.ids import Fingerprinter, IdSets
from oncegate.index.settings import IdSetIndex
from oncegate.index.shard import ShardIndex

IDS = IdentifiedBy.IDS
ONE, TWO = bytes(15) + b"1", bytes(15) + b"2"


def state(index: IdSetIndex) -> object:
    return index.snapshot()


def test_a_set_that_is_forgotten_knows_no_topic_and_other_sets_keep_theirs() -> None:
    index = IdSetIndex()
    for entry in (SetWritten("a", "t", ONE, 0), SetWritten("b", "t", ONE, 0), SetForgotten("a", TWO, 0)):
        index.apply(1, entry)
    assert (index.topic_id(IDS, "a", "t"), index.topic_id(IDS, "b", "t")) == (None, ONE)
    assert [(index.generation(name), index.forgotten_by(name)) for name in ("a", "b")] == [(1, TWO), (0, b"")]
    assert index.forgotten_sets == ["a"]


def test_a_set_that_is_forgotten_leaves_the_topics_of_a_producer_and_an_app_of_its_name() -> None:
    index = IdSetIndex()
    for identified_by in IdentifiedBy:
        index.apply(1, SetWritten("a", "t", ONE, 0, identified_by))
    index.apply(2, SetForgotten("a", TWO, 0))
    assert [index.topic_id(identified_by, "a", "t") for identified_by in IdentifiedBy] == [None, ONE, ONE, ONE]


def test_undone_changes_restore_the_former_state() -> None:
    index, states, undos = IdSetIndex(), list[object](), list[object]()
    entries: list[Entry] = [
        SetWritten("a", "t", ONE, 0),
        SetWritten("a", "t", TWO, 0),
        SetForgotten("a", ONE, 0),
        SetForgotten("a", TWO, 0),
        SetWritten("a", "u", ONE, 0),
        SetWritten("a", "u", ONE, 0, IdentifiedBy.SEQUENCES),
        SetWritten("a", "u", TWO, 0, IdentifiedBy.SEQUENCES),
        SetForgotten("a", ONE, 0),
    ]
    for entry in entries:
        states.append(state(index))
        undos.append(index.apply(1, entry))
    for before, undo in zip(reversed(states), reversed(undos), strict=True):
        undo()  # type: ignore[operator]
        assert state(index) == before


def test_a_snapshot_keeps_what_was_forgotten_and_the_identity_of_topics() -> None:
    index, restored = ShardIndex(), ShardIndex()
    for position, entry in enumerate(
        (
            SetForgotten("a", ONE, 0),
            SetForgotten("a", TWO, 0),
            SetWritten("a", "t", ONE, 0),
            SetWritten("a", "t", TWO, 0, IdentifiedBy.BATCHES),
        ),
        1,
    ):
        index.apply(position, entry, 0)
    for piece in index.snapshot():
        assert isinstance(piece, SnapshotPiece)
        restored.replayed(1, piece)
    assert restored.id_sets.snapshot() == index.id_sets.snapshot()
    assert (restored.id_sets.generation("a"), restored.id_sets.topic_id(IDS, "a", "t")) == (2, ONE)
    assert restored.id_sets.topic_id(IdentifiedBy.BATCHES, "a", "t") == TWO


def test_a_forgotten_set_has_other_fingerprints_than_any_set_has() -> None:
    key, index = bytes(32), IdSetIndex()
    sets = IdSets(key, index.generation)
    ids = [b"a-1"]
    seen = [sets.of(name).of_few(ids).tobytes() for name in ("", "a", " 1", "1", "1:a", " 1:a")]
    for _ in range(2):
        for name in ("", "a"):
            index.apply(1, SetForgotten(name, ONE, 0))
            seen.append(sets.of(name).of_few(ids).tobytes())
    assert len(set(seen)) == len(seen)
    assert Fingerprinter(key, "a").of_few(ids).tobytes() == seen[1], "a set that was never forgotten keeps its own"
