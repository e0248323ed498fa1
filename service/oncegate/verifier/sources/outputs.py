"""Reads a topic in the gateway's own ledger as the output, by partition, up to its end as of the start of reading."""

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
    """Some rows of one partition. ids: text or bytes, null for a row without one; offsets: int64 (n,)."""

    ids: pa.Table
    offsets: I64
    next_offset: int


class Output(Protocol):
    """Reads the rows of one topic."""

    def bounds(self) -> Bounds:
        """Returns for each partition its first offset, and its end offset of committed rows."""

    def parts(self, partition: int, first: int, end: int) -> Iterator[OutputPart]:
        """Yields the rows from `first` to before `end`, in order, each once."""

    def close(self) -> None:
        """Closes the output's connections."""


def checked(bounds: Bounds) -> Bounds:
    """Returns the offset bounds of each partition. Raises TooLarge if there are more partitions than row codes can
    hold.
    """
    if len(bounds) > PARTITIONS_MAX:
        raise TooLarge(f"the topic has {len(bounds)} partitions; at most {PARTITIONS_MAX} can be compared")
    return bounds


class GatewayTopic:
    """Reads a topic of the gateway's own ledger; an `Output`. names: the id columns."""

    def __init__(self, gateway: GatewayClient, topic: str, names: list[str]) -> None:
        self._gateway, self._topic, self._names = gateway, topic, names

    def bounds(self) -> Bounds:
        return checked(self._gateway.topic(self._topic))

    def parts(self, partition: int, first: int, end: int) -> Iterator[OutputPart]:
        """Yields the rows from the gateway. Raises BadRequest if they lack the id columns."""
        while first < end:
            rows = min(BATCH_ROWS, end - first)
            table, following = self._gateway.fetch(self._topic, partition, first, rows, self._names)
            if following <= first:
                raise BadRequest(f"partition {partition} of {self._topic} returned no rows from offset {first} on")
            offsets = np.arange(first, first + len(table), dtype=np.int64)
            yield OutputPart(as_ids(table, self._names), offsets, following)
            first = following

    def close(self) -> None:
        """Leaves the gateway's connection open, since it is shared."""
