"""Rows encoded as values of Kafka records: another library reads them back by the registry's schema."""

import datetime
import decimal
import io
import json
import pickle
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.type.money_pb2 import Money

from oncegate_spark import formats
from oncegate_spark.errors import BadOption, Unreachable
from oncegate_spark.formats.registry import RegisteredSchema
from tests.support.schema_registry import Registry, schema_registry

SUBJECT = "orders-value"
CONTEXT = SerializationContext("orders", MessageField.VALUE)
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "price", "type": ["null", "long"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)
JSON = json.dumps({"type": "object", "title": "Order", "properties": {"id": {"type": "string"}}, "required": ["id"]})
AT = datetime.datetime(2026, 11, 25, 12, 30, tzinfo=datetime.UTC)
ROWS = pa.table({"id": ["a", "ä"], "price": [7, None], "at": pa.array([AT, AT], pa.timestamp("us", "UTC"))})
MONEY = pa.table({"currency_code": ["EUR", "SEK"], "units": [7, None]})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with schema_registry() as registry:
        yield registry


def encoded(how: formats.Format, rows: pa.Table) -> list[bytes]:
    values: list[bytes] = formats.encode(how, rows).to_pylist()
    return values


def read_back(registry: Registry, kind: Any, values: list[bytes], *arguments: Any) -> list[Any]:
    """Decodes values with confluent-kafka's own deserializer."""
    read = kind(*arguments, SchemaRegistryClient({"url": registry.url}))
    return [read(value, CONTEXT) for value in values]


def test_avro_is_read_by_the_schema_that_was_registered_with_it(registry: Registry) -> None:
    values = encoded(formats.avro(registry.url, SUBJECT, AVRO), ROWS)
    reader = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    assert [reader(value, CONTEXT) for value in values] == ROWS.to_pylist()
    assert {value[:5] for value in values} == {b"\0\0\0\0\1"}


def test_avro_finds_the_newest_schema_of_its_subject(registry: Registry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema(SUBJECT, Schema(AVRO.replace("Order", "Old"), "AVRO"))
    client.register_schema(SUBJECT, Schema(AVRO, "AVRO"))
    assert encoded(formats.avro(client, SUBJECT), ROWS)[0][:5] == b"\0\0\0\0\2"


def test_json_is_read_by_the_schema_that_was_registered_with_it(registry: Registry) -> None:
    rows = pa.table({"id": ["a", "ä"]})
    values = encoded(formats.json(registry.url, SUBJECT, JSON), rows)
    assert read_back(registry, JSONDeserializer, values, JSON, None) == rows.to_pylist()


def second_message() -> Any:
    """Returns the class of a file's second message; the wire format names it by its index in the file."""
    file = descriptor_pb2.FileDescriptorProto(name="oncegate_tests.proto", package="oncegate.tests", syntax="proto3")
    file.message_type.add(name="First")
    field = descriptor_pb2.FieldDescriptorProto
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    order.field.add(name="lines", number=2, type=field.TYPE_INT64, label=field.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("oncegate.tests.Order"))


def test_protobuf_is_read_as_the_message_that_it_was_made_of(registry: Registry) -> None:
    message = second_message()
    values = encoded(
        formats.protobuf(registry.url, SUBJECT, message), pa.table({"id": ["a", None], "lines": [[1, 2], []]})
    )
    reader = ProtobufDeserializer(
        message, {"use.deprecated.format": False}, SchemaRegistryClient({"url": registry.url})
    )
    assert [reader(value, CONTEXT) for value in values] == [message(id="a", lines=[1, 2]), message()]
    assert [value[:7] for value in values] == [b"\0\0\0\0\1\2\2"] * 2, "a zero, the schema, and one index: 1"


def test_arrow_values_are_streams_of_one_row_with_their_types() -> None:
    values = encoded(formats.arrow(ROWS.schema), ROWS)
    assert pa.concat_tables([pa.ipc.open_stream(value).read_all() for value in values]) == ROWS


def test_json_without_a_registry_keeps_what_numbers_would_round() -> None:
    row = {"n": 2**62, "price": decimal.Decimal("1.10"), "raw": b"\xff", "at": AT, "days": [datetime.date(2026, 1, 2)]}
    (value,) = encoded(formats.json(), pa.Table.from_pylist([row]))
    text = (
        '{"n":4611686018427387904,"price":"1.10","raw":"/w==","at":"2026-11-25T12:30:00+00:00","days":["2026-01-02"]}'
    )
    assert value.decode() == text


def test_a_null_row_is_a_tombstone_in_each_format(registry: Registry) -> None:
    rows = pa.array([{"id": "a"}, None], pa.struct([("id", pa.string())]))
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]})
    each = (
        formats.json(),
        formats.avro(registry.url, SUBJECT, schema),
        formats.arrow(pa.schema([("id", pa.string())])),
    )
    assert [formats.encode(how, rows).is_null().to_pylist() for how in each] == [[False, True]] * 3


