"""The ledger's entries about lanes, whose rows clients write into Kafka themselves; kinds of `entries.Entry`."""

from dataclasses import dataclass
from typing import ClassVar

from oncegate.core.entries.fields import U32, U64, Blob, Text


@dataclass(frozen=True, slots=True)
class LaneOpened:
    """Makes a lane, for ever: the sequences of one producer in one topic, which is written by lanes only from now on.

    partition: where its records stand in the ledger's own topic of them."""

    KIND: ClassVar[int] = 29
    lane: U64
    topic: Text
    producer: Text
    partition: U32
    wall_ms: U64


@dataclass(frozen=True, slots=True)
class LaneWritten:
    """Enters a record that a client has committed with its rows: these sequences are written. An ack is one too, of all
    from 0 on, at the offset of the last record.

    offset: of the record in its lane's partition; those before it are entered, or were no records. `spans`: inclusive,
    first and last u64 each, sorted and disjoint."""

    KIND: ClassVar[int] = 30
    lane: U64
    offset: U64
    spans: Blob
    wall_ms: U64
