"""Rows that a Spark job encodes on its workers and writes through the gateway, read back with their tombstones."""

import json
from typing import Any

import pytest
from google.type.money_pb2 import Money

from oncegate_spark import Gateway, formats
from tests.support.schema_registry import schema_registry

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "units", "type": "long"}],
}


def test_rows_are_encoded_on_the_workers_and_a_null_row_is_a_tombstone(spark: Any, gateway: Gateway) -> None:
    from pyspark.sql import functions as F

    with schema_registry() as registry:
        avro = formats.avro(registry.url, "orders-value", json.dumps(SCHEMA))
        money = formats.protobuf(registry.url, "money-value", Money)
    df = spark.range(4).withColumn("units", F.col("id") * 10).repartition(2)
    kept = F.when(F.col("id") != 3, F.struct("id", "units"))
    encoded = df.select("id", formats.column(avro, kept).alias("avro"), formats.column(money, "units").alias("money"))
    encoded.write.format("oncegate").options(
        url=gateway.url, namespace=gateway.namespace, topic="t", idCol="id"
    ).option("write", "ids").mode("append").save()
    found = {row["id"]: row for row in gateway.read("t").sort_by("id").to_pylist()}
    # Avro writes 1 and 10 as zigzag varints: 2 and 20.
    assert found[1]["avro"] == avro.schema.prefix + bytes([2, 20])
    assert [found[number]["avro"] is None for number in range(4)] == [False, False, False, True]
    assert [Money.FromString(found[n]["money"][len(money.prefix) :]).units for n in range(4)] == [0, 10, 20, 30]
