"""Batches, topics and sources are computed from entries; undoing the newest entries leaves no trace."""

import copy
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncegate.core.entries.kinds import (
    Asked,
    Committed,
    Completed,
    Dropped,
    Entry,
    Name,
    Opened,
    Part,
    Probe,
    Produced,
    Span,
    Staged,
    TopicCreated,
    TopicSet,
    Trimmed,
)
from oncegate.index import committed_names, source_offsets
from oncegate.index.batches import BatchIndex
from oncegate.index.committed_names import short_digest, short_nonce
from oncegate.index.source_offsets import SourceOffsets
from oncegate.index.topics import TopicIndex

TOPICS = ("t", "u")
PARTITIONS = 2
NAMES = [Name("a", version, topic, write) for topic in TOPICS for version in "0123" for write in ("", "w")][:10]
REMEMBERED = 2
KINDS = ["stage"] * 4 + ["drop", "commit", "commit", "ask", "topic", "set", "produce", "trim"]


def id16(number: int) -> bytes:
    return number.to_bytes(16, "little")


def created(topic: str, partitions: int = PARTITIONS, schema: bytes = b"s") -> TopicCreated:
    return TopicCreated(topic, partitions, schema, 0, 0, 0)


def produced(topic: str, partition: int, first_offset: int, rows: int, size_bytes: int = 7) -> Produced:
    rest = (id16(1), id16(2), 1, bytes(16), 0, b"", b"")
    return Produced(topic, partition, first_offset, rows, size_bytes, *rest)


class Scan:
    """The indexes. `state` is everything that a later decision could see."""

    def __init__(self) -> None:
        self.batches, self.topics, self.position = BatchIndex(), TopicIndex(), 0
        self.source_offsets = SourceOffsets()

    def apply(self, entry: Entry) -> Callable[[], None]:
        self.position += 1
        parts = (self.topics, self.batches, self.source_offsets)
        undos = [part.apply(self.position, entry) for part in parts]

        def undo() -> None:
            for one in reversed(undos):
                if one is not None:
                    one()
            self.position -= 1

        return undo

    def state(self) -> tuple[object, ...]:
        index = self.batches
        names, topics = vars(index.committed), dict(self.topics)
        seen = (names, index.stages, index.stage_bytes, index.suppressed_rows, topics, vars(self.source_offsets))
        return copy.deepcopy(seen)


