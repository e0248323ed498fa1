"""Ids from Python values: each has a text of its own, or the call is refused at the first value of another type."""

import re
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncegate.hashing.id_text import as_text
from oncegate_spark.errors import BadId, BadOption
from oncegate_spark.protocol.columns import column_names
from oncegate_spark.protocol.ids import id_columns, listed, text_of
from oncegate_spark.protocol.payloads import beside

BERLIN = ZoneInfo("Europe/Berlin")
AWARE, NAIVE, DAY = datetime(2026, 11, 20, 8, 15, tzinfo=UTC), datetime(2026, 11, 20, 8, 15), date(2026, 11, 20)  # noqa: DTZ001


def texts(ids: Any) -> list[Any]:
    """Returns the ids as the gateway knows them: canonical text, or bytes."""
    found = [as_text(column, "id").to_pylist() for column in id_columns(listed(ids))]
    return found[0] if len(found) == 1 else list(zip(*found, strict=True))


class Size(IntEnum):
    LARGE = 7


class Color(StrEnum):
    RED = "red"


class PandasTime(datetime):
    """Has extra nanoseconds, like pandas.Timestamp."""

    nanosecond = 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("00501", "00501"),
        (Color.RED, "red"),
        (np.str_("a"), "a"),
        (b"\xff", b"\xff"),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (np.bytes_(b"a"), b"a"),
        (-5, "-5"),
        (2**200, str(2**200)),
        (Size.LARGE, "7"),
        (np.int8(-5), "-5"),
        (np.uint64(2**64 - 1), str(2**64 - 1)),
        (Decimal("1.50"), "1.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("100"), "100"),
        (Decimal("-0.00"), "0"),
        (Decimal("-1E-7"), "-0.0000001"),
        (Decimal("1E-75"), f"0.{'0' * 74}1"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (DAY, "2026-11-20"),
        (np.datetime64("2026-11-20"), "2026-11-20"),
        (NAIVE, "2026-11-20T08:15:00"),
        (np.datetime64("2026-11-20T08:15:00.5", "ns"), "2026-11-20T08:15:00.5"),
        (AWARE, "2026-11-20T08:15:00Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), "2026-10-25T00:30:00Z"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), "2026-10-25T01:30:00Z"),
        (pa.scalar("a"), "a"),
        (pa.scalar(5, pa.int8()), "5"),
    ],
)
def test_value_has_same_text_alone_and_in_tuple(value: Any, text: Any) -> None:
    assert texts([value]) == [text]
    assert texts([(value, "x")]) == [(text, "x")]
    if isinstance(text, str) and "T" not in text:
        assert text_of(value) == text


# Kinds whose values have one type among themselves; two of them never have.
KINDS: list[st.SearchStrategy[Any]] = [
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.just(Color.RED),
    st.binary(min_size=1) | st.just(bytearray(b"a")),
    st.integers() | st.integers(-128, 127).map(np.int8) | st.just(Size.LARGE),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=40)
    | st.integers(-20, 20).map(lambda n: Decimal(f"1E{n}")),
    st.uuids(),
    st.dates(),
    st.datetimes(),
    st.datetimes(
        datetime(2, 1, 1),  # noqa: DTZ001
        datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=-11, minutes=-7))]),
    ),
]


@given(st.sampled_from(KINDS).flatmap(lambda kind: st.lists(kind, min_size=1)), st.data())
def test_text_of_id_depends_neither_on_other_ids_nor_on_order(values: list[Any], data: st.DataObject) -> None:
    alone = [texts([value])[0] for value in values]
    assert texts(values) == alone
    order = data.draw(st.permutations(range(len(values))))
    assert texts([values[n] for n in order]) == [alone[n] for n in order]
    assert texts([(value, value) for value in values]) == list(zip(alone, alone, strict=True))


