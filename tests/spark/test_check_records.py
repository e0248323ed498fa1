"""Checks of Kafka records in Spark by their headers, as `RecordCheck` makes them."""

from typing import Any

import pytest

from oncegate_spark import RecordCheck, check_records
from oncegate_spark.errors import BadOption, Refused
from tests.support.record_headers import BATCH, SOURCE, headers

pytestmark = pytest.mark.spark
SCHEMA = "n int, headers array<struct<key: string, value: binary>>"

RECORDS: list[Any] = [
    *(headers(sequence) for sequence in range(100) if sequence not in (7, 8, 60)),
    *(headers(sequence) for sequence in (3, 3, 99)),
    *(headers(sequence, epoch, SOURCE) for sequence, epoch in ((10, 1), (11, 1), (11, 2), (15, 2))),
    *(headers(sequence, 2**64 - 1, namespace="other") for sequence in (0, 2**64 - 2)),
    *(None, [], [("own", b"v")], [("oncegate-ns", b"\xff"), *headers(0)[1:]], [*headers(0)[:3], ("oncegate-seq", b"")]),
    [("oncegate-seq", (9).to_bytes(8, "big")), *headers(0, 5)],
]


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    rows = [tuple(int(cell) if not isinstance(cell, str | None) else cell for cell in row) for row in found]
    return sorted(rows, key=repr)


def test_it_finds_what_the_check_without_spark_finds(spark: Any) -> None:
    df = spark.createDataFrame(list(enumerate(RECORDS)), SCHEMA).repartition(3)
    check = RecordCheck()
    check.add(RECORDS)
    found = check_records(df)
    wanted = check.findings()
    assert found.columns == wanted.column_names
    assert rows_of(found.collect()) == rows_of(tuple(row.values()) for row in wanted.to_pylist())
    batch = next(row for row in found.collect() if (row.producer, row.epoch) == (BATCH, 1))
    assert (batch.records, batch.duplicates, batch.missing) == (100, 3, 3)


def test_arrow_batches_of_sparks_are_taken_by_the_check_without_spark(spark: Any) -> None:
    df = spark.createDataFrame(list(enumerate(RECORDS)), SCHEMA)
    check, by_frame = RecordCheck(), RecordCheck()
    check.add(df.toArrow())
    by_frame.add(df.toPandas())
    assert check.findings().num_rows == 5
    assert check.findings().equals(by_frame.findings())
    with pytest.raises(ValueError, match=r"check_records\(df\)"):
        check.add(df)


def test_rows_without_headers_and_streams_are_refused_before_anything_is_read(spark: Any) -> None:
    with pytest.raises(BadOption, match="includeHeaders"):
        check_records(spark.range(1))
    stream = spark.readStream.format("rate").load().selectExpr("array() AS headers")
    with pytest.raises(Refused, match="a stream has no end"):
        check_records(stream)
