"""Converts JSON values to Arrow arrays of a given type. Each value is kept exactly or refused.

    whole numbers     a number without a fraction: 17, 17.0 and 1.7e1 up to 2^53, without point or exponent beyond
    floats            a number that keeps its written digits in this type; "NaN", "Infinity", "-Infinity"
    decimals          text, or a whole number without point or exponent
    dates, times      ISO 8601 text; a timestamp has an offset exactly if its type has a zone
    durations         ISO 8601 text of days, hours, minutes and seconds: "P1DT2.5S"
    binary            base64, as RFC 4648 pads it
    text, bool        a string, true or false
    lists, structs    a list, an object without members unknown to the type
    others            null only

Each value is checked on its own, whatever the other values are.
"""

import binascii
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncegate.hashing.arrow_types import is_list

# From here on some whole numbers are not doubles.
EXACT_MAX = 2**53
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN_CHARS = 80
_DURATION = re.compile(
    r"(?P<sign>-?)P(?=.)(?:(?P<d>\d{1,12})D)?"
    r"(?:T(?=.)(?:(?P<h>\d{1,12})H)?(?:(?P<m>\d{1,12})M)?(?:(?P<s>\d{1,12})(?:\.(?P<f>\d{1,9}))?S)?)?",
    re.ASCII,
)
NS_PER = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError)


class Misfit(Exception):
    """Raised for a value that does not fit a type. `why`: one line, without the value."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class JsonPath:
    """The location of a value that does not fit its type.

    number: index of the column's value. path: path within that value. value: the nested value at the path. kind: its
    type. why: the reason.
    """

    number: int
    path: str
    value: Any
    kind: Any
    why: str


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """Converts `values` to an array of type `kind`. Raises Misfit if a value does not fit."""
    kinds: set[type] = set(map(type, values)) - {type(None)}
    if pa.types.is_struct(kind):
        return _structs(values, kinds, kind)
    if is_list(kind):
        return _lists(values, kinds, kind)
    taken, wanted, make = next((leaf for is_of, leaf in _LEAVES if is_of(kind)), _NEVER)
    if Decimal in kinds:
        raise Misfit("it has digits that a double loses: round it, or send it as text to a column of text or decimals")
    if not kinds <= taken:
        raise Misfit(f"{wanted} is wanted")
    try:
        return make(values, kind)
    except _ARROW_ERRORS as error:
        raise Misfit(f"{wanted} is wanted ({str(error).splitlines()[0]})") from error


def first_misfit(values: Sequence[Any], kind: Any) -> JsonPath:
    """Finds the first value that `array_of` rejects, by bisection; at least one value must be invalid. Costs about two
    conversions.
    """
    first, last = 0, len(values)
    while last - first > 1:
        middle = (first + last) // 2
        if _why(values[first:middle], kind) is None:
            first = middle
        else:
            last = middle
    value = values[first]
    if isinstance(value, dict) and pa.types.is_struct(kind) and (strange := _strange([value], kind)):
        return JsonPath(first, f".{strange[0]}", value[strange[0]], kind, f"it has no such member, but {_names(kind)}")
    for inner, step, inner_kind in _inside(value, kind):
        if _why(inner, inner_kind) is not None:
            place = first_misfit(inner, inner_kind)
            return replace(place, number=first, path=(step or f"[{place.number}]") + place.path)
    return JsonPath(first, "", value, kind, _why([value], kind) or "")


def type_of(values: Sequence[Any], path: str) -> Any:
    """Infers the type of a column that the topic does not have yet; `path` appears in error messages.

    Raises Misfit if the values are of several kinds, or all null.
    """
    kinds: set[type] = set(map(type, values)) - {type(None)}
    if kinds == {dict} and any(values):
        objects = [value for value in values if value is not None]
        names = dict.fromkeys(chain.from_iterable(objects))
        return pa.struct([(name, type_of([one.get(name) for one in objects], f"{path}.{name}")) for name in names])
    if kinds == {list}:
        return pa.list_(type_of(list(chain.from_iterable(filter(None, values))), f"{path}[]"))
    if not kinds or kinds == {dict}:
        raise Misfit(f"column {path} has no value to tell its type by")
    for wanted, kind in _GUESSES:
        if kinds <= wanted:
            return kind
    raise Misfit(f"column {path} has {' and '.join(sorted(_KINDS.get(one, one.__name__) for one in kinds))}")


def shown(value: Any) -> str:
    """Returns a value as JSON, truncated to 80 characters for an error message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


def keeps(number: str, stored: float) -> bool:
    """Returns whether a stored float, printed with the digits of `number`, equals `number`."""
    exact = Decimal(number)
    digits = len("".join(map(str, exact.as_tuple().digits)).strip("0")) or 1
    return Decimal(f"{stored:.{digits}g}") == exact


