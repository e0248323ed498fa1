"""Reads the options of Spark's Kafka source in an analyzed plan, and warns where it reads what is not committed.

Source: the connectors 4.1.0 and 4.2.0 on Spark 4.3.0: a stream is a StreamingRelationV2, a batch a LogicalRelation over
a KafkaRelation, whose options are private.
"""

from collections.abc import Iterator
from typing import Any, Protocol

SOURCE = "kafka"  # the format's name, as the plan of a stream shows it
ISOLATION = "kafka.isolation.level"
UNCOMMITTED = (
    "the Kafka source reads rows of transactions that are open or aborted (read_uncommitted, Spark's default), and "
    f'such a row is written once too: where a producer of the topic uses transactions, write .option("{ISOLATION}", '
    '"read_committed") on the source'
)


class Options(Protocol):
    """The options of a source by their names, in any case."""

    def get(self, name: str) -> Any:
        """Returns an option's text; None where it is not given."""


def kafka_options(plan: Any) -> Iterator[Options]:
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
        found = None if self._options is None else self._options.get(name)
        return None if found is None or found.isEmpty() else found.get()


def reads_uncommitted(options: Options) -> bool:
    """Returns whether a Kafka source of these options reads rows that are not committed."""
    level = options.get(ISOLATION)
    return level is None or str(level).strip().lower() != "read_committed"
