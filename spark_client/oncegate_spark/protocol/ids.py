"""Ids in whatever form a program has them, as columns."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import BadId
from oncegate_spark.protocol import codecs

_ARROW = pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table
Ids = Iterable[Any]  # str, bytes, int, or tuples of them; an Arrow array; a table of the id columns


def listed(ids: Ids) -> Any:
    """Ids that can be gone through twice: an Arrow array or table as it is, else a list."""
    if isinstance(ids, str | bytes):
        raise BadId(f"ids are given as a list, and {ids[:20]!r} is one of them; nothing was written")
    return ids if isinstance(ids, _ARROW) else list(ids)


def id_columns(ids: Any) -> list[pa.Array]:
    """Columns of equal length, from what `listed` gives. Raises BadId where they cannot be ids; nothing was sent."""
    if isinstance(ids, pa.RecordBatch | pa.Table):
        return codecs.id_columns({name: ids.column(n) for n, name in enumerate(ids.schema.names)})
    if isinstance(ids, pa.Array | pa.ChunkedArray):
        return codecs.id_columns({"id": ids})
    if ids and isinstance(ids[0], tuple):
        if any(not isinstance(one, tuple) or len(one) != len(ids[0]) for one in ids):
            raise BadId("ids of several columns are tuples of one length; nothing was written")
        return codecs.id_columns({f"id[{n}]": array_of(part) for n, part in enumerate(zip(*ids, strict=True))})
    return codecs.id_columns({"id": array_of(ids)})


def array_of(values: Any) -> pa.Array:
    """Values of one type as an Arrow array. Raises BadId."""
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadId(f"ids must be of one type, all str or all bytes: {error}; nothing was written") from error
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array
