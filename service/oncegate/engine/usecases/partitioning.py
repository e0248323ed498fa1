"""Assigns rows to partitions, and encodes the Arrow streams that the ledger stores."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncegate.engine.requests import Batch, Rows, Schema

Keys = NDArray[np.uint64]
# Above this size, splitting takes longer than handing it to a thread.
ASIDE_BYTES = 256 << 10


@dataclass(frozen=True, eq=False)
class Share:
    """The part of a request that goes to one partition. row_indices: int64[rows], ascending. data: an Arrow IPC
    stream."""

    partition: int
    row_indices: NDArray[np.int64]
    data: bytes | memoryview


def partition_of(keys: Keys | None, rows: int, partitions: int, turn: int) -> NDArray[np.int64]:
    """Returns the partition of each row, int64[rows]: by the hash of its key or, without keys, one partition for all
    rows, chosen by `turn`."""
    if keys is None:
        return np.full(rows, turn % partitions, np.int64)
    return (keys % np.uint64(partitions)).astype(np.int64)


def shares(rows: Rows, is_granted: NDArray[np.bool_] | None, partition: NDArray[np.int64]) -> list[Share]:
    """Splits the granted rows (all rows if None) by partition, keeping their order. Rows that all go to one partition
    are not copied."""
    chosen = np.arange(rows.rows) if is_granted is None else np.flatnonzero(is_granted)
    if rows.rows == len(chosen) > 0 and (partition == partition[0]).all():
        return [Share(int(partition[0]), chosen, rows.data)]
    parts = []
    for number in np.unique(partition[chosen]).tolist():
        row_indices = chosen[partition[chosen] == number]
        data = rows.data if len(row_indices) == rows.rows else _some_of(rows, row_indices)
        parts.append(Share(number, row_indices, data))
    return parts


async def shares_aside(rows: Rows, partition: NDArray[np.int64]) -> list[Share]:
    """Splits all rows by partition, in a thread if the request is large; the caller must decide on the ids only
    afterwards."""
    if len(rows.data) < ASIDE_BYTES or partition.size == 0 or (partition == partition[0]).all():
        return shares(rows, None, partition)
    return await asyncio.to_thread(shares, rows, None, partition)


def _some_of(rows: Rows, row_indices: NDArray[np.int64]) -> bytes:
    table = pa.Table.from_batches(rows.batches, rows.schema).take(pa.array(row_indices))
    return stream(rows.schema, table.combine_chunks().to_batches())


def selected(rows: Rows, names: Sequence[str]) -> Rows:
    batches = [batch.select(names) for batch in rows.batches]
    schema = pa.schema([rows.schema.field(name) for name in names])
    return replace(rows, schema=schema, batches=batches, data=stream(schema, batches))


def stream(schema: Schema, batches: Sequence[Batch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
