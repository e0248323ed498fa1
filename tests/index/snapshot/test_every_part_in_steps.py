"""A snapshot in steps has the state at its start, in every part of the index, whenever a part changes."""

import struct
from collections.abc import Sequence
from functools import cache

import msgspec
import pytest

from oncegate.core.entries.kinds import (
    Archived,
    Asked,
    Audited,
    Claimed,
    Committed,
    Completed,
    Dropped,
    Entry,
    Evicted,
    IdentifiedBy,
    Name,
    NamespaceSet,
    Part,
    Produced,
    Released,
    Retired,
    SetForgotten,
    SetWritten,
    SnapshotPiece,
    Span,
    Staged,
    Taken,
    TopicCreated,
    TopicSet,
    Trimmed,
)
from oncegate.core.entries.producers import (
    Acked,
    DriverRegistered,
    LaneOpened,
    LaneWritten,
    ProducerRegistered,
    Resolved,
    Scoped,
    SequencesClaimed,
    SequencesCompleted,
    SequencesReleased,
    SourceNamed,
)
from oncegate.core.writers import WriterId
from oncegate.core.writers import encode as writer_of
from oncegate.index import committed_names
from oncegate.index.shard import ShardIndex
from tests.support.index.claim_index import contents

RAW = {"older_names", "older_reads"}
HOUR_MS = 3_600_000


def id16(number: int) -> bytes:
    return number.to_bytes(8, "little") * 2


def ids(first: int, last: int) -> bytes:
    return b"".join(id16(number) for number in range(first, last + 1))


