"""Handles other connectors' options: accepts those of the same meaning, rejects the rest with their equivalent.

The names are those of Spark's own connectors (Kafka, JDBC) and of Delta Lake. With write=claim they are ignored: an
unknown option there belongs to the user's sink.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncegate_spark.errors import BadOption

KAFKA, DELTA, JDBC = "Kafka", "Delta Lake", "JDBC"


@dataclass(frozen=True)
class Habit:
    """An option of another connector. `here`: its replacement, as in the documentation's table."""

    name: str
    connector: str
    here: str


# These mean the same on a read, and are accepted: theirs -> ours.
SAME_ON_READS = {"subscribe": "topic", "maxOffsetsPerTrigger": "maxRowsPerBatch"}

_URL = 'did you mean .option("url", "http://gateway:8080")?'
_TOPIC = 'did you mean .option("topic", "<topic>")?'
_OFFSETS = 'rows have no timestamp or version here: did you mean .option("startingOffsets", "earliest")?'
_ENDING = 'rows have no timestamp or version here: did you mean .option("endingOffsets", "latest")?'
_LIMIT = 'did you mean .option("maxRowsPerBatch", "1000000")?'
_TIMEOUT = 'did you mean .option("timeoutMs", "120000")?'
_CREDENTIALS = 'a gateway authenticates by key, not by user: did you mean .option("apiKeyFile", "<path>")?'
_GROWS = "topics are append-only, no row is changed or deleted: omit it"
_SPLIT = "reads are split by offsets, writes by the partitions of the rows: omit it"

HABITS: tuple[Habit, ...] = (
    Habit("kafka.bootstrap.servers", KAFKA, _URL),
    Habit("kafka.group.id", KAFKA, "a query's progress is only in its checkpoint: omit it"),
    Habit("groupIdPrefix", KAFKA, "a query's progress is only in its checkpoint: omit it"),
    Habit("subscribe", KAFKA, _TOPIC),
    Habit("subscribePattern", KAFKA, f"a read covers one topic; {_TOPIC} Read each, and unionByName them"),
    Habit("assign", KAFKA, f"a read covers all partitions; {_TOPIC} startingOffsets has an offset for each"),
    Habit("startingTimestamp", KAFKA, f"{_OFFSETS} By time: where(…) on a column of your own"),
    Habit("startingOffsetsByTimestamp", KAFKA, f"{_OFFSETS} By time: where(…) on a column of your own"),
    Habit("startingOffsetsByTimestampStrategy", KAFKA, f"{_OFFSETS} By time: where(…) on a column of your own"),
    Habit("endingTimestamp", KAFKA, f"{_ENDING} By time: where(…) on a column of your own"),
    Habit("endingOffsetsByTimestamp", KAFKA, f"{_ENDING} By time: where(…) on a column of your own"),
    Habit("maxOffsetsPerTrigger", KAFKA, _LIMIT),
    Habit("minOffsetsPerTrigger", KAFKA, 'did you mean .trigger(processingTime="10 seconds") on the query?'),
    Habit("maxTriggerDelay", KAFKA, 'did you mean .trigger(processingTime="10 seconds") on the query?'),
    Habit("minPartitions", KAFKA, _SPLIT),
    Habit("maxRecordsPerPartition", KAFKA, _SPLIT),
    Habit("includeHeaders", KAFKA, "rows have columns and no headers; includeOffsets adds partition and offset"),
    Habit("kafkaConsumer.pollTimeoutMs", KAFKA, _TIMEOUT),
    Habit("fetchOffset.numRetries", KAFKA, _TIMEOUT),
    Habit("fetchOffset.retryIntervalMs", KAFKA, _TIMEOUT),
    Habit("startingVersion", DELTA, _OFFSETS),
    Habit("versionAsOf", DELTA, _ENDING),
    Habit("timestampAsOf", DELTA, _ENDING),
    Habit("maxFilesPerTrigger", DELTA, _LIMIT),
    Habit("maxBytesPerTrigger", DELTA, _LIMIT),
    Habit("ignoreDeletes", DELTA, _GROWS),
    Habit("ignoreChanges", DELTA, _GROWS),
    Habit("skipChangeCommits", DELTA, _GROWS),
    Habit("readChangeFeed", DELTA, "every row of a topic is an insert: omit it"),
    Habit("replaceWhere", DELTA, _GROWS),
    Habit("partitionOverwriteMode", DELTA, _GROWS),
    Habit("overwriteSchema", DELTA, "a topic keeps its columns: use a new topic"),
    Habit("dbtable", JDBC, _TOPIC),
    Habit("query", JDBC, f"{_TOPIC} Filter afterwards: .load().where(…)"),
    Habit("user", JDBC, _CREDENTIALS),
    Habit("password", JDBC, _CREDENTIALS),
    Habit("driver", JDBC, "the client needs no driver: omit it"),
    Habit("queryTimeout", JDBC, _TIMEOUT),
    Habit("batchsize", JDBC, "the client chooses the size of its requests: omit it"),
    Habit("fetchsize", JDBC, "the client chooses the size of its requests: omit it"),
    Habit("partitionColumn", JDBC, _SPLIT),
    Habit("lowerBound", JDBC, _SPLIT),
    Habit("upperBound", JDBC, _SPLIT),
    Habit("numPartitions", JDBC, _SPLIT),
    Habit("truncate", JDBC, _GROWS),
    Habit("isolationLevel", JDBC, "the write mode defines when rows become visible: omit it"),
)
_BY_NAME = {habit.name.lower(): habit for habit in HABITS}
_ANY_OF_KAFKA = Habit("kafka.*", KAFKA, "no Kafka client is used here: omit it")


def answer(name: str) -> str | None:
    """Returns advice for another connector's option; None for unknown names."""
    habit = _BY_NAME.get(name) or (_ANY_OF_KAFKA if name.startswith("kafka.") else None)
    if habit is None:
        return None
    shown = name if habit is _ANY_OF_KAFKA else habit.name
    return f"{shown} is an option of {habit.connector}; {habit.here}"


def in_our_names(raw: Mapping[str, str]) -> dict[str, str]:
    """Renames the options in SAME_ON_READS to their names in this connector.

    Raises BadOption if both are given with different values.
    """
    ours = dict(raw)
    for their_name, our_name in SAME_ON_READS.items():
        if their_name.lower() not in raw:
            continue
        value = ours.pop(their_name.lower()).strip()
        if their_name == "subscribe" and "," in value:
            raise BadOption(f"subscribe is {value!r}, and a read covers one topic: read each, and unionByName them")
        if ours.setdefault(our_name.lower(), value) != value:
            raise BadOption(
                f"{their_name} is {value!r} and {our_name} is {ours[our_name.lower()]!r}; set only one of them"
            )
    return ours


def habit_rows() -> list[tuple[str, str, str]]:
    """Returns the documentation's table: name, connector, and replacement."""
    return [
        (habit.name, habit.connector, f"accepted as `{ours}` on a read" if ours else habit.here)
        for habit in (*HABITS, _ANY_OF_KAFKA)
        for ours in [SAME_ON_READS.get(habit.name)]
    ]
