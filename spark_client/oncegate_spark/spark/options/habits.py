"""What other connectors call an option: understood where it says the same here, else answered with what to write.

Names are Spark's own connectors' (Kafka, JDBC) and Delta Lake's. With write=claim they are not looked at: there an
option of another name is the user's own sink's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncegate_spark.errors import BadOption

KAFKA, DELTA, JDBC = "Kafka", "Delta Lake", "JDBC"


@dataclass(frozen=True)
class Habit:
    """An option of another connector. `here`: what takes its place, as the documentation's table says it."""

    name: str
    connector: str
    here: str


# These say the same on a read, and are taken: theirs -> ours.
SAME_ON_READS = {"subscribe": "topic", "maxOffsetsPerTrigger": "maxRowsPerBatch"}

_URL = 'did you mean .option("url", "http://gateway:8080")?'
_TOPIC = 'did you mean .option("topic", "<topic>")?'
_OFFSETS = 'rows keep no time and no version here: did you mean .option("startingOffsets", "earliest")?'
_ENDING = 'rows keep no time and no version here: did you mean .option("endingOffsets", "latest")?'
_LIMIT = 'did you mean .option("maxRowsPerBatch", "1000000")?'
_TIMEOUT = 'did you mean .option("timeoutMs", "120000")?'
_CREDENTIALS = 'a gateway knows keys, not people: did you mean .option("apiKeyFile", "<path>")?'
_GROWS = "a topic only grows, no row is changed or deleted: leave it out"
_SPLIT = "a read is split by offsets, a write by the partitions of the rows: leave it out"

HABITS: tuple[Habit, ...] = (
    Habit("kafka.bootstrap.servers", KAFKA, _URL),
    Habit("kafka.group.id", KAFKA, "a query's place is in its checkpoint alone: leave it out"),
    Habit("groupIdPrefix", KAFKA, "a query's place is in its checkpoint alone: leave it out"),
    Habit("subscribe", KAFKA, _TOPIC),
    Habit("subscribePattern", KAFKA, f"a read is of one topic; {_TOPIC} Read each, and unionByName them"),
    Habit("assign", KAFKA, f"a read is of all partitions; {_TOPIC} startingOffsets has an offset for each"),
    Habit("startingTimestamp", KAFKA, f"{_OFFSETS} By time: where(…) on a column of yours"),
    Habit("startingOffsetsByTimestamp", KAFKA, f"{_OFFSETS} By time: where(…) on a column of yours"),
    Habit("startingOffsetsByTimestampStrategy", KAFKA, f"{_OFFSETS} By time: where(…) on a column of yours"),
    Habit("endingTimestamp", KAFKA, f"{_ENDING} By time: where(…) on a column of yours"),
    Habit("endingOffsetsByTimestamp", KAFKA, f"{_ENDING} By time: where(…) on a column of yours"),
    Habit("maxOffsetsPerTrigger", KAFKA, _LIMIT),
    Habit("minOffsetsPerTrigger", KAFKA, 'did you mean .trigger(processingTime="10 seconds") on the query?'),
    Habit("maxTriggerDelay", KAFKA, 'did you mean .trigger(processingTime="10 seconds") on the query?'),
    Habit("minPartitions", KAFKA, _SPLIT),
    Habit("maxRecordsPerPartition", KAFKA, _SPLIT),
    Habit("includeHeaders", KAFKA, "rows have columns and no headers; partition and offset come with includeOffsets"),
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
    Habit("readChangeFeed", DELTA, "every row of a topic is an insert: leave it out"),
    Habit("replaceWhere", DELTA, _GROWS),
    Habit("partitionOverwriteMode", DELTA, _GROWS),
    Habit("overwriteSchema", DELTA, "a topic keeps its columns: take a new topic"),
    Habit("dbtable", JDBC, _TOPIC),
    Habit("query", JDBC, f"{_TOPIC} The query comes after: .load().where(…)"),
    Habit("user", JDBC, _CREDENTIALS),
    Habit("password", JDBC, _CREDENTIALS),
    Habit("driver", JDBC, "the client needs no driver: leave it out"),
    Habit("queryTimeout", JDBC, _TIMEOUT),
    Habit("batchsize", JDBC, "rows go in chunks of a size that fits: leave it out"),
    Habit("fetchsize", JDBC, "rows come in chunks of a size that fits: leave it out"),
    Habit("partitionColumn", JDBC, _SPLIT),
    Habit("lowerBound", JDBC, _SPLIT),
    Habit("upperBound", JDBC, _SPLIT),
    Habit("numPartitions", JDBC, _SPLIT),
    Habit("truncate", JDBC, _GROWS),
    Habit("isolationLevel", JDBC, "each write mode says what becomes visible when: leave it out"),
)
_BY_NAME = {habit.name.lower(): habit for habit in HABITS}
_ANY_OF_KAFKA = Habit("kafka.*", KAFKA, "no Kafka client works here: leave it out")


def answer(name: str) -> str | None:
    """What to write in place of another connector's option; None for a name that none of them has."""
    habit = _BY_NAME.get(name) or (_ANY_OF_KAFKA if name.startswith("kafka.") else None)
    if habit is None:
        return None
    shown = name if habit is _ANY_OF_KAFKA else habit.name
    return f"{shown} is {habit.connector}'s option; {habit.here}"


def in_our_names(raw: Mapping[str, str]) -> dict[str, str]:
    """A read's options with ours in place of those that say the same. Raises BadOption where the two differ."""
    ours = dict(raw)
    for their_name, our_name in SAME_ON_READS.items():
        if their_name.lower() not in raw:
            continue
        value = ours.pop(their_name.lower()).strip()
        if their_name == "subscribe" and "," in value:
            raise BadOption(f"subscribe names {value!r}, and a read is of one topic: read each, and unionByName them")
        if ours.setdefault(our_name.lower(), value) != value:
            raise BadOption(
                f"{their_name} says {value!r} and {our_name} says {ours[our_name.lower()]!r}; give one of them"
            )
    return ours


def habit_rows() -> list[tuple[str, str, str]]:
    """The documentation's table: the name, whose it is, and what takes its place here, as texts."""
    return [
        (habit.name, habit.connector, f"taken as `{ours}` on a read" if ours else habit.here)
        for habit in (*HABITS, _ANY_OF_KAFKA)
        for ours in [SAME_ON_READS.get(habit.name)]
    ]
