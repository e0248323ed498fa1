"""Producer and sequence of each row, from where it stands in its source: Kafka's (topic, partition, offset).

A partition is a lane, its offsets are the sequences. That holds while one task has a contiguous range of a lane and
meets its rows in order, so the plan is looked at: whatever splits a lane or moves rows between tasks is refused, with
the ways that work there. What comes behind `assign_sequences` is no longer seen: call it last, right before the write.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.spark import logs
from oncegate_spark.spark.kafka_source import SOURCE, UNCOMMITTED, reads_uncommitted
from oncegate_spark.spark.kafka_source import topic_ids as look_up
from oncegate_spark.spark.options.column_names import is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KAFKA = {"topic": "string", "partition": "int", "offset": "bigint"}
# What leaves rows in their task and in their order, and gives one row for one at most.
NARROW = {
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "UnresolvedHint", "CollectMetrics"),
    *("EventTimeWatermark", "UpdateEventTimeWatermarkColumn"),
}
# Options of the source under which one partition is read by several tasks.
SPLITTING = ("minPartitions", "maxRecordsPerPartition")
log = logging.getLogger("oncegate_spark")
WAYS = (
    'There write by ids, .option("idCol", "topic,partition,offset"), which needs no order, or with '
    '.option("write", "staged")'
)


def assign_sequences(
    df: "DataFrame",
    *,
    producer: str = "oncegate_producer",
    sequence: str = "oncegate_sequence",
    prefix: str = "",
    topic_ids: Mapping[str, str] | None = None,
) -> "DataFrame":
    """`df` with two more columns, for `producerCol` and `sequenceCol`: "<topic>-<partition>#<topic id>" and the offset.

    The gateway knows a lane by what stands before the #, and compares Kafka's id of the topic: rows of a topic that was
    deleted and made again are refused (SourceReplaced), and not taken for those of the topic before. `prefix` stands
    before the name, and makes another lane of it, whose rows are all new. `topic_ids`: the ids of topics, in place of
    those that brokers say; topics that are not named have none, and are not compared.

    `df` is a stream with the columns topic, partition, offset of the Kafka source. Raises Refused, with the way that
    works there, where a lane would be split over tasks or shuffled, or where that is not to be seen; BadOption for a
    column that is there already. Both before a job starts. What a filter drops must be the same at every run: a
    sequence that comes later below one that was claimed is refused. Logs a warning, with the line to write, where the
    source reads what is not committed.
    """
    from pyspark.sql import functions as F

    fold_case: Callable[[str], str] = str if is_case_sensitive(df.sparkSession) else str.lower
    for name in (producer, sequence):
        if fold_case(name) in map(fold_case, df.columns):
            raise BadOption(f"there is a column {name} already; give another name")
    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    if not KAFKA.items() <= types.items():
        raise Refused(
            "sequences are made from the columns topic, partition and offset of Spark's Kafka source, and these rows "
            f"have {', '.join(df.columns)}: assign them while those are there. {WAYS}"
        )
    try:
        plan = df._jdf.queryExecution().analyzed()
    except AttributeError as error:  # Spark Connect shows no plan
        raise Refused(f"Spark Connect shows no plan, so whether a lane is split is not to be seen. {WAYS}") from error
    options = check_lanes(plan)
    if reads_uncommitted(options):
        logs.be_heard()
        log.warning("assign_sequences: %s", UNCOMMITTED)
    ids = look_up(df.sparkSession, options) if topic_ids is None else topic_ids
    lane = F.concat(F.lit(prefix), F.col("topic"), F.lit("-"), F.col("partition").cast("string"))
    if ids:
        pairs = (F.lit(key) for topic, topic_id in ids.items() for key in (topic, f"#{topic_id}"))
        lane = F.concat(lane, F.coalesce(F.element_at(F.create_map(*pairs), F.col("topic")), F.lit("")))
    return df.withColumn(producer, lane).withColumn(sequence, F.col("offset"))


def check_lanes(plan: Any) -> Any:
    """Returns the options of the plan's Kafka source. `plan`: analyzed.

    Raises Refused for what splits or shuffles a lane, or hides whether something did.
    """
    while plan.children().size():
        name = str(plan.nodeName())
        if name not in NARROW and not _is_coalesce(plan, name):
            raise Refused(
                f"{name} stands between the source and here: it may split a lane over tasks, move its rows or change "
                f"their order. {WAYS}"
            )
        plan = plan.children().head()
    return _checked_source(plan)


def _is_coalesce(plan: Any, name: str) -> bool:
    """Without a shuffle several lanes come to one task, one after the other."""
    return name == "Repartition" and not plan.shuffle()


def _checked_source(leaf: Any) -> Any:
    name = str(leaf.nodeName())
    if not name.startswith("StreamingRelationV2") or str(leaf.sourceName()).lower() != SOURCE:
        raise Refused(
            f"no Kafka stream is to be seen here, only {name}: what made these rows is unknown (so it is inside "
            "foreachBatch, after a checkpoint, and on a batch read), or a lane may be split over tasks, as files are. "
            f"Assign sequences on the stream itself, behind its Kafka source. {WAYS}"
        )
    options = leaf.extraOptions()
    for option in SPLITTING:
        if options.get(option) is not None:  # its keys know no case
            raise Refused(f"with {option} the Kafka source reads one partition in several tasks: leave it out. {WAYS}")
    return options
