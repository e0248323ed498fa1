"""Holds Arrow columns against Avro fields, where fastavro writes another value than the row's, or one nobody can read.

A union of several types is left to fastavro, which looks for the branch that a value fits.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_INSTANTS = frozenset({"timestamp-millis", "timestamp-micros", "timestamp-nanos"})
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def misfit(kind: pa.DataType, avro: Any, named: Mapping[str, Any]) -> str | None:
    """Says why values of an Arrow type can never be written as an Avro type; None: they can, or fastavro finds out.

    named: the named types of the schema.
    """
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) == 1:
            return misfit(kind, branches[0], named)
        return next((why for branch in branches if (why := _meets_instant(kind, branch, named))), None)
    avro = _resolved(avro, named)
    if why := _meets_instant(kind, avro, named):
        return why
    name, is_plain = _name(avro), not (isinstance(avro, dict) and "logicalType" in avro)
    if name in ("int", "long") and is_plain and (_is_fraction(kind) or pa.types.is_boolean(kind)):
        return f"{kind} is no {name}: cast the column"
    if name == "boolean" and not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        return f"{kind} is no boolean: cast the column"
    return next((why for inner in _inner(kind, avro) if (why := misfit(*inner, named))), None)


def has_ints(avro: Any, named: Mapping[str, Any]) -> bool:
    """Tells whether values of an Avro type may hold an `int` outside a union, which `check_ints` has to look at."""
    return not isinstance(avro, list) and _name(_resolved(avro, named)) in ("int", "record", "array")


def check_ints(value: Any, avro: Any, named: Mapping[str, Any]) -> None:
    """Raises ValueError for a whole number of more than 32 bits in a field of `int`, which no reader takes."""
    if value is None or isinstance(avro, list):
        return
    avro = _resolved(avro, named)
    name = _name(avro)
    if name == "int":
        if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
            raise ValueError(f"{value} has more than the 32 bits of an int")
    elif name == "array":
        for item in value:
            check_ints(item, avro["items"], named)
    elif name == "record":
        for field in avro["fields"]:
            check_ints(value.get(field["name"]), field["type"], named)


def _meets_instant(kind: pa.DataType, avro: Any, named: Mapping[str, Any]) -> str | None:
    avro = _resolved(avro, named)
    if not (pa.types.is_timestamp(kind) and kind.tz is None and isinstance(avro, dict)):
        return None
    if avro.get("logicalType") not in _INSTANTS:
        return None
    return f"{kind} has no time zone, and {avro['logicalType']} is an instant: cast the column, or take local-timestamp"


def _inner(kind: pa.DataType, avro: Any) -> list[tuple[pa.DataType, Any]]:
    name = _name(avro)
    if name == "record" and pa.types.is_struct(kind):
        types = {field["name"]: field["type"] for field in avro["fields"]}
        return [(field.type, types[field.name]) for field in kind if field.name in types]
    if name == "array" and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return [(kind.value_type, avro["items"])]
    return []


def _is_fraction(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _resolved(avro: Any, named: Mapping[str, Any]) -> Any:
    return named.get(avro, avro) if isinstance(avro, str) else avro


def _name(avro: Any) -> Any:
    return avro["type"] if isinstance(avro, dict) else avro
