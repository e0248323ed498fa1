"""Defines the canonical text of numbers, dates and times, which is hashed as the id.

    whole numbers    decimal digits                       17   -5
    decimals         without exponent, trailing zeros     1.5  -0.0000001  17   (1.50 and 1.5 are one id)
                     or a bare point
    dates            ISO 8601                             2026-11-20
    timestamps       RFC 3339 in UTC, the fraction        2026-11-20T08:15:00Z  2026-11-20T08:15:00.5Z
                     without trailing zeros
    local times      the same without the Z               2026-11-20T08:15:00.5

The width of a number, the scale of a decimal, and the unit and zone of a timestamp do not matter: a value keeps its id
when its column gets a wider type. Text and binary values are hashed as they are.
"""

import pyarrow as pa
import pyarrow.compute as pc

from oncegate.core.errors import BadRequest

# Beyond these, a year does not have four digits; pyarrow, Spark and Java format it differently. Days and seconds from
# 1970.
_DAYS = (-719_162, 2_932_896)
_SECONDS = (_DAYS[0] * 86_400, (_DAYS[1] + 1) * 86_400 - 1)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TRAILING = r"\.?0+$"


def has_text(kind: pa.DataType) -> bool:
    """Returns whether this type has a canonical text, other than text and binary types, which are hashed as they
    are."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_decimal(kind) or types.is_date(kind) or types.is_timestamp(kind))


def as_text(column: pa.Array, name: str) -> pa.Array:
    """Returns the canonical text of a column, nulls as nulls. Returns a column of text or binary unchanged.

    Raises BadRequest for a year outside of 1 to 9999, and for a decimal of negative scale.
    """
    kind = column.type
    if not has_text(kind):
        return column
    if pa.types.is_decimal(kind):
        return _decimal_text(column, name)
    if pa.types.is_date(kind):
        days = column.cast(pa.date32())
        _check_years(days.view(pa.int32()), _DAYS, name)
        return days.cast(pa.string())
    return _timestamp_text(column, name) if pa.types.is_timestamp(kind) else column.cast(pa.string())


def _decimal_text(column: pa.Array, name: str) -> pa.Array:
    scale = column.type.scale
    if scale < 0:
        raise BadRequest(f"column {name!r} has the type {column.type}: a decimal of negative scale is no id")
    whole = column.cast(pa.decimal256(76, scale)) if column.type.bit_width < 128 else column
    unscaled = pa.decimal256(76, 0) if whole.type.bit_width == 256 else pa.decimal128(38, 0)
    text = whole.view(unscaled).cast(pa.string())
    if scale == 0:
        return text
    digits = pc.utf8_lpad(pc.replace_substring_regex(text, "^-", ""), scale + 1, "0")
    pointed = pc.replace_substring_regex(digits, rf"^(\d+)(\d{{{scale}}})$", r"\1.\2")
    trimmed = pc.replace_substring_regex(pointed, r"\.?0*$", "")
    return pc.binary_join_element_wise(pc.if_else(pc.starts_with(text, "-"), "-", ""), trimmed, "")


def _timestamp_text(column: pa.Array, name: str) -> pa.Array:
    """Formats instants in UTC. The zone is ignored: it affects only the display of a value."""
    kind = column.type
    ticks, per_second = column.view(pa.int64()), _PER_SECOND[kind.unit]
    first, last = _SECONDS
    _check_years(ticks, (max(first * per_second, -(2**63)), min((last + 1) * per_second - 1, 2**63 - 1)), name)
    text = column.view(pa.timestamp(kind.unit)).cast(pa.string())
    text = pc.replace_substring(text, " ", "T")
    if per_second > 1:
        text = pc.replace_substring_regex(text, _TRAILING, "")
    return text if kind.tz is None else pc.binary_join_element_wise(text, "Z", "")


def _check_years(values: pa.Array, bounds: tuple[int, int], name: str) -> None:
    """Raises BadRequest for a value outside the years 1 to 9999."""
    ends = pc.min_max(values)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is not None and not (bounds[0] <= least and most <= bounds[1]):
        raise BadRequest(f"column {name!r} has a year outside of 1 to 9999, which is no id: leave that row out")
