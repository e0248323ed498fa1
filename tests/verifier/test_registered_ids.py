"""Ids inside values that a schema registry knows: found by the schema number before each, or refused with a remedy."""

import io
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto as File
from google.type.money_pb2 import Money

from oncegate.core.errors import BadRequest, NotFound, OncegateError
from oncegate.verifier.ids import present
from oncegate.verifier.sources import registry as sources
from oncegate.verifier.sources.kafka_ids import SchemaRegistry, finder, ids_of
from oncegate_spark import formats
from tests.support.schema_registry import Registry, schema_registry

AVRO = "orders-avro"
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "number", "type": ["null", "long"], "default": None},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": [{"name": "land", "type": {
            "type": "enum", "name": "Land", "symbols": ["SE", "DE"]}}]}},
        {"name": "land", "type": "Land"},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
        {"name": "uuid", "type": {"type": "fixed", "name": "Uuid", "size": 16, "logicalType": "uuid"}},
        {"name": "price", "type": "double"},
    ],
}  # fmt: skip
KEY = "0190163D-8694-739b-aea5-966c26f8ad91"


class Record(NamedTuple):
    """The fields that the finders read of an aiokafka record."""

    value: bytes | None
    partition: int = 3
    offset: int = 17


@pytest.fixture
def registry() -> Iterator[Registry]:
    with schema_registry() as registry:
        yield registry


def find(registry: Registry, form: str, values: Sequence[bytes | None]) -> list[tuple[object, ...]]:
    found: pa.Table = ids_of(form, SchemaRegistry(registry.url))([Record(value) for value in values])
    return [tuple(row.values()) for row in found.to_pylist()]


def avro_values(registry: Registry, schema: Any, rows: list[dict[str, Any]], references: Any = ()) -> list[bytes]:
    """Encodes rows as other producers do: registered by the registry's own client, encoded by fastavro."""
    client = SchemaRegistryClient({"url": registry.url})
    number = client.register_schema(AVRO, Schema(json.dumps(schema), "AVRO", list(references)))
    named: dict[str, Any] = {}
    for one in references:
        fastavro.parse_schema(json.loads(client.get_version(one.subject, one.version).schema.schema_str), named)
    parsed, made = fastavro.parse_schema(schema, named_schemas=named), []
    for row in rows:
        fastavro.schemaless_writer(into := io.BytesIO(), parsed, row)
        made.append(b"\0" + number.to_bytes(4, "big") + into.getvalue())
    return made


def order(number: int | None) -> dict[str, Any]:
    # No datetime holds this time: fields other than the id are not decoded.
    row = {
        "at": 2**62,
        "number": number,
        "key": KEY,
        "buyer": {"land": "DE"},
        "land": "SE",
        "raw": b"\1\xff",
        "uuid": bytes(16),
    }
    return {**row, "price": 1.5}


def test_ids_of_every_type_are_found_in_avro_beside_what_is_no_id(registry: Registry) -> None:
    values = avro_values(registry, ORDER, [order(7), order(None)])
    found = find(registry, "avro:number,key,land,raw", values)
    rest = KEY.encode(), b"SE", b"\1\xff"
    assert found == [(b"7", *rest), (None, *rest)]


