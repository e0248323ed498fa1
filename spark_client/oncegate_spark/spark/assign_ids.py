"""Assigns an id to each row without one, stable whenever the same input is read again.

Spark's partition, task and row numbers are not stable: `monotonically_increasing_id()` depends on the number of cores,
and a replayed batch has other partitions. Three things are stable: a row's place in its source, its content, and its
position in a total order.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.spark import task_identity
from oncegate_spark.spark.options.column_names import is_case_sensitive, resolved

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

log = logging.getLogger("oncegate_spark")

TAKES = {"source": {"topic"}, "content": {"cols", "scope"}, "position": {"order_by", "scope"}}
KAFKA = {"topic": "string", "partition": "int", "offset": "bigint"}
HASH, WHOLE_HASH = "__oncegate_hash", "__oncegate_whole_hash"
WRITTEN_OUT = {"Range", "OneRowRelation"}  # leaf nodes whose rows are part of the query itself
# Plan nodes that return each input row at most once, so that a row's coordinates stay unique.
ONE_TO_ONE = {
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "CollectMetrics", "EventTimeWatermark"),
    *("Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions", "GlobalLimit", "LocalLimit", "Offset"),
}


def assign_ids(
    df: "DataFrame",
    by: str,
    *,
    topic: str | None = None,
    cols: Sequence[str] | None = None,
    order_by: Sequence[str] | None = None,
    scope: str | None = None,
    name: str = "oncegate_id",
) -> "DataFrame":
    """Adds a string column `name` with an id per row, for the option `idCol`.

    Args:
        by: "source", "content" or "position", see below
        topic: the Oncegate topic of the rows
        cols: columns of the content
        order_by: columns of a total order
        scope: for "content" inside foreachBatch: the batch id if equal rows of two batches are two records, "" if they
            are one. For "position": names the input, since rows of all inputs have the same numbers
        name: the new column

    "source" uses the row's place in its source. For topics: the columns topic, partition, offset of Spark's Kafka
    source, or `_partition`, `_offset` of format("oncegate") with includeOffsets and the argument `topic`. For files:
    path and row number, which Spark has only for Parquet. Assign right after reading: a join or an explode may
    duplicate rows, which is undetectable inside foreachBatch and after a checkpoint.

    "content" uses the SHA-256 of the row (of `cols`, where rows equal in them must be equal in all columns), and a
    number that distinguishes equal rows. Batches only, one shuffle.

    "position" uses the row's number in the total order of `order_by`. All rows pass through one task, and a tie fails
    the job.

    Raises BadOption for missing or contradicting arguments, and Refused, with the reason, if ids would not be stable.
    Both are raised before a job starts.
    """
    arguments = {"topic": topic, "cols": cols, "order_by": order_by, "scope": scope}
    if by not in TAKES:
        raise BadOption(f"assign_ids by {by!r}; it must be one of {', '.join(TAKES)}")
    for argument in sorted(argument for argument, value in arguments.items() if value is not None):
        if argument not in TAKES[by]:
            raise BadOption(
                f'assign_ids by "{by}" has no argument {argument}; it has {" and ".join(sorted(TAKES[by]))}'
            )
    _check_names(df, name)
    if by == "source":
        return df.withColumn(name, _by_source(df, topic))
    if df.isStreaming:
        raise Refused(
            f'assign_ids by "{by}" counts rows, and a stream is never complete: an equal row may arrive in a later '
            'batch. Use "source", or assign inside foreachBatch'
        )
    if by == "content":
        return _by_content(df, cols, scope, name)
    return _by_position(df, order_by, scope, name)


def _check_names(df: "DataFrame", name: str) -> None:
    """Raises BadOption if a new column would replace an existing one."""
    fold_case: Callable[[str], str] = str if is_case_sensitive(df.sparkSession) else str.lower
    there = {fold_case(column): column for column in df.columns}
    if fold_case(name) in there:
        raise BadOption(f"column {there[fold_case(name)]} already exists; choose another name= than {name}")
    for column in (name, *df.columns):
        if fold_case(column) in {HASH, WHOLE_HASH}:
            raise BadOption(f"assign_ids uses the name {column} itself; rename that column")


def _by_source(df: "DataFrame", topic: str | None) -> "Column":
    from pyspark.sql import functions as F

    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    _check_one_to_one(df)
    if topic is not None or {"_partition", "_offset"} <= types.keys():
        if topic is None or not {"_partition", "_offset"} <= types.keys():
            raise BadOption(
                'rows of an Oncegate topic need .option("includeOffsets", "true") on the read, and here topic="<topic>"'
            )
        return F.concat(F.lit(f"{topic}/"), F.col("_partition"), F.lit("/"), F.col("_offset"))
    if KAFKA.items() <= types.items():
        return F.concat(F.col("topic"), F.lit("/"), F.col("partition"), F.lit("/"), F.col("offset"))
    source_row = F.concat(F.col("_metadata.file_path"), F.lit("#"), F.col("_metadata.row_index"))
    try:
        df.select(source_row).schema  # noqa: B018  resolved here, on the driver
    except Exception as error:
        raise Refused(
            "these rows have no known place in a source: there are neither columns topic, partition, offset nor "
            "_partition, _offset, and Spark numbers the rows of files only for Parquet. For CSV, JSON, text and ORC it "
            "knows only the split, and splits depend on the number of cores. Assign ids right after "
            'reading; convert such files to Parquet first, use "content", or use a key of your own'
        ) from error
    return source_row


def _check_one_to_one(df: "DataFrame") -> None:
    """Raises Refused if a row of the source may have been duplicated: the copies would share an id, and all but one be
    lost.
    """
    try:
        plan: Any = df._jdf.queryExecution().analyzed()
    except AttributeError:  # Spark Connect shows no plan
        log.warning("assign_ids cannot see the plan of these rows: assign ids right after reading")
        return
    while plan.children().size():
        if plan.nodeName() not in ONE_TO_ONE:
            raise Refused(
                f'assign_ids by "source" must come right after reading: {plan.nodeName()} may duplicate rows, '
                "which would share an id"
            )
        plan = plan.children().head()
    if not _is_source(plan.nodeName()):
        raise Refused(
            f'assign_ids by "source" finds no source: {plan.nodeName()} has rows that were computed before, which may '
            "include duplicates of one source row. This is the case inside foreachBatch and after "
            "checkpoint() or localCheckpoint(): assign ids on the stream, before foreachBatch, right after reading "
            '(or use by="content")'
        )


def _is_source(leaf: str) -> bool:
    """True if a plan's leaf reads files, a table or a data source, instead of rows in memory."""
    return leaf in WRITTEN_OUT or (leaf.endswith(("Relation", "RelationV2")) and leaf != "LocalRelation")


