"""Rows are fitted to their topic by column name, in every way to write; other differences are refused before any
task."""

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType, VariantType

from oncegate_spark import Gateway
from oncegate_spark.errors import BadId, BatchConflict, Refused, TaskFailed
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark.datasource import Message, OncegateSource
from oncegate_spark.spark.options.column_names import paired
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.columns.planning import nullable_inside, widens

pytestmark = pytest.mark.server
WAYS: dict[str, dict[str, str]] = {
    "staged": {"txnAppId": "job", "txnVersion": "1"},
    "ids": {"write": "ids", "idCol": "id"},
    "plain": {"write": "plain"},
}
TOPIC = pa.schema([("id", pa.int64()), ("who", pa.string()), ("at", pa.timestamp("us", "UTC"))])


def write(gateway: Gateway, rows: pa.RecordBatch, task: Task | None = None, **given: str) -> None:
    """Runs a `df.write` of one task, from the driver's checks to its commit; the writer is pickled as in Spark."""
    options = {"url": gateway.url, "namespace": gateway.namespace, "topic": "t", "timeoutMs": "5000", **given}
    writer = OncegateSource(options).writer(from_arrow_schema(rows.schema), False)
    carried = pickle.loads(pickle.dumps(writer))
    message = carried.writer.write(iter([rows]), new_token(), task or Task())
    writer.commit([Message(message, rows.num_rows)])


def rows_in(gateway: Gateway) -> list[dict[str, Any]]:
    table = gateway.read("t")
    return [] if table is None else table.to_pylist()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    return WAYS[request.param]


AT = datetime(2026, 11, 20, 8, 15, tzinfo=UTC)


def test_another_order_a_column_left_out_and_a_narrower_type_are_mended(gateway: Gateway, way: dict[str, str]) -> None:
    gateway.create_topic("t", schema=TOPIC)
    ids = pa.array([1, 2], pa.int32())
    write(gateway, pa.record_batch({"at": pa.array([AT, None], pa.timestamp("us", "Asia/Tokyo")), "id": ids}), **way)
    assert rows_in(gateway) == [{"id": 1, "who": None, "at": AT}, {"id": 2, "who": None, "at": None}]


@pytest.mark.parametrize("way", [WAYS["staged"], WAYS["ids"]], ids=["staged", "ids"])
def test_a_retry_in_another_order_and_of_a_narrower_type_is_known_again(
    gateway: Gateway, way: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Staged rows by their fingerprint, ids by their text: order, width and the topic's columns do not matter."""
    first = {"id": pa.array([1, 2], pa.int64()), "who": pa.array(["ann", None])}
    again = {"who": pa.array(["ann", None]), "id": pa.array([1, 2], pa.int16())}
    write(gateway, pa.record_batch(first), **way)
    gateway.create_topic("t", schema=pa.schema([("late", pa.string())]), merge_schema=True)
    write(gateway, pa.record_batch(again), **way)
    assert rows_in(gateway) == [{"id": 1, "who": "ann", "late": None}, {"id": 2, "who": None, "late": None}]
    assert "all 2 rows are suppressed" in caplog.text
    assert "not deterministic" not in caplog.text


def test_staged_rows_that_differ_in_a_value_are_another_batch(gateway: Gateway) -> None:
    """The counterpart: fitting hides no difference."""
    write(gateway, pa.record_batch({"id": [1], "who": ["ann"]}), **WAYS["staged"])
    with pytest.raises(BatchConflict):
        write(gateway, pa.record_batch({"who": ["bob"], "id": [1]}), **WAYS["staged"])
    with pytest.raises(BatchConflict):
        write(gateway, pa.record_batch({"id": [1]}), **WAYS["staged"])


def test_new_columns_are_added_when_asked_for(gateway: Gateway, way: dict[str, str]) -> None:
    write(gateway, pa.record_batch({"id": [1]}), **way)
    wider, later = pa.record_batch({"who": ["bob"], "id": [2]}), {**way}
    if "txnVersion" in later:
        later["txnVersion"] = "2"
    with pytest.raises(Refused, match=r'the topic has no who: write df.select\("id"\).*mergeSchema'):
        write(gateway, wider, **later)
    write(gateway, wider, **later, mergeSchema="true")
    if "txnVersion" in later:
        later["txnVersion"] = "3"
    write(gateway, pa.record_batch({"id": [3]}), **later)
    assert rows_in(gateway) == [{"id": 1, "who": None}, {"id": 2, "who": "bob"}, {"id": 3, "who": None}]


def test_columns_are_added_by_none_whose_other_columns_do_not_fit(gateway: Gateway) -> None:
    gateway.create_topic("t", schema=pa.schema([("id", pa.int32())]))
    with pytest.raises(Refused, match=r"id is int64 and int32 there"):
        write(gateway, pa.record_batch({"who": ["bob"], "id": [2]}), **WAYS["staged"], mergeSchema="true")
    assert gateway.topic("t").schema.names == ["id"]


def test_a_first_write_makes_a_topic_that_knows_no_sessions_zone_and_no_plans_nulls(gateway: Gateway) -> None:
    inside = pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False)))
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("at", pa.timestamp("us", "Asia/Tokyo")), inside])
    write(gateway, pa.record_batch([["a"], [AT], [["x"]]], schema=schema), **WAYS["staged"])
    found = gateway.topic("t").schema
    assert (found.field("at").type.tz, found.field("tags").type.value_field.nullable) == ("UTC", True)