def test_a_format_asks_no_registry_when_it_encodes_elsewhere(registry: Registry) -> None:
    made = [
        (formats.avro(registry.url, SUBJECT, AVRO), ROWS),
        (formats.json(registry.url, "other", JSON), pa.table({"id": ["a"]})),
        (formats.protobuf(registry.url, "money", Money), MONEY),
    ]
    before = len(registry.asked)
    for how, rows in made:
        assert encoded(pickle.loads(pickle.dumps(how)), rows) == encoded(how, rows)
    assert len(registry.asked) == before


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (pa.table({"id": ["a"], "at": [AT], "more": [1]}), "has no field more"),
        (pa.table({"id": ["a"]}), "columns at are missing, and"),
        (pa.table({"id": ["a", None], "at": [AT, AT]}), "row 1: the row does not fit the Avro schema"),
        (pa.table({"id": [1], "at": [AT]}), "row 0: the row does not fit the Avro schema"),
    ],
)
def test_a_row_that_avro_has_no_place_for_is_refused(registry: Registry, rows: pa.Table, words: str) -> None:
    how = formats.avro(registry.url, SUBJECT, AVRO)
    with pytest.raises(BadOption, match=words):
        formats.encode(how, rows)


def avro_of(field: Any) -> formats.Avro:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": field}]}
    return formats.Avro(RegisteredSchema(1, json.dumps(schema)))


INT_IN_RECORDS = {"type": "array", "items": {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}}


@pytest.mark.parametrize(
    ("field", "values", "why"),
    [
        ("int", [1 << 31], "32 bits"),
        (INT_IN_RECORDS, [[{"n": -(1 << 31) - 1}]], "32 bits"),
        ("long", [1.9], "double is not long"),
        (["null", {"type": "array", "items": "int"}], [[1.0]], "double is not int"),
        ("long", [decimal.Decimal("1.9")], "is not long"),
        ("int", [True], "bool is not int"),
        ("boolean", [7], "not boolean"),
    ],
)
def test_a_value_that_avro_would_change_is_refused(field: Any, values: list[Any], why: str) -> None:
    """fastavro truncates 1.9 to 1, and writes 2 ** 31 as an int that Java readers take for damage."""
    with pytest.raises(BadOption, match=why):
        encoded(avro_of(field), pa.table({"a": values}))


def test_numbers_that_avro_has_are_written_as_they_are() -> None:
    for field, value in [
        ("int", (1 << 31) - 1),
        ("int", -(1 << 31)),
        ("long", 1 << 40),
        (["null", "int", "long"], 1 << 40),
    ]:
        schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": field}]}
        (data,) = encoded(avro_of(field), pa.table({"a": [value]}))
        assert fastavro.schemaless_reader(io.BytesIO(data[5:]), schema, None) == {"a": value}


