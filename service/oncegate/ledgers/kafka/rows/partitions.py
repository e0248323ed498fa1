"""Says which partition each row goes to: the one that it names, its key's by Kafka's own hash, or the turn's.

The hash is MurmurHash2 by Austin Appleby with the seed of Kafka's Java producer
(`org.apache.kafka.common.utils.Utils.murmur2`), so that equal keys of other producers meet in one partition. As there,
a key that is empty is hashed, and a row without a key goes where the turn says.
"""

from collections.abc import Mapping

import numpy as np

from oncegate.arraytypes import I64, U8
from oncegate.compilation import compiled
from oncegate.core.errors import BadRequest, NotFound
from oncegate.ledgers.kafka.record_batch import Field
from oncegate.ledgers.kafka.rows.contract import UNGIVEN, Columns

_SEED = np.uint64(0x9747B28C)
_TIMES = np.uint64(0x5BD1E995)
_WORD = np.uint64(0xFFFFFFFF)


def partitions_of(columns: Columns, counts: Mapping[str, int], turn: int) -> I64:
    """Chooses the partition of each row: int64 (n,). `counts`: how many each topic has. `turn`: of rows without a key.

    Raises as `check_partitions`.
    """
    most, given = check_partitions(columns, counts), columns.partitions
    keyed = np.where(columns.keys.lengths < 0, turn, murmur2(columns.keys) & 0x7FFFFFFF) % most
    return np.where(given == UNGIVEN, keyed, given)


def check_partitions(columns: Columns, counts: Mapping[str, int]) -> I64:
    """Returns how many partitions the topic of each row has: int64 (n,). `counts`: the same by topic.

    Raises NotFound: a topic is not there; BadRequest: a row names a partition that its topic has not. Nothing was
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
    """Hashes each key as Kafka's Java producer does: int64 (n,) from 0 to 2^32 − 1, of a null key 0."""
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
    """Compiles the loop, or loads what was compiled."""
    murmur2(Field(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64)))
