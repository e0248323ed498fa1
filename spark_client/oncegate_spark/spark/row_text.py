"""Encodes a row's content as one text with Spark functions: rows have the same text only if they are equal.

A row or struct is its fields by name, each `text(name) value`. A value is `-` for null, else a letter for its kind and
`text` of its body; text(s) is the number of bytes in s, a colon, and s. The encoding is therefore unambiguous: null
differs from the empty string, and the number 1 from the string "1".

    s string · b boolean · i whole number · e decimal · f floating point, its 64 bits as a number · x binary, in hex
    d date, days since 1970 · t timestamp, microseconds since 1970 · l timestamp without zone
    a array, its values · m map, its keys and values in the order of their texts · r struct

The order of columns, the width of a number, the session's time zone and ANSI mode, and Java's version have no
influence; all of these change the result of a cast to string.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from oncegate_spark.errors import Refused

NULL = "-"
WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FLOATING = (T.FloatType, T.DoubleType)


def row_text(schema: T.StructType, names: list[str]) -> Column:
    """Returns the text of these columns. Raises Refused for a column whose type has no stable text."""
    named = (_named(name, column_named(name), schema[name].dataType) for name in sorted(names))
    return F.concat(*(piece for pieces in named for piece in pieces))


def column_named(name: str) -> Column:
    """Returns the column with exactly this name; a dot in it is not a path into a struct."""
    return F.col("`" + name.replace("`", "``") + "`")


def _text(body: Column) -> Column:
    return F.concat(F.octet_length(body).cast("string"), F.lit(":"), body)


def _named(name: str, value: Column, kind: T.DataType, inside: bool = False) -> tuple[Column, Column]:
    return _text(F.lit(name)), _value(value, kind, name, inside)


def _value(value: Column, kind: T.DataType, name: str, inside: bool) -> Column:
    """`inside`: in an array or a map, where Spark allows no function that it considers nondeterministic."""
    letter, body = _body(value, kind, name, inside)
    return F.when(value.isNull(), F.lit(NULL)).otherwise(F.concat(F.lit(letter), _text(body)))


def _body(value: Column, kind: T.DataType, name: str, inside: bool) -> tuple[str, Column]:
    if isinstance(kind, T.StringType | T.CharType | T.VarcharType):
        return "s", value.cast("string")
    if isinstance(kind, FLOATING) and not inside:
        return "f", _bits(value)
    if isinstance(kind, T.ArrayType):
        return "a", F.array_join(F.transform(value, lambda element: _value(element, kind.elementType, name, True)), "")
    if isinstance(kind, T.MapType):
        return "m", _entries(value, kind, name)
    if isinstance(kind, T.StructType):
        fields = sorted(kind.fields, key=lambda field: field.name)
        pieces = [p for f in fields for p in _named(f.name, value.getField(f.name), f.dataType, inside)]
        return "r", F.concat(F.lit(""), *pieces)
    for kinds, letter, body in SIMPLE:
        if isinstance(kind, kinds):
            return letter, body(value, kind)
    where = " inside an array or a map" if inside else ""
    raise Refused(
        f"column {name} holds {kind.simpleString()}{where}, which has no stable text: cast it to a string or a decimal "
        "yourself, or leave it out with cols=[…]"
    )


def _entries(value: Column, kind: T.MapType, name: str) -> Column:
    def entry(pair: Column) -> Column:
        key, value = pair.getField("key"), pair.getField("value")
        return F.concat(_value(key, kind.keyType, name, True), _value(value, kind.valueType, name, True))

    return F.array_join(F.array_sort(F.transform(F.map_entries(value), entry)), "")


def _bits(value: Column) -> Column:
    """Returns the 64 bits, with one zero and one NaN as in Spark's equality; a double's printed
    form depends on Java.
    """
    zero_is_positive = F.coalesce(value.cast("double"), F.lit(0.0)) + F.lit(0.0)
    return F.call_function("reflect", F.lit("java.lang.Double"), F.lit("doubleToLongBits"), zero_is_positive)


def _plain(value: Column, kind: T.DataType) -> Column:
    return value.cast("string")


TextMaker = Callable[[Column, Any], Column]
SIMPLE: tuple[tuple[Any, str, TextMaker], ...] = (
    (WHOLE, "i", _plain),
    (T.BooleanType, "b", _plain),
    (T.NullType, "s", _plain),
    (T.BinaryType, "x", lambda value, kind: F.hex(value)),
    (T.DecimalType, "e", lambda value, kind: F.format_number(value, kind.scale)),  # never with an exponent
    (T.DateType, "d", lambda value, kind: F.unix_date(value).cast("string")),
    (T.TimestampType, "t", lambda value, kind: F.unix_micros(value).cast("string")),
    (T.TimestampNTZType, "l", _plain),
)
