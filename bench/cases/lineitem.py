"""Measures writes of lineitem rows from Spark: 16 columns with the types, ranges and dependencies of TPC-H (4.2.3).

Rows depend only on their number and a seed, not on Spark's partitioning. As with `dbgen`, orders have one to seven
lines, an eighth of the order keys is used, and prices and flags are derived from the other columns.
"""

import random
import shutil
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.cases.spark_jobs import timed
from bench.load.plan import Plan
from bench.load.server import Served
from bench.report.figures import Figure, interleaved

SEED = 20_261_123
ROWS_PER_SCALE = 6_000_000
# Spark's limit for the bytes of an Arrow batch. With a limit, Spark sums the sizes of all columns for each row.
BATCH_BYTES, NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)
DEFAULTS = ", Spark's defaults"
WAYS = ("staged", f"staged{DEFAULTS}", "ids", f"ids{DEFAULTS}", "parquet", "noop")
WARM_ROWS = 20_000
# Seven orders, with one to seven lines.
_LINES = [(order, line) for order in range(7) for line in range(1, order + 2)]
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
_WORDS = (
    "furiously slyly carefully blithely quickly final ironic pending regular express special unusual bold even silent "
    "foxes ideas theodolites pinto beans instructions dependencies excuses platelets asymptotes courts dolphins sleep "
    "wake are cajole haggle nag use boost affix detect integrate about above according to across after against along"
)
_CURRENT = "1995-06-17"


