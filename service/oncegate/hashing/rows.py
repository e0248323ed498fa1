"""Computes the fingerprint of a batch: a multiset hash over its rows.

The fingerprint is the sum modulo 2^128 of one keyed hash (AES-128-CMAC) per row. It is independent of the order of rows
or columns, of how rows are divided into batches, and of the Arrow layout; a missing, additional or repeated row changes
it. A sum and not a xor, in which any two equal rows cancel out (Clarke et al., Incremental Multiset Hash Functions,
2003). Names and types of the columns go into the key of the row hash: once per batch instead of once per row.

Rows are hashed in an injective encoding, computed over arrays:

    row    = the flag and fixed bytes of every cell, in order | the variable bytes of every cell, in order
    cell   = flag u8 (0 null, 1 value), then
             fixed width     the value, little-endian, zeros under a null
             string, binary  length u32 in the fixed part, the bytes in the variable part
             struct          the cells of its fields (by name), null under a null
             list, map       length u32 of all elements in the fixed part, each element as a row of one cell
                             (of a key and a value) in the variable part
             null type       nothing

With the schema known, a row can be decoded from its bytes, so no two rows share them. Struct fields and columns are in
the order of their names. Booleans are one byte. Every NaN becomes the canonical one; -0.0 and 0.0 are different values.
Map entries keep their stored order.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.hashing.arrow_types import in_order, is_list, schema_name
from oncegate.hashing.byte_strings import Octets, is_binary, is_text, plain, records
from oncegate.hashing.cmac import Cmac
from oncegate.hashing.ids import FINGERPRINT_BYTES
from oncegate.hashing.kernels import SLACK_BYTES, fixed_input, put_cells, put_strings
from oncegate.hashing.keys import derive

_LARGE = pa.large_binary()
# Made of buffers: pa.scalar would import pandas, if installed, at every start.
_NOTHING = pa.Array.from_buffers(_LARGE, 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")])[0]
_LENGTH = np.dtype("<u4")
_NONE_NULL = np.zeros(0, np.bool_)


@dataclass(frozen=True, slots=True)
class _Cell:
    """The cells of one column, one per row. valid: None if there is no null. fixed: zeros for nulls. variable: empty
    for nulls.
    """

    valid: NDArray[np.bool_] | None
    fixed: NDArray[np.generic] | None = None
    variable: pa.LargeBinaryArray | None = None

    @property
    def width(self) -> int:
        """Returns the number of bytes of a fixed-width value, 0 if the cell has none."""
        return 0 if self.fixed is None else self.fixed.dtype.itemsize


def encode(columns: Iterable[tuple[pa.Field, pa.Array]], rows: int) -> Octets:
    """Returns the encoded rows of some columns, all of length `rows`, of types that `schema_name` supports."""
    named_columns = list(columns)
    ordered = [named_columns[index][1] for index in in_order(field for field, _ in named_columns)]
    return _apart([cell for array in ordered for cell in _cells(array)], rows)


def _apart(cells: list[_Cell], rows: int) -> Octets:
    """Like `_compose`, in a third of the time, but leaves gaps between the rows."""
    fixed_bytes = sum(1 + cell.width for cell in cells)
    variable = [_strings(cell.variable) for cell in cells if cell.variable is not None]
    lengths = np.full(rows, fixed_bytes, np.int64)
    for _, _, sizes in variable:
        lengths += sizes
    ends = np.cumsum(lengths + SLACK_BYTES)
    starts = ends - lengths - SLACK_BYTES
    out, at = np.empty(int(ends[-1]) if rows else 0, np.uint8), 0
    for cell in cells:
        valid = _NONE_NULL if cell.valid is None else cell.valid
        values = _empty() if cell.fixed is None else cell.fixed.view(np.uint8)
        put_cells(out, starts, at, fixed_input(values), cell.width, fixed_input(valid))
        at += 1 + cell.width
    ends = starts + fixed_bytes
    for data, first, sizes in variable:
        put_strings(out, ends, fixed_input(data), fixed_input(first), fixed_input(sizes))
    return Octets(out, starts, lengths, None)


def _strings(array: pa.LargeBinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the buffer of a column, and the start and length of each value in it; a null has length 0."""
    octets = Octets.of_array(array)
    sizes = np.where(array.is_valid(), octets.lengths, 0) if array.null_count else octets.lengths
    return octets.data, octets.starts, sizes


def _compose(cells: list[_Cell], rows: int) -> Octets:
    fixed = _fixed_part(cells, rows)
    variable = [cell.variable for cell in cells if cell.variable is not None]
    if not variable:
        return Octets.of_width(fixed.view(np.uint8) if fixed.dtype.itemsize else _empty(), fixed.dtype.itemsize, rows)
    joined = pc.binary_join_element_wise(
        records(fixed), *variable, _NOTHING, null_handling="replace", null_replacement=b""
    )
    return Octets.of_array(joined)


