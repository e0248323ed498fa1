"""The text of numbers and times as ids: golden, because ids are kept permanently."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from oncegate.core.errors import BadRequest
from oncegate.hashing.id_text import as_text

AT = datetime(2026, 11, 20, 8, 15, 0, 500_000, tzinfo=UTC)


def local(*given: int) -> datetime:
    """Returns a time without a zone."""
    return datetime(*given, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc,arg-type]


GOLDEN: list[tuple[pa.DataType, Any, str]] = [
    (pa.int8(), -5, "-5"),
    (pa.uint64(), 2**64 - 1, "18446744073709551615"),
    (pa.decimal128(10, 2), Decimal("1.50"), "1.5"),
    (pa.decimal128(10, 1), Decimal("1.5"), "1.5"),
    (pa.decimal128(38, 0), Decimal("17"), "17"),
    (pa.decimal128(10, 2), Decimal("100.00"), "100"),
    (pa.decimal128(10, 2), Decimal("-0.05"), "-0.05"),
    (pa.decimal128(10, 2), Decimal("0.00"), "0"),
    (pa.decimal128(38, 37), Decimal("-0.0000001"), "-0.0000001"),
    (
        pa.decimal128(38, 2),
        Decimal("123456789012345678901234567890123456.70"),
        "123456789012345678901234567890123456.7",
    ),
    (pa.decimal256(76, 10), Decimal("1234.5"), "1234.5"),
    (pa.decimal64(15, 3), Decimal("-2.500"), "-2.5"),
    (pa.date32(), date(2026, 11, 20), "2026-11-20"),
    (pa.date64(), date(1, 1, 1), "0001-01-01"),
    (pa.timestamp("us", "UTC"), AT, "2026-11-20T08:15:00.5Z"),
    (pa.timestamp("us", "Asia/Tokyo"), AT, "2026-11-20T08:15:00.5Z"),
    (pa.timestamp("ns", "America/New_York"), AT, "2026-11-20T08:15:00.5Z"),
    (pa.timestamp("s", "UTC"), AT.replace(microsecond=0), "2026-11-20T08:15:00Z"),
    (pa.timestamp("us", "UTC"), AT.replace(microsecond=0), "2026-11-20T08:15:00Z"),
    (pa.timestamp("ms"), AT.replace(tzinfo=None), "2026-11-20T08:15:00.5"),
    (pa.timestamp("us"), local(9999, 12, 31, 23, 59, 59, 999_999), "9999-12-31T23:59:59.999999"),
    (pa.timestamp("us"), local(1969, 12, 31, 23, 59, 59, 999_990), "1969-12-31T23:59:59.99999"),
]


@pytest.mark.parametrize(("kind", "value", "text"), GOLDEN, ids=str)
def test_an_id_is_known_by_this_text(kind: pa.DataType, value: Any, text: str) -> None:
    column = pa.array([None, value, value], kind)
    assert as_text(column.slice(1), "x").to_pylist() == [text, text]
    assert as_text(column, "x").to_pylist() == [None, text, text]


def test_text_and_bytes_are_their_own() -> None:
    for column in (pa.array(["1.50"]), pa.array([b"1.50"]), pa.array([True])):
        assert as_text(column, "x") is column


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2_932_897], pa.int32()).view(pa.date32()),
        pa.array([-719_163], pa.int32()).view(pa.date32()),
        pa.array([2**62]).view(pa.timestamp("us")),
        pa.array([-62_135_596_801]).view(pa.timestamp("s", "UTC")),
    ],
    ids=str,
)
def test_a_year_that_has_not_four_digits_is_no_id(column: Any) -> None:
    with pytest.raises(BadRequest, match="'x' has a year outside of 1 to 9999"):
        as_text(column, "x")


def test_the_first_and_the_last_day_of_years_of_four_digits_are_ids() -> None:
    days = pa.array([-719_162, 2_932_896], pa.int32()).view(pa.date32())
    assert as_text(days, "x").to_pylist() == ["0001-01-01", "9999-12-31"]


def test_no_values_have_no_texts() -> None:
    for kind in (pa.decimal128(10, 2), pa.date32(), pa.timestamp("us")):
        assert as_text(pa.array([], kind), "x").to_pylist() == []
