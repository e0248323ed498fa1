"""Tells which Arrow types a topic's type is wider than: every value of the one is a value of the other.

Stricter than Spark's store assignment, which lets a value overflow at run time, and than its up-cast, which rounds a
bigint to a double.
"""

import pyarrow as pa

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_WHOLE_IN_FLOAT = {pa.float32(): 16, pa.float64(): 32}  # the widest integer that such a float holds exactly


def widens(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether a column of `ours` may go into one of `theirs`, inside of structs, lists and maps too.

    Structs are compared by the names of their fields; one that is left out has to be nullable.
    """
    if pa.types.is_struct(ours) and pa.types.is_struct(theirs):
        return _struct_widens(ours, theirs)
    if pa.types.is_map(ours) and pa.types.is_map(theirs):
        return widens(ours.key_type, theirs.key_type) and widens(ours.item_type, theirs.item_type)
    if _is_list(ours) and _is_list(theirs):
        return widens(ours.value_type, theirs.value_type)
    return ours == theirs or _same_layout_aside(ours, theirs) or _number_widens(ours, theirs)


def nullable_inside(kind: pa.DataType) -> pa.DataType:
    """The type with all that is inside of it nullable: what a plan can prove of nulls changes with the plan.

    Metadata of a struct's fields stays: by it alone Spark knows a VARIANT, or a GEOMETRY, from a struct."""
    if pa.types.is_struct(kind):
        fields = kind.fields
        return pa.struct(
            [pa.field(field.name, nullable_inside(field.type), metadata=field.metadata) for field in fields]
        )
    if pa.types.is_map(kind):
        return pa.map_(nullable_inside(kind.key_type), nullable_inside(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, nullable_inside(kind.value_type)))
    return kind


def _struct_widens(ours: pa.DataType, theirs: pa.DataType) -> bool:
    their_fields = {field.name: field for field in theirs.fields}
    our_fields = {field.name: field for field in ours.fields}
    if len(our_fields) != len(ours.fields) or not our_fields.keys() <= their_fields.keys():
        return False
    left_out = [field for name, field in their_fields.items() if name not in our_fields]
    return all(field.nullable for field in left_out) and all(
        widens(field.type, their_fields[name].type) for name, field in our_fields.items()
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _same_layout_aside(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """One type to a user: offsets of 32 or 64 bits, instants shown in another zone."""
    types = pa.types
    for is_small, other in ((types.is_string, types.is_large_string), (types.is_binary, types.is_large_binary)):
        if is_small(ours) or other(ours):
            return bool(is_small(theirs) or other(theirs))
    both_times = types.is_timestamp(ours) and types.is_timestamp(theirs)
    return bool(both_times and ours.unit == theirs.unit and (ours.tz is None) == (theirs.tz is None))


def _number_widens(ours: pa.DataType, theirs: pa.DataType) -> bool:
    types = pa.types
    if types.is_signed_integer(ours):
        if types.is_decimal(theirs):
            return bool(theirs.scale >= 0 and theirs.precision - theirs.scale >= _DIGITS[ours.bit_width])
        if types.is_signed_integer(theirs):
            return bool(ours.bit_width <= theirs.bit_width)
        return bool(ours.bit_width <= _WHOLE_IN_FLOAT.get(theirs, 0))
    if types.is_decimal(ours) and types.is_decimal(theirs):
        whole = ours.precision - ours.scale <= theirs.precision - theirs.scale
        return bool(whole and ours.scale <= theirs.scale)
    return bool(ours == pa.float32() and theirs == pa.float64())