class Writer:
    """Makes entries that a gateway could write now."""

    def __init__(self, fold: Scan) -> None:
        self.fold, self._ranges = fold, 0

    def next(self, draw: st.DataObject) -> Entry:
        kind = draw.draw(st.sampled_from(KINDS))
        entry: Entry | None = getattr(self, f"_{kind}")(draw, draw.draw(st.sampled_from(NAMES)))
        return entry if entry is not None else Probe(0)

    def _stage(self, draw: st.DataObject, name: Name) -> Entry | None:
        token, chunk = id16(draw.draw(st.integers(1, 3))), draw.draw(st.integers(0, 2))
        stage = self.fold.batches.stage(name, token)
        if self.fold.batches.committed.get(name) is not None or (stage is not None and chunk in stage.chunks):
            return None
        self._ranges += 1
        rows, size_bytes, print_ = draw.draw(st.tuples(*[st.integers(0, 99)] * 3))
        part = Part(draw.draw(st.integers(0, PARTITIONS - 1)), rows, size_bytes, id16(self._ranges))
        return Staged(name, "run:1", token, chunk, bytes(32), rows, size_bytes, id16(print_), b"s", (part,), 0)

    def _drop(self, draw: st.DataObject, name: Name) -> Entry:
        tokens = tuple(map(id16, draw.draw(st.lists(st.integers(1, 4), max_size=3, unique=True))))
        return Dropped(name, tokens, "aborted", 0)

    def _commit(self, draw: st.DataObject, name: Name) -> Entry | None:
        topic = self.fold.topics.get(name.topic)
        if self.fold.batches.committed.get(name) is not None:
            return None
        staged = self.fold.batches.stages.get(name, {}).values()
        won = [stage for stage in staged if draw.draw(st.booleans())] if topic is not None else []
        winners = tuple(stage.token + len(stage.chunks).to_bytes(4, "little") for stage in won)
        run, digest = draw.draw(st.sampled_from([None, b"run"])), draw.draw(st.sampled_from([None, b"d" * 32]))
        rows = sum(stage.rows for stage in won)
        parts = [part for stage in won for part in stage.parts if part.rows]
        spans = tuple(self._span(name.topic, number, parts) for number in sorted({part.partition for part in parts}))
        told = draw.draw(st.sampled_from([b"", b"behind %d" % self.fold.position]))
        return Committed(name, run, id16(self.fold.position), winners, digest, id16(rows), rows, spans, 0, told)

    def _span(self, topic: str, partition: int, parts: list[Part]) -> Span:
        mine = [part for part in parts if part.partition == partition]
        first_offset = self.fold.topics.high_offset(topic, partition)
        return Span(partition, first_offset, sum(part.rows for part in mine), sum(part.size_bytes for part in mine))

    def _ask(self, draw: st.DataObject, name: Name) -> Entry | None:
        """Often returns the same request again."""
        committed = [name for name in NAMES if self.fold.batches.committed.get(name) is not None]
        if not committed:
            return None
        name = draw.draw(st.sampled_from(committed))
        run, nonce = draw.draw(st.sampled_from([None, b"run", b"r2"])), id16(draw.draw(st.integers(0, 2)))
        outcome = draw.draw(st.sampled_from(["DUPLICATE", "BATCH_CONFLICT"]))
        return Asked(name, run, nonce, outcome, 5, 1, 0)

    def _topic(self, draw: st.DataObject, name: Name) -> Entry | None:
        return created(name.topic, schema=b"") if self.fold.topics.get(name.topic) is None else None

    def _set(self, draw: st.DataObject, name: Name) -> Entry | None:
        retention = draw.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
        return None if self.fold.topics.get(name.topic) is None else TopicSet(name.topic, b"s", *retention, 0)

    def _produce(self, draw: st.DataObject, name: Name) -> Entry | None:
        partition, rows, size_bytes = draw.draw(st.tuples(*map(st.integers, (0, 1, 0), (PARTITIONS - 1, 9, 9))))
        if self.fold.topics.get(name.topic) is None:
            return None
        return produced(name.topic, partition, self.fold.topics.high_offset(name.topic, partition), rows, size_bytes)

    def _trim(self, draw: st.DataObject, name: Name) -> Entry | None:
        """Trims up to the beginning of a kept span, or everything."""
        topic, partition = self.fold.topics.get(name.topic), draw.draw(st.integers(0, PARTITIONS - 1))
        if topic is None:
            return None
        there = topic.partitions[partition]
        ends = [first_offset for first_offset, _, _ in there.kept] + [there.high_offset]
        return Trimmed(name.topic, partition, draw.draw(st.sampled_from(ends)), 0)