def spans(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def claimed(claim: int, fresh: bytes, taken: bytes = b"", attempt: int = 0) -> Claimed:
    writer = writer_of(WriterId("job", "run", str(attempt), 3, 1, 11, attempt, 40, False))
    return Claimed(id16(claim), id16(claim), 1, id16(claim), 1_000, claim, fresh, taken, writer=writer)


def produced(claim: int, partition: int, first: int, fresh: bytes = b"", at_ms: int = 0) -> Produced:
    call = (id16(claim), id16(claim), 1, id16(claim))
    return Produced("t", partition, first, 2, 20, *call, claim, fresh, b"", spilled_ms=at_ms, spilled_by="loader")


def committed(version: int, first: int) -> Committed:
    """Returns batch `version` with two more rows."""
    what, offsets = (id16(9), 2, (Span(0, first, 2, 20),)), b"behind %d" % version
    return Committed(
        Name("a", str(version), "t"), b"r", id16(version), (), bytes(32), *what, version, offsets, b"%32d" % version
    )


def staged(version: int, chunk: int, token: int) -> Staged:
    parts = (Part(0, 1, 2, id16(chunk)),)
    return Staged(Name("b", str(version), "t"), "o", id16(token), chunk, bytes(32), 1, 2, id16(1), b"s", parts, 0)


BEFORE: Sequence[Entry] = (
    NamespaceSet(24 * HOUR_MS, 1, 0),
    Retired(1, 2),
    TopicCreated("t", 2, b"s", 0, 0, 0),
    TopicCreated("other", 1, b"", 0, 0, 0),
    DriverRegistered("flights", 1, id16(1), 0),
    DriverRegistered("trains", 1, id16(2), 0),
    ProducerRegistered("p", 1, 1, id16(3), "flights", 1_000, 0, writer=writer_of(WriterId("job", "run", "1"))),
    ProducerRegistered("q", 2, 1, id16(4), "flights", 1_000, 0),
    SequencesClaimed(1, 1, 0, id16(1), 1_000, 0, spans(0, 9, 20, 29), b""),
    SequencesClaimed(2, 1, 0, id16(1), 1_000, 0, spans(0, 9), b"", bytes(range(1, 41))),
    SequencesCompleted(1, 1, 0, 0),
    claimed(100, ids(1, 40)),
    Scoped(id16(100), "flights", 7),
    Completed(id16(100), 5, b"departed"),
    claimed(101, ids(41, 60), attempt=1),
    Scoped(id16(101), "flights", 8),
    claimed(102, ids(61, 80), attempt=2),
    Taken(id16(103), 8, ids(81, 90), b""),
    produced(104, 1, 0, ids(91, 92), HOUR_MS),
    *(committed(version, 2 * version) for version in range(30)),
    staged(1, 0, 1),
    staged(1, 0, 2),
    staged(2, 0, 1),
    Evicted(0, (Archived(bytes(16), 0, 5, 6, 3),), 6),
    Acked("flights", 1, 3, spans(1, 4), 0, spans(2)),
    Audited("forget", "ids of set 'orders'", 3, "ada", "lost with a disk", 1),
    LaneOpened(1, "lanes", "p", 0, 0),
    SourceNamed("lanes", "p", "first source", 0),
    LaneOpened(2, "lanes", "q", 1, 0),
    LaneWritten(1, 10, spans(0, 3), 0),
    SetForgotten("orders", id16(1), 0),
    SetWritten("commands", "sink", id16(2), 0),
    SetWritten("commands", "sink", id16(3), 0, IdentifiedBy.BATCHES),
)
# Each changes something that exists: in place, by replacing it, or by removing it.
AFTER: Sequence[Entry] = (
    TopicSet("t", b"s+", HOUR_MS, 9, 1, 1),
    TopicSet("other", b"o", 0, 0, 1),
    produced(200, 1, 2, ids(93, 94), HOUR_MS + 1),
    Trimmed("t", 0, 10, 1),
    TopicCreated("new", 3, b"n", 0, 0, 1),
    SequencesReleased(2, 1, 0, 1),
    SequencesClaimed(1, 1, 1, id16(2), 1_000, 1, spans(40, 49), b"", bytes(range(1, 41))),
    ProducerRegistered("p", 1, 2, id16(5), "flights", 2_000, 1, writer=writer_of(WriterId("job", "run", "2"))),
    SequencesClaimed(1, 2, 0, id16(3), 1_000, 1, b"", spans(40, 42)),
    Resolved(1, bytes(16), 0, "ops", "not in the sink", spans(43, 49), 1),
    ProducerRegistered("r", 3, 1, id16(6), "trains", 1_000, 1),
    DriverRegistered("trains", 2, id16(7), 1),
    claimed(201, ids(120, 700), ids(41, 50), attempt=3),
    Scoped(id16(201), "flights", 8),
    Completed(id16(201), 9, b"arrived"),
    Released(id16(102), 9),
    Acked("flights", 1, 9, spans(1, 12), 1, spans(8), "t", b"elsewhere"),
    Taken(id16(203), 9, ids(800, 820), b""),
    *(committed(version, 2 * version) for version in range(30, 50)),
    Asked(Name("a", "49", "t"), b"r2", id16(77), "DUPLICATE", 2, 1, 1, b"%32d" % 3),
    staged(1, 1, 1),
    Dropped(Name("b", "1", "t"), (id16(2),), "aborted", 1),
    staged(3, 0, 1),
    Evicted(3, (Archived(bytes(16), 0, 7, 8, 2),), 9),
    Audited("forget", "ids of set 'others'", 4, "bob", "another", 2),
    LaneWritten(1, 20, spans(5, 9), 1),
    LaneOpened(3, "lanes", "r", 0, 1),
    SourceNamed("lanes", "r", "second source", 1),
    SetForgotten("orders", id16(3), 1),
    SetForgotten("commands", id16(3), 1),
    SetWritten("more", "sink", id16(4), 1),
    SetWritten("more", "sink", id16(5), 1, IdentifiedBy.BATCHES),
    Retired(7, 9),
    NamespaceSet(48 * HOUR_MS, 0, 1),
)


@pytest.fixture(autouse=True)
def few_names_are_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", 10)


def apply(index: ShardIndex, position: int, *entries: Entry) -> None:
    for number, entry in enumerate(entries, position):
        _, settle = index.apply(number, entry, 0)
        settle()


def begun() -> ShardIndex:
    index = ShardIndex()
    apply(index, 1, *BEFORE)
    return index


def restored(pieces: Sequence[SnapshotPiece]) -> ShardIndex:
    index = ShardIndex()
    for piece in pieces:
        index.replayed(1, piece)
    return index


def parts_of(index: ShardIndex) -> dict[str, object]:
    """Returns the content of an index by kind of piece, with sorted lists."""
    parts: dict[str, object] = {"claims": (contents(index.claims), index.claims.ids, index.claims.open_claims)}
    whole: dict[str, bytes] = {}
    for piece in index.snapshot():
        whole[piece.what] = whole.get(piece.what, b"") + piece.data
    for what, data in whole.items():
        kind = what.partition("/")[0]
        if kind in RAW:
            parts[kind] = data
        elif kind not in {"claims", "end"}:
            value = msgspec.msgpack.decode(data)
            is_numbered = "/" in what
            parts[f"{kind}/each" if is_numbered else kind] = sorted(value, key=repr) if is_numbered else value
    return parts


@cache
def as_it_was() -> dict[str, object]:
    return parts_of(begun())


def test_the_changes_of_this_file_are_of_every_part() -> None:
    index = begun()
    apply(index, 1_000, *AFTER)
    before, after = as_it_was(), parts_of(index)
    assert {part for part in before | after if before.get(part) == after.get(part)} == {"topics"}, "a count of pieces"


def test_a_snapshot_restores_every_part() -> None:
    assert parts_of(restored(list(begun().snapshot()))) == as_it_was()


@pytest.mark.parametrize("entry", AFTER, ids=lambda entry: type(entry).__name__)
def test_no_entry_between_the_first_step_and_the_last_is_in_the_snapshot(entry: Entry) -> None:
    """Earlier entries are applied before the snapshot begins: each entry is tested alone."""
    index, at = begun(), AFTER.index(entry)
    apply(index, 1_000, *AFTER[:at])
    before, steps = parts_of(index), index.snapshot_steps()
    apply(index, 1_000 + at, entry)
    assert parts_of(restored([piece for step in steps for piece in step])) == before


def test_a_snapshot_is_of_its_beginning_after_whichever_step_all_changes_come() -> None:
    count = len(list(begun().snapshot_steps()))
    assert count > 10, "each part of several pieces has steps of its own"
    for taken in range(count):
        index = begun()
        steps, pieces = index.snapshot_steps(), list[SnapshotPiece]()
        for _ in range(taken):
            pieces += next(steps)
        apply(index, 1_000, *AFTER)
        pieces += [piece for step in steps for piece in step]
        assert parts_of(restored(pieces)) == as_it_was(), f"after step {taken}"


def test_one_change_after_each_step_is_in_none_of_the_pieces() -> None:
    index, pieces, changes = begun(), list[SnapshotPiece](), list(enumerate(AFTER, 1_000))
    for step in index.snapshot_steps():
        pieces += step
        for position, entry in changes[:3]:
            apply(index, position, entry)
        del changes[:3]
    assert parts_of(restored(pieces)) == as_it_was()
    assert not changes, "all of them came while it was made"
