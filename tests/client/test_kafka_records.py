"""Records of a Kafka topic, checked by their headers: duplicated, missing, or not from the gateway."""

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from oncegate_spark import RecordCheck
from oncegate_spark.kafka_records import HEADERS
from tests.support.record_headers import BATCH, SOURCE, Header, headers

SEED = int(os.environ.get("ONCEGATE_SEED", "20261123"))
GOLDEN = json.loads((Path(__file__).parents[1] / "golden/kafka/record_headers.json").read_text())


def checked(*records: Any) -> RecordCheck:
    check = RecordCheck()
    check.add(records)
    return check


def counts(check: RecordCheck) -> list[tuple[int | None, ...]]:
    """Returns epoch, records, duplicates and missing ones of each writer."""
    return [tuple(row[name] for name in ("epoch", "records", "duplicates", "missing")) for row in rows_of(check)]


def rows_of(check: RecordCheck) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = check.findings().to_pylist()
    return found


def spans(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["first"].to_pylist(), table["last"].to_pylist(), strict=True))


def test_a_batch_that_is_there_once_and_whole_has_nothing_missing_and_nothing_doubled() -> None:
    check = checked(*map(headers, range(5)))
    (row,) = rows_of(check)
    assert row == {
        "namespace": "flights",
        "producer": BATCH,
        "epoch": 1,
        "records": 5,
        "duplicates": 0,
        "missing": 0,
        "lowest": 0,
        "highest": 4,
    }
    assert (check.missing().num_rows, check.duplicated().num_rows) == (0, 0)


def test_missing_records_are_named_by_their_first_and_last_until_they_arrive() -> None:
    check = checked(*map(headers, (2, 3, 7, 12)))
    assert spans(check.missing()) == [(0, 1), (4, 6), (8, 11)]
    assert counts(check) == [(1, 4, 0, 9)]
    check.add(map(headers, (5, 4, 6, 0, 1)))
    assert spans(check.missing()) == [(8, 11)]
    assert check.missing().to_pylist()[0] == {
        "namespace": "flights",
        "producer": BATCH,
        "epoch": 1,
        "first": 8,
        "last": 11,
    }


def test_a_sequence_that_comes_again_is_a_duplicate_in_one_call_and_in_later_ones() -> None:
    check = checked(*map(headers, (0, 1, 1, 2, 1)))
    assert (counts(check), spans(check.duplicated())) == ([(1, 5, 2, 0)], [(1, 1)])
    check.add(map(headers, (2, 0, 3)))
    assert (counts(check), spans(check.duplicated())) == ([(1, 8, 4, 0)], [(0, 2)])


def test_a_sources_sequences_go_on_from_epoch_to_epoch_and_begin_anywhere() -> None:
    check = checked(*(headers(sequence, epoch, SOURCE) for sequence, epoch in ((10, 1), (11, 1), (15, 2), (11, 2))))
    assert (counts(check), spans(check.missing())) == ([(None, 4, 1, 3)], [(12, 14)])


def test_writers_are_distinguished_by_namespace_producer_and_epoch() -> None:
    several = [
        (0, 1, BATCH, "a"),
        (0, 2, BATCH, "a"),
        (0, 1, BATCH, "b"),
        (0, 1, "attempt:00", "a"),
        (1, 1, BATCH, "a"),
    ]
    check = checked(*(headers(*one) for one in several))
    assert sorted((row["namespace"], row["producer"], row["epoch"], row["records"]) for row in rows_of(check)) == [
        *[("a", "attempt:00", 1, 1), ("a", BATCH, 1, 2), ("a", BATCH, 2, 1), ("b", BATCH, 1, 1)]
    ]
    assert sum(row["duplicates"] + row["missing"] for row in rows_of(check)) == 0


def test_names_that_concatenate_equally_are_distinguished() -> None:
    check = checked(headers(0, 1, "attempt:1 2"), headers(0, 1, "attempt:1", "flights 1"), headers(0, 11, "attempt:1"))
    assert [row["records"] for row in rows_of(check)] == [1, 1, 1]


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        [("own", b"v")],
        headers(0)[1:],
        [*headers(0)[:3], ("oncegate-seq", b"\0" * 4)],
        [*headers(0)[:3], ("oncegate-seq", None)],
        [("oncegate-ns", b"\xff"), *headers(0)[1:]],
    ],
)
def test_a_record_without_the_headers_in_their_form_is_foreign(given: list[Header] | None) -> None:
    check = checked(headers(0), given, headers(1))
    assert counts(check) == [(1, 2, 0, 0), (None, 1, None, None)]
    assert rows_of(check)[1]["producer"] is None


