"""An id for each row that has none: the same one whenever the same input is read again, however Spark cuts it.

Partition, task and row numbers of Spark are no such thing: `monotonically_increasing_id()` differs with the number of
cores, and a replayed batch comes in other partitions. Three things are: where a row comes from, what is in it, and its
place in a total order.
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
WRITTEN_OUT = {"Range", "OneRowRelation"}  # each row stands in the query itself, once
# What gives a row of its input once at most, so that a row's coordinates stay one row's.
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
    """`df` with a string column `name`: an id for each row, for `idCol`. `by` says what the id is made from.

    "source": the row's place in its source. Topics: columns topic, partition, offset as Spark's Kafka source gives
    them, or `_partition`, `_offset` of format("oncegate") with includeOffsets and `topic=` here. Else files: path and
    row number, which Spark knows for Parquet alone. Right after reading: a join or an explode may make several rows
    of one, which inside foreachBatch and after a checkpoint is no longer to be seen.

    "content": SHA-256 of the row (of `cols`, where rows that agree in them agree in all), and a number that tells
    equal rows apart. Batches only, one shuffle. Inside foreachBatch say with `scope` whether equal rows of two
    batches are two records (the batch id) or one ("").

    "position": the row's number in the total order of `order_by`; all rows go through one task, and two that tie fail
    the job. `scope` names the input: rows of two inputs have the same numbers.

    Raises BadOption for arguments that say too little or contradict each other, and Refused, with the reason, where no
    id would be the same at the next reading. Both before a job starts.
    """
    arguments = {"topic": topic, "cols": cols, "order_by": order_by, "scope": scope}
    if by not in TAKES:
        raise BadOption(f"assign_ids by {by!r}; it is one of {', '.join(TAKES)}")
    for argument in sorted(argument for argument, value in arguments.items() if value is not None):
        if argument not in TAKES[by]:
            raise BadOption(f'assign_ids by "{by}" takes no {argument}; it takes {" and ".join(sorted(TAKES[by]))}')
    _check_names(df, name)
    if by == "source":
        return df.withColumn(name, _by_source(df, topic))
    if df.isStreaming:
        raise Refused(
            f'assign_ids by "{by}" counts rows, and a stream never has them all: an equal row may come in a later '
            'batch. Use "source", or assign inside foreachBatch'
        )
    if by == "content":
        return _by_content(df, cols, scope, name)
    return _by_position(df, order_by, scope, name)


def _check_names(df: "DataFrame", name: str) -> None:
    """Raises BadOption where a column that is made here would take the place of one that is there."""
    fold_case: Callable[[str], str] = str if is_case_sensitive(df.sparkSession) else str.lower
    there = {fold_case(column): column for column in df.columns}
    if fold_case(name) in there:
        raise BadOption(f"there is a column {there[fold_case(name)]} already; give another name= than {name}")
    for column in (name, *df.columns):
        if fold_case(column) in {HASH, WHOLE_HASH}:
            raise BadOption(f"assign_ids uses the name {column} itself; give that column another one")


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
            "these rows have no place in a source that Spark could tell: neither columns topic, partition, offset nor "
            "_partition, _offset, and it numbers the rows of a file for Parquet alone. In CSV, JSON, text and ORC it "
            "knows the split a row came from, and splits depend on the number of cores. Assign ids right after "
            'reading; write such files as Parquet first, use "content", or a key of your own'
        ) from error
    return source_row


def _check_one_to_one(df: "DataFrame") -> None:
    """Raises Refused when a row of the source may have become several, which would share an id: all but one lost."""
    try:
        plan: Any = df._jdf.queryExecution().analyzed()
    except AttributeError:  # Spark Connect shows no plan
        log.warning("assign_ids cannot see how these rows were made: assign ids right after reading")
        return
    while plan.children().size():
        if plan.nodeName() not in ONE_TO_ONE:
            raise Refused(
                f'assign_ids by "source" comes right after reading: {plan.nodeName()} stands between, and may make '
                "several rows of one, which would share an id"
            )
        plan = plan.children().head()
    if not _is_source(plan.nodeName()):
        raise Refused(
            f'assign_ids by "source" sees no source here: {plan.nodeName()} holds rows that were made before, and '
            "whether several were made of one is no longer to be seen. So it is inside foreachBatch and after "
            "checkpoint() or localCheckpoint(): assign the ids before foreachBatch, on the stream, right after reading "
            '(or use by="content")'
        )


def _is_source(leaf: str) -> bool:
    """Of a plan's leaf: files, a table or a data source, read here. Not what Spark or the program has at hand."""
    return leaf in WRITTEN_OUT or (leaf.endswith(("Relation", "RelationV2")) and leaf != "LocalRelation")


def _by_content(df: "DataFrame", cols: Sequence[str] | None, scope: str | None, name: str) -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if scope is None and task_identity.batch_of(df) is not None:
        raise BadOption(
            'inside foreachBatch a row may equal one of another batch: scope=f"{batch_id}" when they are two records, '
            'scope="" when the later one is a copy'
        )
    names = list(df.columns if cols is None else resolved(cols, df.columns, is_case_sensitive(df.sparkSession)))
    unknown = [column for column in names if column not in df.columns]
    if unknown or not names or len(set(names)) != len(names):
        raise BadOption(f"cols are {names}; the rows have {df.columns}: name each that counts once")
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


ORDER_UNKNOWN = "which of them comes first is not the same at each run: name more columns, or make them unique"


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
            'a position needs a total order, which Spark\'s own is not: order_by=["<column>", …], such that no two '
            f"rows agree in all of them; there are {df.columns}"
        )
    if not scope:
        raise BadOption('each input has a row 0: scope="<a name for this input>", another one for another input')
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
