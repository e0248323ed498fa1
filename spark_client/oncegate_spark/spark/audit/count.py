"""Counts the duplicates in rows that are there already: with one Spark action, and without a gateway.

For whoever doubts that retries have written anything twice: a table, or a folder of files, and the column that should
be an id are all it takes. Nothing is written and nothing leaves Spark but the counts and one id.
"""

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.protocol.columns import Columns, column_names
from oncegate_spark.spark.audit.report import APART_S, COPIES, Apart, Audit, Copies
from oncegate_spark.spark.options.column_names import is_case_sensitive, resolved
from oncegate_spark.spark.writers import check_ids

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TIMES = {"timestamp", "timestamp_ntz", "date"}
# Of values in the names of folders, as order=00501.
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_TEXT_OPTIONS = {"json": ("primitivesAsString",), "csv": ("inferSchema",), "xml": ("inferSchema",)}
UNKNOWN, LONGER = -1, len(APART_S)  # beside the numbers of APART_S


def audit(
    df_or_path: "DataFrame | str", id_col: Columns, *, time_col: str | None = None, format: str = "parquet"
) -> Audit:
    """Counts the duplicates in a DataFrame, or in the files of a path: how many, how many copies, how far apart.

    id_col    the column, or columns, that should be a row's id: as a write takes it. Rows without one, null or
              empty, are counted for themselves, and are nobody's duplicates
    time_col  a timestamp or date: when a row was written. Of a path it is the time of a row's file where none is given;
              of a DataFrame the distances are not known then
    format    what the path holds, as `spark.read.format` takes it; values of json, csv and xml, and those in the names
              of folders, are the text that they are

    Reads every row once, two columns of it, with one shuffle by id; asks no gateway and writes nothing. `print` shows
    it as tables and bars, a notebook as a picture. Raises BadOption, BadId and Refused (a stream) before a job starts.
    """
    df, time = _read(df_or_path, time_col, format)
    names = resolved(column_names(id_col), df.columns, is_case_sensitive(df.sparkSession))
    if not names:
        raise BadOption('audit needs to know a row again; give id_col="<column>[,<column>]"')
    if df.isStreaming:
        raise Refused("audit counts what is there, and a stream has no end: give spark.read for spark.readStream")
    check_ids(names, df.schema, "id_col")
    return _report(_buckets(df, names, time).collect(), time is not None)


