"""Rows as records of Kafka topics, and the driver's errors."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncegate_spark.errors import BadOption, NotFound, OncegateError, Refused
from oncegate_spark.spark.datasource import OncegateSource
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.sink import TOPICS_OF_ROWS
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.columns.records import records
from oncegate_spark.spark.writers.empty import EmptyWrite
from tests.support.stub_gateway import Answer, Asked, StubGateway, problem

RECORD = "key string, value binary, headers headers, partition int, timestamp timestamp"
BY_ID = {"write": "ids", "idCol": "id"}
LANES = {"write": "ids", "producerCol": "source", "sequenceCol": "at"}


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    "map": MapType(StringType(), BinaryType()),
}


def columns(listed: str) -> StructType:
    """Parses columns by name and type, as in "key string, n bigint"; Spark's parser needs a JVM."""
    pairs = (column.split(" ") for column in listed.split(", "))
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


def options(listed: str, **given: str) -> Options:
    return Options.read({"url": "http://gateway:1", "topic": "t", **given}, columns(listed).names)


def sent(listed: str, **given: str) -> list[str]:
    """Returns the names of the sent columns."""
    fit = records(options(listed, **given), columns(listed))
    assert fit.columns is not None
    return [field.name for _, field in fit.columns]


def refused(listed: str, **given: str) -> str:
    with pytest.raises((BadOption, Refused)) as raised:
        records(options(listed, **given), columns(listed))
    assert str(raised.value).endswith("nothing was written")
    return str(raised.value)


def test_the_columns_of_a_record_are_sent_as_they_are() -> None:
    fit = records(options(RECORD), columns(RECORD))
    assert fit.columns is not None
    assert [(place, field.name) for place, field in fit.columns] == list(enumerate(columns(RECORD).names))


def test_the_option_topic_goes_before_the_column() -> None:
    assert sent("topic string, value string") == ["value"]
    assert sent("topic bigint, value string") == ["value"], "the column is ignored, as in Spark's sink"


def test_the_column_topic_decides_where_no_option_does() -> None:
    assert sent("topic string, value string", topic="") == ["topic", "value"]
    assert options("topic string, value string", topic="").topic == TOPICS_OF_ROWS


def test_a_topic_column_that_is_part_of_the_id_does_not_decide() -> None:
    listed = "topic string, topic_of_row string, value string"
    given = {"write": "ids", "idCol": "topic,topic_of_row"}
    assert sent(listed, **given) == ["topic_of_row_", "topic_of_row", "value"]
    fit = records(options(listed, **given), columns(listed))
    assert fit.renamed(options(listed, **given), columns(listed).names).id_names == ("topic_of_row_", "topic_of_row")


def test_extra_columns_that_a_write_needs_are_accepted() -> None:
    assert sent("id bigint, value string", **BY_ID) == ["id", "value"]
    assert sent("id bigint, n int, value string", **BY_ID, digestCols="n") == ["id", "n", "value"]
    assert records(options("source string, at bigint, value string", **LANES), columns("value string")).used_up == ()
    listed = "source string, at bigint, value string"
    assert records(options(listed, **LANES), columns(listed)).used_up == ("source",)
    of_topics = {**LANES, "producerCol": "topic"}
    listed = "topic string, at bigint, value string"
    assert records(options(listed, **of_topics), columns(listed)).used_up == ("topic_of_row",)


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ("key string", 'required column \'value\' not found: write df.select(F.to_json(F.struct("*")).alias("value"))'),
        ("key string, value bigint", 'value is of type bigint.*F.col("value").cast("string")'),
        (
            "key int, value string",
            'key is of type int.*string or binary.*F.col("key").cast("string")',
        ),
        ("value string, partition bigint", 'partition is of type bigint.*cast("int")'),
        ("value string, headers map", 'cast("array<struct<key:string,value:binary>>")'),
        ("value string, timestamp bigint", 'timestamp is of type bigint.*cast("timestamp")'),
        ("value string, carrier string", 'carrier: not a column of a Kafka record.*df.select("value")'),
        ("Value string", 'Value: not a column of a Kafka record.*.alias("value"))'),
    ],
)
def test_what_can_be_no_record_is_refused_with_the_line_to_write(listed: str, told: str) -> None:
    text = refused(listed)
    assert all(part in text for part in told.split(".*")), text


def test_a_column_that_is_an_id_elsewhere_is_no_part_of_a_record() -> None:
    assert 'write df.select("value")' in refused("id bigint, value string")


