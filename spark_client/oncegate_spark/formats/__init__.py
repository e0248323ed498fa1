"""Encodes rows as values of Kafka records: JSON, Arrow, and Avro or Protobuf or JSON as a schema registry names them.

A format is made once, where the schema registry can be reached, and encodes anywhere: it holds the schema's number and
text, travels to Spark's workers by itself, and asks no registry there. The same row has the same bytes each time, so
that a retry is recognised as the same payload. A null row stays null, which Kafka's compaction takes as a deletion.

    from oncegate_spark import formats

    orders = formats.avro("http://registry:8081", "orders-value")
    df.select("key", formats.column(orders, "id", "price").alias("value")).write.format("oncegate")...

Needs the extra `oncegate-spark[formats]`: confluent-kafka's client of schema registries, fastavro, protobuf and
jsonschema.
"""

from oncegate_spark.formats.avro import Avro, avro
from oncegate_spark.formats.json import Json, json
from oncegate_spark.formats.protobuf import Protobuf, protobuf
from oncegate_spark.formats.values import ArrowRows, Format, arrow, column, encode

__all__ = ["ArrowRows", "Avro", "Format", "Json", "Protobuf", "arrow", "avro", "column", "encode", "json", "protobuf"]
