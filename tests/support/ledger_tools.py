"""Shared by the tests of the log ledger: disks that misbehave, and the whole content of a ledger."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from oncegate.core.errors import OncegateError
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log.data_dir import DataDir
from oncegate.ledgers.log.files.ledger_list import read_list
from oncegate.ledgers.log.files.outputs import read_range
from oncegate.ledgers.log.ledger import LogLedger
from oncegate.ledgers.log.opening.recovery import Extent, Found, LedgerPaths, inspect, repair, replayed
from oncegate.ports import Chunk, Ledger, OpenLedger, OutputChange, PublishRanges, Replayed, Runs, WriteRange
from oncegate.runs import LocalRunFolders
from oncegate.testing.ledger_places import replayed as replayed_by

SEED = int(os.environ.get("ONCEGATE_SEED", "20261120"))


class QuietDisk(Disk):
    """Never syncs, so that many folders can be opened quickly."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, path: Path) -> None:
        pass

    def forget_pages(self, fd: int) -> None:
        pass


class FailingDisk(Disk):
    """Fails the calls that `fails` picks: it gets the name and path of each call and may return an errno."""

    def __init__(self, fails: Callable[[str, Path], int | None] = lambda call, path: None) -> None:
        self.fails = fails
        self.calls: list[tuple[str, Path]] = []
        self.failed_at = 0  # index of the last call that failed
        self._paths: dict[int, Path] = {}

    def _ask(self, call: str, path: Path) -> None:
        self.calls.append((call, path))
        code = self.fails(call, path)
        if code is not None:
            self.failed_at = len(self.calls) - 1
            raise OSError(code, os.strerror(code), str(path))

    def create(self, path: Path, *, mode: int = 0o644) -> int:
        self._ask("create", path)
        fd = super().create(path, mode=mode)
        self._paths[fd] = path
        return fd

    def open(self, path: Path) -> int:
        self._ask("open", path)
        fd = super().open(path)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        """Writes. A write that fails has written its first half."""
        try:
            self._ask("write", self._paths[fd])
        except OSError:
            data = b"".join(parts)
            super().write(fd, [data[: len(data) // 2]], offset)
            raise
        super().write(fd, parts, offset)

    def truncate(self, fd: int, size_bytes: int) -> None:
        self._ask("truncate", self._paths[fd])
        super().truncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        self._ask("sync", self._paths[fd])

    def sync_folder(self, path: Path) -> None:
        self._ask("sync_folder", path)

    def rename(self, old: Path, new: Path) -> None:
        self._ask("rename", old)
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._ask("unlink", path)
        super().unlink(path)

    def read(self, path: Path, offset: int = 0, size_bytes: int | None = None) -> bytes:
        self._ask("read", path)
        return super().read(path, offset, size_bytes)


@dataclass(frozen=True)
class Seen:
    """The whole content of a ledger: its entries, and the chunks of topic `t`."""

    entries: tuple[bytes, ...]
    chunks: tuple[Chunk, ...]


async def see(ledger: Ledger) -> Seen:
    """Returns the content. Checks that positions are consecutive, except for compacted entries, which share one."""
    entries = await replayed_by(ledger)
    positions = [one.position for one in entries]
    later = positions[positions.count(positions[0]) :] if positions else []
    assert later == list(range(ledger.mark.position - len(later) + 1, ledger.mark.position + 1))
    return Seen(tuple(one.body for one in entries), tuple(await ledger.fetch("t", 0, 0, 1 << 40, 1 << 40)))


def range_of(number: int, rows: int = 1, *, stream: str = "s", size_bytes: int = 600) -> WriteRange:
    return WriteRange(number.to_bytes(16, "big"), stream, rows, (b"%d." % number * size_bytes)[:size_bytes])


def publish(first_offset: int, *numbers: int) -> PublishRanges:
    return PublishRanges("t", 0, first_offset, tuple(number.to_bytes(16, "big") for number in numbers))


Append = tuple[Sequence[bytes], Sequence[OutputChange]]


def produce(number: int, *, size_bytes: int = 600) -> Append:
    """Returns the append of entry `number` and of one row of topic `t` at offset `number`."""
    return [b"entry %d" % number], [range_of(number, size_bytes=size_bytes), publish(number, number)]


async def fill(data: Path, appends: Sequence[Append], disk: Disk | None = None) -> Seen:
    """Creates a ledger with these appends and closes it in good order."""
    async with open_log(str(data), create=True, disk=disk or QuietDisk()) as ledgers, ledgers.open("default") as opened:
        for entries, outputs in appends:
            await opened.ledger.append(entries, outputs)
        return await see(opened.ledger)


async def look(data: Path, disk: Disk | None = None, *, create: bool = False) -> Seen | OncegateError:
    """Opens the ledger as a new process does. Returns its content or the error, whose detail must be one line."""
    try:
        async with (
            open_log(str(data), create=create, disk=disk or QuietDisk()) as ledgers,
            ledgers.open("default") as one,
        ):
            return await see(one.ledger)
    except OncegateError as error:
        return readable(error)


def readable(error: OncegateError) -> OncegateError:
    assert "\n" not in error.detail, error.detail
    assert 40 < len(error.detail) < 700, error.detail
    return error


@contextmanager
def repaired(data: Path, *, create: bool = False) -> Iterator[tuple[QuietDisk, LedgerPaths, Found]]:
    """Inspects and repairs the ledger as an opening does, but without an event loop and threads: ten times as fast."""
    disk = QuietDisk()
    folder = DataDir(str(data), None, disk)
    try:
        folder.take(create)
        paths = folder.paths("default")
        found = inspect(disk, paths)
        owned = repair(disk, paths, found)
        owned.segment.close()
        owned.witness.close()
        yield disk, paths, found
    finally:
        folder.release()


def look_quickly(data: Path, *, create: bool = False) -> Seen | OncegateError:
    """Like `look`, by `repaired`."""
    try:
        with repaired(data, create=create) as (disk, paths, found):
            extent = Extent(found.scan.compacted, found.scan.headers, found.walk.end)
            entries = [one.body for one in replayed(disk, paths.shard, paths.outputs, extent, 1)]
            held = found.scan.catalog.find("t", 0, 0, 1 << 40, 1 << 40)
            chunks = [Chunk(one.first_offset, one.rows, read_range(disk, paths.outputs, one.location)) for one in held]
            return Seen(tuple(entries), tuple(chunks))
    except OncegateError as error:
        return readable(error)


def judge(data: Path) -> OncegateError | None:
    """Returns the refusal by the read-only part of an opening, or None."""
    try:
        folder = DataDir(str(data), None, QuietDisk())
        folder.ledgers = read_list(folder.disk, folder.root) or {}
        inspect(folder.disk, folder.paths("default"))
    except OncegateError as error:
        return readable(error)
    return None


def names(data: Path, folder: str = ".", suffix: str = "") -> list[str]:
    return sorted(path.name for path in (data / "default/0" / folder).iterdir() if path.name.endswith(suffix))


@asynccontextmanager
async def opened_at(data: Path, *, create: bool = False, disk: Disk | None = None) -> AsyncIterator[LogLedger]:
    async with (
        open_log(str(data), create=create, disk=disk or QuietDisk()) as ledgers,
        ledgers.open("default") as opened,
    ):
        assert isinstance(opened.ledger, LogLedger)
        yield opened.ledger


@asynccontextmanager
async def with_runs(
    data: Path, *, create: bool = False, disk: Disk | None = None
) -> AsyncIterator[tuple[OpenLedger, Runs]]:
    """Opens the default ledger of a data folder and the runs beside it, on the same disk."""
    disk = disk or QuietDisk()
    async with (
        open_log(str(data), create=create, disk=disk) as ledgers,
        ledgers.open("default") as opened,
        LocalRunFolders(data, disk).open("default", opened) as runs,
    ):
        yield opened, runs


def creates_data_folder(data: Path, witness: Path | None = None) -> bool:
    """Takes the data folder for a moment and creates it if it is missing. Returns whether it was created."""
    folder = DataDir(str(data), str(witness) if witness else None, Disk())
    try:
        return folder.take(create=True)
    finally:
        folder.release()


async def entries_one_by_one(ledger: Ledger) -> AsyncIterator[Replayed]:
    async for batch in ledger.replay(1):
        for one in batch:
            yield one


async def settled(ledger: LogLedger) -> None:
    """Waits for the writer to remove files, which it does after the answer."""
    await ledger._in_writer(int)


async def removed(ledger: LogLedger, data: Path) -> None:
    """Waits until one segment is left: the ledger checks for readers with each sync of its witness."""
    async with asyncio.timeout(20):
        while len(names(data, suffix=".seg")) > 1:
            await asyncio.to_thread(ledger._writer.witness.sync)


def everything(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.rglob("*.*") if path.is_file()}


class Trouble:
    """Fails the n-th call of one name, counted from when it is armed."""

    def __init__(self, call: str, number: int, code: int, where: str = "") -> None:
        self.call, self.number, self.code, self.where = call, number, code, where
        self.armed = False
        self.hit: Path | None = None

    def __call__(self, call: str, path: Path) -> int | None:
        if not self.armed or call != self.call or self.where not in str(path):
            return None
        self.number -= 1
        if self.number != 0:
            return None
        self.hit = path
        return self.code