def as_double(number: str) -> float | Decimal:
    """Parses the text of a number with a point or an exponent.

    Returns the nearest double. Returns a Decimal, which `array_of` refuses for every type, where the double would lose
    digits: for whole numbers, more than 17 digits, and numbers that round to 0.

    Raises ValueError for a number beyond all doubles.
    """
    nearest = float(number)
    if math.isinf(nearest):
        raise ValueError(f"the number {number[:_SHOWN_CHARS]} is out of range")
    exact = Decimal(number)
    is_short = len("".join(map(str, exact.as_tuple().digits)).strip("0")) <= 17
    if is_short and nearest and not nearest.is_integer():
        return nearest
    return nearest if keeps(number, nearest) else exact


def shortest(array: Any) -> Any:
    """Widens floats of 16 or 32 bits to doubles by their shortest decimal text, so that 0.1 stays 0.1."""
    if pa.types.is_float32(array.type):
        return array.cast(pa.string()).cast(pa.float64())
    halves = np.asarray(array.to_numpy(zero_copy_only=False), np.float16)
    return pa.array(halves.astype(str).astype(np.float64), mask=np.asarray(array.is_null()))


def _why(values: Sequence[Any], kind: Any) -> str | None:
    try:
        array_of(values, kind)
    except Misfit as misfit:
        return misfit.why
    return None


