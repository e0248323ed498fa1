"""Finds a writable folder for compiled kernels, and reports the progress of compiling.

Called before the modules of the kernels are imported: numba chooses a kernel's folder when it is declared.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba import config
from numba.core import event

from oncegate.clock import SystemClock
from oncegate.compilation import COMPILED, compiled, is_kept

PACKAGE = Path(__file__).parents[1]
# A person who waits looks up about as often.
SAY_EACH_MS = 5_000


def has_cache() -> bool:
    """Returns whether numba finds a writable cache folder; it chooses this file's folder like those of all kernels."""
    probe = compiled(_probe)
    COMPILED.remove(probe)
    return is_kept(probe)


def _probe() -> None:
    """Never runs: numba's choice of a cache for it shows where kernels can be stored."""


def keep_kernels(fallback: Path | None) -> bool:
    """Chooses a cache for machine code: numba's own if writable, else `fallback`, which is created; returns False if
    none.

    What lies in a folder that can only be read (NUMBA_CACHE_DIR, or beside the sources) is copied there, so that
    nothing of it is compiled again. Nothing is raised: without a folder each start compiles.
    """
    if has_cache():
        return True
    if fallback is None:
        return False
    configured, config.CACHE_DIR = config.CACHE_DIR, str(fallback.absolute())
    if not has_cache():
        config.CACHE_DIR = configured
        return False
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        # As numba names the folder of a file's kernels.
        name = f"{folder.name}_{hashlib.sha1(str(folder).encode(), usedforsecurity=False).hexdigest()}"
        for source in [folder / "__pycache__", *([Path(configured) / name] if configured else [])]:
            with suppress(OSError):
                _copy(source, fallback / name)
    return True


def _copy(source: Path, target: Path) -> None:
    """Copies kernels that are missing or outdated in the target; index files last, since they name the other files."""
    for index in sorted(source.glob("*.nbi")):
        kept = target / index.name
        if kept.exists() and kept.stat().st_mtime >= index.stat().st_mtime:
            continue
        target.mkdir(parents=True, exist_ok=True)
        for path in [*sorted(source.glob(f"{index.stem}.*.nbc")), index]:
            part = target / f"{path.name}.{os.getpid()}.part"
            shutil.copy2(path, part)
            os.replace(part, target / path.name)


@contextmanager
def saying_what_is_compiled(say: Callable[[str], Any]) -> Iterator[None]:
    """Reports compilation at the first kernel and then every five seconds; reports nothing if all kernels are
    cached.
    """
    listener = CompileListener(say)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
        listener.end()


class CompileListener(event.Listener):  # type: ignore[misc]
    """Counts the kernels that numba compiles, excluding helpers that they contain."""

    def __init__(self, say: Callable[[str], Any]) -> None:
        self._say, self._clock, self._compiled = say, SystemClock(), 0
        self._began_ms = self._said_ms = self._ended_ms = 0

    def on_start(self, event: Any) -> None:
        """Implements numba's Listener."""
        if not _is_kernel(event):
            return
        now = self._clock.monotonic_ms()
        took_s = (now - self._began_ms) / 1000
        if self._compiled == 0:
            self._began_ms = self._said_ms = now
            self._say("compiling kernels, half a minute of one core; later starts find them where they can be kept")
        elif now - self._said_ms >= SAY_EACH_MS:
            self._said_ms = now
            self._say(f"compiling kernels: {self._compiled} of {len(COMPILED)} after {took_s:.0f} s")
        self._compiled += 1

    def on_end(self, event: Any) -> None:
        """Implements numba's Listener."""
        if _is_kernel(event):
            self._ended_ms = self._clock.monotonic_ms()

    def end(self) -> None:
        """Reports the number of compiled kernels, if any."""
        if self._compiled:
            self._say(f"compiled {self._compiled} kernels in {(self._ended_ms - self._began_ms) / 1000:.0f} s")


def _is_kernel(event: Any) -> bool:
    return any(event.data["dispatcher"] is kernel for kernel in COMPILED)