def test_nested_columns_are_fitted_too(gateway: Gateway, way: dict[str, str]) -> None:
    def inside(whole: pa.DataType, **more: pa.DataType) -> pa.DataType:
        return pa.list_(pa.struct([*more.items(), ("n", whole)]))

    gateway.create_topic("t", schema=pa.schema([("id", pa.string()), ("x", inside(pa.int64(), late=pa.date32()))]))
    x = pa.array([[{"n": 1}, None], None], inside(pa.int32()))
    write(gateway, pa.record_batch({"x": x, "id": ["a", "b"]}), **way)
    assert [row["x"] for row in rows_in(gateway)] == [[{"late": None, "n": 1}, None], None]
    strange = pa.array([[{"n": 1, "m": 2}]], pa.list_(pa.struct([("n", pa.int32()), ("m", pa.int32())])))
    with pytest.raises(Refused, match=r"x is list.* there: use a new topic"):
        write(gateway, pa.record_batch({"id": ["c"], "x": strange}), **way)


def test_a_null_inside_where_the_topic_takes_none_is_refused(gateway: Gateway) -> None:
    strict = pa.list_(pa.field("element", pa.int64(), nullable=False))
    gateway.create_topic("t", schema=pa.schema([("id", pa.string()), ("x", strict)]))
    write(gateway, pa.record_batch({"id": ["a"], "x": [[1, 2]]}), write="plain")
    with pytest.raises(TaskFailed, match="column x has a null where"):
        write(gateway, pa.record_batch({"id": ["b"], "x": [[1, None]]}), write="plain")


def test_names_are_taken_without_regard_to_case_where_the_session_does(gateway: Gateway, way: dict[str, str]) -> None:
    gateway.create_topic("t", schema=pa.schema([("id", pa.string()), ("Who", pa.string())]))
    rows, options = pa.record_batch({"WHO": ["ann"], "ID": ["a"]}), {**way}
    with pytest.raises(TaskFailed, match=r"caseSensitive is true here, so .*WHO for Who"):
        write(gateway, rows, Task(is_case_sensitive=True), **options)
    write(gateway, rows, **options)
    assert rows_in(gateway) == [{"id": "a", "Who": "ann"}]


