"""Converts values of text files to the types of a topic, or keeps them as text.

The conversion of a value does not depend on other values, and each is preserved or rejected: JSON by the rules of
records over HTTP, CSV by those of `of_csv`.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncegate.core.errors import OncegateError
from oncegate.engine.limits import Limits
from oncegate.transports.decode import json_scan
from oncegate.transports.decode.json_values import NOT_FINITE, Misfit, array_of, as_double, first_misfit, shown

_LIMITS = Limits()
_TYPED, _PLAIN = (
    msgspec.json.Decoder(dict[str, Any], float_hook=as_double),
    msgspec.json.Decoder(dict[str, Any], float_hook=str),
)
_BOOLEANS = ("true", "false")


class UnfitText(Exception):
    """Raised when a value cannot be converted. number: of the row in its batch; why: one line that names the value."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number, self.why = number, why


def record_of(line: bytes, is_typed: bool) -> dict[str, Any]:
    """Returns the members of one line of NDJSON. is_typed: numbers as numbers, else as their text.

    Raises UnfitText, with number 0, if it is not an object or repeats a member.
    """
    try:
        json_scan.check(line, _LIMITS)
        return (_TYPED if is_typed else _PLAIN).decode(line)
    except OncegateError as error:
        raise UnfitText(0, error.detail) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnfitText(0, f"{shown(line[:80].decode(errors='replace'))} is not a JSON object: {error}") from error


def typed_records(records: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Returns rows with all columns of a topic. Raises UnfitText if a value does not fit, or a member has no column."""
    for number, record in enumerate(records):
        if strange := record.keys() - set(schema.names):
            names = ", ".join(sorted(strange))
            raise UnfitText(number, f"the topic has no column {names}; it has {', '.join(schema.names)}")
    return columns_of(records, list(schema))


def columns_of(records: Sequence[dict[str, Any]], fields: Sequence[pa.Field]) -> pa.Table:
    """Returns the requested columns of records; a missing member is null. Raises UnfitText."""
    columns = []
    for field in fields:
        values = [record.get(field.name) for record in records]
        try:
            columns.append(array_of(values, field.type))
        except Misfit as error:
            misfit = first_misfit(values, field.type)
            raise UnfitText(
                misfit.number,
                f"column '{field.name}{misfit.path}' is {misfit.kind} in the topic, "
                f"but the value is {shown(misfit.value)}: {misfit.why}",
            ) from error
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def texts_of(records: Sequence[dict[str, Any]], names: Sequence[str], numbers: bool) -> pa.Table:
    """Returns columns of text. numbers: accept whole numbers, as their digits. Raises UnfitText if a value is not
    text."""
    kinds = (str, int) if numbers else (str,)
    columns = []
    for name in names:
        values = [record.get(name) for record in records]
        for number, value in enumerate(values):
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
                raise UnfitText(
                    number, f"column '{name}' must be text, since no topic gives it a type, but has {shown(value)}"
                )
        columns.append(pa.array([value if value is None else str(value) for value in values], pa.string()))
    return pa.Table.from_arrays(columns, names=list(names))


def of_csv(column: pa.Array, field: pa.Field) -> pa.Array:
    """Converts a column of CSV, strings, to its type in a topic.

    Text and binary keep the bytes of the file. For other types an empty value is null. Whole numbers have no plus sign
    or leading zeros, floats have digits that the type reproduces, booleans are true and false in any case, dates and
    times are ISO 8601, with a blank allowed for the T. Raises UnfitText.
    """
    kind = field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _each(column, field, lambda text: text.encode(), lambda values: pa.array(values, kind))
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(column, field)
    if pa.types.is_boolean(kind):
        return _each(column, field, _boolean, lambda values: array_of(values, kind))
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        if pa.types.is_timestamp(kind):
            column = pc.replace_substring_regex(column, r"^(\d{4}-\d\d-\d\d) ", r"\1T")
        return _each(column, field, str, lambda values: array_of(values, kind))
    return _each(column, field, _never, lambda values: array_of(values, kind))


def _numbers(column: pa.Array, field: pa.Field) -> pa.Array:
    """Converts a column with Arrow if possible, otherwise value by value. Raises UnfitText."""
    try:
        made = column.cast(field.type)
        differs = np.flatnonzero(pc.fill_null(pc.not_equal(made.cast(pa.string()), column), False).to_numpy(False))
        if not len(differs):
            return made
    except pa.ArrowException:
        pass
    read = _whole if pa.types.is_integer(field.type) else _double
    return _each(column, field, read, lambda values: array_of(values, field.type))


def _each(column: pa.Array, field: pa.Field, read: Any, make: Any) -> pa.Array:
    """Converts a column value by value. Raises UnfitText with the first invalid one."""
    texts = column.to_pylist()
    try:
        return make([text if text is None else read(text) for text in texts])
    except (Misfit, ValueError, pa.ArrowException) as error:
        for number, text in enumerate(texts):
            try:
                make([text if text is None else read(text)])
            except (Misfit, ValueError, pa.ArrowException) as why:
                raise UnfitText(
                    number,
                    f"column '{field.name}' is {field.type} in the topic, but the value is {shown(text)}: {_line(why)}",
                ) from error
        raise


def _whole(text: str) -> int:
    if not re.fullmatch(r"0|-?[1-9][0-9]*", text):
        raise ValueError("expected a whole number without leading zeros or blanks")
    return int(text)


def _double(text: str) -> Any:
    if text in NOT_FINITE:
        return text
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text):
        raise ValueError("expected a number")
    return as_double(text)


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _never(text: str) -> None:
    raise ValueError("CSV has no lists or objects: send these rows as NDJSON or Parquet")


def _line(error: Exception) -> str:
    return str(error).splitlines()[0]
