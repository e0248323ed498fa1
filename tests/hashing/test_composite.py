"""Several columns as one id: two rows give the same bytes only if they are equal."""

import json
from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncegate.core.errors import NullId
from oncegate.hashing.byte_strings import join
from oncegate.hashing.ids import Fingerprinter
from tests.hashing import reference

VECTORS = json.loads((reference.GOLDEN / "joined.json").read_text())
VALUE = st.text(max_size=3) | st.binary(max_size=3) | st.text("\0\1\2ab", max_size=8) | st.binary(max_size=60)


def one(*values: str | bytes) -> bytes:
    found: bytes = join([pa.array([value]) for value in values])[0].as_py()
    return found


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: repr(vector["columns"])[:40])
def test_the_golden_vectors_hold(vector: dict[str, object]) -> None:
    columns = [bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for v in vector["columns"]]  # type: ignore[attr-defined]
    joined = join([pa.array([value]) for value in columns])
    assert joined.type == pa.large_binary()
    assert joined[0].as_py().hex() == vector["bytes"]
    assert Fingerprinter(reference.KEY).of_array(joined).tobytes().hex() == vector["fingerprint"]


def test_where_one_column_ends_and_the_next_begins_counts() -> None:
    assert len({one("a", "bc"), one("ab", "c"), one("abc", ""), one("", "abc"), one("abc"), one("", "", "abc")}) == 6


def test_a_string_and_the_binary_of_its_bytes_differ() -> None:
    assert len({one("a", "b"), one(b"a", "b"), one("a", b"b"), one(b"a", b"b")}) == 4


@settings(derandomize=True, deadline=None)
@given(st.lists(st.lists(VALUE, min_size=1, max_size=4), min_size=2, max_size=30))
def test_join_is_injective_and_matches_the_reference(rows: list[list[str | bytes]]) -> None:
    """Joins rows of one shape as columns; two rows of any shapes have the same bytes only if equal."""
    shapes = defaultdict(list)
    for row in rows:
        shapes[tuple(type(value) for value in row)].append(row)
    seen: dict[bytes, list[str | bytes]] = {}
    for shape, alike in shapes.items():
        kinds = [pa.string() if kind is str else pa.binary() for kind in shape]
        columns = [pa.array(column, kind) for column, kind in zip(zip(*alike, strict=True), kinds, strict=True)]
        for row, joined in zip(alike, join(columns).to_pylist(), strict=True):
            assert joined == reference.join(row)
            assert seen.setdefault(joined, row) == row


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_the_layout_of_a_column_does_not_count(kind: pa.DataType) -> None:
    values = ["x", "", "aé", "a", "a"]
    columns = [pa.array(values), pa.array([b"1", b"22", b"", b"4", b"5"])]
    other = [columns[0].cast(kind), columns[1].cast(pa.large_binary())]
    assert join(other).equals(join(columns))
    assert join([column.slice(1, 3) for column in other]).to_pylist() == join(columns).to_pylist()[1:4]


def test_fixed_size_binary_is_binary() -> None:
    assert join([pa.array([b"ab"], pa.binary(2))]).equals(join([pa.array([b"ab"])]))


def test_no_row_gives_no_id() -> None:
    assert len(join([pa.array([], pa.string()), pa.array([], pa.binary())])) == 0


def test_a_null_in_any_column_is_refused() -> None:
    with pytest.raises(NullId, match="1 of 2"):
        join([pa.array(["a", "b"]), pa.array(["a", None])])


def test_columns_that_cannot_be_joined_are_refused() -> None:
    with pytest.raises(ValueError, match="no column"):
        join([])
    with pytest.raises(ValueError, match="different lengths"):
        join([pa.array(["a"]), pa.array(["a", "b"])])
    with pytest.raises(TypeError, match="int64 is neither"):
        join([pa.array(["a"]), pa.array([1])])
