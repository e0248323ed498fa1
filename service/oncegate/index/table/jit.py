"""Compiles kernels, with a cache that knows all the files they are compiled from.

numba keeps machine code beside a kernel's file and takes it for stale when that file has changed. But helpers of other
files are compiled into it, and so are the numbers of states, actions and verdicts: an edit there would go unnoticed.
So the stamp is a digest of all of these.
"""

import hashlib
import importlib
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from numba.extending import register_jitable

from oncegate.compilation import compiled as compiled_alone
from oncegate.compilation import is_kept

SOURCES = (
    "oncegate.arraytypes",
    "oncegate.compilation",
    "oncegate.core.cells",
    "oncegate.core.claims",
    "oncegate.core.verdicts",
    "oncegate.index.table.arrays",
    "oncegate.index.table.bulk_insert",
    "oncegate.index.table.delete",
    "oncegate.index.table.duplicates",
    "oncegate.index.table.jit",
    "oncegate.index.table.kernels",
    "oncegate.index.table.probe",
    "oncegate.index.table.probe",
    "oncegate.index.table.resize",
)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that kernels call: compiled into them, plain where they are plain."""
    return register_jitable(function)  # type: ignore[no-any-return]


def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the kernel as machine code, made at its first call and kept for the next process where it can be; other
    threads run beside it."""
    function: Any = compiled_alone(kernel)
    if is_kept(function):
        file = function._cache._cache_file
        # Read before anything else of a cache: what another version wrote may name classes that are gone.
        file._version, file._source_stamp = f"{file._version} {digest()}", digest()
    return function  # type: ignore[no-any-return]


@cache
def digest() -> str:
    """Returns the SHA-256 of everything that is compiled into a kernel."""
    return digest_of(tuple(inspect.getsource(importlib.import_module(name)) for name in SOURCES))


def digest_of(sources: tuple[str, ...]) -> str:
    """Returns the SHA-256 over the texts, each with its length."""
    whole = "".join(f"{len(source)}\n{source}" for source in sources)
    return hashlib.sha256(whole.encode()).hexdigest()
