"""Compares one bucket's input rows, each with the ledger's answer, with its output rows.

A row code has 64 bits. For the input: the number of the row, and from bit 56 on `Standing`. For the output: bit 63, the
partition from bit 48 on, and the offset. One sort brings an id's rows together, the input's first, each in order.
"""

from typing import NamedTuple

import numpy as np

from oncegate.arraytypes import I64, U8, U64
from oncegate.verifier.kinds import FindingKind, Standing

# Limits of the bits below bit 63: Kafka's own limit on partitions is far lower, and offsets of 48 bits suffice.
PARTITIONS_MAX, OFFSET_MAX = 1 << 15, (1 << 48) - 1
_TOLD, _PARTITION, _OUTPUT = np.uint64(56), np.uint64(48), np.uint64(1 << 63)
_ROW = np.uint64((1 << 56) - 1)


class Compared(NamedTuple):
    """The result for one bucket's ids.

    rows: the first input row of each id, uint64 (k,).
    kinds: the `FindingKind` of each id, uint8 (k,).
    doubled: (row, row code) of each output row of an id that occurs more than once, (d, 2).
    extra: number of those rows beyond the first of their id.
    foreign: the row code of each output row whose id is not in the input, (f,).
    foreign_ids: number of such ids.
    repeated: number of input rows whose id occurred earlier.
    """

    rows: U64
    kinds: U8
    doubled: U64
    extra: int
    foreign: U64
    foreign_ids: int
    repeated: int


def input_places(first_row: int, standings: U8) -> U64:
    """Returns the row codes of consecutive input rows."""
    rows = np.arange(first_row, first_row + len(standings), dtype=np.uint64)
    return rows | standings.astype(np.uint64) << _TOLD


def output_places(partition: int, offsets: I64) -> U64:
    """Returns the row codes of rows of one output partition."""
    assert 0 <= partition < PARTITIONS_MAX, "checked when partitions are listed"
    return offsets.astype(np.uint64) | np.uint64(partition) << _PARTITION | _OUTPUT


def partition_and_offset(row_code: int) -> tuple[int, int]:
    """Returns the partition and offset in an output row code."""
    return row_code >> 48 & (PARTITIONS_MAX - 1), row_code & OFFSET_MAX


def compare(expected: U64, written: U64) -> Compared:
    """Compares the rows of one bucket, both of shape (n, 3)."""
    rows = np.concatenate([expected, written])
    rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    row_codes, is_output = rows[:, 2], rows[:, 2] & _OUTPUT != 0
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 1] != rows[:-1, 1])
    starts, ids = np.flatnonzero(new), np.cumsum(new) - 1
    if not len(starts):
        return Compared(row_codes, np.zeros(0, np.uint8), np.zeros((0, 2), np.uint64), 0, row_codes, 0, 0)
    outputs, sizes = np.add.reduceat(is_output.astype(np.int64), starts), np.diff(np.append(starts, len(rows)))
    standings = np.maximum.reduceat(np.where(is_output, np.uint64(0), row_codes >> _TOLD), starts)
    in_input = outputs < sizes
    kinds, first = _kinds(outputs, standings)[in_input], row_codes[starts] & _ROW
    at_doubled = is_output & (in_input & (outputs > 1))[ids]
    doubled = np.column_stack([first[ids[at_doubled]], row_codes[at_doubled]])
    extra = int((outputs[in_input & (outputs > 1)] - 1).sum())
    repeated = int((sizes - outputs)[in_input].sum()) - int(in_input.sum())
    return Compared(first[in_input], kinds, doubled, extra, row_codes[~in_input[ids]], int((~in_input).sum()), repeated)


def _kinds(outputs: I64, standings: U64) -> U8:
    """Returns the kind of each id, by its number of output rows and the ledger's answer."""
    absent = np.choose(standings.astype(np.intp), [FindingKind.NOT_WRITTEN, FindingKind.HELD, FindingKind.MISSING])
    once = np.choose(standings.astype(np.intp), [FindingKind.UNRECORDED, FindingKind.UNRECORDED, FindingKind.OK])
    kinds = np.where(outputs == 0, absent, np.where(outputs == 1, once, int(FindingKind.DOUBLED)))
    assert len(Standing) == 3, "each has its element in both lists"
    return kinds.astype(np.uint8)
