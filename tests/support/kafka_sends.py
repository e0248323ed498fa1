"""Rows that test ledgers send to users' topics."""

from itertools import count
from typing import Any

import pyarrow as pa

from oncegate.ports import SendRanges, WriteRange

_ids = count()


def table_of(*values: str) -> Any:
    return pa.table({"value": list(values)})


def range_of(*values: str) -> WriteRange:
    """Returns rows as a request brings them, with a new range id."""
    table = table_of(*values)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return WriteRange(next(_ids).to_bytes(16, "big"), "s", table.num_rows, sink.getvalue().to_pybytes())


def sent(topic: str, *ranges: WriteRange) -> SendRanges:
    return SendRanges(topic, tuple(one.range_id for one in ranges))
