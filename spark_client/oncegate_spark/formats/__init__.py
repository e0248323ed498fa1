"""Encodes rows as values of Kafka records: JSON or Arrow, and Avro, Protobuf or JSON with a schema registry.

A format is created once, where the schema registry is reachable. It contains the schema and its number, so Spark's
workers use it without the registry. Encoding is deterministic, so that the gateway recognises a retry as the same
payload. A null row stays null, a tombstone for Kafka's compaction.

    from oncegate_spark import formats

    orders = formats.avro("http://registry:8081", "orders-value")
    df.select("key", formats.column(orders, "id", "price").alias("value")).write.format("oncegate")...

Needs the extra `oncegate-spark[formats]`: confluent-kafka's schema registry client, fastavro, protobuf and jsonschema.
"""

from oncegate_spark.formats.avro import Avro, avro
from oncegate_spark.formats.json import Json, json
from oncegate_spark.formats.protobuf import Protobuf, protobuf
from oncegate_spark.formats.values import ArrowRows, Format, arrow, column, encode

__all__ = ["ArrowRows", "Avro", "Format", "Json", "Protobuf", "arrow", "avro", "column", "encode", "json", "protobuf"]
