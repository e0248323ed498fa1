"""Reserved disk space: refusals while it is released, and its accounting."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log.reserve import RESERVE_NAME, Reserve
from tests.support.ledger_tools import FailingDisk, Trouble

MIB = 1 << 20


class FullDisk(Disk):
    """Cannot reserve space until `has_room`."""

    has_room = False

    def allocate(self, fd: int, size_bytes: int) -> None:
        if not self.has_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(fd, size_bytes)


async def test_a_new_ledger_takes_nothing_of_the_room_that_is_kept_for_ends(tmp_path: Path) -> None:
    async with open_log(str(tmp_path / "data"), create=True, reserve_bytes=MIB, disk=FullDisk()) as ledgers:
        with pytest.raises(LedgerFull, match="MiB more must be free; nothing was made"):
            await ledgers.create("another")
        assert ledgers.names() == ["default"]
        assert not (tmp_path / "data" / "another").exists()
        await ledgers.create("default")


def test_a_file_that_was_cut_short_is_part_of_the_room_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, room = Disk(), {"free": 2 * MIB}
    monkeypatch.setattr(
        os,
        "statvfs",
        lambda _: SimpleNamespace(f_blocks=1_000 * MIB // 4096, f_bavail=room["free"] // 4096, f_frsize=4096),
    )
    (tmp_path / RESERVE_NAME).write_bytes(os.urandom(3 * MIB))
    reserve = Reserve(disk, tmp_path, 5 * MIB)
    reserve.refill()
    assert (reserve.released, reserve.missing_bytes()) == (True, MIB), "5 MiB, and one beside them"
    room["free"] += MIB
    reserve.refill()
    assert (reserve.released, reserve.missing_bytes()) == (False, 0)
    assert (tmp_path / RESERVE_NAME).stat().st_size == 5 * MIB


def test_room_that_cannot_be_taken_leaves_no_file_that_takes_some(tmp_path: Path) -> None:
    disk = FullDisk()
    reserve = Reserve(disk, tmp_path, MIB)
    reserve.refill()
    assert (reserve.released, list(tmp_path.iterdir())) == (True, [])
    disk.has_room = True
    reserve.refill()
    assert (reserve.released, (tmp_path / RESERVE_NAME).stat().st_size) == (False, MIB)


async def test_a_full_disk_is_given_the_room_at_once_and_what_ends_something_uses_it(tmp_path: Path) -> None:
    disk = FailingDisk(trouble := Trouble("write", 1, errno.ENOSPC))
    reserve = tmp_path / "data" / RESERVE_NAME
    async with (
        open_log(str(tmp_path / "data"), create=True, reserve_bytes=MIB, disk=disk) as ledgers,
        ledgers.open("default") as opened,
    ):
        await opened.ledger.append([b"a"], [])
        assert reserve.stat().st_size == MIB
        trouble.armed = True
        with pytest.raises(LedgerFull, match="nothing was written"):
            await opened.ledger.append([b"b"], [])
        assert not reserve.exists()
        assert (await opened.ledger.append([b"c"], [])).position == 2
