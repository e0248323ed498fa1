"""Reads the options of Spark's Kafka source in an analyzed plan, and warns where it reads what is not committed.

Source: the connectors 4.1.0 and 4.2.0 on Spark 4.3.0: a stream is a StreamingRelationV2, a batch a LogicalRelation over
a KafkaRelation, whose options are private.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from oncegate_spark.errors import NOTHING, Refused, SourceReplaced

SOURCE = "kafka"  # the format's name, as the plan of a stream shows it
ISOLATION = "kafka.isolation.level"
UNCOMMITTED = (
    "the Kafka source reads rows of transactions that are open or aborted (read_uncommitted, Spark's default), and "
    f'such a row is written once too: where a producer of the topic uses transactions, write .option("{ISOLATION}", '
    '"read_committed") on the source'
)


class SourceOptions(Protocol):
    """The options of a source by their names, in any case."""

    def get(self, name: str) -> Any:
        """Returns an option's text; None where it is not given."""


def kafka_options(plan: Any) -> Iterator[SourceOptions]:
    """Yields the options of each Kafka source of an analyzed plan, as far as the plan shows them."""
    leaves = plan.collectLeaves()
    for leaf in (leaves.apply(number) for number in range(leaves.size())):
        name = str(leaf.nodeName())
        if name.startswith("StreamingRelationV2") and str(leaf.sourceName()).lower() == SOURCE:
            yield leaf.extraOptions()
        elif name.startswith("LogicalRelation") and str(leaf.relation().getClass().getSimpleName()) == "KafkaRelation":
            yield _BatchOptions(leaf.relation())


class _BatchOptions:
    """Reads the options of a batch read."""

    def __init__(self, relation: Any) -> None:
        from py4j.protocol import Py4JError

        try:
            field = relation.getClass().getDeclaredField("sourceOptions")
            field.setAccessible(True)
            self._options = field.get(relation)
        except Py4JError:  # another version's
            self._options = None

    def get(self, name: str) -> Any:
        """Returns an option's text; None where there is none, or options cannot be read."""
        option = None if self._options is None else self._options.get(name)
        return None if option is None or option.isEmpty() else option.get()


def reads_uncommitted(options: SourceOptions) -> bool:
    """Returns whether a Kafka source of these options reads rows that are not committed."""
    level = options.get(ISOLATION)
    return level is None or str(level).strip().lower() != "read_committed"


# Behind a lane's name in its column: Kafka's topic id, which a topic that is made again has not. No topic's name has
# a # in it.
_OF_SOURCE = re.compile("(.+)#([A-Za-z0-9_-]{22})")
_NO_ID = "A" * 22  # of brokers before 2.8, which know none
_LOOK_MS = 30_000
SERVERS = "kafka.bootstrap.servers"


def source_of(lane: str) -> tuple[str, str | None]:
    """Returns the name of a lane, and the id of its source; None where the column names none."""
    match = _OF_SOURCE.fullmatch(lane)
    return (lane, None) if match is None else (match[1], match[2])


def replaced(error: SourceReplaced) -> SourceReplaced:
    """The refusal of rows of a topic that was made again, with the lines to write."""
    return SourceReplaced(
        f'{error}. In Spark: assign_sequences(df, prefix="<a new text>-") writes all rows of the topic as new; '
        'assign_sequences(df, topic_ids={"<topic>": "<the id from before>"}) goes on where the records are the same',
        outcome=error.outcome,
        code=error.code,
    )


def topic_ids(session: Any, options: Any) -> dict[str, str]:
    """Asks brokers for the ids of the topics that a Kafka source of these options names: by topic, through the session.

    Empty where brokers know no ids, and for topics that are not there yet. Raises Refused where they cannot be asked.
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
            "the ids of the source's topics cannot be read, by which a topic that was made again is known "
            f"({why}): write assign_sequences(df, topic_ids={{...}}), with the id of each topic, as "
            f"`kafka-topics.sh --describe` shows it, or topic_ids={{}} to go without{NOTHING}"
        ) from error


def _topics(jvm: Any, admin: Any, options: Any) -> Any:
    """Those of the source that are there: subscribed by name or pattern, or assigned by partition."""
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