@pytest.fixture
def few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the memory, so that names and sources are forgotten, and remembered again, within a short walk."""
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", REMEMBERED)
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED_IN_ALL", 2 * REMEMBERED)
    monkeypatch.setattr(source_offsets, "BYTES_IN_ALL", REMEMBERED * 320)


HYPOTHESIS = settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])


@HYPOTHESIS
@pytest.mark.usefixtures("few_names")
@given(draw=st.data())
def test_any_changes_taken_back_leave_what_was_there(draw: st.DataObject) -> None:
    """Changes become durable in order, and the remaining ones are undone at any moment, newest first."""
    fold = Scan()
    writer, pending = Writer(fold), list[tuple[object, Callable[[], None]]]()
    for _ in range(draw.draw(st.integers(1, 25))):
        before = fold.state()
        pending.append((before, fold.apply(writer.next(draw))))
        what = draw.draw(st.sampled_from(["go on", "go on", "durable", "refused"]))
        if what == "durable":
            pending.clear()
        elif what == "refused":
            while pending:
                before, undo = pending.pop()
                undo()
                assert fold.state() == before


@HYPOTHESIS
@pytest.mark.usefixtures("few_names")
@given(draw=st.data())
def test_a_fold_after_refusals_is_the_fold_of_what_was_kept(draw: st.DataObject) -> None:
    fold, kept = Scan(), list[Entry]()
    writer = Writer(fold)
    for _ in range(draw.draw(st.integers(1, 30))):
        entry = writer.next(draw)
        undo = fold.apply(entry)
        if draw.draw(st.booleans()):
            kept.append(entry)
        else:
            undo()
    again = Scan()
    for entry in kept:
        again.apply(entry)
    assert again.state() == fold.state()


def commit(version: int, write_id: str = "") -> Committed:
    return Committed(Name("a", str(version), "t", write_id), b"run", id16(version), (), b"d" * 32, id16(9), 0, (), 0)


def test_of_names_beyond_a_thousand_enough_stays_to_recognize_a_replay_and_nothing_to_compare() -> None:
    index, count = BatchIndex(), committed_names.NAMES_REMEMBERED + 3
    for version in range(count):
        index.apply(version + 1, commit(version))
    forgotten = [version for version in range(count) if _record(index, version).fingerprint is None]
    assert forgotten == [0, 1, 2]
    record = _record(index, 0)
    assert (record.digest, record.nonce) == (short_digest(b"d" * 32), short_nonce(id16(0)))
    assert (record.asks, record.spans, record.position) == ((), (), count)


def _record(index: BatchIndex, version: int, write_id: str = "") -> committed_names.CommittedName:
    record = index.committed.get(Name("a", str(version), "t", write_id))
    assert record is not None
    return record


def test_the_same_ask_again_is_counted_once_and_stays_when_only_its_repeat_is_taken_back() -> None:
    fold = Scan()
    fold.apply(commit(0))
    ask = Asked(Name("a", "0", "t"), b"r2", id16(7), "DUPLICATE", 5, 1, 0)
    fold.apply(ask)
    before = fold.state()
    undo = fold.apply(ask)
    assert fold.state() == before
    undo()
    assert fold.state() == before
    assert fold.batches.suppressed_rows == 5


@pytest.mark.usefixtures("few_names")
def test_each_writeId_has_names_remembered_of_its_own() -> None:
    index = BatchIndex()
    for position, (version, write_id) in enumerate([(0, ""), (0, "w"), (1, ""), (1, "w"), (2, "")], 1):
        index.apply(position, commit(version, write_id))
    assert _record(index, 0).fingerprint is None
    assert _record(index, 0, "w").fingerprint is not None


@pytest.mark.usefixtures("few_names")
def test_a_commit_that_made_the_oldest_name_forgotten_can_be_taken_back() -> None:
    fold = Scan()
    fold.apply(created("t"))
    for version in range(2):
        fold.apply(commit(version))
    before = fold.state()
    undos = [fold.apply(commit(version)) for version in (2, 3)]
    for undo in reversed(undos):
        undo()
    assert fold.state() == before


def test_entries_without_batches_or_topics_change_neither() -> None:
    fold = Scan()
    before = fold.state()
    for entry in (Opened(1, 1, id16(1), 0), Completed(id16(1), 0), Probe(0)):
        fold.apply(entry)
    assert fold.state() == before


@pytest.mark.parametrize(
    "entry",
    [
        produced("t", 0, first_offset=5, rows=1),
        produced("t", 1, first_offset=3, rows=1),
        created("t"),
        TopicSet("t", b"another", 0, 0, 0),
        Trimmed("t", 0, 4, 0),
        Trimmed("t", 0, 1, 0),
        Committed(Name("a", "0", "t"), None, id16(1), (), None, id16(0), 2, (Span(0, 7, 2, 9),), 0),
    ],
    ids=str,
)
def test_an_entry_that_contradicts_its_topic_is_a_bug(entry: Entry) -> None:
    fold = Scan()
    for before in (created("t"), produced("t", 0, 0, 3), Trimmed("t", 0, 3, 0)):
        fold.apply(before)
    with pytest.raises(AssertionError):
        fold.apply(entry)
