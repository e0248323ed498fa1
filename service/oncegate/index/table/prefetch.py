"""Asks for memory before it is needed: an id's slot lies anywhere, and a look at it waits for some 100 ns.

With the slots of the next ids under way meanwhile, it costs less than half of that (10 million ids).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from oncegate.arraytypes import I64, U64
from oncegate.index.table.jit import helper
from oncegate.index.table.probe import LOW, begin_of, segment_of

# As mypy knows them: numba ships no types.
_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic
_overload: Callable[[Any], Callable[[Any], Any]] = overload
# How many ids ahead: latency over the time for an id; from 8 to 24 the same was measured.
READ_AHEAD = 16
# A chain is three slots long on the average, and four share a line of memory: the end of most lies in one of two.
_SLOTS_ON = 3
_WORDS_PER_SLOT = 2


def touch(words: U64, slot: Any) -> None:
    """Says that this slot is read soon; nothing else comes of it, and plain Python does nothing."""


@_intrinsic
def _prefetch(typingctx: Any, words: Any, at: Any) -> Any:
    """LLVM's prefetch (read, keep in all levels) of the 64-bit word number `at`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [address, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(words, at), codegen


@_overload(touch)
def _compiled_touch(words: Any, slot: Any) -> Any:
    def compiled_touch(words: Any, slot: Any) -> None:
        _prefetch(words, slot * _WORDS_PER_SLOT)

    return compiled_touch


@helper
def touch_chain(words: U64, base: I64, capacity: I64, ids: U64, i: Any, tag_mask: Any) -> None:
    """Says that the chain of `ids[i]` is gone through soon; past the last id, the last one's."""
    i = min(i, ids.shape[0] - 1)
    segment = segment_of(ids[i, 0] & tag_mask, base.size)
    at = base[segment] + begin_of(ids[i, 1] & LOW, capacity[segment])
    touch(words, at)
    touch(words, at + _SLOTS_ON)
