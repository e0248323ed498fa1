"""Gives each partition its records of some rows, in their order; bytes of keys and values are not copied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oncegate.arraytypes import I64
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import Field, Records, RowHeaders
from oncegate.ledgers.kafka.rows.contract import Columns
from oncegate.ledgers.kafka.rows.partitions import partitions_of


@dataclass(frozen=True, slots=True)
class Share:
    """Holds what one partition gets. `rows`: int64, which rows these are, ascending; `records`: the same, encodable."""

    partition: Partition
    rows: I64
    records: Records


def shares(
    columns: Columns, counts: Mapping[str, int], turn: int, marks: Sequence[tuple[str, Field]] = ()
) -> list[Share]:
    """Splits rows by topic and partition. `counts`, `turn`: as `partitions_of`, which says what it raises.

    `marks`: headers by name that each row gets behind its own, a field of n values each.
    """
    partitions = partitions_of(columns, counts, turn)
    if not len(partitions):
        return []
    places = columns.topic_of * (int(partitions.max()) + 1) + partitions
    # Numpy sorts numbers of at most 16 bits by radix.
    order = np.argsort(places.astype(np.min_scalar_type(places.max())), kind="stable")
    edges = np.flatnonzero(np.diff(places[order])) + 1
    found = []
    for first, end in pairwise([0, *edges.tolist(), len(order)]):
        rows = order[first:end]
        topic = columns.topics[int(columns.topic_of[rows[0]])]
        found.append(Share(Partition(topic, int(partitions[rows[0]])), rows, records_of(columns, rows, marks)))
    return found


def records_of(columns: Columns, rows: I64 | slice, marks: Sequence[tuple[str, Field]]) -> Records:
    """Returns the records of some rows, in the order of `rows`; `marks`: as of `shares`."""
    own = columns.row_headers
    return Records(
        columns.times_ms[rows],
        _some(columns.keys, rows),
        _some(columns.values, rows),
        [(name, _some(field, rows)) for name, field in marks],
        None if own is None else RowHeaders(own.starts[rows], own.counts[rows], own.names, own.values),
    )


def _some(field: Field, rows: I64 | slice) -> Field:
    return Field(field.data, field.starts[rows], field.lengths[rows], field.prefix)
