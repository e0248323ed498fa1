"""Large ranges bypass the page cache: they are read back unchanged, on every file system."""

import errno
import fcntl
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oncegate.ledgers.disk import BLOCK_BYTES, PAST_CACHE_BYTES, Disk, padded
from tests.support.ledger_tools import SEED

SIZES = [PAST_CACHE_BYTES, PAST_CACHE_BYTES + 1, PAST_CACHE_BYTES + BLOCK_BYTES - 1, 4 * PAST_CACHE_BYTES + 77]


def aligned(size: int) -> memoryview:
    """Returns random bytes that begin on a block boundary of memory."""
    whole = np.zeros(size + BLOCK_BYTES, np.uint8)
    start = -whole.__array_interface__["data"][0] % BLOCK_BYTES
    whole[start : start + size] = np.frombuffer(random.Random(SEED + size).randbytes(size), np.uint8)
    return whole[start : start + size].data


def written(path: Path, data: memoryview, offset: int) -> bytes:
    """Returns the file, with other bytes before and after the range."""
    disk = Disk()
    fd = disk.create(path)
    disk.write(fd, [b"before" * 1_000], 0)
    disk.write(fd, [b"behind"], offset + padded(len(data)))
    disk.write(fd, [data], offset)
    assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT, "a small write comes next"
    disk.write(fd, [b"more"], offset + padded(len(data)) + 6)
    disk.sync(fd)
    disk.close(fd)
    return path.read_bytes()


def check(path: Path, size: int) -> None:
    data, offset = aligned(size), 2 * BLOCK_BYTES
    content = written(path, data, offset)
    assert content[: offset // 2] == (b"before" * 1_000)[: offset // 2]
    assert content[offset : offset + size] == data
    assert content[offset + size : offset + padded(size)] == bytes(padded(size) - size)
    assert content[offset + padded(size) :] == b"behindmore"


@pytest.mark.parametrize("size", SIZES)
def test_a_large_range_is_read_back_and_its_surroundings_are_unchanged(tmp_path: Path, size: int) -> None:
    check(tmp_path / "file", size)


@pytest.mark.parametrize("size", SIZES)
def test_a_file_system_that_cannot_do_without_its_cache_is_written_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    real = fcntl.fcntl

    def without(fd: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETFL and argument & os.O_DIRECT:
            raise OSError(errno.EINVAL, "injected")
        return real(fd, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", without)
    check(tmp_path / "file", size)


@pytest.mark.parametrize("taken", [0, BLOCK_BYTES, "EINVAL"])
def test_partial_and_missing_writes_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: Any) -> None:
    real, refused = os.pwritev, []

    def partly(fd: int, parts: Any, offset: int) -> int:
        if len(parts[0]) < PAST_CACHE_BYTES or refused:
            return real(fd, parts, offset)
        refused.append(taken)
        if taken == "EINVAL":
            raise OSError(errno.EINVAL, "injected")
        return real(fd, [memoryview(parts[0])[:taken]], offset) if taken else 0

    monkeypatch.setattr(os, "pwritev", partly)
    check(tmp_path / "file", SIZES[1])
    assert refused == [taken]


def test_a_full_disk_is_reported_and_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, parts: Any, offset: int) -> int:
        raise OSError(errno.ENOSPC, "injected")

    disk = Disk()
    fd = disk.create(tmp_path / "file")
    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match="injected") as raised:
        disk.write(fd, [aligned(SIZES[0])], 0)
    assert raised.value.errno == errno.ENOSPC
    assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT
    disk.close(fd)
