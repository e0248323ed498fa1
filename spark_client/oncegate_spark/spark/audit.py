"""Counts the duplicates in existing rows, with one Spark action and without a gateway.

Shows whether retries have written duplicates: it needs only a table, or a folder of files, and the column that should
be an id. Nothing is written, and only the counts and one id leave Spark. Counts are shown as tables and text bars, and
as a picture without any library.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from html import escape
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.protocol.columns import Columns, column_names
from oncegate_spark.spark.options.column_names import is_case_sensitive, resolved
from oncegate_spark.spark.writers import check_ids

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


COPIES = (1, 2, 3, 4, 5, 10, 100, 1_000)  # lower bounds of the rows of the table
APART_S = (0, 1, 60, 3_600, 86_400, 604_800, 2_592_000)  # upper bounds of the distances, in seconds
APART = ("at the same time", "up to 1 second", "up to 1 minute", "up to 1 hour", "up to 1 day", "up to 7 days")
APART_NAMES = (*APART, "up to 30 days", "longer")
BAR = 32  # length of the longest bar in characters
LINE_PX, BAR_PX, BAR_X_PX = 22, 300, 170


@dataclass(frozen=True)
class Copies:
    """Number of ids that have a given number of copies. `least`: from COPIES; the range ends before the next one."""

    least: int
    ids: int
    rows: int

    @property
    def label(self) -> str:
        """Number of copies, or the range, as text."""
        most = dict(zip(COPIES, (*(low - 1 for low in COPIES[1:]), None), strict=True)).get(self.least)
        return (
            f"{self.least:,} or more" if most is None else str(most) if most == self.least else f"{self.least}-{most}"
        )


@dataclass(frozen=True)
class Apart:
    """Number of ids by the time between their first and last row. `bucket`: index in APART_NAMES; None if a time is
    missing.
    """

    bucket: int | None
    ids: int
    duplicates: int

    @property
    def label(self) -> str:
        """Distance as text."""
        return "unknown" if self.bucket is None else APART_NAMES[self.bucket]


@dataclass(frozen=True)
class Audit:
    """Result of an audit.

    rows             all rows
    without_id       rows whose id is null or empty, not counted as duplicates
    copies           number of ids by number of rows
    apart            time between the first and the last row of an id, for ids with two rows or more; None if no
        time is
                     known. A retention of ids longer than that drops all duplicates of the id
    longest_apart_s  the longest of these times, in seconds; None without one
    most_copies      largest number of rows with one id; 0 if no id is repeated
    most_copied      that id, as JSON
    """

    rows: int
    without_id: int
    copies: tuple[Copies, ...]
    apart: tuple[Apart, ...] | None
    longest_apart_s: float | None
    most_copies: int
    most_copied: str

    @property
    def ids(self) -> int:
        """Number of distinct ids."""
        return sum(bucket.ids for bucket in self.copies)

    @property
    def duplicates(self) -> int:
        """Number of rows whose id occurs in several rows, minus one per id: rows to remove so that each id
        occurs once.
        """
        return self.rows - self.without_id - self.ids

    @property
    def repeated_ids(self) -> int:
        """Number of ids in two rows or more."""
        return sum(bucket.ids for bucket in self.copies if bucket.least > 1)

    def __str__(self) -> str:
        return "\n".join([*self._summary(), *(line for name, bars in self._bars() for line in _text(name, bars))])

    def svg(self) -> str:
        """Returns the counts and bars as an SVG picture."""
        lines: list[str] = []
        for text in self._summary():
            lines.append(_svg_text(4, len(lines), text))
        at = len(lines)
        for name, bars in self._bars():
            lines.append(_svg_text(4, at, name))
            lines += _svg_bars(at + 1, bars)
            at += 1 + len(bars)
        size = f'width="760" height="{(at + 1) * LINE_PX}"'
        body = "\n".join(lines)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">\n{body}\n</svg>'
        )

    def _repr_svg_(self) -> str:
        """Returns the picture for notebooks."""
        return self.svg()

    def _summary(self) -> list[str]:
        share = f" ({self.duplicates / self.rows:.2%})" if self.rows else ""
        lines = [f"{self.rows:,} rows, {self.ids:,} ids, {self.duplicates:,} duplicates{share}"]
        if self.without_id:
            lines.append(f"{self.without_id:,} rows have no id (null or empty): they are not counted as duplicates")
        if self.most_copies:
            lines.append(f"most often: {self.most_copied} in {self.most_copies:,} rows")
        if self.apart is None and self.repeated_ids:
            lines.append("the time between copies is unknown: set time_col, or pass the path")
        return lines

    def _bars(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """Returns the two histograms, with title, labels and numbers; empty ones are left out."""
        if not self.repeated_ids:
            return []
        bars = [("ids by number of copies", [(bucket.label, bucket.ids) for bucket in self.copies])]
        if self.apart:
            title = "repeated ids, by the time from first to last copy"
            bars.append((title, [(bucket.label, bucket.ids) for bucket in self.apart]))
        return bars


def _text(title: str, bars: Sequence[tuple[str, int]]) -> list[str]:
    most = max(count for _, count in bars)
    return ["", title, *(f"  {label:<16} {count:>13,} {'#' * _length(count, most, BAR)}" for label, count in bars)]


def _length(count: int, most: int, whole: int) -> int:
    """Returns the length of a bar, at least 1."""
    return max(1, count * whole // most)


def _svg_text(x_px: int, line: int, text: str) -> str:
    return f'<text x="{x_px}" y="{(line + 1) * LINE_PX}">{escape(text)}</text>'


def _svg_bars(at: int, bars: Sequence[tuple[str, int]]) -> list[str]:
    most, lines = max(count for _, count in bars), []
    for line, (label, count) in enumerate(bars, at):
        width, top = _length(count, most, BAR_PX), line * LINE_PX + 9
        lines.append(_svg_text(16, line, label))
        lines.append(f'<rect x="{BAR_X_PX}" y="{top}" width="{width}" height="15" fill="#4477aa"/>')
        lines.append(_svg_text(BAR_X_PX + width + 8, line, f"{count:,}"))
    return lines


TIMES = {"timestamp", "timestamp_ntz", "date"}
# Type inference for values in folder names, such as order=00501.
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_TEXT_OPTIONS = {"json": ("primitivesAsString",), "csv": ("inferSchema",), "xml": ("inferSchema",)}
UNKNOWN, LONGER = -1, len(APART_S)  # besides the indexes of APART_S


def audit(
    df_or_path: "DataFrame | str", id_col: Columns, *, time_col: str | None = None, format: str = "parquet"
) -> Audit:
    """Counts the duplicates in a DataFrame, or in the files of a path: number, copies, and time between copies.

        id_col    column, or columns, that should be a row's id, as for a write. Rows with a null or empty id are
                  counted separately, and are not duplicates
        time_col  a timestamp or date: when a row was written. Defaults to the modification time of the row's file for a
                  path; for a DataFrame the time between copies is unknown then
        format    of the path, as for `spark.read.format`; values of json, csv and xml, and those in folder names, are
                  read as text

    Reads the two columns of every row once, with one shuffle by id; uses no gateway and writes nothing. `print` shows
    tables and bars, a notebook a picture. Raises BadOption, BadId and Refused (for a stream) before a job starts.
    """
    df, time = _read(df_or_path, time_col, format)
    names = resolved(column_names(id_col), df.columns, is_case_sensitive(df.sparkSession))
    if not names:
        raise BadOption('audit needs an id; set id_col="<column>[,<column>]"')
    if df.isStreaming:
        raise Refused("audit needs complete data, and a stream has no end: use spark.read instead of spark.readStream")
    check_ids(names, df.schema, "id_col")
    return _report(_buckets(df, names, time).collect(), time is not None)


def _read(df_or_path: "DataFrame | str", time_col: str | None, kind: str) -> tuple["DataFrame", "Column | None"]:
    """Returns the rows, and the column with their time, if known. Raises BadOption."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    df, time = df_or_path, None
    if isinstance(df, str):
        spark = SparkSession.getActiveSession()
        if spark is None:
            raise BadOption("audit of a path needs an active Spark session here; or pass spark.read.load(path)")
        df, time = _loaded(spark, df, kind), F.col("_metadata.file_modification_time")
    if time_col is None:
        return df, time
    types = {field.name: field.dataType.typeName() for field in df.schema.fields}
    if time_col not in types:
        raise BadOption(f"time_col names {time_col}, and the rows have {', '.join(types)}")
    if types[time_col] not in TIMES:
        raise BadOption(
            f"time_col names {time_col}, which is of type {types[time_col]}; it must be a timestamp or a date: "
            f'df.withColumn("{time_col}", F.col("{time_col}").cast("timestamp"))'
        )
    return df, F.col(_quoted(time_col))


