"""Defines the places of the rows of one entry: ranges of offsets by partition, and the partition of each row."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oncegate.arraytypes import I64


class RowRange(NamedTuple):
    """Describes rows at consecutive offsets of one partition. `first_offset`: −1 where it is not known."""

    topic: str
    partition: int
    first_offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Holds the places of the n rows that one entry wrote.

    ranges: those of a partition one after the other, in the order of its rows.
    partition_of: of each row, the number of its partition among those of `ranges`: unsigned, little-endian, all n of
    one width. Empty: there is one partition, or it was not kept which row is in which.
    """

    ranges: tuple[RowRange, ...]
    partition_of: bytes = b""

    @property
    def rows(self) -> int:
        """Counts the rows."""
        return sum(row_range.rows for row_range in self.ranges)

    def is_known(self) -> bool:
        """Tells whether the offset of every row is known."""
        return all(row_range.first_offset >= 0 for row_range in self.ranges)

    def of_rows(self) -> tuple[I64, I64] | None:
        """Returns of each row the number of its range and its offset, −1 where that is not known: int64 (n,) each.

        None: it was not kept which row is in which partition.
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
    """Returns `RowPlaces.partition_of`; `partitions`: rows and number of each partition's stretches, together n rows.

    Empty: all are in one.
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
    """Numbers the partition of each range, in the order in which partitions first come."""
    numbers: dict[tuple[str, int], int] = {}
    return [numbers.setdefault((row_range.topic, row_range.partition), len(numbers)) for row_range in ranges]
