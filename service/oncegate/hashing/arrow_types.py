"""Names Arrow types for row fingerprints, by the stored values and not by Arrow's layout.

Normal, large and view strings are one type, and so are all binaries and all lists; a dictionary or an extension is its
value type. Nullability and metadata are not part of a type. The names are our own: those that pyarrow prints may change
with its version, and a changed name changes every fingerprint.
"""

import json
from collections.abc import Iterable

import pyarrow as pa

from oncegate.core.errors import BadRequest
from oncegate.hashing.byte_strings import is_binary, is_text

Described = str | list["Described"] | int | None

_SIMPLE: dict[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "bool",
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "uint8",
    pa.uint16(): "uint16",
    pa.uint32(): "uint32",
    pa.uint64(): "uint64",
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.date32(): "date32",
    pa.date64(): "date64",
    pa.month_day_nano_interval(): "month_day_nano",
}


def schema_name(schema: pa.Schema) -> bytes:
    """Returns the names and types of all columns, independent of their order, injective (JSON)."""
    return json.dumps(_fields(schema), separators=(",", ":"), ensure_ascii=True).encode()


def in_order(fields: Iterable[pa.Field]) -> list[int]:
    """Returns the indexes of columns or struct fields, sorted by name; fields of one name keep their order."""
    names = [field.name for field in fields]
    return sorted(range(len(names)), key=names.__getitem__)


def is_list(kind: pa.DataType) -> bool:
    """Returns whether this is a list of any layout. (A map is not.)"""
    types = pa.types
    plain_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(plain_list or types.is_list_view(kind) or types.is_large_list_view(kind))


def _fields(fields: Iterable[pa.Field]) -> list[Described]:
    all_fields = list(fields)
    return [[all_fields[index].name, _type(all_fields[index].type)] for index in in_order(all_fields)]


def _type(kind: pa.DataType) -> Described:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if is_text(kind):
        return "string"
    if is_binary(kind):
        return "binary"
    types = pa.types
    if types.is_dictionary(kind):
        return _type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _type(kind.storage_type)
    if is_list(kind):
        return ["list", _type(kind.value_type)]
    if types.is_map(kind):
        return ["map", _type(kind.key_type), _type(kind.item_type)]
    if types.is_struct(kind):
        return ["struct", _fields(kind.fields)]
    return _with_parameters(kind)


def _with_parameters(kind: pa.DataType) -> Described:
    types = pa.types
    if types.is_decimal(kind):
        return ["decimal", kind.bit_width, kind.precision, kind.scale]
    if types.is_timestamp(kind):
        return ["timestamp", kind.unit, kind.tz]
    if types.is_time(kind):
        return ["time", kind.unit]
    if types.is_duration(kind):
        return ["duration", kind.unit]
    raise BadRequest(f"columns of type {kind} are not supported")