def test_a_field_of_a_type_that_another_subject_has_is_found(registry: Registry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema("raw", Schema(json.dumps({"type": "fixed", "name": "a.Raw", "size": 2}), "AVRO"))
    client.register_schema(
        "id",
        Schema(
            json.dumps({"type": "record", "name": "a.Inner", "fields": [{"name": "raw", "type": "a.Raw"}]}),
            "AVRO",
            [SchemaReference("a.Raw", "raw", 1)],
        ),
    )
    fields = [{"name": "inner", "type": "a.Inner"}, {"name": "id", "type": ["null", "a.Raw"]}]
    schema = {"type": "record", "name": "Outer", "fields": fields}
    named = [SchemaReference("a.Raw", "raw", 1), SchemaReference("a.Inner", "id", 1)]
    values = avro_values(registry, schema, [{"inner": {"raw": b"xx"}, "id": b"ok"}], named)
    assert find(registry, "avro:id", values) == [(b"ok",)]


def shop_file(imported: str) -> Any:
    """Returns messages next to and inside each other, with Protobuf's well-known types and types of another file."""
    other = File(name=imported, package="shop", syntax="proto3")
    other.message_type.add(name="Buyer").field.add(name="id", number=1, type=Field.TYPE_STRING, label=1)
    file = File(name="shop/orders.proto", package="shop", syntax="proto3", dependency=[imported])
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="First").field.add(name="id", number=1, type=Field.TYPE_BOOL, label=1)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="id", number=1, type=Field.TYPE_UINT64, label=1)
    order.field.add(name="id", number=1, type=Field.TYPE_STRING, label=1, proto3_optional=True, oneof_index=0)
    order.oneof_decl.add(name="_id")
    order.field.add(name="buyer", number=2, type=Field.TYPE_MESSAGE, label=1, type_name=".shop.Buyer")
    order.field.add(name="at", number=3, type=Field.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Timestamp")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(other)
    pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_ids_are_found_in_the_message_type_named_by_a_protobuf_value(registry: Registry) -> None:
    message = shop_file("shop/buyers.proto")
    orders = formats.protobuf(registry.url, "orders", message("shop.Order"))
    lines = formats.protobuf(registry.url, "orders", message("shop.Order.Line"))
    values = [
        orders.value({"id": "a", "buyer": {"id": "b"}, "at": {"seconds": 1}}),
        lines.value({"id": 2**64 - 1}),
        orders.value({}),
        lines.value({}),
    ]
    assert find(registry, "protobuf:id", values) == [(b"a",), (b"18446744073709551615",), (None,), (b"0",)]
    asked = [line for line in registry.asked if line.startswith("GET /schemas/ids/2")]
    assert len([line for line in asked if line == "GET /schemas/ids/2"]) == 1, "two messages, one schema"


def test_a_schema_is_asked_for_once_however_many_records_have_it(registry: Registry) -> None:
    values = [*avro_values(registry, ORDER, [order(n) for n in range(50)])]
    fields = [{"name": "number", "type": "string"}]
    values += avro_values(registry, {"type": "record", "name": "Order", "fields": fields}, [{"number": "x"}] * 50)
    before = len(registry.asked)
    found = ids_of("avro:number", SchemaRegistry(registry.url))
    for _ in range(3):
        assert found([Record(value) for value in values]).column(0).to_pylist()[49:51] == [b"49", b"x"]
    assert registry.asked[before + 1 :] == ["GET /schemas/ids/1", "GET /schemas/ids/2"]


def test_what_reads_the_values_of_a_schema_is_made_once() -> None:
    made: list[int] = []

    def reader(number: int) -> Any:
        made.append(number)
        return lambda value: [value[5:]]

    found = finder(["id"], reader)
    for _ in range(3):
        values = [b"\0\0\0\0\1a", b"\0\0\0\1\0b"] * 2
        assert found([Record(value) for value in values])["id"].to_pylist() == [b"a", b"b"] * 2
    assert made == [1, 256]


def test_a_value_that_is_none_of_its_schema_has_no_id(registry: Registry) -> None:
    (avro,) = avro_values(registry, ORDER, [order(7)])
    money = formats.protobuf(registry.url, "money", Money).value({"currency_code": "SEK"})
    for form, value in (("avro:number,key", avro), ("protobuf:currency_code", money)):
        wrong = [None, b"", b"\0", b"{}", b"\1" + value[1:], value[:5], value[:-1][:12], value[:5] + b"\xff" * 30]
        found = ids_of(form, SchemaRegistry(registry.url))([Record(one) for one in [*wrong, value]])
        assert present(found).tolist() == [False] * len(wrong) + [True], form
    elsewhere = money[:5] + b"\2\x08" + money[6:]
    assert find(registry, "protobuf:currency_code", [elsewhere]) == [(None,)], "its file has no fifth message"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (
            "avro:numbr",
            "offset 17 of partition 3: schema 1 has no field numbr: it has at, number, key, buyer, land, raw, uuid",
        ),
        ("avro:price", "field price of schema 1 is double; ids are texts, bytes or whole numbers"),
        ("avro:uuid", "field uuid of schema 1 is uuid; ids are"),
        ("avro:at", "field at of schema 1 is timestamp-micros; ids are"),
        ("avro:buyer", "field buyer of schema 1 is record; ids are"),
        ("protobuf:units", "schema 1 is AVRO in http://.*, but --output-id is protobuf"),
    ],
)
def test_a_field_that_is_not_there_or_no_id_is_named_with_the_record(registry: Registry, form: str, words: str) -> None:
    values = avro_values(registry, ORDER, [order(7)])
    with pytest.raises(BadRequest, match=words):
        find(registry, form, values)