def lineitem(spark: SparkSession, rows: int, seed: int = SEED) -> Any:
    """Returns a lazy frame of `rows` rows of lineitem."""
    scale = max(1, rows // ROWS_PER_SCALE)
    numbered = _with_keys(spark.range(rows), scale, seed)
    dated = _with_dates(numbered, seed)
    return dated.select(*_keys(), *_amounts(seed), *_flags(seed), *_texts(seed))


def _drawn(seed: int, column: str, below: int) -> Any:
    """Returns a pseudo-random integer in [0, below) for each row, independent for each column."""
    return F.pmod(F.xxhash64(F.lit(seed), F.lit(column), F.col("id")), F.lit(below))


def _one_of(choices: Sequence[str], number: Any) -> Any:
    return F.element_at(F.array(*map(F.lit, choices)), (number + 1).cast("int"))


def _with_keys(numbers: Any, scale: int, seed: int) -> Any:
    place = F.pmod(F.col("id"), F.lit(len(_LINES)))
    order = F.floor(F.col("id") / len(_LINES)) * 7 + F.element_at(
        F.array(*(F.lit(order) for order, _ in _LINES)), (place + 1).cast("int")
    )
    line = F.element_at(F.array(*(F.lit(line) for _, line in _LINES)), (place + 1).cast("int"))
    return numbers.select(
        "id",
        order.alias("order"),
        line.alias("l_linenumber"),
        (1 + _drawn(seed, "part", 200_000 * scale)).alias("l_partkey"),
        (1 + _drawn(seed, "supplier", 10_000 * scale)).alias("l_suppkey"),
        (1 + _drawn(seed, "quantity", 50)).alias("quantity"),
    )


def _with_dates(rows: Any, seed: int) -> Any:
    """Adds the dates; all lines of an order have its order date."""
    ordered = F.pmod(F.xxhash64(F.lit(seed), F.lit("date"), F.col("order")), F.lit(2_406)).cast("int")
    day = F.date_add(F.lit("1992-01-01").cast("date"), ordered)
    shipped = F.date_add(day, (1 + _drawn(seed, "shipped", 121)).cast("int"))
    committed = F.date_add(day, (30 + _drawn(seed, "committed", 61)).cast("int"))
    dated = rows.withColumn("l_shipdate", shipped).withColumn("l_commitdate", committed)
    received = F.date_add(F.col("l_shipdate"), (1 + _drawn(seed, "received", 30)).cast("int"))
    return dated.withColumn("l_receiptdate", received)


def _keys() -> list[Any]:
    order = F.col("order")
    sparse = F.floor(order / 8) * 32 + F.pmod(order, F.lit(8)) + 1
    return [sparse.cast("long").alias("l_orderkey"), "l_partkey", "l_suppkey", "l_linenumber"]


def _amounts(seed: int) -> list[Any]:
    part = F.col("l_partkey")
    retail_cents = 90_000 + F.pmod(F.floor(part / 10), F.lit(20_001)) + 100 * F.pmod(part, F.lit(1_000))
    cents = {
        "l_quantity": F.col("quantity") * 100,
        "l_extendedprice": F.col("quantity") * retail_cents,
        "l_discount": _drawn(seed, "discount", 11),
        "l_tax": _drawn(seed, "tax", 9),
    }
    return [(cent.cast("decimal(17,0)") / 100).cast("decimal(15,2)").alias(name) for name, cent in cents.items()]


def _flags(seed: int) -> list[Any]:
    returned = F.when(F.col("l_receiptdate") > F.lit(_CURRENT).cast("date"), "N")
    is_open = F.col("l_shipdate") > F.lit(_CURRENT).cast("date")
    return [
        returned.otherwise(_one_of(("R", "A"), _drawn(seed, "flag", 2))).alias("l_returnflag"),
        F.when(is_open, "O").otherwise("F").alias("l_linestatus"),
        "l_shipdate",
        "l_commitdate",
        "l_receiptdate",
    ]


def _texts(seed: int) -> list[Any]:
    """Returns the text columns; a comment is 10 to 43 characters taken from a longer text."""
    rng, words = random.Random(seed), _WORDS.split()
    phrases = [" ".join(rng.choices(words, k=12))[:64] for _ in range(256)]
    first, size = 1 + _drawn(seed, "first", 20), 10 + _drawn(seed, "size", 34)
    comment = F.substring(_one_of(phrases, _drawn(seed, "phrase", len(phrases))), first.cast("int"), size.cast("int"))
    return [
        _one_of(_INSTRUCTIONS, _drawn(seed, "instruction", 4)).alias("l_shipinstruct"),
        _one_of(_MODES, _drawn(seed, "mode", 7)).alias("l_shipmode"),
        comment.alias("l_comment"),
    ]


def write(frame: Any, way: str, served: Served, folder: Path) -> None:
    """Writes the frame once: `staged` or `ids` to a new topic, `parquet` to files that are removed, or `noop`.

    Unless `way` ends with DEFAULTS, Spark's batches are limited by their number of rows alone.
    """
    if way.endswith(DEFAULTS):
        frame.sparkSession.conf.unset(BATCH_BYTES)
        way = way.removesuffix(DEFAULTS)
    else:
        frame.sparkSession.conf.set(BATCH_BYTES, NO_LIMIT)
    name = f"{way}-{uuid.uuid4().hex}"
    if way == "noop":
        frame.write.format("noop").mode("overwrite").save()
    elif way == "parquet":
        frame.write.parquet(str(folder / name))
        shutil.rmtree(folder / name)
    else:
        options = {"url": f"http://127.0.0.1:{served.port}", "write": way}
        options |= {"idCol": "l_orderkey,l_linenumber"} if way == "ids" else {"txnAppId": name, "txnVersion": "0"}
        frame.write.format("oncegate").mode("append").options(**options).save(name)


def figures(spark: SparkSession, served: Served, folder: Path, plan: Plan) -> list[Figure]:
    """Measures rows per second of each way, in turns, over rows cached by Spark."""
    run = partial(write, served=served, folder=folder)
    for way in WAYS:
        run(lineitem(spark, WARM_ROWS), way)
    frame = lineitem(spark, plan.lineitem_rows).persist()
    frame.count()
    rates = interleaved(plan.rounds, {way: partial(timed, plan.lineitem_rows, run, frame, way) for way in WAYS})
    frame.unpersist()
    spark.conf.unset(BATCH_BYTES)
    rows = f"{plan.lineitem_rows:,} rows"
    own = [
        Figure(f"Spark, lineitem by {way}, {rows}", rates[way]["rate"], "rows/s", runs=rates[way]["runs"])
        for way in WAYS[:4]
    ]
    return [
        figure.against(peer, rates[way]["rate"])
        for figure in own
        for peer, way in (("parquet files", "parquet"), ("noop", "noop"))
    ]
