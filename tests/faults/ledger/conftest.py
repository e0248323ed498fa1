import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncegate.ledgers.disk import BLOCK_BYTES
from oncegate.ledgers.log import backup
from oncegate.ledgers.log import writer as log_writer
from oncegate.testing.ledger_places import snapshot_of
from tests.support.ledger_tools import QuietDisk, opened_at, produce, range_of
from tests.support.real_disks import make_ext4, shell
from tests.support.turned import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if possible: these tests open thousands of ledgers."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of three frames of a block each."""
    monkeypatch.setattr(log_writer, "SEGMENT_BYTES", 4 * BLOCK_BYTES)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_writer, "SEGMENT_BYTES", 4 * BLOCK_BYTES)
    return tmp_path / "data"


@pytest.fixture
async def source(data: Path) -> Path:
    """A finished backup with a snapshot, staged rows and published rows."""
    async with opened_at(data, create=True) as ledger:
        for number in range(6):
            await ledger.append(*produce(number))
        await ledger.compact(3, snapshot_of(b"state"))
        await ledger.append([b"staged"], [range_of(50, stream="a")])
    backup(str(data), str(data.with_name("backup")), disk=QuietDisk())
    return data.with_name("backup")


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request, tmp_path) -> Iterator[Path]:
    """A mounted file system of 16 MiB."""
    mount = tmp_path / "mounted"
    mount.mkdir()
    if request.param == "tmpfs":
        shell("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(mount))
    else:
        make_ext4(tmp_path / "image", mount)
    yield mount
    subprocess.run(["umount", str(mount)], check=True)
