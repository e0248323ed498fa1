"""Stores the rows of stages (unpublished ranges) and topics in files beside the segments: `<epoch>-<counter>.out`.

Only the owner that created a file appends to it, and its name is never reused. Ranges begin on 4,096-byte boundaries. A
frame names a range only after the file's bytes and its name are durable, so bytes that no frame names were never
acknowledged. A file is removed when nothing names it any more.
"""

import hashlib
import itertools
import re
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.disk import FULL, Disk, padded
from oncegate.ledgers.log.files.segments import NoRoom
from oncegate.ports import WriteRange

FILE_BYTES = 64 << 20  # then a stream continues in a new file, so that a trim or drop can free space
STREAMS_OPEN_MAX = 64  # open files of one ledger; a stream that was closed and is used again starts a new file
# Threads that verify ranges at startup. Hashing releases the GIL, and no requests are served yet.
VERIFYING_THREADS = 2

_NAME = re.compile(r"(\d{8,})-(\d{8,})\.out")


def output_path(folder: Path, file: tuple[int, int]) -> Path:
    return folder / f"{file[0]:08}-{file[1]:08}.out"


def outputs_in(folder: Path) -> dict[tuple[int, int], Path]:
    """Returns the output files of a folder, keyed by epoch and counter."""
    found = {path: _NAME.fullmatch(path.name) for path in folder.iterdir()}
    return {(int(match[1]), int(match[2])): path for path, match in found.items() if match}


@dataclass(slots=True)
class _Stream:
    file: tuple[int, int]
    fd: int
    end: int


class OpenStreams:
    """Number of open file descriptors for output streams, over all ledgers of a process. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Adds `count`, which may be negative, to the number of open descriptors."""
        with self._lock:
            self._open += count

    @property
    def too_many(self) -> bool:
        """True if ledgers should close a stream because too many descriptors are open."""
        return self._open > self._most


class OutputWriter:
    """The writer of ranges, one append at a time; `settle` or `roll_back` ends each append. All methods block."""

    def __init__(self, disk: Disk, folder: Path, epoch: int, open_streams: OpenStreams) -> None:
        self._disk = disk
        self._folder = folder
        self._epoch = epoch
        self._open = open_streams
        self._counters = itertools.count(1)
        self._streams: OrderedDict[str, _Stream] = OrderedDict()
        self._before: dict[str, int] = {}  # streams written by the current append, and the end of each before it

    def new_file(self) -> tuple[int, int]:
        """Returns an unused file name; callable from any thread."""
        return (self._epoch, next(self._counters))

    def write(self, ranges: Iterable[WriteRange]) -> list[Location]:
        """Writes the ranges durably, before a frame names them. On NoRoom none is left; effect unknown on OSError."""
        try:
            locations = [self._write(written) for written in ranges]
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._roll_back()
            raise NoRoom(str(error)) from error
        for name in self._before:
            self._disk.sync(self._streams[name].fd)
        if 0 in self._before.values():
            self._disk.sync_folder(self._folder)
        return locations

    def _write(self, written: WriteRange) -> Location:
        stream = self._stream(written.stream)
        location = located(stream.file, stream.end, written.data, written.sha256)
        self._disk.write(stream.fd, [written.data], stream.end)
        stream.end += padded(max(1, len(written.data)))  # an end of 0 means: created by this append
        return location

    def _stream(self, name: str) -> _Stream:
        stream = self._streams.get(name)
        if stream is not None and stream.end >= FILE_BYTES and name not in self._before:
            self._close(name)
            stream = None
        if stream is None:
            file = self.new_file()
            stream = self._streams[name] = _Stream(file, self._disk.create(output_path(self._folder, file)), 0)
            self._open.add(1)
        self._streams.move_to_end(name)
        self._before.setdefault(name, stream.end)
        return stream

    def settle(self) -> None:
        """Commits the current append's ranges: a durable frame names them."""
        self._before.clear()
        while len(self._streams) > STREAMS_OPEN_MAX or (self._streams and self._open.too_many):
            self._close(next(iter(self._streams)))

    def roll_back(self) -> None:
        """Removes the current append's ranges, whose frame could not be written. Effect unknown on OSError."""
        self._roll_back()

    def _roll_back(self) -> None:
        for name, end in self._before.items():
            stream = self._streams[name]
            if end == 0:
                self._close(name)
                self._disk.unlink(output_path(self._folder, stream.file))
            else:
                self._disk.truncate(stream.fd, end)
                stream.end = end
        self._before.clear()

    def forget(self, files: Iterable[tuple[int, int]]) -> list[Path]:
        """Closes files that no durable frame still names; returns the paths of these files."""
        gone = set(files)
        for name in [name for name, stream in self._streams.items() if stream.file in gone]:
            self._close(name)
        return [output_path(self._folder, file) for file in sorted(gone)]

    def _close(self, name: str) -> None:
        self._open.add(-1)
        self._disk.close(self._streams.pop(name).fd)

    def close(self) -> None:
        for name in list(self._streams):
            self._close(name)


