"""Compiles kernels with a cache that depends on all their source files.

numba caches machine code beside a kernel's file and discards it when that file changes. But helpers from other files
are compiled in as well, and so are the numbers of states, actions and verdicts; an edit there would go unnoticed. The
cache stamp is therefore a digest of all these files.
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
    """Marks a function that kernels call. It is compiled into compiled kernels and runs as it is in plain ones."""
    return register_jitable(function)  # type: ignore[no-any-return]


def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the kernel as machine code, compiled at its first call and cached for later processes if possible.

    The compiled kernel releases the GIL.
    """
    function: Any = compiled_alone(kernel)
    if is_kept(function):
        file = function._cache._cache_file
        # Checked before anything else in a cache: a file of another version may name classes that no longer exist.
        file._version, file._source_stamp = f"{file._version} {digest()}", digest()
    return function  # type: ignore[no-any-return]


@cache
def digest() -> str:
    """Returns the SHA-256 of all source text that is compiled into a kernel."""
    return digest_of(tuple(inspect.getsource(importlib.import_module(name)) for name in SOURCES))


def digest_of(sources: tuple[str, ...]) -> str:
    """Returns the SHA-256 over the texts, each prefixed by its length."""
    whole = "".join(f"{len(source)}\n{source}" for source in sources)
    return hashlib.sha256(whole.encode()).hexdigest()
