"""Adds producer and sequence to each row, from its position in its source: Kafka's (topic, partition, offset).

A partition is a lane, and its offsets are the sequences. This requires that one task has a contiguous range of a lane
and reads its rows in order. The plan is therefore checked: whatever splits a lane or moves rows between tasks is
rejected, with the alternatives. Operations after `assign_sequences` are not seen: call it last, right before the write.
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
# Plan nodes that keep rows in their task and order, and return each row at most once.
NARROW = {
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "UnresolvedHint", "CollectMetrics"),
    *("EventTimeWatermark", "UpdateEventTimeWatermarkColumn"),
}
# Options of the source that let several tasks read one partition.
SPLITTING = ("minPartitions", "maxRecordsPerPartition")
log = logging.getLogger("oncegate_spark")
WAYS = (
    'Write by ids instead, .option("idCol", "topic,partition,offset"), which needs no order, or with '
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
    """Adds two columns for `producerCol` and `sequenceCol`: "<topic>-<partition>#<topic id>" and the offset.

    The part before the # identifies the lane. The gateway compares Kafka's topic id, so that rows of a topic that was
    deleted and created again raise SourceReplaced instead of being taken for rows of its predecessor.

    Args:
        df: a stream with the columns topic, partition, offset of the Kafka source
        producer, sequence: names of the new columns
        prefix: precedes the lane's name; a different prefix makes a new lane, whose rows are all new
        topic_ids: ids of topics, instead of those from the brokers; topics left out have no id and are not compared

    Raises Refused, with the alternatives, if a lane would be split over tasks or shuffled, or if that is unknown;
    BadOption for an existing column. Both are raised before a job starts. A filter must drop the same rows in every
    run: a new sequence below a claimed one is refused. Logs a warning, with the option to set, if the source reads
    uncommitted records.
    """
    from pyspark.sql import functions as F

    fold_case: Callable[[str], str] = str if is_case_sensitive(df.sparkSession) else str.lower
    for name in (producer, sequence):
        if fold_case(name) in map(fold_case, df.columns):
            raise BadOption(f"column {name} already exists; choose another name")
    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    if not KAFKA.items() <= types.items():
        raise Refused(
            "sequences are made from the columns topic, partition and offset of Spark's Kafka source, and these rows "
            f"have {', '.join(df.columns)}: call assign_sequences while the source's columns exist. {WAYS}"
        )
    try:
        plan = df._jdf.queryExecution().analyzed()
    except AttributeError as error:  # Spark Connect shows no plan
        raise Refused(f"Spark Connect provides no plan, so whether a lane is split is unknown. {WAYS}") from error
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
    """Returns the options of the Kafka source in an analyzed plan.

    Raises Refused for nodes that split or shuffle a lane, or that hide whether this happened.
    """
    while plan.children().size():
        name = str(plan.nodeName())
        if name not in NARROW and not _is_coalesce(plan, name):
            raise Refused(
                f"{name} comes between the source and assign_sequences: it may split a lane over tasks, move its rows "
                "or "
                f"change their order. {WAYS}"
            )
        plan = plan.children().head()
    return _checked_source(plan)


def _is_coalesce(plan: Any, name: str) -> bool:
    """True for a coalesce: without a shuffle, several lanes go to one task, one after another."""
    return name == "Repartition" and not plan.shuffle()


def _checked_source(leaf: Any) -> Any:
    name = str(leaf.nodeName())
    if not name.startswith("StreamingRelationV2") or str(leaf.sourceName()).lower() != SOURCE:
        raise Refused(
            f"there is no Kafka stream here, only {name}: either the origin of these rows is unknown (inside "
            "foreachBatch, after a checkpoint, and for a batch read), or a lane may be split over tasks, as for files. "
            f"Assign sequences on the stream itself, after its Kafka source. {WAYS}"
        )
    options = leaf.extraOptions()
    for option in SPLITTING:
        if options.get(option) is not None:  # its keys are case-insensitive
            raise Refused(f"with {option} several tasks read one partition of the Kafka source: omit it. {WAYS}")
    return options
