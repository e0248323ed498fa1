"""The memory of committed names: everything about recent ones, and 60 bytes of older ones, enough to detect a
replay."""

import random
import tracemalloc
from dataclasses import replace

import pytest

from oncegate.core.entries.kinds import Asked, Committed, Name
from oncegate.index import committed_names
from oncegate.index.batches import BatchIndex
from oncegate.index.committed_names import OlderName, OlderNames
from tests.support.ledger_tools import SEED

NAMES = 20_000
STREAM = Name("7c1f5a36-7b5c-4f5c-9a58-0b2f7f0c4d11", "0", "departures")


def id16(number: int) -> bytes:
    return number.to_bytes(16, "little")


def commit(name: Name, number: int = 1) -> Committed:
    return Committed(name, b"run", id16(number), (), id16(number) * 2, id16(9), 10, (), number)


def index_of(names: list[Name]) -> BatchIndex:
    index = BatchIndex()
    for number, name in enumerate(names, 1):
        index.apply(number, commit(name, number))
    return index


def memory_of(names: list[Name]) -> float:
    """Returns the bytes per name."""
    tracemalloc.start()
    index = index_of(names)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(index.committed.older) >= len(names) - committed_names.NAMES_REMEMBERED_IN_ALL
    return size_bytes / len(names)


@pytest.fixture
def few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", 10)
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED_IN_ALL", 50)


@pytest.mark.usefixtures("few_names")
def test_a_name_of_a_stream_takes_64_bytes_at_most() -> None:
    assert memory_of([replace(STREAM, version=str(number)) for number in range(NAMES)]) <= 64


