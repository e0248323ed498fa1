"""Records of a Kafka topic, checked by their headers: doubled, missing, of a fenced writer, not of the gateway."""

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import MissingSequences, RecordCheck, RecordKind

SEED = int(os.environ.get("ONCEGATE_SEED", "20261123"))
GOLDEN = json.loads((Path(__file__).parents[1] / "golden/kafka/record_headers.json").read_text())


def headers(sequence: int, epoch: int = 1, producer: str = "p", digest: bytes | None = None) -> list[tuple[str, bytes]]:
    found = [
        ("oncegate-ns", b"flights"),
        ("oncegate-producer", producer.encode()),
        ("oncegate-epoch", epoch.to_bytes(8, "big")),
        ("oncegate-seq", sequence.to_bytes(8, "big")),
    ]
    return found if digest is None else [*found, ("oncegate-digest", digest)]


def test_each_sequence_is_first_once_and_a_duplicate_from_then_on() -> None:
    check = RecordCheck()
    told = [check.take(headers(sequence)) for sequence in (0, 1, 1, 2, 0)]
    assert told == _kinds("FIRST FIRST DUPLICATE FIRST DUPLICATE")
    assert check.missing() == []


def test_what_is_missing_is_named_by_its_first_and_last_until_it_comes() -> None:
    check = RecordCheck()
    for sequence in (10, 11, 15, 20):
        check.take(headers(sequence))
    check.take(headers(3, producer="other"))
    assert check.missing() == [
        MissingSequences("flights", "p", 12, 14),
        MissingSequences("flights", "p", 16, 19),
    ]
    assert [check.take(headers(sequence)) for sequence in (13, 12, 14)] == _kinds("FIRST FIRST FIRST")
    assert check.missing() == [MissingSequences("flights", "p", 16, 19)]


def test_a_record_of_an_older_epoch_behind_a_newer_one_is_a_fenced_writers() -> None:
    check = RecordCheck()
    told = [check.take(headers(0, epoch=2)), check.take(headers(1, epoch=1)), check.take(headers(1, epoch=2))]
    assert told == _kinds("FIRST OLDER_EPOCH FIRST")


def test_epochs_are_compared_within_a_partition_and_sequences_over_all() -> None:
    check = RecordCheck()
    told = [
        check.take(headers(5, epoch=2), "a-0"),
        check.take(headers(4, epoch=1), "a-1"),
        check.take(headers(5), "a-1"),
    ]
    assert told == _kinds("FIRST FIRST DUPLICATE")


def test_a_sequence_with_another_digest_is_altered() -> None:
    check = RecordCheck()
    told = [check.take(headers(0, digest=digest)) for digest in (b"a", b"a", b"b")]
    assert told == _kinds("FIRST DUPLICATE ALTERED")


def test_only_so_many_digests_are_kept() -> None:
    check = RecordCheck(digests=2)
    for sequence in range(3):
        check.take(headers(sequence, digest=b"a"))
    assert [check.take(headers(sequence, digest=b"b")) for sequence in (0, 2)] == _kinds("DUPLICATE ALTERED")


@pytest.mark.parametrize(
    "given",
    [
        [],
        headers(0)[1:],
        [*headers(0)[:3], ("oncegate-seq", b"\0" * 4)],
        [*headers(0)[:3], ("oncegate-seq", None)],
        [("oncegate-ns", b"\xff"), *headers(0)[1:]],
    ],
)
def test_a_record_without_the_headers_in_their_form_is_unmarked(given: list[tuple[str, bytes | None]]) -> None:
    assert RecordCheck().take(given) is RecordKind.UNMARKED


def test_headers_of_the_row_with_the_same_name_change_nothing() -> None:
    check = RecordCheck()
    check.take([("oncegate-seq", (9).to_bytes(8, "big")), *headers(0)])
    assert check.take(headers(9)) is RecordKind.FIRST


def test_the_golden_bytes_are_read_as_they_were_meant() -> None:
    for golden in GOLDEN:
        check = RecordCheck()
        marks = [(name, bytes.fromhex(value)) for name, value in golden["headers"]]
        assert check.take(marks) is RecordKind.FIRST
        again = headers(golden["sequence"] + 2, golden["epoch"], golden["producer"])
        check.take([("oncegate-ns", golden["namespace"].encode()), *again[1:]])
        between = golden["sequence"] + 1
        assert check.missing() == [MissingSequences(golden["namespace"], golden["producer"], between, between)]


def test_a_column_of_headers_is_taken_as_sparks_source_has_it() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.array([headers(0), None, headers(0), headers(1)], kind)
    check = RecordCheck()
    assert check.take_column(column, pa.array([0, 0, 1, 1])) == _kinds("FIRST UNMARKED DUPLICATE FIRST")
    assert check.take_column(column.slice(2)) == _kinds("DUPLICATE DUPLICATE")


def test_a_walk_is_told_as_a_set_tells_it() -> None:
    walk = random.Random(SEED)
    check, seen = RecordCheck(), set[int]()
    for _ in range(3_000):
        sequence = walk.randrange(900)
        kind = check.take(headers(sequence), walk.randrange(3))
        assert (kind is RecordKind.FIRST) == (sequence not in seen), f"seed {SEED}"
        seen.add(sequence)
    missing = {s for gap in check.missing() for s in range(gap.first, gap.last + 1)}
    assert missing == set(range(min(seen), max(seen))) - seen, f"seed {SEED}"


def _kinds(names: str) -> list[RecordKind]:
    return [RecordKind[name] for name in names.split()]
