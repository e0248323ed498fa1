"""Makes of id columns what the ledger knows them by, in Spark: text, or bytes where the input has bytes.

The gateway makes the same text of a column of the type itself when rows are written; docs/concepts.md has its form.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TEXT, BYTES = KINDS = "string", "binary"


def kinds_of(df: "DataFrame", names: Sequence[str]) -> tuple[str, ...]:
    """Tells of each id column of the input whether it is compared as text or as bytes, which may be no text."""
    return tuple(BYTES if df.schema[name].dataType.typeName() == BYTES else TEXT for name in names)


def texts(df: "DataFrame", names: Sequence[str], kinds: Sequence[str]) -> "DataFrame":
    """Returns the id columns as `kinds` says, under names of ours, `id0` and so on."""
    columns = [_text(name, df.schema[name].dataType).cast(kind) for name, kind in zip(names, kinds, strict=True)]
    return df.select(*(column.alias(f"id{n}") for n, column in enumerate(columns)))


def _text(name: str, kind: Any) -> "Column":
    """The column, as the canonical text where Spark's own text of it is another one, by scale or time zone."""
    from pyspark.sql import functions as F

    quoted = f"`{name.replace('`', '``')}`"
    match kind.typeName():
        case "decimal":
            digits = "0" + ("." + "#" * kind.scale if kind.scale else "")
            return F.expr(f"format_number({quoted}, '{digits}')")
        case "timestamp":
            # By its microseconds: a text of a time in the session's zone is of two instants where summer ends.
            seconds = f"CAST(unix_micros({quoted}) AS DECIMAL(20, 0)) / 1000000"
            utc = f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, CAST({seconds} AS DECIMAL(18, 6)))"
            return F.concat(F.translate(F.expr(utc).cast(TEXT), " ", "T"), F.lit("Z"))
        case "timestamp_ntz":
            return F.translate(F.col(quoted).cast(TEXT), " ", "T")
    return F.col(quoted)
