"""Ranges that two threads read and verify: in order, and with the error of the first damaged one."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.disk import Disk, padded
from oncegate.ledgers.log.files.outputs import VERIFYING_THREADS, located, output_path, read_ranges

FILE = (1, 1)


def ranges(folder: Path, count: int) -> list[Location]:
    """Writes ranges of growing length to one file and returns their locations."""
    places, whole = [], b""
    for number in range(count):
        data = bytes([number]) * (1 + 5_000 * number)
        places.append(located(FILE, len(whole), data))
        whole += data.ljust(padded(len(data)), b"\0")
    output_path(folder, FILE).write_bytes(whole)
    return places


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_ranges_come_in_their_order(tmp_path: Path, count: int) -> None:
    places = ranges(tmp_path, count)
    assert [(data[0], len(data)) for data in read_ranges(Disk(), tmp_path, places)] == [
        (number, place.length) for number, place in enumerate(places)
    ]


def test_ranges_before_the_first_damaged_one_come_first_and_then_the_damage(tmp_path: Path) -> None:
    places = ranges(tmp_path, 20)
    path = output_path(tmp_path, FILE)
    data = bytearray(path.read_bytes())
    for number in (12, 7):
        data[places[number].offset] ^= 1
    path.write_bytes(data)
    before = []
    with pytest.raises(LedgerDamaged, match=f"at {places[7].offset} are not"):
        before.extend(read_ranges(Disk(), tmp_path, places))
    assert [data[0] for data in before] == list(range(7))


def test_stopping_to_read_leaves_no_thread(tmp_path: Path) -> None:
    reading = read_ranges(Disk(), tmp_path, ranges(tmp_path, 20))
    next(reading)
    reading.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("verifying")]


def test_no_more_is_read_ahead_than_there_are_threads(tmp_path: Path) -> None:
    asked: list[Location] = []

    def asking() -> Iterator[Location]:
        for place in ranges(tmp_path, 20):
            asked.append(place)
            yield place

    reading = read_ranges(Disk(), tmp_path, asking())
    next(reading)
    assert len(asked) == VERIFYING_THREADS + 1
    reading.close()
