"""Encodes columns of a Spark DataFrame as one column of values, batch by batch, on Spark's workers."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oncegate_spark.formats.values import Format, encode

if TYPE_CHECKING:
    from pyspark.sql import Column


def column(how: Format, *names: "str | Column") -> "Column":
    """Returns a column of bytes: these columns of each row, encoded; a single struct column encodes its fields.

    A null struct gives null, a tombstone. A row that does not fit ends its task with BadOption, which says why.
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    is_struct = len(names) == 1 and isinstance(names[0], Column)
    content = names[0] if is_struct else F.struct(*names)

    def encoded(rows: pa.Array) -> pa.Array:
        return encode(how, rows)

    udf: Any = F.arrow_udf(encoded, "binary")
    made: Column = udf(content)
    return made
