"""Selects the columns of an id, a payload or a key, checks them, and converts numbers and times to text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest
from oncegate.engine.requests import Rows
from oncegate.hashing.id_text import as_text
from oncegate.hashing.rows import RowFingerprinter

ID_TYPES = "strings, binary, whole numbers, decimals, dates or timestamps"
# More than any real key has; each column costs arrays as long as the request.
COLUMNS_MAX = 16


def split_names(text: str | None) -> list[str]:
    """Splits a comma-separated list of column names and strips spaces. None gives an empty list.

    Raises BadRequest for an empty name, or one that appears twice.
    """
    names = [] if text is None else [name.strip() for name in text.split(",")]
    if "" in names:
        raise BadRequest(f"a column without a name in the list {text!r}; leave the parameter out to name none")
    return check_distinct(names, "a column")


def check_key(names: list[str], what: str) -> list[str]:
    """Checks the column names of an id, key or payload, and returns them unchanged.

    Raises BadRequest for more than COLUMNS_MAX names, or one that appears twice.
    """
    check_width(len(names), what)
    return check_distinct(names, what)


def check_width(columns: int, what: str) -> None:
    """Raises BadRequest for more columns than an id, a key or a payload may have."""
    if columns > COLUMNS_MAX:
        raise BadRequest(f"{what} has {columns} columns; at most {COLUMNS_MAX} are taken")


def check_distinct(names: list[str], what: str) -> list[str]:
    """Returns the names unchanged; raises BadRequest if a name appears twice."""
    if len(set(names)) < len(names):
        raise BadRequest(f"{what} is named twice: {', '.join(names)[:200]}")
    return names


def check_present(names: Sequence[str], present: Sequence[str], what: str) -> None:
    """Raises BadRequest for the first name that is not among the rows' columns."""
    for name in names:
        if name not in present:
            raise BadRequest(f"{what} names {name!r}, and the rows have {', '.join(present)}")


def is_id(kind: Any) -> bool:
    """Returns whether a column of this Arrow type can be an id without conversion: text or bytes."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds) or bool(pa.types.is_fixed_size_binary(kind))


def id_column(table: pa.Table, name: str) -> Any:
    """Returns one column in one chunk; numbers, dates and times become their canonical text.

    Raises BadRequest as `as_text`.
    """
    return as_text(table[name].combine_chunks(), name)


def key_hashes(rows: Rows, names: list[str], fingerprinter: RowFingerprinter) -> NDArray[np.uint64] | None:
    """Hashes each row's key, which chooses its partition: uint64[rows]; None without key columns.

    Raises BadRequest for a missing column, for too many columns, or for one named twice.
    """
    check_present(check_key(names, "key_col"), rows.schema.names, "key_col")
    if not names:
        return None
    found = [fingerprinter.keys_of(batch, names) for batch in rows.batches]
    return np.concatenate([np.zeros(0, np.uint64), *found])