@pytest.mark.usefixtures("few_names")
def test_names_of_streams_side_by_side_take_64_bytes_at_most() -> None:
    streams = [replace(STREAM, app=f"stream {number}") for number in range(4)]
    names = [replace(streams[number % 4], version=str(number // 4)) for number in range(NAMES)]
    assert memory_of(names) <= 64 + 4, "half a block of each stream"


@pytest.mark.usefixtures("few_names")
def test_other_names_take_64_bytes_and_their_own_at_most() -> None:
    """A nightly job under an app of its own, and versions that are no numbers."""
    words = [random.Random(SEED + number).randbytes(16).hex() for number in range(NAMES)]
    for names in ([replace(STREAM, app=word) for word in words], [replace(STREAM, version=word) for word in words]):
        assert memory_of(names) <= 64 + 32


def test_older_names_are_found_whatever_the_order_in_which_they_came() -> None:
    rng, index = random.Random(SEED), OlderNames()
    versions = [*range(3_000), *(f"v{number}" for number in range(2_000)), "00", "-1", "9" * 18, "9" * 19]
    names = [Name(f"app {n % 3}", str(version), "t", "w" * (n % 2)) for n, version in enumerate(versions)]
    expected: dict[Name, OlderName] = {}
    for name in rng.sample(names, len(names)):
        if expected and rng.random() < 0.2:
            index.remove(gone := rng.choice(list(expected)))
            del expected[gone]
        digest = None if rng.random() < 0.1 else rng.randbytes(16)
        what = OlderName(digest, rng.randrange(1 << 40), rng.randrange(1 << 40), rng.randbytes(8))
        assert index.add(name, what), SEED
        assert not index.add(name, what._replace(rows=1))
        expected[name] = what
    assert len(index) == len(expected)
    again = OlderNames()
    again.extend(b"".join(index.frozen()))
    for found in (index, again):
        assert {name: found.get(name) for name in names if found.get(name)} == expected, SEED


def test_records_that_are_damaged_or_out_of_order_are_refused() -> None:
    index = OlderNames()
    for number in range(1_000):
        index.add(replace(STREAM, version=str(number)), OlderName(None, 1, 1, bytes(8)))
    first, second = index.frozen()
    with pytest.raises(ValueError, match="not whole records of 60"):
        OlderNames().extend(first[:-1])
    with pytest.raises(ValueError, match="out of order"):
        OlderNames().extend(second + first)
    for at in (60, len(first) - 120):
        swapped = first[:at] + first[at + 60 : at + 120] + first[at : at + 60] + first[at + 120 :]
        for data in (swapped, first[: at + 60] + first[at : at + 60]):
            with pytest.raises(ValueError, match="out of order"):
                OlderNames().extend(data)
    again = OlderNames()
    again.extend(first)
    with pytest.raises(ValueError, match="out of order"):
        again.extend(first[-60:])
    again.extend(second)
    again.extend(b"")
    assert again == index


@pytest.mark.usefixtures("few_names")
def test_an_older_name_that_is_asked_for_is_one_of_the_last_again_and_who_asked_is_known() -> None:
    names = [replace(STREAM, version=str(number)) for number in range(12)]
    index = index_of(names)
    assert names[0] not in index.committed.last
    index.apply(20, Asked(names[0], b"later run", id16(99), "DUPLICATE", 10, 2, 0))
    assert len(index.committed) == 12
    facts = index.facts(names[0], b"later run", id16(100), (), id16(1) * 2, None, False)
    assert facts.run_asked
    assert facts.rows_equal is None
    for number in range(20):
        index.apply(30 + number, commit(replace(STREAM, version=str(100 + number))))
    assert names[0] not in index.committed.last
    assert index.committed.get(names[0]) is not None


@pytest.mark.usefixtures("few_names")
def test_names_remembered_whole_are_bounded_in_all() -> None:
    index = index_of([replace(STREAM, app=f"job {number}") for number in range(200)])
    assert len(index.committed.last) == committed_names.NAMES_REMEMBERED_IN_ALL
    assert [name.app for name in index.committed.last] == [f"job {number}" for number in range(150, 200)]


def test_asks_of_all_names_take_a_bounded_memory_and_the_newest_of_each_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "ASKS_BYTES_IN_ALL", 500 * committed_names.ASK_BYTES)
    names = [replace(STREAM, version=str(number)) for number in range(100)]
    index, position = index_of(names), 100
    for name in names:
        for _ in range(50):
            position += 1
            index.apply(position, Asked(name, None, id16(position), "DUPLICATE", 1, 1, 0))
            assert index.committed.asks_bytes <= committed_names.ASKS_BYTES_IN_ALL
    kept = [record.asks for record in index.committed.last.values()]
    assert [asks[-1] for asks in kept] == [(None, id16(100 + 50 * number)) for number in range(1, 101)]
    assert [len(asks) for asks in kept[-3:]] == [51, 51, 51], "the latest requests are known completely"
    assert [len(asks) for asks in kept[:50]] == [1] * 50


def test_asks_of_exactly_the_limit_stay_and_come_back_when_a_commit_beyond_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [replace(STREAM, version=str(number)) for number in range(10)]
    index = index_of(names)
    limit = index.committed.asks_bytes + 9 * committed_names.ASK_BYTES
    monkeypatch.setattr(committed_names, "ASKS_BYTES_IN_ALL", limit)
    for number in range(11, 20):
        index.apply(number, Asked(names[0], None, id16(number), "DUPLICATE", 1, 1, 0))
    before = index.committed.get(names[0])
    assert before is not None
    assert (index.committed.asks_bytes, len(before.asks)) == (limit, 10)
    undo = index.apply(20, commit(replace(STREAM, version="new"), 20))
    assert index.committed.get(names[0]) == replace(before, asks=before.asks[-1:])
    assert undo is not None
    undo()
    assert (index.committed.asks_bytes, index.committed.get(names[0])) == (limit, before)


def test_asks_that_were_given_up_come_back_with_what_they_were_given_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "ASKS_BYTES_IN_ALL", 20 * committed_names.ASK_BYTES)
    names = [replace(STREAM, version=str(number)) for number in range(10)]
    index = index_of(names)
    for number in range(10, 19):
        index.apply(number, Asked(names[0], None, id16(number), "DUPLICATE", 1, 1, 0))
    before = index.committed.get(names[0])
    undo = index.apply(20, Asked(names[1], None, id16(20), "DUPLICATE", 1, 1, 0))
    assert index.committed.get(names[0]) != before
    assert undo is not None
    undo()
    assert index.committed.get(names[0]) == before


def test_runs_of_long_names_count_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_names, "ASKS_BYTES_IN_ALL", 10 * committed_names.ASK_BYTES)
    index = index_of([STREAM])
    for number in range(2, 30):
        index.apply(number, Asked(STREAM, b"r" * 1_000, id16(number), "DUPLICATE", 1, 1, 0))
    record = index.committed.get(STREAM)
    assert record is not None
    assert len(record.asks) == 1


def test_of_one_name_the_last_hundred_asks_are_known() -> None:
    index = index_of([STREAM])
    for number in range(2, 150):
        index.apply(number, Asked(STREAM, b"%d" % number, id16(number), "DUPLICATE", 1, 1, 0))
    record = index.committed.get(STREAM)
    assert record is not None
    assert [run for run, _ in record.asks] == [b"%d" % number for number in range(50, 150)]
