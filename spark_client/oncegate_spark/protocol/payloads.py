"""Payloads that accompany ids: the gateway keeps 32 bits of each and answers CONFLICT when a
written id comes again with a different payload.

Two records under one id are a bug of their source: one is written, and the other would be lost silently.
"""

import logging
from collections.abc import Mapping, Sequence

import pyarrow as pa

from oncegate_spark.errors import BadId, BadOption, Outcome, PayloadConflict
from oncegate_spark.protocol.ids import ID_TYPES, Ids, columns_in, is_id, listed

log = logging.getLogger("oncegate_spark")
SHOWN, SHOWN_CHARS = 5, 80
ON_CONFLICT = ("fail", "drop")  # actions for an id with another payload than before


def payload_columns(columns: Mapping[str, pa.Array]) -> list[pa.Array]:
    """Encodes payload columns like ids, except that null and empty are ordinary values.

    Raises BadOption for types that cannot be ids either.
    """
    arrays = []
    for name, raw in columns.items():
        column = raw.combine_chunks() if isinstance(raw, pa.ChunkedArray) else raw
        column = column.cast(pa.string()) if pa.types.is_integer(column.type) else column
        column = column.cast(pa.string()) if pa.types.is_null(column.type) else column
        if not is_id(column.type):
            raise BadOption(
                f"payload column {name} is of type {column.type}; payloads must be {ID_TYPES}: cast it to one of "
                "these; "
                "nothing was written"
            )
        arrays.append(column)
    return arrays


def beside(ids: int, payloads: Ids | None) -> list[pa.Array]:
    """Returns the payload columns for `ids` ids, from any accepted type. Raises BadOption if their numbers differ."""
    if payloads is None:
        return []
    try:
        values = listed(payloads)
    except BadId as error:
        raise BadOption(f"payloads have the same types as ids: {error}") from error
    columns = payload_columns(columns_in(values, "payloads", BadOption))
    if any(len(column) != ids for column in columns):
        raise BadOption(f"{len(columns[0])} payloads for {ids} ids; each id needs one payload; nothing was written")
    return columns


def checked(on_conflict: str) -> str:
    """Returns `fail` or `drop`. Raises BadOption for anything else."""
    if on_conflict not in ON_CONFLICT:
        raise BadOption(f"on_conflict is {on_conflict!r}; it is one of {', '.join(ON_CONFLICT)}; nothing was written")
    return on_conflict


def named(ids: Sequence[str], payloads: Sequence[str]) -> str:
    """Names the columns of a conflict in an error message."""
    return f"id column {', '.join(ids)}, payload {', '.join(payloads)}"


def summary(columns: Sequence[pa.Array], conflicting: pa.BooleanArray) -> str:
    """Describes the conflicts: their number and the first few ids."""
    rows = zip(*(column.filter(conflicting).slice(0, SHOWN).to_pylist() for column in columns), strict=True)
    shown = ", ".join(repr(row[0] if len(columns) == 1 else row)[:SHOWN_CHARS] for row in rows)
    count = conflicting.true_count
    return f"{count} of {len(conflicting)} ids came with another payload than before, the first: {shown}"


_OF_IDS = "give the other an id of its own"
OF_SEQUENCES = (
    "if the source numbers its records again, as a topic that was deleted and created again does, write under another "
    "producer name (in Spark assign_sequences with another prefix)"
)


def conflict(
    columns: Sequence[pa.Array], conflicting: pa.BooleanArray, written: int, what: str, mends: str = _OF_IDS
) -> PayloadConflict:
    """Returns the error for conflicting ids.

    Args:
        written: number of rows that were written
        what: the columns, for the message
        mends: the remedy, for the message
    """
    outcome = Outcome.WRITTEN if written else Outcome.NOT_WRITTEN
    ending = f"{written} other rows were written" if written else outcome.value
    return PayloadConflict(
        f"{what}: {summary(columns, conflicting)}. Only one of the two is written. Two records under one id are a bug "
        "of "
        f"their source: find out which is right and {mends}, or drop the second "
        f'(onConflict "drop", on_conflict="drop"); {ending}',
        outcome=outcome,
        count=conflicting.true_count,
    )


def dropped(columns: Sequence[pa.Array], conflicting: pa.BooleanArray, what: str) -> None:
    """Logs rows dropped under onConflict=drop."""
    log.warning("%s: %s; dropped as duplicates (onConflict=drop)", what, summary(columns, conflicting))
