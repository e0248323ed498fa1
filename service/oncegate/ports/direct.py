"""Defines the records that clients commit with rows that they write themselves, where a ledger has room for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LanePlace:
    """Says with what a client writes as one lane.

    ledger: the id of the ledger, 16 bytes, which each record names. brokers: where both topics are. topic, partition:
    where the records go. transactional_id: the lane's own; a producer that starts it fences the one before.
    """

    ledger: bytes
    brokers: str
    topic: str
    partition: int
    transactional_id: str


class DirectRecords(Protocol):
    """Reads and trims the records of lanes (`TopicsElsewhere.direct`); never written by the gateway."""

    partitions: int

    def place(self, lane: int, partition: int) -> LanePlace:
        """Returns with what a client writes as this lane, whose records are in this partition."""

    async def read(self, partition: int, first: int) -> Sequence[tuple[int, bytes]]:
        """Returns the records from an offset on that are committed, with their offsets, up to the end that the
        partition has at the call, what is not committed included: so it waits for transactions that are open there.

        Raises:
            LedgerFull: it cannot be read to that end now; nothing is known.
            LedgerDamaged: records from `first` on are gone, or the partition ends before.
        """

    async def trim(self, before: Mapping[int, int]) -> None:
        """Deletes the records before an offset of each partition. LedgerFull: some may be deleted."""