@given(st.permutations(KINDS).flatmap(lambda kinds: st.tuples(st.lists(kinds[0], min_size=1, max_size=3), kinds[1])))
def test_ids_of_two_types_are_refused_with_first_that_differs(values: tuple[list[Any], Any]) -> None:
    same, other = values
    with pytest.raises(BadId, match=rf"^ids\[{len(same)}\] is of type .*nothing was written$"):
        id_columns([*same, other, *same])
    with pytest.raises(BadId, match=rf"^ids\[{len(same)}\]\[1\] is of type .*nothing was written$"):
        id_columns([("x", one) for one in [*same, other]])
    with pytest.raises(BadOption, match=rf"^payloads\[{len(same) + 1}\] is of type "):
        beside(len(same) + 2, [None, *same, other])


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (
            [AWARE, NAIVE],
            r"^ids\[1\] is of type datetime without a time zone, and ids\[0\] of type datetime with a time zone",
        ),
        ([DAY, NAIVE], r"^ids\[1\] is of type datetime without"),
        ([1, Decimal("1.5")], r"^ids\[1\] is of type Decimal, and ids\[0\] of type int"),
        ([1, True], r"^ids\[1\] is of type bool"),
        ([1.0, 2], r"^ids\[0\] is of type float"),
        ([1, None, np.float64(2)], r"^ids\[2\] is of type numpy.float64"),
        ([["a", "b"]], r"^ids\[0\] is of type list.*a tuple for several columns"),
        ([{"order": 1}], r"^ids\[0\] is of type dict"),
        ([np.datetime64("2026-11"), DAY], r"^ids\[0\] is of type numpy.datetime64"),
        ([np.datetime64("2026-11-20"), np.datetime64("2026-11-20T08:15:00")], r"^ids\[1\]"),
        ([AWARE, PandasTime(2026, 1, 1, tzinfo=UTC)], r"^ids\[1\] cannot be read: it is a pandas datetime with nano"),
        (["a", "\ud800"], r"^ids\[1\] cannot be read"),
        ([5, 10**5_000], r"^ids\[1\] cannot be read"),
        ([Decimal(1), Decimal("NaN")], r"^ids\[1\] cannot be read: NaN is not a number"),
        ([Decimal(1), Decimal("1E-76")], r"^ids\[1\] cannot be read: it has more than 76 digits"),
        ([np.array("a")], r"^ids\[0\] is of type numpy.ndarray"),
        ([("a", "b"), "c"], r"ids\[1\] is of type str, and ids\[0\] is a tuple of 2"),
        ([("a", "b"), ("c",)], r"ids\[1\] is a tuple of 1"),
        ([("a", "b"), ("c", "d", "e")], r"ids\[1\] is a tuple of 3"),
        (["a", ("b", "c")], r"ids\[1\] is of type tuple"),
        ([()], r"ids\[0\] is a tuple of 0"),
        (["a", None], r"id column ids: 1 of 2 rows have an id that is null, the first is row 1"),
        ([np.datetime64("NaT", "s")], r"null"),
        (["a", ""], r"empty, the first is row 1"),
        ([("a", 1), ("b", None)], r"id column ids\[…\]\[1\]: 1 of 2 rows"),
        ("abc", r"ids must be a list, and 'abc' is a single id"),
        (bytearray(b"abc"), r"ids must be a list"),
        ({"order": ["a"]}, r"iterating over dict gives column names"),
        (5, r"ids must be a list, and this is of type int"),
        (None, r"ids must be a list, and this is of type NoneType"),
        (pa.table({}), r"ids is a table without columns"),
        (pa.table({"n": [1.5]}), r"id column n is of type double; ids are"),
    ],
)
def test_bad_ids_are_refused_by_name_without_code_for_spark(ids: Any, told: str) -> None:
    with pytest.raises(BadId, match=told) as raised:
        id_columns(listed(ids))
    assert not re.search(r"df\.|F\.", str(raised.value))
    assert str(raised.value).endswith("nothing was written")


def test_dataframe_is_no_list_of_the_names_of_its_columns() -> None:
    class DataFrame:
        columns = ("order", "line")

        def __iter__(self) -> Any:
            return iter(self.columns)

    with pytest.raises(BadId, match=r"DataFrame gives column names"):
        listed(DataFrame())
    with pytest.raises(BadOption, match=r"^payloads have the same types as ids: .*nothing was written$"):
        beside(2, {"a": 1, "b": 2})  # type: ignore[arg-type]


def test_every_column_of_table_is_part_of_id_also_under_same_name() -> None:
    twice = pa.Table.from_arrays([pa.array(["a", "a"]), pa.array(["x", "y"])], names=["id", "id"])
    assert texts(twice) == [("a", "x"), ("a", "y")]
    assert len(beside(2, twice)) == 2


def test_payload_may_be_null_and_then_has_no_type() -> None:
    assert beside(2, [None, None])[0].to_pylist() == [None, None]
    assert beside(2, [None, 5])[0].to_pylist() == [None, "5"]
    with pytest.raises(BadOption, match=r"^payloads\[1\] is of type float") as raised:
        beside(2, [None, 1.5])
    assert "df." not in str(raised.value)


@pytest.mark.parametrize("value", [AWARE, NAIVE, 1.5, True, None, ["a"]])
def test_explained_id_whose_text_is_not_known_here_is_refused(value: Any) -> None:
    with pytest.raises(BadId):
        text_of(value)


@pytest.mark.parametrize("names", ["a,a", ["a", "b", "a"]])
def test_column_that_is_named_twice_is_refused(names: Any) -> None:
    with pytest.raises(BadOption, match="named twice"):
        column_names(names)


def test_decimals_have_text_of_gateway() -> None:
    made: Callable[[str], Decimal] = Decimal
    for text in ("0", "-0", "10", "0.10", "-1.50", "1E+5", "1E-9", "123456789012345678901234567890.123"):
        array = pa.array([made(text)])
        assert texts([made(text)]) == as_text(array, "id").to_pylist()
