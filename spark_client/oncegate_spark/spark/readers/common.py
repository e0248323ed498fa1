"""Looks at a topic and reads slices of it in tasks, for batch and stream reads."""

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from oncegate_spark.errors import (
    BadOption,
    LedgerBehind,
    NotFound,
    OffsetTrimmed,
    OncegateError,
    Refused,
    Stopped,
    TaskFailed,
)
from oncegate_spark.spark import logs
from oncegate_spark.spark.readers import offsets, schema
from oncegate_spark.spark.readers.offsets import Ends, OffsetSpan, PartitionOffsets, first_kept
from oncegate_spark.spark.readers.options import ReadOptions
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")

FETCH_ROWS = 100_000  # asked for at a time; the gateway bounds the bytes, and answers with fewer rows then


def rows_of(
    gateway: Gateway, topic: str, span: OffsetSpan, fail_on_data_loss: bool, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """The span's rows as (offset of the first, rows), without a gap. A short answer is asked on from where it ends.

    Raises Stopped for trimmed offsets (or logs them, if told to), LedgerBehind when the topic ends before the span.
    """
    offset = span.start
    while offset < span.end:
        left = OffsetSpan(span.partition, offset, span.end)
        try:
            rows, following = gateway.fetch(topic, offset, min(FETCH_ROWS, span.end - offset), span.partition, columns)
        except OffsetTrimmed as error:
            offset = _after_the_lost(error, topic, left, fail_on_data_loss)
            continue
        if rows is None:
            raise LedgerBehind(
                f"topic {topic}, partition {span.partition}, ends at {following}, and it ended at {span.end} or later "
                "when this read was planned: the gateway serves an older copy of its ledger",
                code="LEDGER_BEHIND",
            )
        if following != offset + rows.num_rows or following > span.end:
            raise Stopped(
                f"the gateway answered {rows.num_rows} rows from offset {offset} to {following} of topic {topic}, "
                f"partition {span.partition}, when {left.end - offset} were wanted: rows would be lost or doubled",
                code="BROKEN_ANSWER",
            )
        yield offset, rows
        offset = following


def _after_the_lost(error: OffsetTrimmed, topic: str, left: OffsetSpan, fail_on_data_loss: bool) -> int:
    """The offset to go on from when rows were trimmed meanwhile; Stopped when that is not wanted."""
    if error.low_offset <= left.start:
        raise error
    offset, lost = first_kept(left, error.low_offset, fail_on_data_loss, topic)
    log.warning(lost)
    return offset


log = logging.getLogger("oncegate_spark")

BATCH_ROWS = 10_000  # as many as Spark itself puts into an Arrow batch
WAIT = '.schema("<column> <type>, …").option("waitForTopic", "true") lets a stream wait for its first row'


class _NoTopic(NotFound):
    """Says that the namespace is there, and the topic is not."""


class _NoColumns(Refused):
    """Says that the topic is there, and nothing was written to it."""


class Slice(InputPartition):  # type: ignore[misc]
    """Names what one task reads. `columns`: what it asks the gateway for; None for all."""

    def __init__(self, span: OffsetSpan, columns: tuple[str, ...] | None) -> None:
        self.span = span
        self.columns = columns


def read_schema(options: ReadOptions) -> StructType:
    """Find the schema of a read, as the topic and the options give it. Raises NotFound, BadOption, Unavailable."""
    with options.gateway() as gateway:
        topic = look_if_there(gateway, options.topic) if options.waits else look(gateway, options.topic)
    if topic is None:
        raise BadOption(
            f"topic {options.topic} is not there yet, or has no columns, and a query has to know them: waitForTopic "
            'goes with spark.readStream.schema("<column> <type>, …")'
        )
    return schema.columns_of(topic[1], options)


def look(gateway: Gateway, topic: str) -> tuple[Ends, pa.Schema]:
    """Look at the topic as it is now: its ends, its columns.

    Raises NotFound, and Refused where nothing was written that could be read, or where it has to be read elsewhere.
    """
    try:
        view = gateway.topic(topic)
    except NotFound as error:
        _check_here(gateway, topic)  # a namespace that is not there says so itself: nothing will come to it
        raise _NoTopic(f"{error}; {WAIT}", outcome=error.outcome, code=error.code, **error.extra) from error
    if view.schema is None:
        _check_here(gateway, topic)
        raise _NoColumns(
            f"topic {topic} has no columns yet: its first write gives them, or a schema when it is created; {WAIT}"
        )
    return Ends.of(view.low_offsets, view.high_offsets), view.schema


def _check_here(gateway: Gateway, topic: str) -> None:
    """Raises Refused, with the line to write, where rows lie in Kafka; NotFound where there is no such namespace."""
    brokers = gateway.describe().get("topics_at")
    if brokers:
        raise Refused(
            f'rows of topic {topic} lie in Kafka: read them by .format("kafka").option("kafka.bootstrap.servers", '
            f'"{brokers}").option("subscribe", "{topic}").option("kafka.isolation.level", "read_committed")',
            code="READ_ELSEWHERE",
        )


def look_if_there(gateway: Gateway, topic: str) -> tuple[Ends, pa.Schema] | None:
    """As `look`; None for a topic that is still to come. Raises NotFound where its namespace is not there either."""
    try:
        return look(gateway, topic)
    except (_NoTopic, _NoColumns):
        return None


def sliced(
    start: PartitionOffsets, end: PartitionOffsets, ends: Ends, options: ReadOptions, columns: tuple[str, ...] | None
) -> list[Slice]:
    """Cut the slices from `start` up to `end`, without what retention has taken, which is refused or logged."""
    first = {}
    for partition, offset in start.items():
        span = OffsetSpan(partition, offset, end[partition])
        first[partition], lost = offsets.first_kept(span, ends.low[partition], options.fail_on_data_loss, options.topic)
        if lost:
            log.warning(lost)
    return [Slice(span, columns) for span in offsets.slices(first, end)]


def read_slice(options: ReadOptions, wanted: StructType, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read a slice in a task: its rows in the order of their offsets, as Spark takes them.

    Raises TaskFailed with the place and the cause.
    """
    if not isinstance(part, Slice):  # Spark makes one of its own when there is nothing to read
        return
    logs.be_heard()
    span, target = part.span, schema.layout(wanted)
    try:
        with options.gateway() as gateway:
            for first, rows in rows_of(gateway, options.topic, span, options.fail_on_data_loss, part.columns):
                yield from schema.laid_out(rows, target, span.partition, first).to_batches(BATCH_ROWS)
    except OncegateError as error:
        where = f"offsets {span.start} to {span.end} of partition {span.partition}"
        text = f"read of topic {options.topic} through {options.url}, {where}, {_attempt()}: {error}"
        raise TaskFailed(text, code=error.code) from error


def _attempt() -> str:
    context = TaskContext.get()
    return f"attempt {context.attemptNumber()}" if context else "no task"
