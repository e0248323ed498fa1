"""Rows of the mixed walk: real Arrow, one row per id, with the attempt that sent it."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from oncegate.engine.requests import Rows
from oncegate.engine.usecases.partitioning import stream

SCHEMA = pa.schema([("id", pa.int64()), ("by", pa.string())])


@cache
def rows_of(ids: tuple[int, ...], by: str) -> Rows:
    """Returns the rows of one request."""
    batch = pa.record_batch([pa.array(ids, pa.int64()), pa.array([by] * len(ids))], SCHEMA)
    return Rows(SCHEMA, [batch], len(ids), stream(SCHEMA, [batch]))


@cache
def _read(data: bytes) -> tuple[tuple[int, str], ...]:
    table: Any = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    return tuple(zip(table["id"].to_pylist(), table["by"].to_pylist(), strict=True))


def read(data: bytes) -> Iterator[tuple[int, str]]:
    """Yields (id, sender) of each row of a published range."""
    return iter(_read(data))


def keys_of(ids: tuple[int, ...]) -> Any:
    """Returns the keys of rows. The key is the id: equal ids go to one partition."""
    return np.array(ids, np.uint64)
