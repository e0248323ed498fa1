"""The fingerprint of a batch covers a multiset of rows: order, division and layout do not count, every copy does."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest
from oncegate.hashing import rows as row_fingerprints
from oncegate.hashing.rows import EMPTY, RowFingerprinter, add
from tests.hashing import reference
from tests.hashing.layouts import LAYOUTS

VECTORS = json.loads((reference.GOLDEN / "rows.json").read_text())
PRINTER = RowFingerprinter(reference.KEY)
SCHEMA, ROWS = reference.golden_rows()


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64()), "text": pa.array([f"row {value}" for value in values])})


def many(rows: int) -> pa.RecordBatch:
    rng = random.Random(reference.SEED)
    return batch_of([rng.choice(ROWS) | {"small": rng.randint(-99, 99)} for _ in range(rows)])


def test_the_golden_vectors_hold() -> None:
    assert [PRINTER.of_batch(batch_of([row])).hex() for row in ROWS] == VECTORS["each"]
    assert PRINTER.of_batch(batch_of(ROWS)).hex() == VECTORS["all"]


@pytest.mark.parametrize("rows", [40, 41, 500])
def test_many_rows_match_the_reference(rows: int) -> None:
    batch = many(rows)
    plain = batch.select(["text", "raw", "small", "yes", "nothing", "many", "both"])
    found = PRINTER.of_batch(plain)
    assert found == reference.batch_print(reference.KEY, plain.schema, plain.to_pylist())


def test_a_row_twice_is_not_another_row_twice() -> None:
    """With a xor, in which a pair cancels out, both would be the print of row 2 alone."""
    assert PRINTER.of_batch(numbers(1, 1, 2)) != PRINTER.of_batch(numbers(3, 3, 2))
    assert PRINTER.of_batch(numbers(1, 1, 2)) != PRINTER.of_batch(numbers(2))
    assert add(PRINTER.of_batch(numbers(1)), PRINTER.of_batch(numbers(1))) != EMPTY


def test_a_row_less_or_more_or_changed_is_seen() -> None:
    prints = [
        PRINTER.of_batch(numbers(*rows)) for rows in [(1, 2, 3), (1, 2), (1, 2, 3, 3), (1, 2, 4), (1, 1, 1), (1,)]
    ]
    assert len(set(prints)) == len(prints)


def test_the_order_of_rows_does_not_count() -> None:
    rows = list(range(2_000))
    expected = PRINTER.of_batch(numbers(*rows))
    random.Random(reference.SEED).shuffle(rows)
    assert PRINTER.of_batch(numbers(*rows)) == expected


def test_how_rows_are_cut_into_batches_does_not_count() -> None:
    batch = many(300)
    expected = PRINTER.of_batch(batch)
    for size in (1, 7, 64, 299):
        total = EMPTY
        for first in range(0, 300, size):
            total = add(total, PRINTER.of_batch(batch.slice(first, size)))
        assert total == expected


def test_a_batch_larger_than_one_slice_is_the_sum_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = many(300)
    expected = PRINTER.of_batch(batch)
    for size in (1, 100, 299, 300):
        monkeypatch.setattr(row_fingerprints, "SLICE_ROWS", size)
        assert PRINTER.of_batch(batch) == expected


def test_the_order_of_columns_does_not_count_and_their_names_do() -> None:
    batch = many(50)
    turned = batch.select(batch.schema.names[::-1])
    assert PRINTER.of_batch(turned) == PRINTER.of_batch(batch)
    renamed = batch.rename_columns(["other", *batch.schema.names[1:]])
    assert PRINTER.of_batch(renamed) != PRINTER.of_batch(batch)
    pair = pa.record_batch({"a": pa.array([1]), "b": pa.array([2])})
    swapped = pa.record_batch({"b": pa.array([1]), "a": pa.array([2])})
    assert PRINTER.of_batch(pair) != PRINTER.of_batch(swapped)


def test_columns_of_one_name_keep_their_places() -> None:
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    first = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], schema=twice)
    other = pa.RecordBatch.from_arrays([pa.array([2]), pa.array([1])], schema=twice)
    assert PRINTER.of_batch(first) != PRINTER.of_batch(other)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_does_not_count(layout: str) -> None:
    batch = many(90)
    arrays = [LAYOUTS[layout](column) for column in batch.columns]
    other = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
    assert PRINTER.of_batch(other) == PRINTER.of_batch(batch)


def test_an_ipc_stream_has_the_fingerprint_of_the_sent_rows() -> None:
    batch = many(90).slice(11)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch.slice(0, 30))
        writer.write_batch(batch.slice(30))
    total = EMPTY
    for received in pa.ipc.open_stream(sink.getvalue()):
        total = add(total, PRINTER.of_batch(received))
    assert total == PRINTER.of_batch(batch)


def test_no_rows_are_all_zeros_and_add_nothing() -> None:
    assert PRINTER.of_batch(batch_of([])) == EMPTY == bytes(16)
    some = PRINTER.of_batch(numbers(1))
    assert add(some, EMPTY) == add(EMPTY, some) == some


def test_rows_without_a_column_are_counted() -> None:
    batch = numbers(1, 2, 3).select([])
    assert batch.num_rows == 3
    assert PRINTER.of_batch(batch) not in {EMPTY, PRINTER.of_batch(batch.slice(1))}


def test_a_sum_wraps_at_2_to_the_128() -> None:
    highest, one = b"\xff" * 16, (1).to_bytes(16, "little")
    assert add(highest, one) == EMPTY
    assert add(highest, highest) == ((1 << 128) - 2).to_bytes(16, "little")


def test_another_key_gives_another_print() -> None:
    other = RowFingerprinter(bytes(32))
    assert other.of_batch(numbers(1)) != PRINTER.of_batch(numbers(1))
    with pytest.raises(ValueError, match="32 bytes"):
        RowFingerprinter(bytes(16))


def test_a_type_that_is_not_supported_is_named() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(BadRequest, match="union"):
        PRINTER.of_batch(pa.record_batch({"x": union}))
