"""Chooses each row's partition (explicit, by Kafka's hash of the key, or round-robin), and splits the rows.

The hash is Austin Appleby's MurmurHash2 with the seed of Kafka's Java producer
(`org.apache.kafka.common.utils.Utils.murmur2`), so that equal keys of other producers go to the same partition. As
there, an empty key is hashed, and a null key is not. Rows keep their order within a partition. Keys and values are not
copied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oncegate.arraytypes import I64, U8
from oncegate.compilation import compiled
from oncegate.core.errors import BadRequest, NotFound
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import Field, Records, RowHeaders
from oncegate.ledgers.kafka.rows.contract import UNGIVEN, Columns

_SEED = np.uint64(0x9747B28C)
_TIMES = np.uint64(0x5BD1E995)
_WORD = np.uint64(0xFFFFFFFF)


def partitions_of(columns: Columns, counts: Mapping[str, int], turn: int) -> I64:
    """Returns the partition of each row: int64 (n,).

    `counts`: partitions of each topic. `turn`: for rows without a key, modulo the count. Raises as `check_partitions`.
    """
    most, given = check_partitions(columns, counts), columns.partitions
    keyed = np.where(columns.keys.lengths < 0, turn, murmur2(columns.keys) & 0x7FFFFFFF) % most
    return np.where(given == UNGIVEN, keyed, given)


def check_partitions(columns: Columns, counts: Mapping[str, int]) -> I64:
    """Returns the partition count of each row's topic: int64 (n,). `counts`: the same by topic.

    Raises NotFound: a topic does not exist; BadRequest: a row names a partition that its topic lacks. Nothing was
    written.
    """
    for topic in columns.topics:
        if counts.get(topic, 0) < 1:
            raise NotFound(f"there is no Kafka topic {topic!r}; nothing was written")
    most = np.array([counts[topic] for topic in columns.topics], np.int64)[columns.topic_of]
    given = columns.partitions
    if (wrong := np.flatnonzero((given != UNGIVEN) & ((given < 0) | (given >= most)))).size:
        row = int(wrong[0])
        topic = columns.topics[int(columns.topic_of[row])]
        raise BadRequest(
            f"row {row} names partition {int(given[row])} of topic {topic!r}, which has {int(most[row])}, "
            "numbered from 0; nothing was written"
        )
    return most


def murmur2(keys: Field) -> I64:
    """Hashes each key as Kafka's Java producer does: int64 (n,), 0 to 2^32 − 1; 0 for a null key."""
    data, hashes = keys.data.view(), np.zeros(len(keys.lengths), np.int64)
    data.flags.writeable = False
    _murmur2(data, np.ascontiguousarray(keys.starts), np.ascontiguousarray(keys.lengths), hashes)
    return hashes


@compiled
def _murmur2(data: U8, starts: I64, lengths: I64, hashes: I64) -> None:
    for row in range(len(starts)):
        length, at = lengths[row], starts[row]
        if length < 0:
            continue
        state = _SEED ^ np.uint64(length)
        for _ in range(length >> 2):
            word = np.uint64(data[at])
            word |= np.uint64(data[at + 1]) << np.uint64(8)
            word |= np.uint64(data[at + 2]) << np.uint64(16)
            word |= np.uint64(data[at + 3]) << np.uint64(24)
            word = (word * _TIMES) & _WORD
            word ^= word >> np.uint64(24)
            word = (word * _TIMES) & _WORD
            state = ((state * _TIMES) & _WORD) ^ word
            at += 4
        left = length & 3
        if left:
            for place in range(left):
                state ^= np.uint64(data[at + place]) << np.uint64(8 * place)
            state = (state * _TIMES) & _WORD
        state ^= state >> np.uint64(13)
        state = (state * _TIMES) & _WORD
        hashes[row] = state ^ (state >> np.uint64(15))


def warm_up() -> None:
    """Compiles the kernel, or loads it from the cache."""
    murmur2(Field(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64)))


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of one partition. `rows`: int64, their indices, ascending; `records`: their records."""

    partition: Partition
    rows: I64
    records: Records


def shares(
    columns: Columns, counts: Mapping[str, int], turn: int, marks: Sequence[tuple[str, Field]] = ()
) -> list[Share]:
    """Splits rows by topic and partition. `counts`, `turn`, errors: as `partitions_of`.

    `marks`: names and fields, of n values each, of headers that are added after the rows' own.
    """
    partitions = partitions_of(columns, counts, turn)
    if not len(partitions):
        return []
    places = columns.topic_of * (int(partitions.max()) + 1) + partitions
    # The smallest type: NumPy uses radix sort up to 16 bits.
    order = np.argsort(places.astype(np.min_scalar_type(places.max())), kind="stable")
    edges = np.flatnonzero(np.diff(places[order])) + 1
    found = []
    for first, end in pairwise([0, *edges.tolist(), len(order)]):
        rows = order[first:end]
        topic = columns.topics[int(columns.topic_of[rows[0]])]
        found.append(Share(Partition(topic, int(partitions[rows[0]])), rows, records_of(columns, rows, marks)))
    return found


def records_of(columns: Columns, rows: I64 | slice, marks: Sequence[tuple[str, Field]]) -> Records:
    """Returns the records of some rows, in the order of `rows`; `marks` as in `shares`."""
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
