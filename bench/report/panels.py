"""The content of the bench's picture: a panel for each kind of work, with a few rows that name the peer."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bench.report.figures import Figure
from bench.report.reaches import ANTI_JOINS, DIRECT, FRONT, HTTP_PACKED, NO_TRACES

_REDIS = "Redis, *"
_BLOOM = "Bloom filter of 1,000,000 ids at 1.0%: check-and-add*"
_HALF = "open loop at half of *peak"


@dataclass(frozen=True)
class Row:
    """A bar: its label, and the patterns for name and peer of the figures that it may show."""

    label: str
    name: str
    peer: str | None = None

    def shown(self, figures: Sequence[Figure]) -> Figure | None:
        """Returns the matching figure, compared with the best of the matching peers; None if none was measured."""
        fitting = [figure for figure in figures if fnmatchcase(figure.name, self.name) and self._fits(figure)]
        return min(fitting, key=lambda figure: figure.ratio or 0.0) if fitting else None

    def _fits(self, figure: Figure) -> bool:
        if self.peer is None or figure.peer is None or not figure.ratio:
            return self.peer is None and figure.peer is None
        return fnmatchcase(figure.peer, self.peer)


@dataclass(frozen=True)
class Panel:
    """A title and its rows, which are either all comparisons with a peer or all times in milliseconds."""

    title: str
    rows: tuple[Row, ...]

    def shown(self, figures: Sequence[Figure]) -> list[tuple[str, Figure]]:
        """Returns label and figure of each row that was measured."""
        labelled = [(row.label, row.shown(figures)) for row in self.rows]
        return [(label, figure) for label, figure in labelled if figure is not None]


PANELS = (
    Panel(
        "Claims of many ids, beside the fastest way found in Redis",
        (
            Row("1 id a request", "claim, packed, 1 ids, 64 clients", _REDIS),
            Row("100 ids", "claim, packed, 100 ids, 64 clients", _REDIS),
            Row("1,000 ids", "claim, packed, 1,000 ids, 16 clients", _REDIS),
            Row("10,000 ids", "claim, packed, 10,000 ids, 16 clients", _REDIS),
            Row("100,000 ids", "claim, packed, 100,000 ids, 8 clients", _REDIS),
            Row("10,000 ids in JSON", "claim, JSON strings, 10,000 ids, 16 clients", _REDIS),
        ),
    ),
    Panel(
        "Claims of one id, 64 clients, beside Redis SET NX",
        (
            Row("Redis behind HTTP too", "single ids, 64 clients", FRONT),
            Row("Redis asked directly", "single ids, 64 clients", DIRECT),
        ),
    ),
    Panel(
        "What an id takes, beside a set of Redis",
        (
            Row("disk", "disk, 10,000 ids a request", "Redis, a set of ids"),
            Row("memory", "memory, the process, 10,000 ids a request", "Redis, a set of ids"),
        ),
    ),
    Panel(
        "Rows from Spark, beside Spark's own ways",
        (
            Row("staged : Parquet files", "Spark, staged write of *", "parquet files"),
            Row("staged : dropDuplicates", "Spark, deduplicated by staged*", "the faster of *"),
            Row("ids : dropDuplicates", "Spark, deduplicated by ids*", "the faster of *"),
        ),
    ),
    Panel(
        "Bloom filter, ask and add, beside other filters",
        (Row("rbloom", _BLOOM, "rbloom"), Row("pybloom-live", _BLOOM, "pybloom-live")),
    ),
)
_CONFLUENT, _LOG, _SPARK = "confluent-kafka, *", "the log on this disk", "Spark's own Kafka sink, *"
_ROWS_100 = "rows into Kafka, 100 bytes, 10,000 a request, 8 clients"
_ROWS_1K = "rows into Kafka, 1,000 bytes, 2,000 a request, 8 clients"
KAFKA_PANELS = (
    Panel(
        "Rows into Kafka, beside a tuned transactional producer in Python",
        (
            Row("100 bytes, a second", _ROWS_100, _CONFLUENT),
            Row("100 bytes, a core's second", f"{_ROWS_100}: per second of processor", _CONFLUENT),
            Row("1,000 bytes, a second", _ROWS_1K, _CONFLUENT),
            Row("1,000 bytes, a core's second", f"{_ROWS_1K}: per second of processor", _CONFLUENT),
        ),
    ),
    Panel(
        "Jobs of Spark into Kafka, beside Spark's own sink (at least once)",
        (
            Row("staged", "Spark into Kafka, staged, *", _SPARK),
            Row("ids", "Spark into Kafka, ids, *", _SPARK),
            Row("direct", "Spark into Kafka, direct, *", _SPARK),
        ),
    ),
    Panel(
        "A ledger on Kafka, beside the log on this disk",
        (
            Row("claims of 1 id", "claim over Kafka, packed, 1 ids, 64 clients", _LOG),
            Row("of 1,000 ids", "claim over Kafka, packed, 1,000 ids, 16 clients", _LOG),
            Row("of 10,000 ids", "claim over Kafka, packed, 10,000 ids, 16 clients", _LOG),
            Row("start of 10 million ids", "start over Kafka, 10,000,000 ids", _LOG),
        ),
    ),
)
_KAFKA_LEDGER, _MULTI = "a ledger on Kafka", "Redis, raw socket, MULTI *"
_BESIDE = {"the log on this disk": _LOG, "a ledger on Kafka": _KAFKA_LEDGER, "a bare Redis": _MULTI}
_OVER_REDIS = "claim over Redis, packed"
REDIS_PANELS = tuple(
    Panel(
        f"Claims over a ledger on Redis, beside {peer}",
        (
            Row("1 id a request", f"{_OVER_REDIS}, 1 ids, 64 clients", pattern),
            Row("1,000 ids", f"{_OVER_REDIS}, 1,000 ids, 16 clients", pattern),
            Row("10,000 ids", f"{_OVER_REDIS}, 10,000 ids, 16 clients", pattern),
        ),
    )
    for peer, pattern in _BESIDE.items()
)
GRPC_PANELS = (
    Panel(
        "Claims of 10,000 ids over gRPC, beside HTTP",
        (
            Row("a stream, read ahead", "claim over gRPC by streams, *", HTTP_PACKED),
            Row("calls", "claim over gRPC by calls, *", HTTP_PACKED),
        ),
    ),
)
TRACES_PANELS = (
    Panel(
        "Claims with OpenTelemetry, a core's second, beside none",
        (
            Row("1 % sampled", "claim with traces, *, 1 % sampled", NO_TRACES),
            Row("all sampled", "claim with traces, *, all sampled", NO_TRACES),
        ),
    ),
)
VERIFIER_PANELS = (
    Panel(
        "verify (topic and ledger), beside anti-joins of a dump",
        (
            Row("DuckDB", "verify, * rows", ANTI_JOINS["duckdb"]),
            Row("pyarrow", "verify, * rows", ANTI_JOINS["pyarrow"]),
        ),
    ),
)
TIMES = Panel(
    "Latencies and pauses in milliseconds",
    (
        Row("half load, 1,000 ids: p50", f"{_HALF}, 1,000 ids a request: p50"),
        Row("half load, 1,000 ids: p99", f"{_HALF}, 1,000 ids a request: p99"),
        Row("half load, 10,000 ids: p50", f"{_HALF}, 10,000 ids a request: p50"),
        Row("half load, 10,000 ids: p99", f"{_HALF}, 10,000 ids a request: p99"),
        Row("growing: longest pause", "growth to *: longest pause"),
        Row("forgetting a million ids", "retire a bucket of * ids"),
    ),
)
# The panels of a run of a single section, by the name under which a page quotes it.
OF_SECTIONS = {
    "bench-kafka": KAFKA_PANELS,
    "bench-redis": REDIS_PANELS,
    "bench-grpc": GRPC_PANELS,
    "bench-traces": TRACES_PANELS,
    "bench-verifier": VERIFIER_PANELS,
}
