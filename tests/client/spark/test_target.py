"""The driver's checks before any task: of the schema alone, and by one request to the gateway."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

from deploy.ports import free_port
from oncegate.transports.decode import names as gateways
from oncegate_spark import Gateway
from oncegate_spark.errors import BadId, BadOption, LedgerBehind, NotFound, OncegateError, Outcome, Refused, Unreachable
from oncegate_spark.protocol import names
from oncegate_spark.spark.datasource import Message, OncegateSource
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers import check_schema, target
from oncegate_spark.spark.writers.columns.planning import check_size, least_size
from oncegate_spark.spark.writers.common import TaskMark
from oncegate_spark.spark.writers.plain import TaskProduced
from tests.support.stub_gateway import Answer, StubGateway

pytestmark = pytest.mark.server
ROWS = StructType([StructField("id", StringType()), StructField("n", LongType())])
COLUMNS = [("id", pa.string()), ("n", pa.int64())]


def begin(gateway: Gateway, schema: StructType = ROWS, **given: str) -> Any:
    """Begins a `df.write` as Spark does on the driver."""
    options = {"url": gateway.url, "namespace": gateway.namespace, "topic": "t", "timeoutMs": "1000", **given}
    return OncegateSource(options).writer(schema, False)


def refused(gateway: Gateway, schema: StructType = ROWS, **given: str) -> OncegateError:
    with pytest.raises(OncegateError) as raised:
        begin(gateway, schema, **given)
    assert raised.value.outcome is Outcome.NOT_WRITTEN
    assert str(raised.value).count("nothing was written") == 1
    return raised.value


def test_a_missing_namespace_is_found_before_any_task(gateway: Gateway) -> None:
    for given in ({}, {"write": "claim", "idCol": "id", "sink": "a:b", "topic": ""}):
        error = refused(gateway, namespace="nowhere", **given)
        assert isinstance(error, NotFound)
        assert "no namespace nowhere" in str(error)


def test_a_topic_that_is_not_there_is_made_by_the_write_or_is_found_missing(gateway: Gateway) -> None:
    begin(gateway)
    assert gateway.topics() == []
    with Gateway(gateway.url, f"{gateway.namespace}-fixed") as fixed:
        fixed.create_namespace(auto_create_topics=False)
        assert isinstance(refused(fixed), NotFound)
        fixed.create_topic("t")
        begin(fixed)


def test_a_write_of_no_rows_makes_the_topic_that_a_write_of_rows_would_make(gateway: Gateway) -> None:
    for given in (
        {"write": "plain"},
        {"write": "plain"},
        {"write": "claim", "idCol": "id", "sink": "a:b", "topic": "c"},
    ):
        begin(gateway, **given).empty.make_topic()
        assert gateway.topics() == ["t"]
    gateway.create_topic("bare", partitions=2)
    writer = begin(gateway, topic="bare", write="plain")
    writer.commit([Message(TaskProduced(0, TaskMark(None, None)), 0)])
    for topic, partitions in (("t", 1), ("bare", 2)):
        made = gateway.topic(topic)
        assert (made.schema, len(made.high_offsets)) == (pa.schema(COLUMNS), partitions)
    gateway.create_topic("other", schema=pa.schema([("x", pa.int64())]))
    writer = begin(gateway, topic="later", write="plain")
    writer.commit([Message(TaskProduced(1, TaskMark(None, None)), 1)])
    assert gateway.topics() == ["bare", "other", "t"]


def test_a_topics_name_is_checked_by_the_gateways_rule(gateway: Gateway) -> None:
    assert names.TOPIC == gateways.TOPIC
    for name in ("a b", "-a", "ä", "x" * 250):
        assert isinstance(refused(gateway, topic=name), BadOption)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([("id", pa.string())], r'the topic has no n: write df.select\("id"\); or add the columns with .*mergeSchema'),
        ([("n", pa.int64())], r'the topic has no id: write df.select\("n"\)'),
        ([("x", pa.int64())], r"the topic has no id, n: add the columns"),
        (
            [("n", pa.int16()), ("id", pa.string())],
            r'n is int64 and int16 there: write df.select\(F.col\("n"\).cast\("smallint"\), "id"\)',
        ),
        ([("id", pa.string()), ("n", pa.list_(pa.int64()))], "n is int64 and list.* there: use a new topic"),
    ],
)
def test_columns_that_differ_from_the_topics_are_found_before_any_task(
    gateway: Gateway, columns: list[tuple[str, pa.DataType]], told: str
) -> None:
    gateway.create_topic("t", schema=pa.schema(columns))
    with pytest.raises(Refused, match=told) as raised:
        begin(gateway)
    assert raised.value.code == "SCHEMA"


def test_zones_nulls_inside_and_large_offsets_are_no_difference(gateway: Gateway) -> None:
    kinds = [pa.timestamp("us", "Asia/Tokyo"), pa.list_(pa.field("element", pa.int64(), False)), pa.large_string()]
    gateway.create_topic("t", schema=pa.schema(list(zip("abc", kinds, strict=True))))
    fields = zip("abc", [TimestampType(), ArrayType(LongType()), StringType()], strict=True)
    begin(gateway, StructType([StructField(*field) for field in fields]))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (NullType(), r'x is of type void.*F.col\("x"\).cast\("string"\)'),
        (YearMonthIntervalType(), r'x is of type interval year to month.*F.col\("x"\).cast\("string"\)'),
        (ArrayType(NullType()), r'x.element is of type void.*df.drop\("x"\)'),
        (MapType(LongType(), YearMonthIntervalType()), "x.value is of type interval year to month"),
        (StructType([StructField("a", NullType())]), "x.a is of type void"),
        (StructType(), r"x is of type struct<>.*df.drop"),
    ],
)
def test_a_type_that_cannot_be_written_is_refused_with_its_column(gateway: Gateway, kind: Any, told: str) -> None:
    with pytest.raises(BadOption, match=told):
        begin(gateway, StructType([StructField("x", kind)]))


def test_rows_without_columns_are_refused(gateway: Gateway) -> None:
    gateway.create_topic("t", schema=pa.schema(COLUMNS))
    with pytest.raises(BadOption, match="the rows have no columns"):
        begin(gateway, StructType())


def test_a_row_too_large_by_its_types_is_refused(gateway: Gateway) -> None:
    wide = StructType([StructField("x", StructType([StructField(f"c{n}", LongType()) for n in range(1_001)]))])
    with pytest.raises(Refused, match=r"the rows have 1001 columns, .* limit is 1000") as raised:
        begin(gateway, wide)
    assert raised.value.code == "TOO_LARGE"
    begin(gateway, StructType([StructField(f"c{n}", LongType()) for n in range(1_000)]))
    limits = {"columns_per_request": 1_000, "record_bytes": 1_000}
    check_size(*least_size(StructType([StructField(f"c{n}", LongType()) for n in range(125)])), limits)
    with pytest.raises(Refused, match="each row takes at least 1008 bytes"):
        check_size(*least_size(StructType([StructField(f"c{n}", LongType()) for n in range(126)])), limits)
    lists = StructType([StructField(f"c{n}", ArrayType(LongType())) for n in range(126)])
    assert least_size(lists) == (126, 0)


@pytest.mark.parametrize("kind", [StringType("UNICODE_CI"), ArrayType(StringType("UTF8_LCASE"))])
def test_a_collation_is_refused_by_name_where_a_topic_would_lose_it(gateway: Gateway, kind: Any) -> None:
    schema = StructType([StructField("id", StringType()), StructField("x", kind)])
    with pytest.raises(BadOption, match=r"column x.* is of type string collate \w+, which cannot be written"):
        begin(gateway, schema)
    claim = {"write": "claim", "idCol": "id", "sink": "a:b"}
    begin(gateway, schema, **claim)
    with pytest.raises(BadId, match=r"x is of type .*string collate"):
        begin(gateway, schema, **{**claim, "idCol": "x"})
    with pytest.raises(BadId, match=r"x is of type .*string collate"):
        begin(gateway, schema, **claim, digestCols="x")


def test_a_type_that_can_be_written_is_not_refused(gateway: Gateway) -> None:
    begin(gateway, StructType([StructField("x", DayTimeIntervalType()), StructField("y", ArrayType(ROWS))]))
    claim = Options.read({"url": gateway.url, "write": "claim", "idCol": "id", "sink": "a:b"})
    check_schema(claim, StructType([*ROWS.fields, StructField("x", NullType())]))


def test_https_to_a_port_without_tls_is_refused_at_the_first_try(gateway: Gateway, connect: Any) -> None:
    url = gateway.url.replace("http:", "https:")
    error = refused(gateway, url=url, timeoutMs="600000")
    assert error.code == "ADDRESS"
    assert "does not speak TLS: write http://" in str(error)
    with connect(url) as other, pytest.raises(Refused, match="does not speak TLS"):
        other.describe()


def test_a_port_where_no_gateway_listens_is_one_error_of_the_driver(gateway: Gateway) -> None:
    error = refused(gateway, url=f"http://127.0.0.1:{free_port()}")
    assert isinstance(error, Unreachable)
    assert "before any task" in str(error)
    with StubGateway(Answer(status=404, body=b"<html>")) as stub:
        error = refused(gateway, url=stub.url)
    assert isinstance(error, Refused)
    assert "HTTP 404, which no gateway answers; check the port" in str(error)


def test_a_gateway_that_starts_again_is_waited_for_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, gateway: Gateway
) -> None:
    monkeypatch.setattr(target, "SOON_MS", 1_000)
    away = Answer(
        status=503, body=json.dumps({"code": "STARTING", "action": "retry", "retry_after_ms": 2_000}).encode()
    )
    known = json.dumps({"topic": "t", "low_offsets": [0], "high_offsets": [0], "retention_ms": 0, "retention_bytes": 0})
    with (
        StubGateway(away, Answer(), Answer(body=known.encode())) as stub,
        caplog.at_level(logging.WARNING, "oncegate_spark"),
    ):
        begin(gateway, url=stub.url, timeoutMs="20000")
    assert "STARTING" in caplog.text
    assert "retries for 20000 ms in total" in caplog.text


@pytest.mark.parametrize(
    ("settings", "write", "warned"),
    [
        ({}, "ids", None),
        ({"shadow": True}, "ids", "write=ids into namespace .* is at least once, by its setting shadow"),
        ({"shadow": True}, "claim", "is at least once, by its setting shadow: shadow mode: every verdict is GRANTED"),
        ({"shadow": True}, "staged", None),
        ({"on_ledger_down": "pass_marked"}, "claim", "by claims that pass unchecked .*, by its setting on_ledger_down"),
        ({"on_ledger_down": "pass_marked"}, "ids", None),
    ],
)
def test_a_namespace_whose_settings_leave_less_of_the_promise_is_warned_of_before_any_task(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], write: str, warned: str | None
) -> None:
    gateway.create_namespace(**settings)
    more = {"staged": {}, "ids": {"idCol": "id"}, "claim": {"idCol": "id", "sink": "a:b"}}[write]
    for _ in range(2):  # with a missing topic, and with an existing one
        with caplog.at_level(logging.WARNING, "oncegate_spark"):
            caplog.clear()
            begin(gateway, write=write, **more)
        assert bool(re.search(warned or "by its setting", caplog.text)) is (warned is not None), caplog.text
        gateway.create_topic("t")


def test_an_older_ledger_is_noticed_before_any_task(gateway: Gateway, tmp_path: Path) -> None:
    from oncegate_spark.protocol import marks

    gateway.create_topic("t")
    mark = gateway.mark
    assert mark is not None
    marks.keep(tmp_path, gateway.namespace, mark[:-1] + ("0" if mark[-1] != "0" else "1"))
    with pytest.raises(LedgerBehind):
        begin(gateway, checkpointLocation=str(tmp_path), txnAppId="daily", txnVersion="1")
