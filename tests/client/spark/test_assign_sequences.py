"""The check of a plan, on handmade plans like those of the Kafka connector; tests/spark has real ones."""

from typing import Any

import pytest

from oncegate_spark.errors import Refused
from oncegate_spark.spark.assign_sequences import check_lanes
from oncegate_spark.spark.kafka_source import kafka_options, reads_uncommitted, source_of


class Children(list[Any]):
    def size(self) -> int:
        return len(self)

    def head(self) -> Any:
        return self[0]


class Node:
    """The part of a logical plan that is checked."""

    def __init__(self, name: str, *children: Any, shuffle: bool = False) -> None:
        self.name, self._children, self._shuffle = name, Children(children), shuffle

    def nodeName(self) -> str:
        return self.name

    def children(self) -> Children:
        return self._children

    def shuffle(self) -> bool:
        return self._shuffle


class Options(dict[str, str]):
    """A CaseInsensitiveStringMap."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key.lower(), default)


class Leaf(Node):
    def __init__(self, source: str, name: str = "StreamingRelationV2", **options: str) -> None:
        super().__init__(name)
        self._source, self._options = source, Options({key.lower(): value for key, value in options.items()})

    def sourceName(self) -> str:
        return self._source

    def extraOptions(self) -> Options:
        return self._options

    def collectLeaves(self) -> "Leaves":
        return Leaves([self])


class Leaves(list[Any]):
    """A Scala Seq."""

    def apply(self, number: int) -> Any:
        return self[number]

    def size(self) -> int:
        return len(self)


def test_a_kafka_stream_through_filters_columns_and_a_coalesce_is_taken() -> None:
    check_lanes(Node("Project", Node("Filter", Node("Repartition", Leaf("kafka", subscribe="events")))))


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (Leaf("kafka", minPartitions="8"), "minPartitions"),
        (Leaf("kafka", maxRecordsPerPartition="8"), "maxRecordsPerPartition"),
        (Leaf("rate"), "no Kafka stream"),
        (Node("LogicalRDD"), "no Kafka stream"),
        (Node("LogicalRelation"), "no Kafka stream"),
        (Node("Repartition", Leaf("kafka"), shuffle=True), "Repartition comes between"),
        (Node("Join", Leaf("kafka"), Leaf("kafka")), "Join comes between"),
        (Node("SomethingNew", Leaf("kafka")), "SomethingNew comes between"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_whatever_may_split_or_shuffle_a_lane_is_refused(plan: Any, told: str) -> None:
    with pytest.raises(Refused, match=rf"{told}.*idCol.*staged"):
        check_lanes(Node("Project", plan))


@pytest.mark.parametrize(
    ("level", "is_uncommitted"),
    [(None, True), ("read_uncommitted", True), ("READ_COMMITTED", False), ("read_committed", False), ("x", True)],
)
def test_a_kafka_source_reads_uncommitted_rows_unless_configured_otherwise(
    level: str | None, is_uncommitted: bool
) -> None:
    given = {} if level is None else {"kafka.isolation.level": level}
    (options,) = kafka_options(Leaf("kafka", **given))
    assert reads_uncommitted(options) is is_uncommitted


def test_other_sources_have_no_isolation_level() -> None:
    assert list(kafka_options(Leaf("rate"))) == []


@pytest.mark.parametrize(
    ("lane", "name", "source_id"),
    [
        ("events-3#AbCdEfGhIjKlMnOpQr_-uv", "events-3", "AbCdEfGhIjKlMnOpQr_-uv"),
        ("events-3", "events-3", None),
        ("a#b-3", "a#b-3", None),
        ("#AbCdEfGhIjKlMnOpQr_-uv", "#AbCdEfGhIjKlMnOpQr_-uv", None),
        ("events-3#AbCdEfGhIjKlMnOpQr_-u", "events-3#AbCdEfGhIjKlMnOpQr_-u", None),
    ],
)
def test_a_lane_is_identified_by_its_name_and_its_source_by_its_origin(
    lane: str, name: str, source_id: str | None
) -> None:
    assert source_of(lane) == (name, source_id)
