"""The encoding of rows: equal to the reference in every Arrow layout, and different for different rows."""

import json
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest
from oncegate.hashing.arrow_types import schema_name
from oncegate.hashing.rows import encode
from tests.hashing import reference
from tests.hashing.anything import table
from tests.hashing.layouts import LAYOUTS

VECTORS = json.loads((reference.GOLDEN / "rows.json").read_text())


def columns_of(schema: pa.Schema, rows: list[dict[str, Any]]) -> list[pa.Array]:
    return [pa.array([row[field.name] for row in rows], field.type) for field in schema]


def encoded(schema: pa.Schema, columns: list[pa.Array]) -> list[bytes]:
    rows = len(columns[0]) if columns else 0
    return list(encode(zip(schema, columns, strict=True), rows).messages())


def one_column(array: pa.Array) -> list[bytes]:
    return encoded(pa.schema([pa.field("x", array.type)]), [array])


def test_the_golden_vectors_hold() -> None:
    schema, rows = reference.golden_rows()
    assert [row.hex() for row in encoded(schema, columns_of(schema, rows))] == VECTORS["rows"]


@pytest.mark.parametrize("number", range(150))
def test_any_rows_of_any_types_are_encoded_as_the_reference_does(number: int) -> None:
    print(f"ONCEGATE_SEED={reference.SEED}")
    schema, rows = table(random.Random(reference.SEED * 1_000 + number))
    assert encoded(schema, columns_of(schema, rows)) == [reference.row_bytes(schema, row) for row in rows]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_does_not_count(layout: str) -> None:
    print(f"ONCEGATE_SEED={reference.SEED}")
    for number in range(60):
        schema, rows = table(random.Random(reference.SEED * 1_000 + number))
        columns = columns_of(schema, rows)
        other = [LAYOUTS[layout](column) for column in columns]
        layouts = pa.schema([pa.field(field.name, column.type) for field, column in zip(schema, other, strict=True)])
        assert schema_name(layouts) == schema_name(schema)
        assert encoded(layouts, other) == encoded(schema, columns), f"table {number}"


def test_the_dirty_layout_is_dirty_where_it_matters() -> None:
    """The tests of layouts would prove nothing if a layout cleaned up after itself."""
    numbers = LAYOUTS["dirty"](pa.array([7, None]))
    assert np.frombuffer(numbers.buffers()[1], np.int64)[1] == 7
    lists = LAYOUTS["dirty"](pa.array([["a"], None]))
    assert lists.to_pylist() == [["a"], None]
    assert np.frombuffer(lists.buffers()[1], np.int32).tolist() == [0, 1, 2]
    structs = LAYOUTS["dirty"](pa.array([{"a": 1}, None]))
    assert structs.field(0).to_pylist() == [1, 1]


def test_rows_that_differ_in_anything_have_different_bytes() -> None:
    kind = pa.struct([("a", pa.string()), ("b", pa.list_(pa.string()))])
    values = [
        None,
        {"a": None, "b": None},
        {"a": "", "b": None},
        {"a": None, "b": []},
        {"a": None, "b": [None]},
        {"a": None, "b": [""]},
        {"a": "x", "b": []},
        {"a": "", "b": ["x"]},
        {"a": "", "b": ["x", ""]},
        {"a": "", "b": ["", "x"]},
        {"a": "xy", "b": ["z"]},
        {"a": "x", "b": ["yz"]},
        {"a": "x", "b": ["y", "z"]},
    ]
    assert len(set(one_column(pa.array(values, kind)))) == len(values)


def test_every_nan_is_one_value_and_the_two_zeros_are_two() -> None:
    for width, unsigned in (("e", "<H"), ("f", "<I"), ("d", "<Q")):
        size = struct.calcsize(width)
        canonical = np.array(np.nan, f"<f{size}").tobytes()
        odd = struct.pack(unsigned, int.from_bytes(canonical, "little") | 1 | 1 << (8 * size - 1))
        raw = canonical + odd + struct.pack(f"<{width}", 0.0) + struct.pack(f"<{width}", -0.0)
        kind = {2: pa.float16(), 4: pa.float32(), 8: pa.float64()}[size]
        found = one_column(pa.Array.from_buffers(kind, 4, [None, pa.py_buffer(raw)]))
        assert found[0] == found[1] == b"\1" + canonical
        assert found[2] != found[3]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None, 3], pa.uint64()),
        pa.array([1, None, 3], pa.date64()),
        pa.array([1, None, 3], pa.time32("s")),
        pa.array([1, None, 3], pa.time64("us")),
        pa.array([1, None, 3], pa.duration("us")),
        pa.array([(1, 2, 3), None, (1, 2, 4)], pa.month_day_nano_interval()),
        pa.array([Decimal("1.5"), None, Decimal("-1.5")], pa.decimal256(50, 2)),
        pa.array([b"ab", None, b"cd"], pa.binary(2)),
        pa.array([[1, 2], None, [1, None]], pa.list_(pa.int8(), 2)),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), None, bytes(15) + b"1"], pa.binary(16))),
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_spark_has_no_word_for_are_taken_too(array: pa.Array) -> None:
    found = one_column(array)
    assert len(set(found)) == 3
    assert [one_column(array.slice(place, 1))[0] for place in range(3)] == found
    assert schema_name(pa.schema([pa.field("x", array.type)]))


def test_deep_nesting_survives_slices() -> None:
    value = {"m": [("k", [{"d": ["a", None]}, None]), ("l", [])]}
    kind = pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.struct([("d", pa.list_(pa.string()))]))))])
    array = pa.array([None, value, {"m": None}, value, {"m": []}], kind)
    found = one_column(array)
    assert found[1] == found[3]
    assert len(set(found)) == 4
    for start in range(6):
        assert one_column(array.slice(start)) == found[start:]


@pytest.mark.parametrize(
    "kind",
    [pa.dense_union([pa.field("a", pa.int8())]), pa.list_(pa.dense_union([pa.field("a", pa.int8())]))],
    ids=str,
)
def test_a_type_without_a_name_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(BadRequest, match="union"):
        schema_name(pa.schema([pa.field("x", kind)]))


def test_the_schema_counts_by_names_and_types_only() -> None:
    first = pa.schema([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string(), metadata={"k": "v"})])
    again = pa.schema([pa.field("b", pa.large_string()), pa.field("a", pa.int8())], metadata={"m": "n"})
    assert schema_name(first) == schema_name(again) == b'[["a","int8"],["b","string"]]'
    others = [
        pa.schema([("a", pa.int8()), ("b", pa.binary())]),
        pa.schema([("a", pa.int16()), ("b", pa.string())]),
        pa.schema([("a", pa.int8()), ("c", pa.string())]),
        pa.schema([("a", pa.int8())]),
        pa.schema([("t", pa.timestamp("us"))]),
        pa.schema([("t", pa.timestamp("ms"))]),
        pa.schema([("t", pa.timestamp("us", "UTC"))]),
        pa.schema([("t", pa.timestamp("us", "Europe/Berlin"))]),
        pa.schema([("t", pa.decimal128(10, 2))]),
        pa.schema([("t", pa.decimal128(10, 3))]),
    ]
    assert len({schema_name(schema) for schema in (first, *others)}) == 11
