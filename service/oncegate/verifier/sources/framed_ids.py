"""Finds ids inside Kafka's values behind the number of their schema: what is the same for Avro and Protobuf.

The frame is Confluent's wire format: a zero byte, the schema's number in 4 bytes, big-endian, then what is encoded
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from oncegate.core.errors import BadRequest

# From a whole value to its ids, in the order of their names; None: it is no such value.
ReadIds = Callable[[bytes], Sequence[object] | None]
HEAD_BYTES = 5
ID_TYPES = "texts, bytes or whole numbers"
# As many as the registry's client keeps.
SCHEMAS_MAX = 1_000


def finder(names: Sequence[str], reader: Callable[[int], ReadIds]) -> Callable[[Sequence[Any]], pa.Table]:
    """Returns what finds the ids of records. `reader`: makes what reads the values of a schema's number, once for each.

    A value without a number, or that is not such a value, has null ids. A BadRequest is raised with the place of the
    record that it came with.
    """
    reader = lru_cache(SCHEMAS_MAX)(reader)

    def found(records: Sequence[Any]) -> pa.Table:
        rows = [_ids(record, reader) for record in records]
        columns = [[None if row is None else _bytes(row[n]) for row in rows] for n in range(len(names))]
        return pa.table([pa.array(column, pa.binary()) for column in columns], list(names))

    return found


def _ids(record: Any, reader: Callable[[int], ReadIds]) -> Sequence[object] | None:
    value = record.value
    if value is None or len(value) < HEAD_BYTES or value[0]:
        return None
    try:
        return reader(int.from_bytes(value[1:HEAD_BYTES], "big"))(value)
    except BadRequest as error:
        where = f"the value at offset {record.offset} of partition {record.partition}"
        raise BadRequest(f"{where}: {error.detail}") from error


def _bytes(value: object) -> bytes | None:
    """An id as every door of the gateway takes it: text and its bytes are one, a number is its decimal text."""
    if value is None or isinstance(value, bytes):
        return value
    assert isinstance(value, str | int), "other types are refused with their schema"
    return str(value).encode(errors="surrogatepass")