def _fixed_part(cells: list[_Cell], rows: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    names: list[tuple[str, np.dtype[np.generic]]] = []
    for index, cell in enumerate(cells):
        names.append((f"flag{index}", np.dtype("u1")))
        if cell.fixed is not None:
            names.append((f"value{index}", cell.fixed.dtype))
    part = np.empty(rows, np.dtype(names))
    for index, cell in enumerate(cells):
        part[f"flag{index}"] = 1 if cell.valid is None else cell.valid
        if cell.fixed is not None:
            part[f"value{index}"] = cell.fixed
    return part


def _cells(array: pa.Array) -> Iterator[_Cell]:
    """Yields the cells of one column: a single cell or, for a struct, its null flag and the cells of its fields."""
    array = _unwrapped(array)
    kind = array.type
    valid = None if array.null_count == 0 else pc.is_valid(array).to_numpy(zero_copy_only=False)
    if pa.types.is_struct(kind):
        yield _Cell(valid)
        children = array.flatten()  # the parent's nulls and slice included
        for index in in_order(kind.fields):
            yield from _cells(children[index])
    elif pa.types.is_null(kind):
        yield _Cell(np.zeros(len(array), np.bool_))
    elif is_text(kind) or is_binary(kind):
        yield _Cell(valid, _zero_for_null(pc.binary_length(array)).astype(_LENGTH), array.cast(_LARGE))
    elif pa.types.is_map(kind) or is_list(kind):
        yield _list_cell(array, valid)
    else:
        values = _fixed_values(array)
        yield _Cell(valid, values if valid is None else np.where(valid, values, np.zeros(1, values.dtype)))


def _unwrapped(array: pa.Array) -> pa.Array:
    """Returns the column with extension and dictionary types removed, and strings as a type with offsets."""
    if isinstance(array, pa.ExtensionArray):
        return _unwrapped(array.storage)
    if pa.types.is_dictionary(array.type):
        return _unwrapped(array.dictionary_decode())
    return plain(array) if is_text(array.type) or is_binary(array.type) else array


def _list_cell(array: pa.Array, valid: NDArray[np.bool_] | None) -> _Cell:
    """Returns the cell of a list. Its elements are encoded as contiguous rows, so a list's bytes are a range of
    them."""
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(array.type.field(0)))
    counts = _zero_for_null(pc.list_value_length(array))
    elements = array.flatten()  # leaves out what lies under nulls and outside the slice
    encoded = _compose(list(_cells(elements)), len(elements))
    ends = np.append(encoded.starts, encoded.starts[-1:] + encoded.lengths[-1:] if len(elements) else 0)
    offsets = ends[np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(encoded.data)]
    variable = pa.LargeBinaryArray.from_buffers(_LARGE, len(array), buffers)
    return _Cell(valid, np.diff(offsets).astype(_LENGTH), variable)


def _zero_for_null(counts: pa.Array) -> NDArray[np.int64]:
    filled = counts.fill_null(0) if counts.null_count else counts
    return np.asarray(filled).astype(np.int64, copy=False)


def _fixed_values(array: pa.Array) -> NDArray[np.generic]:
    kind = array.type
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array, False).cast(pa.uint8()))
    width = kind.bit_width // 8
    if len(array) == 0:
        return np.empty(0, f"V{width}")
    raw = np.frombuffer(array.buffers()[1], f"V{width}", count=len(array), offset=array.offset * width)
    if not pa.types.is_floating(kind):
        return raw
    floats = raw.view(f"<f{width}").copy()
    floats[np.isnan(floats)] = np.nan
    return floats.view(raw.dtype)


def _empty() -> NDArray[np.uint8]:
    return np.zeros(0, np.uint8)


EMPTY = bytes(FINGERPRINT_BYTES)
SLICE_ROWS = 16_384  # what is encoded at once; bounds the memory for a large batch

_MODULUS = 1 << 128


class RowFingerprinter:
    """Computes fingerprints of batches under one namespace's 32-byte key. Threads may share an object."""

    def __init__(self, key: bytes) -> None:
        derive(key, b"rows")  # a key of a wrong size fails here, not with the first batch
        self._key = key

    def of_batch(self, batch: pa.RecordBatch) -> bytes:
        """Returns the fingerprint of a batch: 16 bytes, little-endian; zeros if the batch has no rows. Raises
        BadRequest for an unsupported column type.

        The batch must be valid (`validate(full=True)`): offsets are followed without checks.
        """
        cmac = Cmac(derive(self._key, b"rows " + hashlib.sha256(schema_name(batch.schema)).digest()))
        total = EMPTY
        for first in range(0, batch.num_rows, SLICE_ROWS):
            part = batch.slice(first, SLICE_ROWS)
            rows = encode(zip(part.schema, part.columns, strict=True), part.num_rows)
            total = add(total, _sum(cmac.of_octets(rows)))
        return total

    def keys_of(self, batch: pa.RecordBatch, names: Sequence[str]) -> NDArray[np.uint64]:
        """Returns uint64[rows]: a hash of some columns' values, which chooses the row's partition.

        Stable for the lifetime of the topic. The batch must be valid, as for `of_batch`. Raises KeyError for an unknown
        column.
        """
        chosen = batch.select(list(names))
        cmac = Cmac(derive(self._key, b"partition keys " + hashlib.sha256(schema_name(chosen.schema)).digest()))
        hashes = [np.zeros(0, np.uint64)]
        for first in range(0, chosen.num_rows, SLICE_ROWS):
            part = chosen.slice(first, SLICE_ROWS)
            hashes.append(cmac.of_octets(encode(zip(part.schema, part.columns, strict=True), part.num_rows))[:, 0])
        return np.concatenate(hashes)


def add(first: bytes, second: bytes) -> bytes:
    """Returns the fingerprint of two batches together: the sum modulo 2^128 of two little-endian numbers of 16
    bytes."""
    total = int.from_bytes(first, "little") + int.from_bytes(second, "little")
    return (total % _MODULUS).to_bytes(FINGERPRINT_BYTES, "little")


def _sum(prints: NDArray[np.uint64]) -> bytes:
    """Returns the sum of (n, 2) words modulo 2^128; 32-bit limbs can sum 2^32 rows without overflow."""
    limbs = prints.view("<u4").T
    total = sum(int(limb.sum(dtype=np.uint64)) << (32 * index) for index, limb in enumerate(limbs))
    return (total % _MODULUS).to_bytes(FINGERPRINT_BYTES, "little")
