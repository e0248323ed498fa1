"""Defines the locations of one entry's rows: ranges of offsets by partition, and the partition of each row."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oncegate.arraytypes import I64


class RowRange(NamedTuple):
    """Rows at consecutive offsets of one partition. first_offset: −1 if unknown."""

    topic: str
    partition: int
    first_offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """The locations of the n rows that one entry wrote.

    ranges: those of a partition one after the other, in the order of its rows.
    partition_of: for each row, the number of its partition in the order of `ranges`: unsigned, little-endian, all n of
    one width. Empty: there is one partition, or the partitions of rows were not recorded.
    """

    ranges: tuple[RowRange, ...]
    partition_of: bytes = b""

    @property
    def rows(self) -> int:
        return sum(row_range.rows for row_range in self.ranges)

    def is_known(self) -> bool:
        """Returns whether the offset of every row is known."""
        return all(row_range.first_offset >= 0 for row_range in self.ranges)

    def of_rows(self) -> tuple[I64, I64] | None:
        """Returns the range number and the offset of each row, −1 if unknown: int64 (n,) each.

        Returns None if the partitions of rows were not recorded.
        """
        numbers = np.repeat(np.arange(len(self.ranges)), [row_range.rows for row_range in self.ranges])
        offsets = np.concatenate([np.zeros(0, np.int64), *map(_offsets, self.ranges)])
        partitions = _numbered(self.ranges)
        if len(set(partitions)) <= 1:
            return numbers, offsets
        if not self.partition_of:
            return None
        width = len(self.partition_of) // self.rows
        partition_of = np.frombuffer(self.partition_of, f"<u{width}")
        # Rows of one partition are in the order of the entry; ranges are in the order of partitions.
        order = np.argsort(partition_of, kind="stable")
        placed_numbers, placed_offsets = np.empty_like(numbers), np.empty_like(offsets)
        placed_numbers[order], placed_offsets[order] = numbers, offsets
        return placed_numbers, placed_offsets


def partition_numbers(partitions: list[tuple[I64, int]]) -> bytes:
    """Returns `RowPlaces.partition_of`; empty if all rows are in one partition.

    partitions: the rows of each stretch, n in all, and its partition number.
    """
    if len({number for _, number in partitions}) <= 1:
        return b""
    highest = max(number for _, number in partitions)
    numbers = np.zeros(sum(len(rows) for rows, _ in partitions), np.min_scalar_type(highest).newbyteorder("<"))
    for rows, number in partitions:
        numbers[rows] = number
    return numbers.tobytes()


def _offsets(row_range: RowRange) -> I64:
    if row_range.first_offset < 0:
        return np.full(row_range.rows, -1, np.int64)
    return np.arange(row_range.first_offset, row_range.first_offset + row_range.rows, dtype=np.int64)


def _numbered(ranges: tuple[RowRange, ...]) -> list[int]:
    """Numbers the partition of each range, in order of first occurrence."""
    numbers: dict[tuple[str, int], int] = {}
    return [numbers.setdefault((row_range.topic, row_range.partition), len(numbers)) for row_range in ranges]
