"""Compiled loops over the bytes of many strings, which assemble rows and extract blocks.

Loops move eight bytes at a time, at any address, and may write up to seven bytes beyond their output. Later output
overwrites those bytes, and rows are `SLACK_BYTES` apart. Nothing outside of an array is read or written.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, overload

from oncegate.arraytypes import I64, U8, U64
from oncegate.compilation import compiled

SLACK_BYTES = 8

# Annotated for mypy: numba ships no types.
_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic
_overload: Callable[[Any], Callable[[Any], Any]] = overload


def word_at(data: U8, at: Any) -> Any:
    """Returns the eight bytes at offset `at`, which may be unaligned, as a little-endian uint64."""
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


def put_word(data: U8, at: Any, word: Any) -> None:
    """Writes a uint64 as eight little-endian bytes at offset `at`, which may be unaligned."""
    data[at : at + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    start = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(start, [at]), ir.IntType(64).as_pointer())


@_intrinsic
def _load(typingctx: Any, data: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *arguments), align=1)

    return types.uint64(data, at), codegen


@_intrinsic
def _store(typingctx: Any, data: Any, at: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _address(context, builder, signature.args[0], *arguments[:2]), align=1)
        return context.get_dummy_value()

    return types.void(data, at, types.uint64), codegen


@_overload(word_at)
def _compiled_word_at(data: Any, at: Any) -> Any:
    def compiled_word_at(data: Any, at: Any) -> Any:
        return _load(data, at)

    return compiled_word_at


@_overload(put_word)
def _compiled_put_word(data: Any, at: Any, word: Any) -> Any:
    def compiled_put_word(data: Any, at: Any, word: Any) -> None:
        _store(data, at, np.uint64(word))

    return compiled_put_word


def fixed_input(array: np.ndarray[Any, Any]) -> Any:
    """Returns a read-only view of an array, so that kernels are compiled for one kind of input."""
    view = array.view()
    view.flags.writeable = False
    return view


@compiled
def put_cells(out: U8, starts: I64, at: int, values: U8, width: int, valid: Any) -> None:
    """Writes a cell into each row, `at` bytes from its start: a flag, then `width` bytes of its value.

    values: uint8[rows * width], zeros for nulls. valid: bool[rows], or empty if no row is null.
    """
    for i in range(starts.size):
        source, to = i * width, starts[i] + at
        if valid.size and not valid[i]:
            for n in range(width + 1):
                out[to + n] = 0
            continue
        out[to] = 1
        done, to = 0, to + 1
        while done < width and source + done + 8 <= values.size:
            put_word(out, to + done, word_at(values, source + done))
            done += 8
        while done < width:
            out[to + done] = values[source + done]
            done += 1


@compiled
def put_strings(out: U8, ends: I64, data: U8, starts: I64, sizes: I64) -> None:
    """Appends a string to each row and advances the row's end. All arguments except `out` have one element per row.

    String i is `data[starts[i] : starts[i] + sizes[i]]`.
    """
    for i in range(ends.size):
        source, size, to = starts[i], sizes[i], ends[i]
        done = 0
        while done < size and source + done + 8 <= data.size:
            put_word(out, to + done, word_at(data, source + done))
            done += 8
        while done < size:
            out[to + done] = data[source + done]
            done += 1
        ends[i] = to + size


@compiled
def take_blocks(
    data: U8, starts: I64, lengths: I64, at: int, first: int, keep: U64, finish: U64, state: U64, cells: U64
) -> None:
    """Fills `cells`, shape (n - first, 2), with the 16 bytes at `at` of each string, beginning with string `first`.

    A string that ends there is cut by `keep` and padded by `finish`, (17, 2), indexed by its remaining length. After
    the first block the state, (n, 2), is xored in.
    """
    for i in range(first, starts.size):
        source, left = starts[i] + at, lengths[i] - at
        low = high = np.uint64(0)
        if source + 16 <= data.size:
            low, high = word_at(data, source), word_at(data, source + 8)
        else:
            for n in range(min(left, 8)):
                low |= np.uint64(data[source + n]) << np.uint64(8 * n)
            for n in range(8, min(left, 16)):
                high |= np.uint64(data[source + n]) << np.uint64(8 * n - 64)
        if left <= 16:
            low = low & keep[left, 0] ^ finish[left, 0]
            high = high & keep[left, 1] ^ finish[left, 1]
        if at:
            low ^= state[i, 0]
            high ^= state[i, 1]
        cells[i - first, 0] = low
        cells[i - first, 1] = high