def test_a_topic_of_another_type_is_refused_where_it_decides() -> None:
    assert "topic is of type bigint" in refused("topic bigint, value string", topic="")


def test_options_without_meaning_for_records_are_refused() -> None:
    assert "keyCol has no effect on Kafka topics" in refused("key string, value string", keyCol="key")
    assert "mergeSchema has no effect" in refused("value string", mergeSchema="true")


def test_ids_of_rows_with_their_own_topics_need_a_set_by_name() -> None:
    """Otherwise ids of all jobs and topics would share one scope."""
    listed = "id bigint, topic string, value string"
    assert 'add .option("idSet", ' in refused(listed, topic="", **BY_ID)
    assert sent(listed, topic="", idSet="orders", **BY_ID) == ["id", "topic", "value"]


class Gateway:
    """A gateway that answers as one on Kafka does."""

    def __init__(self, topics: tuple[str, ...] = ("t",), **namespace: Any) -> None:
        self.topics = topics
        self.namespace = {"auto_create_topics": True, "topics_at": "broker:9092", **namespace}
        self.stub = StubGateway(otherwise=self.answer)

    def answer(self, asked: Asked) -> Answer:
        if asked.method == "POST":
            there = asked.path.split("/topics/")[1].split("/")[0] in self.topics
            done = {"rows": 0, "offsets": []}
            return Answer(body=json.dumps(done).encode()) if there else problem(404, "NOT_FOUND", "fix")
        if "/topics/" in asked.path:
            return problem(404, "NOT_FOUND", "fix")
        return Answer(body=json.dumps(self.namespace).encode())

    def begin(self, listed: str, **given: str) -> Any:
        """Begins a `df.write` as Spark does on the driver."""
        return OncegateSource({"url": self.stub.url, "timeoutMs": "5000", **given}).writer(columns(listed), False)

    def refused(self, listed: str, **given: str) -> OncegateError:
        with pytest.raises(OncegateError) as raised:
            self.begin(listed, **given)
        return raised.value

    def asked(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.stub.asked]


def test_the_driver_asks_for_the_topic_and_refuses_one_that_is_not_there() -> None:
    gateway = Gateway()
    with gateway.stub:
        gateway.begin("value string", topic="t")
        assert gateway.asked()[-1].endswith("/topics/t/records:produce")
        error = gateway.refused("value string", topic="nowhere")
        assert isinstance(error, NotFound)
        assert str(error).startswith("before any task: ")


def test_topics_that_rows_name_are_left_to_the_tasks() -> None:
    gateway = Gateway()
    with gateway.stub:
        writer = gateway.begin("topic string, value string")
        assert not any(line.startswith("POST") for line in gateway.asked())
        assert writer.writer.options.topic == TOPICS_OF_ROWS


def test_a_column_topic_is_enough_on_kafka_alone() -> None:
    gateway = Gateway()
    del gateway.namespace["topics_at"]
    with gateway.stub:
        error = gateway.refused("topic string, value string")
        assert str(error) == 'write=staged needs a topic; add .option("topic", "<topic>")'
        gateway.begin("topic string, n bigint", topic="t")
        assert "topics" not in str(gateway.refused("n bigint")).split(";")[0]


def test_a_write_of_no_rows_makes_no_topic_there() -> None:
    gateway = Gateway()
    with gateway.stub:
        given = Options.read({"url": gateway.stub.url, "topic": "t"})
        EmptyWrite(given, columns("value string")).make_topic()
        assert not any(line.startswith("PUT") for line in gateway.asked())


def test_a_read_shows_how_kafka_is_read() -> None:
    gateway = Gateway()
    with gateway.stub:
        for given in ({}, {"waitForTopic": "true"}):
            source = OncegateSource({"url": gateway.stub.url, "topic": "t", **given})
            with pytest.raises(Refused, match=r'format\("kafka"\).*"broker:9092".*read_committed') as raised:
                source.schema()
            assert raised.value.code == "READ_ELSEWHERE"


def test_a_column_that_is_used_up_is_not_in_what_a_task_sends() -> None:
    listed = "source string, at bigint, value string"
    fit = records(options(listed, **LANES), columns(listed))
    rows = pa.RecordBatch.from_pydict({"source": ["s"], "at": [1], "value": ["v"]})
    (fitted,) = fit.applied([rows], Task())
    assert pa.Table.from_batches([fitted]).drop_columns(list(fit.used_up)).column_names == ["at", "value"]
