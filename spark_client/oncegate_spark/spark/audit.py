"""Counts the duplicates in rows that are there already: with one Spark action, and without a gateway.

For whoever doubts that retries have written anything twice: a table, or a folder of files, and the column that should
be an id are all it takes. Nothing is written and nothing leaves Spark but the counts and one id. Counts are shown as
tables and bars in text, and as a picture that needs no library.
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


COPIES = (1, 2, 3, 4, 5, 10, 100, 1_000)  # the least number of copies of each row of the table
APART_S = (0, 1, 60, 3_600, 86_400, 604_800, 2_592_000)  # the greatest distance of each, in seconds
APART = ("at the same time", "up to 1 second", "up to 1 minute", "up to 1 hour", "up to 1 day", "up to 7 days")
APART_NAMES = (*APART, "up to 30 days", "longer")
BAR = 32  # characters of the longest bar
LINE_PX, BAR_PX, BAR_X_PX = 22, 300, 170


@dataclass(frozen=True)
class Copies:
    """Says how many ids are in so many rows each. `least`: of COPIES, up to the next of them."""

    least: int
    ids: int
    rows: int

    @property
    def label(self) -> str:
        """The number of copies, or the range, as text."""
        most = dict(zip(COPIES, (*(low - 1 for low in COPIES[1:]), None), strict=True)).get(self.least)
        return (
            f"{self.least:,} or more" if most is None else str(most) if most == self.least else f"{self.least}-{most}"
        )


@dataclass(frozen=True)
class Apart:
    """Says how many ids have their first and last row so far apart. `bucket`: of APART_NAMES; None where a time is
    missing.
    """

    bucket: int | None
    ids: int
    duplicates: int

    @property
    def label(self) -> str:
        """The distance as text."""
        return "unknown" if self.bucket is None else APART_NAMES[self.bucket]


@dataclass(frozen=True)
class Audit:
    """Tells how often ids come again in the rows of an audit.

    rows             all that were read
    without_id       of them: the id is null or empty, so nobody knows whose duplicates they are
    copies           how many ids are in one row, in two, and so on
    apart            how far the first and the last row of an id lie apart, for ids with two rows and more; None where
                     no time is known. A horizon that is longer than the distance drops all duplicates of the id
    longest_apart_s  the longest of those, in seconds; None without one
    most_copies      the most rows that one id has; 0 where no id comes again
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
        """How many different ids there are."""
        return sum(bucket.ids for bucket in self.copies)

    @property
    def duplicates(self) -> int:
        """Rows whose id stands in another row: what was to be written once would be without them."""
        return self.rows - self.without_id - self.ids

    @property
    def repeated_ids(self) -> int:
        """How many ids are in two rows or more."""
        return sum(bucket.ids for bucket in self.copies if bucket.least > 1)

    def __str__(self) -> str:
        return "\n".join([*self._summary(), *(line for name, bars in self._bars() for line in _text(name, bars))])

    def svg(self) -> str:
        """The counts and bars as a picture, for a file or a page."""
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
        """What a notebook shows."""
        return self.svg()

    def _summary(self) -> list[str]:
        share = f" ({self.duplicates / self.rows:.2%})" if self.rows else ""
        lines = [f"{self.rows:,} rows, {self.ids:,} ids, {self.duplicates:,} duplicates{share}"]
        if self.without_id:
            lines.append(f"{self.without_id:,} rows have no id (null or empty): they are not counted as duplicates")
        if self.most_copies:
            lines.append(f"most often: {self.most_copied} in {self.most_copies:,} rows")
        if self.apart is None and self.repeated_ids:
            lines.append("how far apart is not known: give time_col, or the path")
        return lines

    def _bars(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """The two histograms: title, and label and number of each bar; none that would be empty."""
        if not self.repeated_ids:
            return []
        bars = [("ids by number of copies", [(bucket.label, bucket.ids) for bucket in self.copies])]
        if self.apart:
            title = "ids that come again, by the time from first to last copy"
            bars.append((title, [(bucket.label, bucket.ids) for bucket in self.apart]))
        return bars


def _text(title: str, bars: Sequence[tuple[str, int]]) -> list[str]:
    most = max(count for _, count in bars)
    return ["", title, *(f"  {label:<16} {count:>13,} {'#' * _length(count, most, BAR)}" for label, count in bars)]


def _length(count: int, most: int, whole: int) -> int:
    """The length of a bar: what there is can always be seen."""
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
