"""A small disk that a test mounts and fills to its last block."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.real_disks import shell


@contextmanager
def small_disk(mount: Path, mib: int) -> Iterator[Path]:
    """Mounts a tmpfs of `mib` MiB; skips the test if that is not possible."""
    mount.mkdir()
    shell("mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(mount))
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def fill(disk: Path) -> Path:
    """Fills the disk to its last block. Removing the returned file makes room again."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size_bytes in (1 << 20, 4096):
            try:
                while True:
                    file.write(bytes(size_bytes))
            except OSError:
                continue
    return ballast
