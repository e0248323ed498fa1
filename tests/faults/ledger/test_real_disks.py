"""Real file systems: one that becomes full, one that loses power. They need root; others rely on the recorded disks."""

import asyncio
import fcntl
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.log import open_log
from oncegate.ports import Ledger
from tests.support.ledger_tools import SEED, Seen, look, produce, see
from tests.support.real_disks import make_ext4

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2  # loses everything that is not in the journal yet, as a power failure does
POWER_CUTS = 4


async def append_until_full(ledger: Ledger, first: int, size_bytes: int) -> int:
    """Appends until one is refused, and returns its number."""
    for number in range(first, 10_000):
        try:
            await ledger.append(*produce(number, size_bytes=size_bytes))
        except LedgerFull:
            return number
    raise AssertionError("the disk did not become full")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
async def test_a_full_disk_refuses_keeps_all_and_continues_when_there_is_room(small_disk) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6 << 20))
    data = small_disk / "data"
    async with open_log(str(data), create=True) as ledgers, ledgers.open("default") as opened:
        refused = await append_until_full(opened.ledger, 0, 100_000)
        refused = await append_until_full(opened.ledger, refused, 10)
        full = await see(opened.ledger)
        assert len(full.entries) == len(full.chunks) == refused
        free, total = opened.storage.free_bytes()
        assert free < 2 << 20 < total
        ballast.write_bytes(bytes(2 << 20))  # shorter
        await opened.ledger.append(*produce(refused))
        refused = await append_until_full(opened.ledger, refused + 1, 100_000)
        refused = await append_until_full(opened.ledger, refused, 10)
        full = await see(opened.ledger)
    found = await look(data)
    assert isinstance(found, LedgerFull), "the last segment cannot be copied"
    assert "make room and try again" in found.detail
    ballast.unlink()
    assert await look(data) == full
    async with open_log(str(data)) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append(*produce(refused))


WRITE = """
import asyncio, sys
from oncegate.ledgers.log import open_log
from oncegate.testing.ledger_places import replayed
from tests.support.ledger_tools import produce
async def main():
    async with open_log(sys.argv[1], create=True, witness=sys.argv[1] + ".witness") as ledgers:
        async with ledgers.open("default") as opened:
            first = len(await replayed(opened.ledger))
            print(first, flush=True)
            for number in range(first, 1_000_000):
                await opened.ledger.append(*produce(number, size_bytes=(number * 977) % 20_000 + 1))
                print(number + 1, flush=True)
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
async def test_no_acknowledged_append_is_lost_when_the_power_fails(tmp_path) -> None:
    """A real journal and page cache: cut at random moments under load, mount, open, compare, continue."""
    image, mount, rng = tmp_path / "image", tmp_path / "mounted", random.Random(SEED)
    mount.mkdir()
    make_ext4(image, mount)
    acknowledged = 0
    try:
        for cut in range(POWER_CUTS):
            acknowledged = await asyncio.to_thread(_write_until_cut, mount, acknowledged + rng.randrange(5, 60))
            subprocess.run(["umount", str(mount)], check=True)
            subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
            found = await look(mount / "data")
            assert isinstance(found, Seen), f"seed {SEED}, cut {cut}: {found}"
            assert acknowledged <= len(found.entries) <= acknowledged + 1
            assert len(found.chunks) == len(found.entries)
    finally:
        subprocess.run(["umount", str(mount)], check=True)
    print("seed", SEED, POWER_CUTS, "power cuts,", acknowledged, "appends acknowledged before the last")


def _write_until_cut(mount: Path, target: int) -> int:
    """Runs a writer and cuts the power after `target` acknowledged appends. Returns the number of acknowledged
    appends."""
    command = [sys.executable, "-c", WRITE, str(mount / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as writer:
        assert writer.stdout is not None
        said = 0
        for line in writer.stdout:
            said = int(line)
            if said == target:
                folder = os.open(mount, os.O_RDONLY)
                fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
                os.close(folder)
        writer.kill()
    return said
