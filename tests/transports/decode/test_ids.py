"""Ids in each encoding: null, empty and oversized ones are refused with their positions; columns join injectively."""

from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest, NullId, TooLarge
from oncegate.engine.limits import Limits
from oncegate.hashing.ids import Fingerprinter
from oncegate.transports.decode import ids
from tests.support.http_app import stream

LIMITS = Limits(ids_per_request=20, id_bytes=8)
PRINTS = Fingerprinter(bytes(range(32)))


def from_json(*given: Any) -> list[bytes]:
    return [row.tobytes() for row in ids.of_json(list(given), PRINTS, LIMITS)]


def from_arrow(**columns: Any) -> list[bytes]:
    return [row.tobytes() for row in ids.of_arrow(stream(pa.record_batch(columns)), PRINTS, LIMITS)]


@pytest.mark.parametrize("bad", [None, ""])
def test_null_and_empty_ids_are_refused_with_their_places_in_json(bad: str | None) -> None:
    with pytest.raises(NullId) as caught:
        from_json("a", bad, "b", bad)
    assert caught.value.extra["places"] == [1, 3]
    assert caught.value.extra["count"] == 2


@pytest.mark.parametrize("bad", [None, ""])
def test_null_and_empty_ids_are_refused_with_their_places_in_arrow(bad: str | None) -> None:
    with pytest.raises(NullId) as caught:
        from_arrow(flight=["a", bad, "b"])
    assert caught.value.extra["places"] == [1]


def test_only_the_first_ten_places_are_shown_and_all_are_counted() -> None:
    with pytest.raises(NullId) as caught:
        from_json(*[None] * 15)
    assert caught.value.extra["places"] == list(range(10))
    assert caught.value.extra["count"] == 15


def test_a_null_in_one_of_several_columns_is_refused_with_the_column() -> None:
    with pytest.raises(NullId, match="carrier") as caught:
        from_arrow(hour=["1", "2"], carrier=["UA", None])
    assert caught.value.extra["column"] == "carrier"
    with pytest.raises(NullId):
        from_json(["1", "UA"], ["2", None])


def test_a_null_row_among_rows_of_columns_is_refused() -> None:
    with pytest.raises(NullId):
        from_json(["1", "UA"], None)


def test_an_empty_column_beside_one_that_is_not_is_an_id_and_all_empty_is_none() -> None:
    assert len(from_json(["1", ""], ["", "1"])) == 2
    assert from_json(["1", ""]) != from_json(["", "1"])
    with pytest.raises(NullId):
        from_json(["1", "x"], ["", ""])


def test_columns_are_joined_so_that_no_two_ids_meet() -> None:
    assert from_json(["a", "bc"]) != from_json(["ab", "c"])
    assert from_json(["a", "bc"]) == from_arrow(x=["a"], y=["bc"])


def test_one_column_is_the_same_id_as_the_plain_string() -> None:
    assert from_json(["a"], ["b"]) == from_json("a", "b") == from_arrow(x=["a", "b"])


def test_the_layout_of_a_column_does_not_matter() -> None:
    kinds = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1)]
    assert len({tuple(from_arrow(x=pa.array(["a", "b"]).cast(kind))) for kind in kinds}) == 1


@pytest.mark.parametrize("size", [8, 9])
def test_an_id_may_have_as_many_bytes_as_the_limit_and_no_more(size: int) -> None:
    for read in (lambda: from_json("a", "x" * size), lambda: from_arrow(x=["a", "x" * size])):
        if size == 8:
            assert len(read()) == 2
        else:
            with pytest.raises(TooLarge, match="place 1 has 9 bytes"):
                read()


def test_the_limit_counts_bytes_not_characters_and_all_columns_together() -> None:
    with pytest.raises(TooLarge):
        from_json("äöüäö")
    with pytest.raises(TooLarge):
        from_json(["12345", "6789"])


def test_more_ids_than_one_request_may_have_are_refused_in_every_encoding() -> None:
    many = [str(n) for n in range(21)]
    for read in (
        lambda: from_json(*many),
        lambda: from_arrow(x=many),
        lambda: ids.of_packed(bytes(16 * 21), PRINTS, LIMITS),
    ):
        with pytest.raises(TooLarge, match="21 ids in one request; at most 20"):
            read()


def test_no_ids_at_all_are_no_error() -> None:
    assert from_json() == []
    assert from_arrow(x=pa.array([], pa.string())) == []


@pytest.mark.parametrize("size", [1, 15, 17, 33])
def test_a_packed_body_of_a_wrong_length_is_refused(size: int) -> None:
    with pytest.raises(BadRequest, match="16 bytes an id"):
        ids.of_packed(bytes(size), PRINTS, LIMITS)


def test_columns_that_are_no_ids_are_refused_with_what_to_do() -> None:
    with pytest.raises(BadRequest, match=r"'flight' has the type double; ids are strings, binary, whole numbers, "):
        from_arrow(flight=[1.5, 2.0])


def test_numbers_and_times_are_known_by_their_canonical_text() -> None:
    half = pa.array([150], pa.int64()).cast(pa.decimal128(21, 0)).view(pa.decimal128(21, 2))
    assert from_arrow(at=half, n=[17]) == from_arrow(at=["1.5"], n=["17"])


def test_ids_of_different_widths_in_one_request_are_refused() -> None:
    with pytest.raises(BadRequest, match="same number of columns"):
        from_json("a", ["b", "c"])
    with pytest.raises(BadRequest, match="same number of columns"):
        from_json([], [])


def test_a_stream_without_columns_has_no_ids() -> None:
    with pytest.raises(BadRequest, match="no column"):
        ids.of_arrow(stream(schema=pa.schema([])), PRINTS, LIMITS)


def test_several_batches_of_one_stream_are_one_list() -> None:
    first, second = pa.record_batch({"x": ["a", "b"]}), pa.record_batch({"x": ["c"]})
    assert [row.tobytes() for row in ids.of_arrow(stream(first, second), PRINTS, LIMITS)] == from_json("a", "b", "c")


def test_few_ids_are_the_same_ids_as_among_many() -> None:
    many = [f"{number}é" for number in range(3 * ids.FEW)]
    whole = ids.of_json(many, PRINTS, Limits())
    for count in (0, 1, 2, ids.FEW, ids.FEW + 1):
        few = ids.of_json(many[:count], PRINTS, Limits())
        assert few.shape == (count, 2)
        assert few.tobytes() == whole[:count].tobytes()
    assert (
        ids.of_json(["a", "b"], PRINTS, Limits()).tobytes() == ids.of_json([["a"], ["b"]], PRINTS, Limits()).tobytes()
    )


def test_text_that_has_no_bytes_is_no_id() -> None:
    with pytest.raises(UnicodeEncodeError):
        ids.of_json(["\ud800"], PRINTS, Limits())
    with pytest.raises(UnicodeEncodeError):
        ids.of_json(["\ud800"] * (ids.FEW + 1), PRINTS, Limits())
