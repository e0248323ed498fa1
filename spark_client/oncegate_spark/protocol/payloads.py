"""What ids come with: the gateway keeps 32 bits of it, and says CONFLICT when a written id comes with something else.

Two things under one id are a bug of whoever made them: one is written, the other would be lost without a word.
"""

import logging
from collections.abc import Mapping, Sequence

import pyarrow as pa

from oncegate_spark.errors import BadId, BadOption, Outcome, PayloadConflict
from oncegate_spark.protocol.ids import ID_TYPES, Ids, columns_in, is_id, listed

log = logging.getLogger("oncegate_spark")
SHOWN, SHOWN_CHARS = 5, 80
ON_CONFLICT = ("fail", "drop")  # what may be done with an id that comes with another payload


def payload_columns(columns: Mapping[str, pa.Array]) -> list[pa.Array]:
    """The bytes that payloads are known by: as ids', but null and empty are values like any other.

    Raises BadOption for a type that ids do not have either.
    """
    arrays = []
    for name, raw in columns.items():
        column = raw.combine_chunks() if isinstance(raw, pa.ChunkedArray) else raw
        column = column.cast(pa.string()) if pa.types.is_integer(column.type) else column
        column = column.cast(pa.string()) if pa.types.is_null(column.type) else column
        if not is_id(column.type):
            raise BadOption(
                f"payload column {name} is of type {column.type}; payloads are {ID_TYPES}: cast it to one of these; "
                "nothing was written"
            )
        arrays.append(column)
    return arrays


def beside(ids: int, payloads: Ids | None) -> list[pa.Array]:
    """What comes with so many ids, in whatever form a program has it. Raises BadOption for another number of them."""
    if payloads is None:
        return []
    try:
        values = listed(payloads)
    except BadId as error:
        raise BadOption(f"payloads are of the same forms as ids: {error}") from error
    columns = payload_columns(columns_in(values, "payloads", BadOption))
    if any(len(column) != ids for column in columns):
        raise BadOption(f"{len(columns[0])} payloads for {ids} ids; each id needs its own; nothing was written")
    return columns


def checked(on_conflict: str) -> str:
    """`fail` or `drop`. Raises BadOption."""
    if on_conflict not in ON_CONFLICT:
        raise BadOption(f"on_conflict is {on_conflict!r}; it is one of {', '.join(ON_CONFLICT)}; nothing was written")
    return on_conflict


def named(ids: Sequence[str], payloads: Sequence[str]) -> str:
    """Where a conflict stands, for a person."""
    return f"id column {', '.join(ids)}, payload {', '.join(payloads)}"


def summary(columns: Sequence[pa.Array], conflicting: pa.BooleanArray) -> str:
    """How many ids came with other payloads, and the first of them."""
    rows = zip(*(column.filter(conflicting).slice(0, SHOWN).to_pylist() for column in columns), strict=True)
    shown = ", ".join(repr(row[0] if len(columns) == 1 else row)[:SHOWN_CHARS] for row in rows)
    count = conflicting.true_count
    return f"{count} of {len(conflicting)} ids came with another payload than before, the first: {shown}"


_OF_IDS = "give the other an id of its own"
OF_SEQUENCES = (
    "where the source numbers its records again, as a topic that was created again does, write under another "
    "producer's name (in Spark assign_sequences with another prefix)"
)


def conflict(
    columns: Sequence[pa.Array], conflicting: pa.BooleanArray, written: int, what: str, mends: str = _OF_IDS
) -> PayloadConflict:
    """Returns the error for ids in these columns. written: rows that were written; what: the columns, as text for a
    person; mends: the ways on, as text."""
    outcome = Outcome.WRITTEN if written else Outcome.NOT_WRITTEN
    ending = f"{written} other rows were written" if written else outcome.value
    return PayloadConflict(
        f"{what}: {summary(columns, conflicting)}. One of the two is written; two things under one id are a bug of "
        f"whoever made them: find out which is right and {mends}, or drop what came second "
        f'(onConflict "drop", on_conflict="drop"); {ending}',
        outcome=outcome,
        count=conflicting.true_count,
    )


def dropped(columns: Sequence[pa.Array], conflicting: pa.BooleanArray, what: str) -> None:
    """Log which rows are dropped, as onConflict says."""
    log.warning("%s: %s; dropped as duplicates (onConflict=drop)", what, summary(columns, conflicting))
