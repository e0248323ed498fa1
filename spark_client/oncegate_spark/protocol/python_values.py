"""Converts Python values to one Arrow column, each value independently of the others. No I/O."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from oncegate_spark.errors import BadId, Refused

VALUES = "str, bytes, int, Decimal, UUID, date and datetime"
# Arrow has no type for decimals with more digits, and the gateway rejects them.
_DIGITS_MAX = 76
_TIMES = {"D": pa.date32(), **{unit: pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")}}
_NAIVE, _AWARE = "datetime without a time zone", "datetime with a time zone"


def array_of(values: Sequence[Any], name: Callable[[int], str], refused: type[Refused] = BadId) -> pa.Array:
    """Returns values of one type as an Arrow array, each converted independently of the others; None becomes null.

    pyarrow's type inference looks at all values: it truncates datetimes beside a date to dates, and reads datetimes
    without a time zone beside others as UTC. Raises `refused` with the name of the first value whose type differs from
    the values before it or is not in VALUES.
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
    """Returns the kind of all values. Raises `refused` for the first value of another or an unsupported kind."""
    first = None
    for n, value in enumerate(values):
        if value is None:
            continue
        kind = _kind_of(value)
        if kind is None:
            raise refused(
                f"{name(n)} is of type {type_name(value)}, which has no canonical text; supported are {VALUES}. Pass "
                "its "
                "text, or a tuple for several columns; nothing was written"
            )
        if first is None:
            first = n, kind
        elif kind != first[1]:
            raise refused(
                f"{name(n)} is of type {kind}, and {name(first[0])} of type {first[1]}: all values of a call must have "
                "one "
                "type; nothing was written"
            )
    assert first is not None, "values of no type are strings"
    return first[1]


def _kind_of(value: Any) -> Any:
    """Returns the kind of a value, equal for values that one Arrow type holds exactly; None if it cannot be an id."""
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
    # A numpy scalar; this package does not import numpy.
    dtype: Any = getattr(value, "dtype", None)
    if dtype is None or type(value).__module__ != "numpy" or value.ndim:
        return None
    if dtype.kind in "iu":
        return "int"
    return dtype if dtype.kind == "M" and dtype.str[4:-1] in _TIMES else None


def _maker(kind: Any) -> Callable[[Sequence[Any]], pa.Array]:
    """Returns the function that converts values of a kind to an array."""
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
    try:
        return pa.array(values, pa.int64()).cast(pa.string())
    except (OverflowError, pa.ArrowException):
        return pa.array([None if value is None else str(int(value)) for value in values], pa.string())


def _digits(value: Decimal) -> str:
    """Returns a decimal's canonical text, as the gateway computes it. Raises ValueError if it has none."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a number")
    exponent: Any = value.as_tuple().exponent
    if max(value.adjusted() + 1, 1) + max(-exponent, 0) > _DIGITS_MAX:
        raise ValueError(f"it has more than {_DIGITS_MAX} digits")
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _datetimes(values: Sequence[Any], zone: str | None) -> pa.Array:
    if any(getattr(value, "nanosecond", 0) for value in values):
        raise ValueError("it is a pandas datetime with nanoseconds: pass it as an Arrow array")
    # tzinfo may be set and yet return no offset; remove it.
    plain = values if zone else [None if value is None else value.replace(tzinfo=None) for value in values]
    return pa.array(plain, pa.timestamp("us", zone))


def _numpy_times(values: Sequence[Any], unit: str) -> pa.Array:
    """Returns the ticks of numpy.datetime64; NaT, which is not equal to itself, becomes null."""
    ticks = [None if value is None or value != value else int(value.astype("int64")) for value in values]
    number = pa.array(ticks, pa.int64())
    return (number.cast(pa.int32()) if unit == "D" else number).cast(_TIMES[unit])


def _first_wrong(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array], error: Exception) -> tuple[int, str]:
    """Returns the index of the first value that fails on its own, and why; the last index if only all together fail."""
    for n, value in enumerate(values):
        try:
            make([value])
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
            return n, str(why)
    return len(values) - 1, str(error)


def type_name(value: object) -> str:
    """Returns the qualified name of a value's type for error messages, such as pandas.DataFrame."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