def test_a_message_without_the_field_is_named(registry: Registry) -> None:
    value = formats.protobuf(registry.url, "money", Money).value({"units": 1})
    with pytest.raises(
        BadRequest, match=r"message google.type.Money of schema 1 has no field id: it has currency_code"
    ):
        find(registry, "protobuf:id", [value])
    message = shop_file("shop/buyers.proto")
    value = formats.protobuf(registry.url, "first", message("shop.First")).value({"id": True})
    with pytest.raises(BadRequest, match=r"field id of shop.First, schema 3, cannot be an id"):
        find(registry, "protobuf:id", [value])


def test_a_number_unknown_to_the_registry_is_reported(registry: Registry) -> None:
    with pytest.raises(
        BadRequest, match=r"offset 17 .*answers 404 for schema 9 .*check that the topic's writers use this registry"
    ):
        find(registry, "avro:id", [b"\0\0\0\0\x09x"])


def test_a_registry_that_goes_away_later_keeps_what_was_read(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "RETRIES", 0)
    values = avro_values(registry, ORDER, [order(7)])
    with schema_registry() as other:
        found = ids_of("avro:number", SchemaRegistry(other.url))
    with pytest.raises(NotFound, match=r"does not answer for schema 1 .*progress is saved: run the same command once"):
        found([Record(values[0])])
    found = ids_of("avro:number", SchemaRegistry(registry.url))
    registry.is_failing = True
    with pytest.raises(NotFound, match=r"answers 500 for schema 1 .*progress is saved: run the same command later"):
        found([Record(values[0])])
    registry.is_failing = False
    assert found([Record(values[0])]).column(0).to_pylist() == [b"7"]


def test_credentials_are_sent_from_the_environment_and_a_wrong_one_is_reported(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = avro_values(registry, ORDER, [order(7)])
    registry.user_info = "reader:s3cret"
    with pytest.raises(BadRequest, match=r"answers 401 .*set ONCEGATE_REGISTRY_AUTH=USER:PASSWORD"):
        find(registry, "avro:number", values)
    monkeypatch.setenv(sources.REGISTRY_AUTH, "reader:s3cret")
    assert find(registry, "avro:number", values) == [(b"7",)]


@pytest.mark.parametrize(
    ("url", "auth", "words"),
    [
        ("", "", "avro:id needs the schema registry of the values: add --registry URL"),
        ("http://reader:s3cret@127.0.0.1:1", "", "--registry has an @"),
        ("ftp://registry", "", "--registry ftp://registry is not an address"),
        ("http://registry.example:8081", "reader:s3cret", "ONCEGATE_REGISTRY_AUTH would be sent unencrypted"),
        ("http://127.0.0.1:1", "s3cret", "ONCEGATE_REGISTRY_AUTH must have the form USER:PASSWORD"),
        ("http://127.0.0.1:1", "", "no schema registry answers at http://127.0.0.1:1"),
    ],
)
def test_a_registry_that_cannot_be_asked_is_one_error_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, url: str, auth: str, words: str
) -> None:
    monkeypatch.setenv(sources.REGISTRY_AUTH, auth)
    with pytest.raises(OncegateError) as raised:
        ids_of("avro:id", SchemaRegistry(url) if url else None)
    assert words in raised.value.detail
    assert "s3cret" not in raised.value.detail


def test_a_registry_that_is_not_asked_and_a_file_that_is_no_certificate_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="--registry applies only to values in Avro and Protobuf, not to json:id"):
        ids_of("json:id", SchemaRegistry("http://127.0.0.1:1"))
    (tmp_path / "ca.pem").write_text("none")
    for name in ("ca.pem", "gone.pem"):
        with pytest.raises(BadRequest, match=f"--registry-ca {tmp_path / name}: "):
            ids_of("avro:id", SchemaRegistry("https://127.0.0.1:1", tmp_path / name))


def test_a_server_that_is_no_registry_is_reported_at_once() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="no registry", daemon=True)
        thread.start()
        try:
            with pytest.raises(BadRequest, match="is not a schema registry"):
                ids_of("avro:id", SchemaRegistry(f"http://127.0.0.1:{server.server_address[1]}"))
        finally:
            server.shutdown()
            thread.join()