def _by_content(df: "DataFrame", cols: Sequence[str] | None, scope: str | None, name: str) -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if scope is None and task_identity.batch_of(df) is not None:
        raise BadOption(
            'inside foreachBatch a row may equal one of another batch: set scope=f"{batch_id}" if both are records, '
            'scope="" if the later one is a copy'
        )
    names = list(df.columns if cols is None else resolved(cols, df.columns, is_case_sensitive(df.sparkSession)))
    unknown = [column for column in names if column not in df.columns]
    if unknown or not names or len(set(names)) != len(names):
        raise BadOption(f"cols is {names}; the rows have {df.columns}: name each relevant column once")
    hashed = df.withColumn(HASH, _sha256(df, names, scope or ""))
    equal = Window.partitionBy(HASH)
    number = F.row_number().over(equal.orderBy(HASH)) - 1
    made = F.concat(F.col(HASH), F.lit("-"), number)
    if cols is not None:
        hashed = hashed.withColumn(WHOLE_HASH, _sha256(df, df.columns, ""))
        differ = F.min(WHOLE_HASH).over(equal) != F.max(WHOLE_HASH).over(equal)
        made = F.when(differ, _failing(f"two rows agree in {names} and differ elsewhere; {ORDER_UNKNOWN}")).otherwise(
            made
        )
    return hashed.withColumn(name, made).drop(HASH, WHOLE_HASH)


ORDER_UNKNOWN = "which of them comes first is not stable: name more columns, or make them unique"


def _sha256(df: "DataFrame", names: Sequence[str], scope: str) -> "Column":
    from pyspark.sql import functions as F

    from oncegate_spark.spark.row_text import row_text

    prefix = F.lit(f"{len(scope.encode())}:{scope}")
    return F.sha2(F.concat(prefix, row_text(df.schema, list(names))), 256)


def _by_position(df: "DataFrame", order_by: Sequence[str] | None, scope: str | None, name: str) -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from oncegate_spark.spark.row_text import column_named

    ordering = order_by if order_by and not isinstance(order_by, str) else ()
    order_by = resolved(ordering, df.columns, is_case_sensitive(df.sparkSession))
    if not order_by or any(column not in df.columns for column in order_by):
        raise BadOption(
            'a position needs a total order, which Spark\'s row order is not: set order_by=["<column>", …] so that '
            f"no two rows are equal in all of them; the columns are {df.columns}"
        )
    if not scope:
        raise BadOption('each input has a row 0: set scope="<a name for this input>", a different one for each input')
    columns = [column_named(column) for column in order_by]
    position = F.struct(*columns)
    ordered = Window.orderBy(*columns)
    tie = F.lag(position).over(ordered).eqNullSafe(position)
    made = F.concat(F.lit(f"{scope}#"), F.row_number().over(ordered) - 1)
    return df.withColumn(
        name, F.when(tie, _failing(f"two rows agree in {list(order_by)}; {ORDER_UNKNOWN}")).otherwise(made)
    )


def _failing(text: str) -> "Column":
    from pyspark.sql import functions as F

    return F.raise_error(F.lit(f"assign_ids: {text}")).cast("string")
