"""Names, stages and ranges as small pieces of a snapshot, which reproduce the index as it was."""

import pytest

from oncegate.core.entries.kinds import Committed, Name, Part, Produced, SnapshotPiece, Span, Staged, TopicCreated
from oncegate.index import committed_names
from oncegate.index.shard import ShardIndex

NAMES = 60_000
# A step encodes one piece; a larger one would block other requests.
PIECE_BYTES_MAX = 1_100_000


def id16(number: int) -> bytes:
    return number.to_bytes(16, "little")


def index_of(names: int) -> ShardIndex:
    index = ShardIndex()
    index.apply(1, TopicCreated("t", 2, b"s", 0, 0, 0), 0)
    for number in range(names):
        name, spans = Name("a", str(number), "t"), (Span(number % 2, number // 2, 1, 7),)
        message = b"behind %d" % number
        entry = Committed(name, b"r", id16(number), (), id16(number) * 2, id16(9), 1, spans, number, message)
        index.apply(2 + number, entry, 0)
    for number in range(names // 10):
        part = Part(0, 1, 2, id16(number))
        index.apply(
            2 + names + number,
            Staged(Name("b", str(number), "t"), "o", id16(1), 0, bytes(32), 1, 2, id16(1), b"s", (part,), 0),
            0,
        )
    return index


def restored(pieces: list[SnapshotPiece]) -> ShardIndex:
    index = ShardIndex()
    for piece in pieces:
        index.replayed(1, piece)
    return index


def content_of(index: ShardIndex) -> tuple[object, ...]:
    batches = index.batches
    numbers = batches.suppressed_rows, batches.stage_bytes, batches.committed.older_position
    return vars(batches.committed), batches.stages, numbers, dict(index.topics), vars(index.source_offsets)


def test_names_stages_and_ranges_are_many_small_steps_that_make_the_same_again() -> None:
    index = index_of(NAMES)
    steps = list(index.snapshot_steps())
    assert max(sum(len(piece.data) for piece in step) for step in steps) <= PIECE_BYTES_MAX
    assert len([step for step in steps if any(piece.what.startswith("names/") for piece in step)]) >= 2
    assert content_of(restored([piece for step in steps for piece in step])) == content_of(index)


def test_a_snapshot_of_names_and_ranges_is_of_the_moment_at_which_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", 20)
    index, as_it_was = index_of(600), content_of(index_of(600))
    steps, pieces = index.snapshot_steps(), list[SnapshotPiece]()
    for number, step in enumerate(steps):
        pieces += step
        name, first = Name("a", f"{600 + number}", "t"), 300 + number
        entry = Committed(name, b"r", id16(number), (), None, id16(9), 1, (Span(0, first, 1, 7),), number, b"later")
        index.apply(2_000 + number, entry, 0)
        index.apply(3_000 + number, Produced("t", 1, first, 1, 7, id16(1), id16(2), 1, bytes(16), 0, b"", b""), 0)
    assert number > 5
    assert content_of(restored(pieces)) == as_it_was


@pytest.mark.parametrize("kind", ["names/0", "older_names/0", "stages/0", "ranges/0", "topics/1", "batches", "topics"])
def test_a_snapshot_without_one_of_its_pieces_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", 20)
    pieces = [piece for step in index_of(100).snapshot_steps() for piece in step]
    assert kind in {piece.what for piece in pieces}
    with pytest.raises(ValueError, match=r"batches|topics"):
        restored([piece for piece in pieces if piece.what != kind])
