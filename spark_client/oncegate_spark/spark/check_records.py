"""Checks records of Kafka topics in Spark by the headers that the gateway adds, in one Spark action."""

from typing import TYPE_CHECKING, Any

from oncegate_spark.errors import BadOption, Refused
from oncegate_spark.kafka_records import SOURCE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBER_BYTES = 8
# up to 2^64, which does not fit into a long
_NUMBER = "decimal(20,0)"


def check_records(df: "DataFrame") -> "DataFrame":
    """Finds duplicate and missing sequences per writer in a DataFrame of records.

    `df`: rows of Spark's Kafka source with `includeHeaders` true and `kafka.isolation.level` read_committed, or any
    rows with its column `headers`. Returns a row per writer, and one for records without the gateway's headers, in the
    format of `RecordCheck.findings`, with numbers up to 2^64 as decimal(20,0). Lazy: an action reads each record once,
    with two shuffles of a writer and a number per record.

    Raises BadOption without that column, and Refused for a stream, which has no end.
    """
    from pyspark.sql import functions as F

    if "headers" not in df.columns:
        raise BadOption('no column headers: read with format("kafka").option("includeHeaders", "true")')
    if df.isStreaming:
        raise Refused(
            "check_records finds missing records, and a stream has no end: use spark.read instead of spark.readStream"
        )
    named = [F.try_validate_utf8(_last("oncegate-" + name).cast("string")) for name in ("ns", "producer")]
    numbers = [_last("oncegate-" + name) for name in ("epoch", "seq")]
    marks = df.select(*(mark.alias(name) for mark, name in zip([*named, *numbers], "npes", strict=True)))
    fit = F.col("n").isNotNull() & F.col("p").isNotNull()
    fit = fit & (F.length("e") == _NUMBER_BYTES) & (F.length("s") == _NUMBER_BYTES)
    is_source = F.col("p").startswith(SOURCE)
    findings = marks.select(
        F.when(fit, F.col("n")).alias("namespace"),
        F.when(fit, F.col("p")).alias("producer"),
        F.when(fit & ~is_source, _number("e")).alias("epoch"),
        F.when(fit, _number("s")).alias("sequence"),
    )
    by_sequence = findings.groupBy("namespace", "producer", "epoch", "sequence").agg(F.count(F.lit(1)).alias("copies"))
    counted = by_sequence.groupBy("namespace", "producer", "epoch").agg(
        F.sum("copies").alias("records"),
        F.count("sequence").alias("different"),
        F.min("sequence").alias("lowest"),
        F.max("sequence").alias("highest"),
    )
    begins = F.when(F.col("producer").startswith(SOURCE), F.col("lowest")).otherwise(F.lit(0).cast(_NUMBER))
    return counted.select(
        *("namespace", "producer", "epoch", "records"),
        F.when(F.col("producer").isNotNull(), F.col("records") - F.col("different")).alias("duplicates"),
        (F.col("highest") - begins + 1 - F.col("different")).cast(_NUMBER).alias("missing"),
        *("lowest", "highest"),
    )


def _last(name: str) -> "Column":
    """Returns the value of a record's last header with this name, since the gateway's headers follow the row's own;
    else null.
    """
    from pyspark.sql import functions as F

    def is_one(header: Any) -> "Column":
        return header["key"] == name

    return F.try_element_at(F.filter("headers", is_one), F.lit(-1))["value"]


def _number(name: str) -> "Column":
    """Decodes a big-endian number of 8 bytes."""
    from pyspark.sql import functions as F

    return F.conv(F.hex(name), 16, 10).cast(_NUMBER)