class RangeCounts:
    """The number of referenced ranges in each file."""

    def __init__(self, locations: Iterable[Location]) -> None:
        self._ranges = Counter(location.file for location in locations)

    def __contains__(self, file: object) -> bool:
        return file in self._ranges

    def add(self, location: Location) -> None:
        self._ranges[location.file] += 1

    def release(self, locations: Iterable[Location]) -> list[tuple[int, int]]:
        """Drops references to ranges; returns the files that have no referenced range left."""
        empty = []
        for location in locations:
            self._ranges[location.file] -= 1
            if not self._ranges[location.file]:
                del self._ranges[location.file]
                empty.append(location.file)
        return empty


def located(file: tuple[int, int], offset: int, data: bytes | memoryview, sha256: bytes | None = None) -> Location:
    """Returns the location of a range at `offset`; computes the SHA-256 of `data` unless the caller passes it."""
    return Location(*file, offset, len(data), sha256 or hashlib.sha256(data).digest())


def read_range(disk: Disk, folder: Path, location: Location) -> bytes:
    """Reads and verifies a range. Raises LedgerDamaged; FileNotFoundError if the file is gone."""
    path = output_path(folder, location.file)
    data = disk.read(path, location.offset, location.length)
    if len(data) != location.length or hashlib.sha256(data).digest() != location.sha256:
        raise LedgerDamaged(
            f"{path}: the {location.length} bytes at {location.offset} are not those that were written; "
            "put this file back from a copy"
        )
    return data


def require_range(disk: Disk, folder: Path, location: Location) -> bytes:
    """Reads and verifies a range whose file must exist. Raises LedgerDamaged, also if the file is gone."""
    try:
        return read_range(disk, folder, location)
    except FileNotFoundError as error:
        raise LedgerDamaged(f"{error.filename} is missing; put this file back from a copy") from error


def read_ranges(disk: Disk, folder: Path, locations: Iterable[Location]) -> Iterator[bytes]:
    """Yields the bytes of each range in order, verified by several threads.

    Besides the range just yielded, at most one more than the number of threads is in memory. A damaged range raises
    LedgerDamaged after the ranges before it. All threads have exited when this generator ends.
    """
    with ThreadPoolExecutor(VERIFYING_THREADS, "verifying") as threads:
        waiting: deque[Future[bytes]] = deque()
        for location in locations:
            waiting.append(threads.submit(require_range, disk, folder, location))
            if len(waiting) > VERIFYING_THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def require_reach(disk: Disk, folder: Path, locations: Iterable[Location]) -> None:
    """Raises LedgerDamaged unless every file named by a location exists and reaches the end of its last range."""
    ends: dict[tuple[int, int], int] = {}
    for location in locations:
        ends[location.file] = max(ends.get(location.file, 0), location.end)
    present = outputs_in(folder)
    for file, end in sorted(ends.items()):
        path = output_path(folder, file)
        size_bytes = path.stat().st_size if file in present else -1
        if size_bytes < end:
            state = "is missing" if size_bytes < 0 else f"ends at byte {size_bytes}"
            raise LedgerDamaged(
                f"{path} {state}, and the ledger names its bytes up to {end}; nothing was changed, "
                "put this file back from a copy"
            )