@pytest.mark.parametrize("kind", ["timestamp-millis", "timestamp-micros"])
def test_a_time_without_a_zone_is_no_instant(kind: str) -> None:
    """fastavro would use the machine's own zone: a retry elsewhere would have other bytes, and mean another time."""
    rows = pa.table({"a": pa.array([AT.replace(tzinfo=None)], pa.timestamp("us"))})
    instant = {"type": "long", "logicalType": kind}
    inner = {"type": "record", "name": "I", "fields": [{"name": "t", "type": ["null", instant]}]}
    for field, some in [(instant, rows), (["null", instant], rows), (inner, pa.table({"a": [{"t": rows["a"][0]}]}))]:
        with pytest.raises(BadOption, match="no time zone"):
            encoded(avro_of(field), some)
    local = avro_of({"type": "long", "logicalType": kind.replace("timestamp", "local-timestamp")})
    assert len(encoded(local, rows)) == 1


def test_a_row_that_python_has_no_value_for_is_refused() -> None:
    for rows in (pa.table({"a": pa.array([1 << 30], pa.date32())}), pa.table([[1], [2]], ["a", "a"])):
        with pytest.raises(BadOption, match="cannot be converted to Python values"):
            encoded(avro_of("long") if rows.num_columns > 1 else formats.json(), rows)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (pa.table({"other": ["a"]}), r"row 0: the row does not fit the JSON Schema: \$: 'id' is a required property"),
        (pa.table({"id": ["a"], "n": [float("nan")]}), "row 0: column n contains nan, which JSON cannot represent"),
        (pa.table([["a"], ["b"]], ["id", "id"]), "two columns are named id"),
    ],
)
def test_a_row_that_json_has_no_text_for_is_refused(registry: Registry, rows: pa.Table, words: str) -> None:
    how = formats.json(registry.url, SUBJECT, JSON)
    with pytest.raises(BadOption, match=words):
        formats.encode(how, rows)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (pa.table({"amount": [1]}), "message google.type.Money has no field amount"),
        (pa.table({"units": ["7"]}), "row 0: the row does not fit google.type.Money"),
    ],
)
def test_a_row_that_a_message_has_no_field_for_is_refused(registry: Registry, rows: pa.Table, words: str) -> None:
    how = formats.protobuf(registry.url, SUBJECT, Money)
    with pytest.raises(BadOption, match=words):
        formats.encode(how, rows)


def test_a_registry_that_refuses_a_schema_is_quoted(registry: Registry) -> None:
    registry.refused = True
    for make in (lambda: formats.avro(registry.url, SUBJECT, AVRO), lambda: formats.protobuf(registry.url, "m", Money)):
        with pytest.raises(BadOption, match=r"answered 409 .*: Schema being registered is incompatible"):
            make()


def test_a_subject_without_a_schema_or_of_another_kind_is_refused(registry: Registry) -> None:
    with pytest.raises(BadOption, match="answered 404 for subject orders-value"):
        formats.avro(registry.url, SUBJECT)
    formats.json(registry.url, SUBJECT, JSON)
    with pytest.raises(BadOption, match="subject orders-value of the schema registry is JSON, not AVRO"):
        formats.avro(registry.url, SUBJECT)


@pytest.mark.parametrize("schema", ["{", '"string"', '{"type": "record", "name": "R", "fields": [{"name": "f"}]}'])
def test_an_invalid_avro_record_is_refused_before_it_is_registered(registry: Registry, schema: str) -> None:
    with pytest.raises(BadOption, match="Avro"):
        formats.avro(registry.url, SUBJECT, schema)
    assert registry.asked == []


def test_a_registry_that_is_away_is_unreachable() -> None:
    with schema_registry() as gone:
        client = SchemaRegistryClient({"url": gone.url, "max.retries": 0})
    for make in (lambda: formats.avro(client, SUBJECT), lambda: formats.protobuf(client, SUBJECT, Money)):
        with pytest.raises(Unreachable, match="the schema registry does not answer"):
            make()
