"""Reads the options of Spark's Kafka source from an analyzed plan, and warns if it reads uncommitted records.

Source: the connectors 4.1.0 and 4.2.0 on Spark 4.3.0: a stream is a StreamingRelationV2, a batch a LogicalRelation over
a KafkaRelation, whose options are private.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from oncegate_spark.errors import NOTHING, Refused, SourceReplaced

SOURCE = "kafka"  # the format's name in the plan of a stream
ISOLATION = "kafka.isolation.level"
UNCOMMITTED = (
    "the Kafka source reads records of open and aborted transactions (read_uncommitted, Spark's default), and "
    f'such a record is written too: if a producer of the topic uses transactions, set .option("{ISOLATION}", '
    '"read_committed") on the source'
)


class SourceOptions(Protocol):
    """Options of a source by case-insensitive name."""

    def get(self, name: str) -> Any:
        """Returns an option's value; None if it is not set."""


def kafka_options(plan: Any) -> Iterator[SourceOptions]:
    """Yields the options of each Kafka source in an analyzed plan, as far as the plan has them."""
    leaves = plan.collectLeaves()
    for leaf in (leaves.apply(number) for number in range(leaves.size())):
        name = str(leaf.nodeName())
        if name.startswith("StreamingRelationV2") and str(leaf.sourceName()).lower() == SOURCE:
            yield leaf.extraOptions()
        elif name.startswith("LogicalRelation") and str(leaf.relation().getClass().getSimpleName()) == "KafkaRelation":
            yield _BatchOptions(leaf.relation())


class _BatchOptions:
    """Options of a batch read."""

    def __init__(self, relation: Any) -> None:
        from py4j.protocol import Py4JError

        try:
            field = relation.getClass().getDeclaredField("sourceOptions")
            field.setAccessible(True)
            self._options = field.get(relation)
        except Py4JError:  # another version's class
            self._options = None

    def get(self, name: str) -> Any:
        """Returns an option's value; None if it is not set, or options cannot be read."""
        option = None if self._options is None else self._options.get(name)
        return None if option is None or option.isEmpty() else option.get()


def reads_uncommitted(options: SourceOptions) -> bool:
    """True if a Kafka source with these options reads uncommitted records."""
    level = options.get(ISOLATION)
    return level is None or str(level).strip().lower() != "read_committed"


# Kafka's topic id after the lane's name in its column, which changes if the topic is created again. Topic names contain
# no #.
_OF_SOURCE = re.compile("(.+)#([A-Za-z0-9_-]{22})")
_NO_ID = "A" * 22  # of brokers before 2.8, which have no ids
_LOOK_MS = 30_000
SERVERS = "kafka.bootstrap.servers"


def source_of(lane: str) -> tuple[str, str | None]:
    """Splits a column's value into the lane's name and the id of its source; None if it has no id."""
    match = _OF_SOURCE.fullmatch(lane)
    return (lane, None) if match is None else (match[1], match[2])


def replaced(error: SourceReplaced) -> SourceReplaced:
    """Returns the error for rows of a recreated topic, with the lines of code that fix it."""
    return SourceReplaced(
        f'{error}. In Spark: assign_sequences(df, prefix="<a new text>-") writes all rows of the topic as new; '
        'assign_sequences(df, topic_ids={"<topic>": "<the previous id>"}) continues if the records are the same',
        outcome=error.outcome,
        code=error.code,
    )


def topic_ids(session: Any, options: Any) -> dict[str, str]:
    """Returns the brokers' ids of the topics of a Kafka source with these options, by topic, through the session's JVM.

    Empty if brokers have no ids; topics that do not exist yet are left out. Raises Refused if brokers do not answer.
    """
    if options.get(SERVERS) is None:
        return {}
    from py4j.protocol import Py4JError

    jvm = session._jvm
    try:
        settings = jvm.java.util.HashMap()
        for name in map(str, options.keySet().toArray()):
            if name.lower().startswith("kafka."):
                settings.put(name[len("kafka.") :], options.get(name))
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            names = _topics(jvm, admin, options)
            patient = _patient(jvm.org.apache.kafka.clients.admin.DescribeTopicsOptions())
            futures = admin.describeTopics(names, patient).topicNameValues()
            ids = {str(name): str(futures[name].get().topicId().toString()) for name in futures}
            return {name: topic_id for name, topic_id in ids.items() if topic_id != _NO_ID}
        finally:
            admin.close()
    except (Py4JError, TypeError) as error:
        why = " ".join(str(getattr(error, "java_exception", error)).split())[:300]
        raise Refused(
            "the ids of the source's topics, which reveal that a topic was created again, cannot be read "
            f"({why}): set assign_sequences(df, topic_ids={{...}}) with the id of each topic, as printed by "
            f"`kafka-topics.sh --describe`, or topic_ids={{}} to disable the check{NOTHING}"
        ) from error


def _topics(jvm: Any, admin: Any, options: Any) -> Any:
    """Returns the source's existing topics: subscribed by name or pattern, or assigned by partition."""
    there = admin.listTopics(_patient(jvm.org.apache.kafka.clients.admin.ListTopicsOptions())).names().get()
    subscribed, pattern = options.get("subscribe"), options.get("subscribePattern")
    names = jvm.java.util.ArrayList()
    for name in (str(name) for name in there.toArray()):
        if subscribed is not None:
            is_ours = name in {name.strip() for name in str(subscribed).split(",")}
        elif pattern is not None:
            is_ours = bool(jvm.java.util.regex.Pattern.matches(str(pattern), name))
        else:
            is_ours = name in json.loads(str(options.get("assign") or "{}"))
        if is_ours:
            names.add(name)
    return names


def _patient(options: Any) -> Any:
    return options.timeoutMs(_LOOK_MS)
