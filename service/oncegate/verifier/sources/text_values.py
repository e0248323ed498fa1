"""Gives values of text files the types of a topic, or keeps them as the text that they are.

Whether a value fits does not depend on the values beside it, and each is kept as it is, or refused: JSON by the rules
of records over HTTP, CSV by those of `of_csv`.
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
    """Says that a value cannot be read. `number`: of the row in its batch; `why`: one line that names the value."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number, self.why = number, why


def record_of(line: bytes, is_typed: bool) -> dict[str, Any]:
    """Returns the members of one line of NDJSON; `is_typed`: numbers as numbers, else as the text that they are.

    Raises Unfit, with the number 0: it is no object, or has a member twice.
    """
    try:
        json_scan.check(line, _LIMITS)
        return (_TYPED if is_typed else _PLAIN).decode(line)
    except OncegateError as error:
        raise UnfitText(0, error.detail) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnfitText(0, f"{shown(line[:80].decode(errors='replace'))} is no JSON object: {error}") from error


def typed_records(records: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Makes rows with all columns of a topic. Raises Unfit: a value does not fit, or a member has no column."""
    for number, record in enumerate(records):
        if strange := record.keys() - set(schema.names):
            names = ", ".join(sorted(strange))
            raise UnfitText(number, f"the topic has no column {names}; it has {', '.join(schema.names)}")
    return columns_of(records, list(schema))


def columns_of(records: Sequence[dict[str, Any]], fields: Sequence[pa.Field]) -> pa.Table:
    """Makes these columns of records; a member that is not there is null. Raises Unfit."""
    columns = []
    for field in fields:
        values = [record.get(field.name) for record in records]
        try:
            columns.append(array_of(values, field.type))
        except Misfit as error:
            misfit = first_misfit(values, field.type)
            raise UnfitText(
                misfit.number,
                f"column '{field.name}{misfit.path}' is {misfit.kind} in the topic, and {shown(misfit.value)} is none: "
                f"{misfit.why}",
            ) from error
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def texts_of(records: Sequence[dict[str, Any]], names: Sequence[str], numbers: bool) -> pa.Table:
    """Makes columns of text; `numbers`: whole numbers are their digits. Raises Unfit: a value is no text."""
    kinds = (str, int) if numbers else (str,)
    columns = []
    for name in names:
        values = [record.get(name) for record in records]
        for number, value in enumerate(values):
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
                raise UnfitText(number, f"column '{name}' has {shown(value)}, and is text: no topic has a type for it")
        columns.append(pa.array([value if value is None else str(value) for value in values], pa.string()))
    return pa.Table.from_arrays(columns, names=list(names))


def of_csv(column: pa.Array, field: pa.Field) -> pa.Array:
    """Gives a column of CSV, strings, the type that it has in a topic.

    Text and bytes are what the file has. Elsewhere nothing between two commas is null, whole numbers are written
    without sign or zeros in front, floats with digits that the type gives back, true and false in letters of either
    case, dates and times in ISO 8601, with a blank for the T as well. Raises Unfit.
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
    """Most are written as Arrow writes them; the others one by one."""
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
    """A column of values that are read one by one. Raises Unfit with the first that cannot be."""
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
                    f"column '{field.name}' is {field.type} in the topic, and {shown(text)} is none: {_line(why)}",
                ) from error
        raise


def _whole(text: str) -> int:
    if not re.fullmatch(r"0|-?[1-9][0-9]*", text):
        raise ValueError("a whole number is wanted, without zeros or blanks in front")
    return int(text)


def _double(text: str) -> Any:
    if text in NOT_FINITE:
        return text
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text):
        raise ValueError("a number is wanted")
    return as_double(text)


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError("true or false is wanted")
    return text.lower() == "true"


def _never(text: str) -> None:
    raise ValueError("CSV has no lists or objects: send these rows as NDJSON or Parquet")


def _line(error: Exception) -> str:
    return str(error).splitlines()[0]