def test_exact_names_come_before_alike_ones_and_two_alike_are_none() -> None:
    assert paired(["a", "A"], ["A", "a"]) == {"A": "A", "a": "a"}
    assert paired(["ID", "who"], ["id", "who"]) == {"who": "who", "id": "ID"}
    assert paired(["ID", "Id"], ["id"]) == {}
    assert paired(["ID"], ["id", "iD"]) == {}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), "1.5"),
        (pa.array([date(2026, 11, 20)]), "2026-11-20"),
        (pa.array([AT], pa.timestamp("us", "America/New_York")), "2026-11-20T08:15:00Z"),
        (pa.array([AT.replace(tzinfo=None, microsecond=5)], pa.timestamp("us")), "2026-11-20T08:15:00.000005"),
    ],
    ids=["decimal", "date", "timestamp", "timestamp_ntz"],
)
def test_an_id_is_one_by_whichever_way_it_is_written(
    gateway: Gateway, column: pa.Array, text: str, tmp_path: Any
) -> None:
    """Rows by id, a claim, a job's take and the text itself share one scope."""
    rows = pa.record_batch({"id": column})
    write(gateway, rows, **WAYS["ids"], idSet="s")
    assert gateway.explain(text, id_set="s")["state"] == "DONE"
    files = {"sink": "oncegate_spark.spark.sinks:files", "sinkPath": str(tmp_path)}
    write(gateway, rows, write="claim", idCol="id", idSet="s", **files)
    assert list(tmp_path.iterdir()) == [], "it is written, so the sink is given nothing"
    assert not gateway.take("job", rows, id_set="s").verdicts.granted
    assert not gateway.take("job", [text], id_set="s").verdicts.granted


def test_an_id_column_that_is_a_fraction_in_the_topic_is_refused(gateway: Gateway) -> None:
    gateway.create_topic("t", schema=pa.schema([("id", pa.float64())]))
    with pytest.raises(BadId, match="column id is of type double in topic t"):
        write(gateway, pa.record_batch({"id": pa.array([1], pa.int32())}), **WAYS["ids"])


@pytest.mark.parametrize(
    ("ours", "theirs", "is_safe"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int32(), pa.float64(), True),
        (pa.int64(), pa.float64(), False),
        (pa.int32(), pa.float32(), False),
        (pa.int16(), pa.float32(), True),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.int32(), pa.decimal128(12, 2), True),
        (pa.int32(), pa.decimal128(11, 2), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 5), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 1), False),
        (pa.string(), pa.large_string(), True),
        (pa.string(), pa.binary(), False),
        (pa.int32(), pa.string(), False),
        (pa.int32(), pa.uint64(), False),
        (pa.date32(), pa.timestamp("us"), False),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), False),
        (pa.struct([("b", pa.int8()), ("a", pa.int8())]), pa.struct([("a", pa.int64()), ("b", pa.int8())]), True),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), pa.field("b", pa.int8(), False)]), False),
        (pa.struct([("A", pa.int8())]), pa.struct([("a", pa.int8())]), False),
        (pa.map_(pa.int8(), pa.int8()), pa.map_(pa.int16(), pa.int64()), True),
        (pa.list_(pa.int64()), pa.list_(pa.int8()), False),
    ],
    ids=str,
)
def test_only_a_type_that_holds_every_value_is_wider(ours: pa.DataType, theirs: pa.DataType, is_safe: bool) -> None:
    assert widens(ours, theirs) is is_safe


VARIANT = StructType([StructField("id", StringType()), StructField("v", VariantType())])


def test_a_variant_is_a_variant_in_its_topic(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """Arrow has it as a struct of bytes, and so does a topic created by an earlier version; that is logged."""
    struct = pa.struct(
        [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
    )
    value = {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
    rows = pa.record_batch({"id": ["a", "b"], "v": pa.array([value, None], struct)})
    for topic, old in [("t", False), ("old", True)]:
        if old:
            gateway.create_topic(topic, schema=pa.schema([("id", pa.string()), ("v", nullable_inside(struct))]))
        options = {"url": gateway.url, "namespace": gateway.namespace, "topic": topic, "write": "plain"}
        writer = OncegateSource(options).writer(VARIANT, False)
        writer.writer.write(iter([rows]), new_token(), Task())
        known = gateway.topic(topic).schema
        assert known is not None
        assert isinstance(from_arrow_type(known.field("v").type), VariantType) is not old
        assert gateway.read(topic).column("v").to_pylist() == [value, None]  # type: ignore[union-attr]
        warned = "v is variant here and struct<value:binary,metadata:binary> there" in caplog.text
        assert warned is old