def _read(df_or_path: "DataFrame | str", time_col: str | None, kind: str) -> tuple["DataFrame", "Column | None"]:
    """The rows, and when each was written, as far as that is known. Raises BadOption."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    df, time = df_or_path, None
    if isinstance(df, str):
        spark = SparkSession.getActiveSession()
        if spark is None:
            raise BadOption("audit of a path needs a Spark session that is active here; or give spark.read.load(path)")
        df, time = _loaded(spark, df, kind), F.col("_metadata.file_modification_time")
    if time_col is None:
        return df, time
    types = {field.name: field.dataType.typeName() for field in df.schema.fields}
    if time_col not in types:
        raise BadOption(f"time_col names {time_col}, and the rows have {', '.join(types)}")
    if types[time_col] not in TIMES:
        raise BadOption(
            f"time_col names {time_col}, which is of type {types[time_col]}; it is a timestamp or a date: "
            f'df.withColumn("{time_col}", F.col("{time_col}").cast("timestamp"))'
        )
    return df, F.col(_quoted(time_col))


def _loaded(spark: "SparkSession", path: str, kind: str) -> "DataFrame":
    """The files of a path. Text has no types but text: those that Spark infers depend on all rows and folders."""
    exact = {name: "false" if name == "inferSchema" else "true" for name in _TEXT_OPTIONS.get(kind.lower(), ())}
    before = spark.conf.get(_INFERENCE)
    spark.conf.set(_INFERENCE, "false")
    try:
        return spark.read.format(kind).options(**exact).load(path)
    finally:
        spark.conf.set(_INFERENCE, before)


def _buckets(df: "DataFrame", names: tuple[str, ...], time: "Column | None") -> "DataFrame":
    """A row for each number of copies (of COPIES) and distance (of APART_S) that there is; `copies` null: no id."""
    from pyspark.sql import functions as F

    kinds = {name: df.schema[name].dataType.typeName() for name in names}
    ids = [F.col(_quoted(name)) for name in names]
    lacking = reduce(or_, (column.isNull() for column in ids))
    if all(kind in {"string", "binary", "char", "varchar"} for kind in kinds.values()):
        lacking = lacking | reduce(and_, (F.length(column) == 0 for column in ids))
    key = F.when(~lacking, F.struct(*(column.alias(name) for name, column in zip(names, ids, strict=True))))
    at = F.lit(None).cast("timestamp") if time is None else time.cast("timestamp")
    by_id = df.select(key.alias("id"), F.unix_micros(at).alias("at")).groupBy("id")
    groups = by_id.agg(F.count(F.lit(1)).alias("n"), (F.max("at") - F.min("at")).alias("apart"))
    copies = F.when(F.col("id").isNotNull(), _bucket(F.col("n"), COPIES))
    apart = F.when(F.col("n") > 1, F.coalesce(_distance(F.col("apart")), F.lit(UNKNOWN)))
    most = F.max(F.when(F.col("id").isNotNull(), F.struct("n", F.to_json("id").alias("id"))))
    return groups.groupBy(copies.alias("copies"), apart.alias("apart")).agg(
        F.count(F.lit(1)).alias("ids"), F.sum("n").alias("rows"), most.alias("most"), F.max("apart").alias("longest")
    )


def _bucket(number: "Column", least: tuple[int, ...]) -> "Column":
    """The greatest of `least` that is not above the number."""
    from pyspark.sql import functions as F

    return reduce(lambda otherwise, low: F.when(number >= low, F.lit(low)).otherwise(otherwise), least, F.lit(None))


def _distance(micros: "Column") -> "Column":
    """The first of APART_S that is not below it, by its number; LONGER above all of them; null for null."""
    from pyspark.sql import functions as F

    distance: Any = F.when(micros.isNotNull(), F.lit(LONGER))
    for number in reversed(range(len(APART_S))):
        distance = F.when(micros <= APART_S[number] * 1_000_000, F.lit(number)).otherwise(distance)
    return distance


def _report(rows: list[Any], is_timed: bool) -> Audit:
    """The sums of what `_buckets` has found."""
    with_id = [row for row in rows if row["copies"] is not None]
    repeated = [row for row in with_id if row["apart"] is not None]
    most = max(((row["most"]["n"], row["most"]["id"]) for row in repeated), default=(0, ""))
    copies = tuple(
        Copies(low, *(sum(row[what] for row in with_id if row["copies"] == low) for what in ("ids", "rows")))
        for low in COPIES
    )
    apart = tuple(
        Apart(number if number >= 0 else None, *_ids_and_duplicates(repeated, number))
        for number in (*range(LONGER + 1), UNKNOWN)
    )
    longest = [row["longest"] for row in repeated if row["longest"] is not None]
    return Audit(
        rows=sum(row["rows"] for row in rows),
        without_id=sum(row["rows"] for row in rows if row["copies"] is None),
        copies=tuple(bucket for bucket in copies if bucket.ids),
        apart=tuple(bucket for bucket in apart if bucket.ids) if is_timed else None,
        longest_apart_s=max(longest) / 1_000_000 if longest else None,
        most_copies=most[0],
        most_copied=most[1],
    )


def _ids_and_duplicates(repeated: list[Any], number: int) -> tuple[int, int]:
    those = [row for row in repeated if row["apart"] == number]
    ids = sum(row["ids"] for row in those)
    return ids, sum(row["rows"] for row in those) - ids


def _quoted(name: str) -> str:
    """A column's name that may have dots in it."""
    return f"`{name.replace('`', '``')}`"
