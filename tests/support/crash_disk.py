"""A disk that records every operation and enumerates the states that a power failure may leave.

Synced data is durable. Syncing a folder makes only that folder's names durable, because the witness may be on another
disk. Unsynced names appear or vanish in the order of the operations, up to any point. An unsynced write lands
completely, not at all, or torn. A torn write loses sectors of 512 bytes, which keep their old content (zeros beyond the
old end of the file), or a whole block of 4,096 bytes, including data that was in it before.
"""

import errno
import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from oncegate.ledgers.disk import Disk

SECTOR_BYTES = 512
BLOCK_BYTES = 4_096
EXHAUSTIVE_SECTORS = 8  # 256 subsets; longer writes get prefixes, suffixes, single sectors, random subsets


@dataclass(frozen=True)
class Op:
    """An operation. `kind`: exists, create, write, truncate, sync, lost, sync_folder, rename, link, unlink, folder or
    note."""

    kind: str
    path: Path
    data: bytes = b""
    offset: int = 0
    new: Path | None = None
    file: int = 0


class RecordingDisk(Disk):
    """Performs every operation and logs it. Everything below `root` at the start is durable."""

    def __init__(self, root: Path) -> None:
        self.ops: list[Op] = []
        self._files: dict[int, int] = {}  # descriptor -> number of the file
        self._paths: dict[Path, int] = {}
        self._count = 0
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                self.ops.append(Op("exists", path))
            else:
                self._count += 1
                self._paths[path] = self._count
                self.ops.append(Op("exists", path, path.read_bytes(), file=self._count))

    def note(self, what: str) -> None:
        """Adds a note to the log, for example that an append was acknowledged."""
        self.ops.append(Op("note", Path(what)))

    def create(self, path: Path, *, mode: int = 0o644) -> int:
        fd = super().create(path, mode=mode)
        self._count += 1
        self._files[fd] = self._paths[path] = self._count
        self.ops.append(Op("create", path, file=self._count))
        return fd

    def open(self, path: Path) -> int:
        fd = super().open(path)
        self._files[fd] = self._paths[path]
        return fd

    def write(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        super().write(fd, parts, offset)
        self.ops.append(Op("write", Path(), b"".join(parts), offset, file=self._files[fd]))

    def truncate(self, fd: int, size_bytes: int) -> None:
        super().truncate(fd, size_bytes)
        self.ops.append(Op("truncate", Path(), offset=size_bytes, file=self._files[fd]))

    def sync(self, fd: int) -> None:
        self.ops.append(Op("sync", Path(), file=self._files[fd]))

    def sync_folder(self, path: Path) -> None:
        self.ops.append(Op("sync_folder", path))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        for path in [path for path in self._paths if path == old or old in path.parents]:
            self._paths[new / path.relative_to(old)] = self._paths.pop(path)
        self.ops.append(Op("rename", old, new=new))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._paths.pop(path, None)
        self.ops.append(Op("unlink", path))

    def make_folder(self, path: Path, *, mode: int = 0o755) -> None:
        super().make_folder(path, mode=mode)
        self.ops.append(Op("folder", path))


class LosingDisk(RecordingDisk):
    """Fails one sync of a file whose name contains `loses`. Its bytes are lost, and later syncs succeed."""

    loses = "nothing"

    def sync(self, fd: int) -> None:
        file = self._files[fd]
        name = next(path.name for path, number in self._paths.items() if number == file)
        if self.loses not in name:
            return super().sync(fd)
        self.loses = "nothing"
        self.ops.append(Op("lost", Path(), file=file))
        raise OSError(errno.EIO, "injected")


State = dict[Path, bytes | None]  # the bytes of a file; None: a folder


@dataclass
class _Names:
    """Maps each path to the number of its file, or to 0 for a folder."""

    paths: dict[Path, int] = field(default_factory=dict)

    def apply(self, op: Op) -> None:
        if op.kind in ("create", "folder"):
            self.paths[op.path] = op.file
        elif op.kind == "unlink":
            self.paths.pop(op.path, None)
        elif op.kind == "link":
            assert op.new is not None
            self.paths[op.new] = self.paths[op.path]
        elif op.kind == "rename":
            assert op.new is not None
            for path in [path for path in self.paths if path == op.path or op.path in path.parents]:
                self.paths[op.new / path.relative_to(op.path)] = self.paths.pop(path)


def _folder_of(op: Op) -> set[Path]:
    return {op.path.parent} | ({op.new.parent} if op.new else set())


def _landed(content: bytes, op: Op, sectors: frozenset[int] | None = None) -> bytes:
    """Returns `content` after the whole write, or after only the given sectors of it."""
    if op.kind == "truncate":
        return content[: op.offset].ljust(op.offset, b"\0")
    end = op.offset + len(op.data)
    if sectors is None:
        return content[: op.offset].ljust(op.offset, b"\0") + op.data + content[end:]
    torn = bytearray(content.ljust(end, b"\0"))
    for sector in sectors:
        piece = op.data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]
        at = op.offset + sector * SECTOR_BYTES
        torn[at : at + len(piece)] = piece
    return bytes(torn)