def _inside(value: Any, kind: Any) -> list[tuple[list[Any], str, Any]]:
    """Returns the parts of a nested value: each part's values, path step (empty for a list) and type."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return [([value.get(field.name)], f".{field.name}", field.type) for field in kind]
    if isinstance(value, list) and is_list(kind):
        return [(value, "", kind.value_type)]
    return []


def _structs(values: Sequence[Any], kinds: set[type], kind: Any) -> Any:
    if not kinds <= {dict}:
        raise Misfit("an object is wanted")
    if strange := _strange(values, kind):
        raise Misfit(f"there is no member {', '.join(strange)}, but {_names(kind)}")
    fields = list(kind)
    if len({field.name for field in fields}) < len(fields):
        raise Misfit(f"it has two members of one name: {_names(kind)}")
    members = [[None if one is None else one.get(field.name) for one in values] for field in fields]
    children = [array_of(member, field.type) for member, field in zip(members, fields, strict=True)]
    for field, child in zip(fields, children, strict=True):
        if not field.nullable and child.null_count > sum(one is None for one in values):
            raise Misfit(f"the member {field.name} may not be null")
    return pa.StructArray.from_arrays(children, fields=fields, mask=_mask(values))


def _strange(values: Sequence[Any], kind: Any) -> list[str]:
    """Returns, sorted, the members of objects that the struct type lacks."""
    members: set[str] = set().union(*filter(None, values))
    return sorted(members - {field.name for field in kind})


def _names(kind: Any) -> str:
    return ", ".join(field.name for field in kind)


def _lists(values: Sequence[Any], kinds: set[type], kind: Any) -> Any:
    if not kinds <= {list}:
        raise Misfit("a list is wanted")
    items = list(chain.from_iterable(filter(None, values)))
    if not kind.value_field.nullable and None in items:
        raise Misfit("its items may not be null")
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        if any(one is not None and len(one) != size for one in values):
            raise Misfit(f"a list of {size} is wanted")
        items = list(chain.from_iterable([None] * size if one is None else one for one in values))
        return pa.FixedSizeListArray.from_arrays(array_of(items, kind.value_type), type=kind, mask=_mask(values))
    large = pa.types.is_large_list(kind)
    ends = np.cumsum([0, *(0 if one is None else len(one) for one in values)])
    offsets = pa.array(ends, pa.int64() if large else pa.int32())
    made = pa.LargeListArray if large else pa.ListArray
    return made.from_arrays(offsets, array_of(items, kind.value_type), type=kind, mask=_mask(values))


def _mask(values: Sequence[Any]) -> Any:
    return pa.array([one is None for one in values], pa.bool_())


def _integers(values: Sequence[Any], kind: Any) -> Any:
    return pa.array([_whole(one) if isinstance(one, float) else one for one in values], kind)


def _whole(number: float) -> int:
    if not number.is_integer() or abs(number) >= EXACT_MAX:
        raise Misfit("a whole number is wanted, without point or exponent from 2^53 on")
    return int(number)


def _floats(values: Sequence[Any], kind: Any) -> Any:
    wide = pa.array([one if one is None or type(one) is float else _double(one) for one in values], pa.float64())
    if pa.types.is_float64(kind):
        return wide
    narrow = wide.cast(kind, safe=False)
    differs = pc.and_(pc.not_equal(narrow.cast(pa.float64()), wide), pc.not_equal(shortest(narrow), wide))
    differs = pc.and_(differs, pc.invert(pc.is_nan(wide)))
    for at in np.flatnonzero(pc.fill_null(differs, False).to_numpy(zero_copy_only=False)):
        if not keeps(repr(wide[at].as_py()), float(narrow[at].as_py())):
            raise Misfit("it holds fewer digits, or smaller numbers: round it, or take a wider type")
    return narrow


def _double(value: Any) -> float:
    if isinstance(value, str):
        if value not in NOT_FINITE:
            raise Misfit(f"a number is wanted, or {', '.join(NOT_FINITE)}")
        return NOT_FINITE[value]
    if abs(value) > EXACT_MAX and not keeps(str(value), float(value)):
        raise Misfit("it has digits that a double loses: round it, or send it as text to a column of text or decimals")
    return float(value)


def _binary(values: Sequence[Any], kind: Any) -> Any:
    return pa.array([None if one is None else _bytes(one) for one in values], kind)


def _bytes(text: str) -> bytes:
    """Decodes a base64 string. Accepts only the canonical text: no white space, no surplus bits."""
    raw = binascii.a2b_base64(text)
    if binascii.b2a_base64(raw, newline=False).decode() != text:
        raise Misfit("base64 is wanted, padded and without anything between")
    return raw


def _decimals(values: Sequence[Any], kind: Any) -> Any:
    return pa.array([one if one is None else str(one) for one in values], pa.string()).cast(kind)


def _dates(values: Sequence[Any], kind: Any) -> Any:
    return pa.array(values, pa.string()).cast(kind)


def _timestamps(values: Sequence[Any], kind: Any) -> Any:
    text = pa.array(values, pa.string())
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        # Arrow refuses more digits than the unit has, even if they are zeros.
        text = pc.replace_substring_regex(text, r"^([^.]*\.[0-9]*[1-9])0+(\D.*)?$", r"\1\2")
        return pc.replace_substring_regex(text, r"^([^.]*)\.0+(\D.*)?$", r"\1\2").cast(kind)


def _times(values: Sequence[Any], kind: Any) -> Any:
    days = [one if one is None else f"1970-01-01T{one}" for one in values]
    return _timestamps(days, pa.timestamp(kind.unit)).cast(kind)


def _durations(values: Sequence[Any], kind: Any) -> Any:
    return pa.array([one if one is None else _ticks(one, NS_PER[kind.unit]) for one in values], pa.int64()).cast(kind)


def _ticks(text: str, ns_per: int) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Misfit('an ISO 8601 duration is wanted, as "P1DT2.5S"')
    part = {name: int(digits or 0) for name, digits in match.groupdict().items() if name not in ("sign", "f")}
    seconds = ((part["d"] * 24 + part["h"]) * 60 + part["m"]) * 60 + part["s"]
    ticks, rest = divmod(seconds * 10**9 + int((match["f"] or "").ljust(9, "0")), ns_per)
    if rest:
        raise Misfit("it is finer than the unit")
    return -ticks if match["sign"] else ticks


def _is_bytes(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_Make = Callable[[Sequence[Any], Any], Any]
_Leaf = tuple[set[type], str, _Make]
_types = pa.types
# By kind of type: the Python types of its JSON values, a description for refusals, and the conversion.
_LEAVES: list[tuple[Callable[[Any], bool], _Leaf]] = [
    (_types.is_boolean, ({bool}, "true or false", pa.array)),
    (_types.is_integer, ({int, float}, "a whole number", _integers)),
    (_types.is_floating, ({int, float, str}, "a number", _floats)),
    (_is_text, ({str}, "text", pa.array)),
    (_is_bytes, ({str}, "base64", _binary)),
    (_types.is_decimal, ({str, int}, "a decimal as text", _decimals)),
    (_types.is_date, ({str}, "an ISO 8601 date as text", _dates)),
    (_types.is_timestamp, ({str}, "an ISO 8601 time as text, with an offset if the type has a zone,", _timestamps)),
    (_types.is_time, ({str}, "an ISO 8601 time of the day as text", _times)),
    (_types.is_duration, ({str}, "an ISO 8601 duration as text", _durations)),
]
_NEVER: _Leaf = (set(), "a row as Arrow, since JSON has no such values,", pa.array)
_GUESSES: list[tuple[set[type], Any]] = [
    ({bool}, pa.bool_()),
    ({int}, pa.int64()),
    ({int, float}, pa.float64()),
    ({str}, pa.string()),
]
_KINDS = {
    bool: "true or false",
    int: "whole numbers",
    float: "numbers",
    str: "text",
    dict: "objects",
    list: "lists",
    Decimal: "numbers of more digits than a double has",
}
