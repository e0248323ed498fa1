"""The same values in other Arrow layouts, which must not affect the encoding of a batch."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa


def _large(kind: pa.DataType) -> pa.DataType:
    """Returns the type with 64-bit offsets at every level."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.large_list(_large(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _large(field.type)) for field in kind.fields])
    return kind


def large(array: pa.Array) -> pa.Array:
    return array.cast(_large(array.type))


def view(array: pa.Array) -> pa.Array:
    """Casts strings and binaries to views; returns others unchanged."""
    kinds = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
    return array.cast(kinds[array.type]) if array.type in kinds else array


def dictionary(array: pa.Array) -> pa.Array:
    try:
        return array.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return array


def sliced(array: pa.Array) -> pa.Array:
    """Returns the middle of a longer array, at an offset that is not a multiple of eight."""
    return pa.concat_arrays([array, array, array]).slice(len(array), len(array))


def dirty(array: pa.Array) -> pa.Array:
    """Puts other values under each null: fills the array and restores the old validity."""
    if array.null_count in (0, len(array)) or pa.types.is_null(array.type):
        return array
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    present = np.flatnonzero(valid)
    filled = array.take(pa.array(np.where(valid, np.arange(len(array)), present[-1])))
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, *filled.buffers()[1 : filled.type.num_buffers]]
    children = _children(filled)
    return pa.Array.from_buffers(filled.type, len(array), buffers, children=children or None)


def _children(array: pa.Array) -> list[pa.Array]:
    kind = array.type
    if pa.types.is_struct(kind):
        return [array.field(number) for number in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [pa.StructArray.from_arrays([array.keys, array.items], fields=list(kind.field(0).type.fields))]
    if pa.types.is_list(kind):
        return [array.values]
    return []


def views_of_lists(array: pa.Array) -> pa.Array:
    """Converts lists to list views, which store sizes and offsets separately; the last list's elements come first."""
    if not pa.types.is_list(array.type) or len(array) == 0:
        return array
    turned = array.take(pa.array(np.arange(len(array))[::-1]))
    offsets, sizes = turned.offsets.to_numpy(), turned.value_lengths().fill_null(0)
    back = [pa.array(offsets[:-1][::-1]), sizes.take(pa.array(np.arange(len(array))[::-1])).cast(pa.int32())]
    return pa.ListViewArray.from_arrays(*back, turned.values, mask=array.is_null())


LAYOUTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "large": large,
    "view": view,
    "dictionary": dictionary,
    "sliced": sliced,
    "dirty": dirty,
    "dirty and sliced": lambda array: sliced(dirty(array)),
    "list view": views_of_lists,
}