def test_of_two_headers_of_one_name_the_last_is_the_gateways() -> None:
    check = checked([("oncegate-seq", (9).to_bytes(8, "big")), ("own", b""), *headers(0)])
    assert counts(check) == [(1, 1, 0, 0)]


def test_the_golden_bytes_are_read_as_they_were_meant() -> None:
    for golden in GOLDEN:
        check = checked([(name, bytes.fromhex(value)) for name, value in golden["headers"]])
        (row,) = rows_of(check)
        epoch = None if golden["producer"].startswith("producer:") else golden["epoch"]
        wanted = golden["namespace"], golden["producer"], epoch, golden["sequence"]
        assert (row["namespace"], row["producer"], row["epoch"], row["highest"]) == wanted


def test_arrays_tables_and_frames_are_taken_as_lists_are() -> None:
    column = pa.array([headers(0), None, headers(0), headers(1), headers(2)], HEADERS)
    table, frame = pa.table({"n": [1] * 5, "headers": column}), pd.DataFrame({"headers": column.to_pandas()})
    in_two = pa.chunked_array([column.slice(0, 2), column.slice(2)])
    batch = table.to_batches()[0]
    for given in (column, in_two, table, batch, frame, frame["headers"], column.to_pylist()):
        check = RecordCheck()
        check.add(given)
        assert counts(check) == [(1, 4, 1, 0), (None, 1, None, None)], type(given)


def test_a_part_of_an_array_is_taken_alone() -> None:
    check = RecordCheck()
    check.add(pa.array([headers(0), None, headers(1), headers(2), headers(9)], HEADERS).slice(2, 2))
    assert (counts(check), spans(check.missing())) == ([(1, 2, 0, 1)], [(0, 0)])


@pytest.mark.parametrize("given", [[1], [[("a", "b", "c")]], pa.array([1]), "x"])
def test_an_invalid_header_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="headers must be"):
        RecordCheck().add(given)


def test_a_topic_without_records_has_no_findings() -> None:
    for check in (RecordCheck(), checked(), checked(None)):
        assert len(counts(check)) == len([row for row in rows_of(check) if row["producer"] is None])
        assert (check.missing().num_rows, check.duplicated().num_rows) == (0, 0)


def test_numbers_up_to_the_highest_are_reported_exactly() -> None:
    check = checked(headers(2**64 - 2, 2**64 - 1), headers(0, 2**64 - 1), headers(2**63, 2**64 - 1))
    assert counts(check) == [(2**64 - 1, 3, 0, 2**64 - 4)]
    assert spans(check.missing()) == [(1, 2**63 - 1), (2**63 + 1, 2**64 - 3)]


def test_planted_duplicates_and_losses_are_reported_as_sets_give_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncegate_spark.kafka_records._PENDING", 150)
    walk = random.Random(SEED)
    check, seen = RecordCheck(), Counter[tuple[int, int]]()
    for _ in range(120):
        some = [(walk.randrange(3), walk.randrange(900)) for _ in range(walk.randrange(40))]
        seen.update(some)
        check.add([headers(sequence, epoch) for epoch, sequence in some])
    found = {row["epoch"]: row for row in rows_of(check)}
    for epoch in range(3):
        mine = {sequence: copies for (of, sequence), copies in seen.items() if of == epoch}
        lost = set(range(max(mine))) - set(mine)
        row, records = found[epoch], sum(mine.values())
        assert (row["records"], row["duplicates"], row["missing"]) == (records, records - len(mine), len(lost)), SEED
        assert _covered(check.missing(), epoch) == lost, f"seed {SEED}"
        assert _covered(check.duplicated(), epoch) == {s for s, copies in mine.items() if copies > 1}, f"seed {SEED}"


def test_memory_grows_with_gaps_and_not_with_records() -> None:
    check = RecordCheck()
    for turn in range(10):
        check.add([headers(sequence) for sequence in range(turn * 1_000, turn * 1_000 + 1_000)])
        check.findings()
        assert check._seen.num_rows == 1
    assert counts(check) == [(1, 10_000, 0, 0)]


def _covered(table: pa.Table, epoch: int) -> set[int]:
    rows = [row for row in table.to_pylist() if row["epoch"] == epoch]
    return {sequence for row in rows for sequence in range(row["first"], row["last"] + 1)}
