"""Converts 64-bit numbers in JSON to text, for readers that parse numbers as doubles and lose precision above 2^53.

In messages, a member whose format is one of `FORMATS` is converted, whatever its value.
In rows, values of int64 and uint64 columns are converted, also inside lists, structs and maps.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import inspect
from pyarrow import types

from oncegate.hashing.arrow_types import is_list
from oncegate.transports.http.messages.fields import FORMATS

# Converts a value of a type; None: the type contains no 64-bit number.
_Change = Callable[[Any], Any] | None


def as_texts(body: bytes, kind: type) -> bytes:
    """Rewrites `body`, a message of type `kind` as JSON, with each 64-bit number as its decimal digits in a string."""
    change = _of_kind(kind)
    return body if change is None else msgspec.json.encode(change(msgspec.json.decode(body)))


def of_columns(schema: Any) -> _Change:
    """Returns a function that converts a row (a dict) of the Arrow schema; None if the schema has no 64-bit numbers."""
    return _of_members({field.name: _of_type(field.type) for field in schema})


def _of_type(kind: Any) -> _Change:
    change: _Change = None
    if types.is_int64(kind) or types.is_uint64(kind):
        change = str
    elif types.is_struct(kind):
        change = _of_members({field.name: _of_type(field.type) for field in kind})
    elif types.is_map(kind):
        change = _of_pairs(_of_type(kind.key_type), _of_type(kind.item_type))
    elif is_list(kind):
        change = _of_items(_of_type(kind.value_type))
    return None if change is None else partial(_unless_null, change)


def _unless_null(change: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else change(value)


def _of_pairs(key: _Change, item: _Change) -> _Change:
    if key is None and item is None:
        return None
    keyed, held = key or _same, item or _same
    return lambda value: [(keyed(one), held(other)) for one, other in value]


def _same(value: Any) -> Any:
    return value


@cache
def _of_kind(kind: type) -> _Change:
    return _change(inspect.type_info(kind))


def _change(kind: Any) -> _Change:
    match kind:
        case inspect.Metadata(type=of, extra_json_schema=schema):
            return str if (schema or {}).get("format") in FORMATS else _change(of)
        case inspect.UnionType(types=types):
            [found] = {_change(one) for one in types} - {None} or {None}
            return None if found is None else lambda value: None if value is None else found(value)
        case inspect.StructType(fields=fields):
            return _of_members({field.encode_name: _change(field.type) for field in fields})
        case inspect.DictType(value_type=of):
            return _of_values(_change(of))
        case inspect.ListType(item_type=of):
            return _of_items(_change(of))
        case inspect.TupleType(item_types=[of, *_]):  # items have one type, as in the OpenAPI document
            return _of_items(_change(of))
    return None


def _of_members(changes: dict[str, _Change]) -> _Change:
    wanted = {name: change for name, change in changes.items() if change is not None}
    if not wanted:
        return None
    return lambda value: {name: wanted[name](item) if name in wanted else item for name, item in value.items()}


def _of_values(change: _Change) -> _Change:
    return None if change is None else lambda value: {name: change(item) for name, item in value.items()}


def _of_items(change: _Change) -> _Change:
    return None if change is None else lambda value: [change(item) for item in value]
