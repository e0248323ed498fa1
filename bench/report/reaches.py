"""The table of reaches, the targets of figures; the first match applies.

A target is a maximum for times and bytes, and a minimum for everything else.
"""

from bench.report.figures import Reach

REDIS_PY = "redis-py, pipelined SET NX EX"
LUA = "Redis, best Lua, packed, SADD"
MULTI = "Redis, raw socket, MULTI SMISMEMBER SADD EXEC"
RAW = "Redis, raw socket, pipelined SET NX EX"
FRONT = "Redis SET NX through the same HTTP front"
HTTP_PACKED = "HTTP, packed"
DIRECT = "redis-py, asyncio, SET NX"
CONFLUENT = "confluent-kafka, transactions, produce"
SPARK_SINK = "Spark's own Kafka sink, at least once"
NO_TRACES = "without OpenTelemetry's variables"
# Alternatives to `oncegate verify`, by their names in bench.load.anti_joins.
ANTI_JOINS = {"duckdb": "DuckDB, anti-joins of a dump", "pyarrow": "pyarrow, anti-joins of a dump"}
CONFLUENT_BATCHES = "confluent-kafka, transactions, produce_batch"

REACHES = (
    Reach("claim, packed, 10,000 ids, 16 clients", None, 4e6),
    Reach("claim, packed, 10,000 ids, 16 clients", REDIS_PY, 40),
    Reach("claim, packed, 10,000 ids, 16 clients", LUA, 8),
    Reach("claim, packed, 10,000 ids, 16 clients", MULTI, 5),
    Reach("claim, packed, 10,000 ids, 16 clients", RAW, 8),
    Reach("claim, packed, *,000 ids, *", MULTI, 4),
    Reach("claim, packed, *,000 ids, *", LUA, 5),
    Reach("claim, Arrow strings, 10,000 ids, 16 clients", None, 3e6),
    Reach("claim, JSON strings, 10,000 ids, 16 clients", None, 2e6),
    Reach("claim, * strings, 10,000 ids, 16 clients", REDIS_PY, 20),
    Reach("claim, * strings, 10,000 ids, 16 clients", LUA, 4),
    Reach("claim over gRPC by streams, *", HTTP_PACKED, 0.7),
    Reach("single ids, *", FRONT, 2),
    Reach("single ids, *", DIRECT, 1),
    Reach("open loop at half of its peak, *: p99", None, 10),
    Reach("open loop at half of its peak, *: p50", None, 3),
    Reach("Bloom filter of * ids at *: check-and-add*", "pybloom-live*", 50),
    Reach("Bloom filter of * ids at *: check-and-add*", "rbloom*", 5),
    Reach("Spark, staged write*", "parquet*", 0.7),
    Reach("Spark, lineitem by staged, [0-9]*", "parquet*", 0.9),
    Reach("Spark, lineitem by ids, [0-9]*", "parquet*", 1.0),
    Reach("Spark, deduplicated by *", "the faster of *", 2),
    Reach("rows into Kafka, 100 bytes, 10,000 a request, 8 clients: per second of processor", "confluent-kafka*", 2),
    Reach("rows into Kafka, * bytes, * a request, 8 clients: per second of processor", "confluent-kafka*", 1),
    Reach("rows into Kafka, * bytes, * a request, 8 clients", "confluent-kafka*", 1),
    Reach("Spark into Kafka, *", SPARK_SINK, 0.91),
    Reach("disk, 10,000 ids a request", None, 18),
    Reach("retire a bucket of *", None, 10),
    Reach("growth to *: longest pause", None, 50),
    Reach("cold start over entries, * ids: rate of the reading", None, 10e6),
    Reach("cold start over a saved index, * ids", None, 5),
)
