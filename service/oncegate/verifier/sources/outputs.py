"""Reads what was written: a topic of the gateway itself, partition by partition up to where it ended at the start."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from oncegate.arraytypes import I64
from oncegate.core.errors import BadRequest, TooLarge
from oncegate.verifier.compare import PARTITIONS_MAX
from oncegate.verifier.ids import BATCH_ROWS, as_ids
from oncegate.verifier.sources.gateway import GatewayClient

Bounds = list[tuple[int, int]]


class OutputPart(NamedTuple):
    """Holds rows of one partition: their ids as text or bytes, null where one has none; offsets int64 (n,)."""

    ids: pa.Table
    offsets: I64
    next_offset: int


class Output(Protocol):
    """Gives what lies in one topic."""

    def bounds(self) -> Bounds:
        """Returns for each partition its first offset, and the one behind the last that is committed."""

    def parts(self, partition: int, first: int, end: int) -> Iterator[OutputPart]:
        """Yields the rows from one offset to before another, in order, each once."""

    def close(self) -> None:
        """Lets go of connections."""


def checked(bounds: Bounds) -> Bounds:
    """Returns the bounds. Raises TooLarge: there are more partitions than places can name."""
    if len(bounds) > PARTITIONS_MAX:
        raise TooLarge(f"the topic has {len(bounds)} partitions; at most {PARTITIONS_MAX} can be compared")
    return bounds


class GatewayTopic:
    """Reads a topic that lies in the gateway's own ledger; an `Output`. `names`: the columns of the rows' ids."""

    def __init__(self, gateway: GatewayClient, topic: str, names: list[str]) -> None:
        self._gateway, self._topic, self._names = gateway, topic, names

    def bounds(self) -> Bounds:
        """Returns the bounds as the gateway tells them."""
        return checked(self._gateway.topic(self._topic))

    def parts(self, partition: int, first: int, end: int) -> Iterator[OutputPart]:
        """Yields the rows as the gateway gives them. Raises BadRequest: their columns have no ids."""
        while first < end:
            rows = min(BATCH_ROWS, end - first)
            table, following = self._gateway.fetch(self._topic, partition, first, rows, self._names)
            if following <= first:
                raise BadRequest(f"partition {partition} of {self._topic} gave no row from offset {first} on")
            offsets = np.arange(first, first + len(table), dtype=np.int64)
            yield OutputPart(as_ids(table, self._names), offsets, following)
            first = following

    def close(self) -> None:
        """Leaves the gateway open: it is asked for more than rows."""
