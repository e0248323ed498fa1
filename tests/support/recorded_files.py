"""Records the file operations of unsuspecting code below a folder, in the form that `crash_disk` reads.

Only calls are recorded: data that Python still buffers when a file is synced or renamed is not in the log yet.
"""

import builtins
import io
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_disk import Crashes, Op, State, digest, materialize


class RecordedFiles:
    """Logs operations below `root`. Its content at the start is durable."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ops: list[Op] = []
        self._files: dict[int, int] = {}  # inode -> number of the file
        self._bytes: dict[int, bytes] = {}
        self._count = 0

    def note(self, what: str) -> None:
        """Adds a note to the log, for example that something was acknowledged."""
        self.ops.append(Op("note", Path(what)))

    @contextmanager
    def recording(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("mkdir", "unlink", "rename", "replace", "link", "fsync", "open"):
                patch.setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
            for module in (io, builtins):
                patch.setattr(module, "open", self._open_file(module.open))
            yield

    def _is_below(self, path: Any) -> bool:
        return not isinstance(path, int) and self.root in Path(path).parents

    def _made(self, path: Path) -> None:
        self._count += 1
        self._files[path.stat().st_ino] = self._count
        self._bytes[self._count] = b""
        self.ops.append(Op("create", path, file=self._count))

    def _look(self, path: Path) -> int:
        """Logs the bytes written to a file since the last call; returns the file's number."""
        number, content = self._files[path.stat().st_ino], path.read_bytes()
        known = self._bytes[number]
        if content != known:
            kept = len(known) if content.startswith(known) else 0
            if not kept and known:
                self.ops.append(Op("truncate", Path(), offset=0, file=number))
            self.ops.append(Op("write", Path(), content[kept:], kept, file=number))
            self._bytes[number] = content
        return number

    def _mkdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def mkdir(path: Any, *more: Any, **named: Any) -> None:
            real(path, *more, **named)
            if self._is_below(path):
                self.ops.append(Op("folder", Path(path)))

        return mkdir

    def _unlink(self, real: Callable[..., None]) -> Callable[..., None]:
        def unlink(path: Any, **named: Any) -> None:
            real(path, **named)
            if self._is_below(path):
                self.ops.append(Op("unlink", Path(path)))

        return unlink

    def _named(self, real: Callable[..., None], kind: str) -> Callable[..., None]:
        def name(old: Any, new: Any, **named: Any) -> None:
            if self._is_below(new):
                self._look(Path(old))
            real(old, new, **named)
            if self._is_below(new):
                self.ops.append(Op(kind, Path(old), new=Path(new)))

        return name

    def _rename(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._named(real, "rename")

    def _replace(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._named(real, "rename")

    def _link(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._named(real, "link")

    def _fsync(self, real: Callable[..., None]) -> Callable[..., None]:
        def fsync(fd: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if path == self.root or self._is_below(path):
                if path.is_dir():
                    self.ops.append(Op("sync_folder", path))
                else:
                    self.ops.append(Op("sync", Path(), file=self._look(path)))

        return fsync

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
            is_new = self._is_below(path) and bool(flags & os.O_CREAT) and not os.path.exists(path)
            fd = real(path, flags, *more, **named)
            if is_new:
                self._made(Path(path))
            return fd

        return opened

    def _open_file(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            is_new = self._is_below(path) and mode[0] in "wxa" and not os.path.exists(path)
            file = real(path, mode, *more, **named)
            if is_new:
                self._made(Path(path))
            return file

        return opened

    def crashes(self, *, blocks_are_lost: bool = True) -> Iterator[tuple[list[str], State]]:
        """Yields every state that a power failure may leave, once after each note, with the notes before it.

        `blocks_are_lost`: see `Crashes.states`.
        """
        crashes, rng, notes, seen = Crashes(self.root), random.Random(0), list[str](), set[bytes]()
        for op in self.ops:
            crashes.step(op)
            if op.kind == "note":
                notes.append(op.path.name)
                seen.clear()
            for state in crashes.states(rng, blocks_are_lost=blocks_are_lost):
                if (key := digest(state)) not in seen:
                    seen.add(key)
                    yield list(notes), state


@contextmanager
def left(state: State, root: Path, beside: Path) -> Iterator[Path]:
    """Writes the state into a folder that exists for the duration of the context."""
    materialize(state, root, beside)
    try:
        yield beside
    finally:
        shutil.rmtree(beside)