def _loaded(spark: "SparkSession", path: str, kind: str) -> "DataFrame":
    """Reads the files of a path with text as text, since inferred types depend on all rows and folders."""
    exact = {name: "false" if name == "inferSchema" else "true" for name in _TEXT_OPTIONS.get(kind.lower(), ())}
    before = spark.conf.get(_INFERENCE)
    spark.conf.set(_INFERENCE, "false")
    try:
        return spark.read.format(kind).options(**exact).load(path)
    finally:
        spark.conf.set(_INFERENCE, before)


def _buckets(df: "DataFrame", names: tuple[str, ...], time: "Column | None") -> "DataFrame":
    """Returns a row per number of copies (COPIES) and distance (APART_S) that occurs; `copies` is null for rows without
    id.
    """
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
    """Returns the greatest element of `least` that is at most the number."""
    from pyspark.sql import functions as F

    return reduce(lambda otherwise, low: F.when(number >= low, F.lit(low)).otherwise(otherwise), least, F.lit(None))


def _distance(micros: "Column") -> "Column":
    """Returns the index of the first of APART_S that is not below it; LONGER above all of them; null for null."""
    from pyspark.sql import functions as F

    distance: Any = F.when(micros.isNotNull(), F.lit(LONGER))
    for number in reversed(range(len(APART_S))):
        distance = F.when(micros <= APART_S[number] * 1_000_000, F.lit(number)).otherwise(distance)
    return distance


def _report(rows: list[Any], is_timed: bool) -> Audit:
    """Sums the rows of `_buckets`."""
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
    """Quotes a column's name, which may contain dots."""
    return f"`{name.replace('`', '``')}`"