def _lost_blocks(content: bytes, op: Op, rng: random.Random) -> Iterator[bytes]:
    """Yields `content` after the write, with one of the touched blocks zeroed or filled with random bytes."""
    whole = _landed(content, op)
    first, last = op.offset // BLOCK_BYTES, -(-(op.offset + len(op.data)) // BLOCK_BYTES)
    for block in range(first, last):
        at = block * BLOCK_BYTES
        size_bytes = len(whole[at : at + BLOCK_BYTES])
        for lost in (bytes(size_bytes), rng.randbytes(size_bytes)):
            yield whole[:at] + lost + whole[at + BLOCK_BYTES :]


def _tears(op: Op, rng: random.Random) -> Iterator[frozenset[int]]:
    count = -(-len(op.data) // SECTOR_BYTES)
    if count <= EXHAUSTIVE_SECTORS:
        for bits in product((False, True), repeat=count):
            yield frozenset(sector for sector in range(count) if bits[sector])
        return
    everything = frozenset(range(count))
    for sector in range(count):
        yield frozenset(range(sector))
        yield frozenset(range(sector, count))
        yield everything - {sector}
        yield frozenset({sector})
    for _ in range(64):
        yield frozenset(sector for sector in range(count) if rng.random() < 0.5)


class Crashes:
    """Enumerates the states that may remain below `root`. Feed it a log with `step`, then ask for the states."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names = _Names()
        self._pending_names: list[Op] = []
        self._contents: dict[int, bytes] = {}
        self._pending_writes: dict[int, list[Op]] = {}

    def step(self, op: Op) -> None:
        if op.kind == "exists":
            self._names.paths[op.path] = op.file
            self._contents[op.file] = op.data
        elif op.kind in ("create", "folder", "rename", "link", "unlink"):
            self._pending_names.append(op)
            if op.kind == "create":
                self._contents[op.file] = b""
        elif op.kind == "sync_folder":
            for name in [name for name in self._pending_names if op.path in _folder_of(name)]:
                self._names.apply(name)
                self._pending_names.remove(name)
        elif op.kind in ("write", "truncate"):
            self._pending_writes.setdefault(op.file, []).append(op)
        elif op.kind == "lost":
            self._pending_writes.pop(op.file, None)
        elif op.kind == "sync":
            for write in self._pending_writes.pop(op.file, []):
                self._contents[op.file] = _landed(self._contents[op.file], write)

    def durable(self) -> State:
        """Returns the state that contains only synced data."""
        return self._state(0, dict(self._contents))

    def states(self, rng: random.Random, *, blocks_are_lost: bool = True) -> Iterator[State]:
        """Yields every possible state at this moment, with many repetitions.

        `blocks_are_lost`: a torn write may also destroy older data in its block.
        """
        nothing = dict(self._contents)
        everything = {file: self._all(file) for file in self._contents}
        for names in range(len(self._pending_names) + 1):
            yield self._state(names, nothing)
            yield self._state(names, everything)
            for file, writes in self._pending_writes.items():
                before = self._contents[file]
                for write in writes[:-1]:
                    before = _landed(before, write)
                if writes[-1].kind != "write":
                    continue
                for missing in range(len(writes) - 1):
                    yield self._state(names, everything | {file: self._without(file, missing)})
                    for lost in _lost_blocks(self._without(file, missing), writes[-1], rng) if blocks_are_lost else ():
                        yield self._state(names, everything | {file: lost})
                for lost in _lost_blocks(before, writes[-1], rng) if blocks_are_lost else ():
                    yield self._state(names, everything | {file: lost})
                for sectors in _tears(writes[-1], rng):
                    torn = _landed(before, writes[-1], sectors)
                    yield self._state(names, everything | {file: torn})
                    yield self._state(names, nothing | {file: torn})
                    shorter = before + torn[len(before) :].rstrip(b"\0")  # its new length did not land either
                    yield self._state(names, nothing | {file: torn[: len(before)] + shorter[len(before) :]})

    def _all(self, file: int) -> bytes:
        content = self._contents[file]
        for write in self._pending_writes.get(file, []):
            content = _landed(content, write)
        return content

    def _without(self, file: int, missing: int) -> bytes:
        content = self._contents[file]
        for number, write in enumerate(self._pending_writes[file]):
            content = content if number == missing else _landed(content, write)
        return content

    def _state(self, names: int, contents: dict[int, bytes]) -> State:
        named = _Names(dict(self._names.paths))
        for op in self._pending_names[:names]:
            named.apply(op)
        return {
            path: contents[file] if file else None for path, file in named.paths.items() if self._reached(path, named)
        }

    def _reached(self, path: Path, named: _Names) -> bool:
        """Returns whether all parent folders of a file have names; the file is lost otherwise."""
        above = path.parents[: len(path.relative_to(self._root).parts) - 1]
        return all(named.paths.get(folder) == 0 for folder in above)


def materialize(state: State, old_root: Path, new_root: Path) -> None:
    """Writes the state below `new_root` with the same relative paths as below `old_root`."""
    new_root.mkdir(parents=True, exist_ok=True)
    for path, content in sorted(state.items()):
        target = new_root / path.relative_to(old_root)
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def digest(state: State) -> bytes:
    hashed = hashlib.sha256()
    for path, content in sorted(state.items()):
        hashed.update(str(path).encode() + b"\0" + hashlib.sha256(content or b"").digest())
    return hashed.digest()
