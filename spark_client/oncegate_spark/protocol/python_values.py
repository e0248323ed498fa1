"""Python values as one Arrow column, in which each value depends on itself alone. No I/O."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from oncegate_spark.errors import BadId, Refused

VALUES = "str, bytes, int, Decimal, UUID, date and datetime"
# A decimal with more digits has no Arrow type, and the gateway takes none.
_DIGITS_MAX = 76
_TIMES = {"D": pa.date32(), **{unit: pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")}}
_NAIVE, _AWARE = "datetime without a time zone", "datetime with a time zone"


def array_of(values: Sequence[Any], name: Callable[[int], str], refused: type[Refused] = BadId) -> pa.Array:
    """Returns values of one type as an Arrow array in which each depends on itself alone; None is null.

    pyarrow's own choice of a type depends on all values: it cuts datetimes beside a date to dates, and takes times
    without a zone beside others for UTC. Raises `refused`, with the name of the first value whose type is not that
    of the values before it, or is none of VALUES.
    """
    types = set(map(type, values)) - {type(None)}
    if types <= {str}:
        kinds = {"str"}
    elif types == {int} or types == {bytes}:
        kinds = {next(iter(types)).__name__}
    else:
        kinds = {_checked_kinds(values, name, refused)}
    make = _maker(kinds.pop())
    try:
        return make(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wrong, why = _first_wrong(values, make, error)
        raise refused(f"{name(wrong)} cannot be read: {why}; nothing was written") from error


def _checked_kinds(values: Sequence[Any], name: Callable[[int], str], refused: type[Refused]) -> Any:
    """The kind of all values. Raises `refused` for the first that has another one, or none."""
    first = None
    for n, value in enumerate(values):
        if value is None:
            continue
        kind = _kind_of(value)
        if kind is None:
            raise refused(
                f"{name(n)} is of type {type_name(value)}, which has no one text: {VALUES} have. Write its text, "
                "or for several columns a tuple; nothing was written"
            )
        if first is None:
            first = n, kind
        elif kind != first[1]:
            raise refused(
                f"{name(n)} is of type {kind}, and {name(first[0])} of type {first[1]}: all of one call have one type; "
                "nothing was written"
            )
    assert first is not None, "values of no type are strings"
    return first[1]


def _kind_of(value: Any) -> Any:
    """What a value is, of the same kind as others where one type holds them all exactly; None: it is no id."""
    if isinstance(value, bool | float):
        return None
    for kind in (str, int, Decimal, UUID):
        if isinstance(value, kind):
            return kind.__name__
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes"
    if isinstance(value, datetime):
        return _NAIVE if value.utcoffset() is None else _AWARE
    if isinstance(value, date):
        return "date"
    if isinstance(value, pa.Scalar):
        return value.type
    # A scalar of numpy, which this package does not import.
    dtype: Any = getattr(value, "dtype", None)
    if dtype is None or type(value).__module__ != "numpy" or value.ndim:
        return None
    if dtype.kind in "iu":
        return "int"
    return dtype if dtype.kind == "M" and dtype.str[4:-1] in _TIMES else None


def _maker(kind: Any) -> Callable[[Sequence[Any]], pa.Array]:
    """How values of one kind become an array."""
    if isinstance(kind, pa.DataType):
        return lambda values: pa.array(values, kind)
    if not isinstance(kind, str):
        return lambda values: _numpy_times(values, kind.str[4:-1])
    return {
        "str": lambda values: pa.array(values, pa.string()),
        "bytes": lambda values: pa.array([None if value is None else bytes(value) for value in values], pa.binary()),
        "int": _integers,
        "Decimal": lambda values: pa.array(
            [None if value is None else _digits(value) for value in values], pa.string()
        ),
        "UUID": lambda values: pa.array([None if value is None else str(value) for value in values], pa.string()),
        "date": lambda values: pa.array(values, pa.date32()),
        _NAIVE: lambda values: _datetimes(values, None),
        _AWARE: lambda values: _datetimes(values, "UTC"),
    }[kind]


def _integers(values: Sequence[Any]) -> pa.Array:
    """Whole numbers as their decimal digits."""
    try:
        return pa.array(values, pa.int64()).cast(pa.string())
    except (OverflowError, pa.ArrowException):
        return pa.array([None if value is None else str(int(value)) for value in values], pa.string())


def _digits(value: Decimal) -> str:
    """The canonical text of a decimal, as the gateway makes it. Raises ValueError: it has none."""
    if not value.is_finite():
        raise ValueError(f"{value} is no number")
    exponent: Any = value.as_tuple().exponent
    if max(value.adjusted() + 1, 1) + max(-exponent, 0) > _DIGITS_MAX:
        raise ValueError(f"it has more than {_DIGITS_MAX} digits")
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _datetimes(values: Sequence[Any], zone: str | None) -> pa.Array:
    if any(getattr(value, "nanosecond", 0) for value in values):
        raise ValueError("a datetime of pandas with nanoseconds: hand it over as an Arrow array")
    # Without a zone as an attribute: tzinfo may be there and give no offset.
    plain = values if zone else [None if value is None else value.replace(tzinfo=None) for value in values]
    return pa.array(plain, pa.timestamp("us", zone))


def _numpy_times(values: Sequence[Any], unit: str) -> pa.Array:
    """The ticks of numpy.datetime64, which is not equal to itself where it is no time."""
    ticks = [None if value is None or value != value else int(value.astype("int64")) for value in values]
    number = pa.array(ticks, pa.int64())
    return (number.cast(pa.int32()) if unit == "D" else number).cast(_TIMES[unit])


def _first_wrong(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array], error: Exception) -> tuple[int, str]:
    """The place of the first value that is refused by itself, and why; the last one where only all are too much."""
    for n, value in enumerate(values):
        try:
            make([value])
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
            return n, str(why)
    return len(values) - 1, str(error)


def type_name(value: object) -> str:
    """Returns how errors call the type of a value, as pandas.DataFrame."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
