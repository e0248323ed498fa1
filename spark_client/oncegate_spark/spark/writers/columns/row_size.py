"""Finds on the driver that no row of a schema is small enough for the gateway: by its types, before any value."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import NOTHING, Refused
from oncegate_spark.spark.writers.columns.planning import arrow_schema


def least_size(schema: Any) -> tuple[int, int]:
    """Columns, with those inside of others, and the bytes that every row takes at least, nulls too.

    Zeros where only Spark knows. Text, binary, lists and maps may be empty.
    """
    columns = arrow_schema(schema)
    sizes = [_least(field.type) for field in columns or ()]
    return sum(leaves for leaves, _ in sizes), sum(size for _, size in sizes)


def check_size(columns: int, size_bytes: int, limits: Mapping[str, Any]) -> None:
    """Raises Refused where the gateway takes no such row. `limits`: as GET /v1/limits has them."""
    columns_max, bytes_max = limits["columns_per_request"], limits["record_bytes"]
    if columns > columns_max:
        raise Refused(
            f"the rows have {columns} columns, with those inside of others, and the gateway takes {columns_max}: "
            f"put some together in a map or a text, or raise columns_per_request there{NOTHING}",
            code="TOO_LARGE",
        )
    if size_bytes > bytes_max:
        raise Refused(
            f"each row takes {size_bytes} bytes at least by its types, and the gateway takes {bytes_max} a record: "
            f"leave columns out, or raise record_bytes there{NOTHING}",
            code="TOO_LARGE",
        )


def _least(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_struct(kind):
        inside = [_least(field.type) for field in kind.fields]
        return sum(leaves for leaves, _ in inside), sum(size for _, size in inside)
    if pa.types.is_map(kind):
        return _least(kind.key_type)[0] + _least(kind.item_type)[0], 0
    if pa.types.is_list(kind):
        return _least(kind.value_type)[0], 0
    try:
        return 1, -(-kind.bit_width // 8)
    except ValueError:  # of no fixed width
        return 1, 0
