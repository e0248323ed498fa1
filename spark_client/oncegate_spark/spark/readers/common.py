"""Describes a topic and reads slices of it in tasks, for batch and stream reads."""

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

FETCH_ROWS = 100_000  # requested at once; the gateway limits the bytes, and may return fewer rows


def rows_of(
    gateway: Gateway, topic: str, span: OffsetSpan, fail_on_data_loss: bool, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """Yields the span's rows as (first offset, rows), without gaps; continues after a short reply.

    Raises Stopped for trimmed offsets (or logs them, without `fail_on_data_loss`), and LedgerBehind if the topic ends
    before the span.
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
                f"topic {topic}, partition {span.partition}, ends at {following}, but it ended at {span.end} or later "
                "when this read was planned: the gateway serves an older copy of its ledger",
                code="LEDGER_BEHIND",
            )
        if following != offset + rows.num_rows or following > span.end:
            raise Stopped(
                f"the gateway returned {rows.num_rows} rows from offset {offset} to {following} of topic {topic}, "
                f"partition {span.partition}, although {left.end - offset} were requested: rows would be lost or "
                "repeated",
                code="BROKEN_ANSWER",
            )
        yield offset, rows
        offset = following


def _after_the_lost(error: OffsetTrimmed, topic: str, left: OffsetSpan, fail_on_data_loss: bool) -> int:
    """Returns the offset to continue from after rows were trimmed. Raises Stopped with `fail_on_data_loss`."""
    if error.low_offset <= left.start:
        raise error
    offset, lost = first_kept(left, error.low_offset, fail_on_data_loss, topic)
    log.warning(lost)
    return offset


log = logging.getLogger("oncegate_spark")

BATCH_ROWS = 10_000  # Spark's own size of an Arrow batch
WAIT = '.schema("<column> <type>, …").option("waitForTopic", "true") lets a stream wait for its first row'


class _NoTopic(NotFound):
    """The namespace exists, and the topic does not."""


class _NoColumns(Refused):
    """The topic exists, and nothing was written to it."""


class Slice(InputPartition):  # type: ignore[misc]
    """Part of a read for one task. `columns`: those to request from the gateway; None for all."""

    def __init__(self, span: OffsetSpan, columns: tuple[str, ...] | None) -> None:
        self.span = span
        self.columns = columns


def read_schema(options: ReadOptions) -> StructType:
    """Returns the schema of a read from the topic and the options. Raises NotFound, BadOption, Unavailable."""
    with options.gateway() as gateway:
        topic = look_if_there(gateway, options.topic) if options.waits else look(gateway, options.topic)
    if topic is None:
        raise BadOption(
            f"topic {options.topic} does not exist yet, or has no columns, and a query needs them: waitForTopic "
            'requires spark.readStream.schema("<column> <type>, …")'
        )
    return schema.columns_of(topic[1], options)


def look(gateway: Gateway, topic: str) -> tuple[Ends, pa.Schema]:
    """Returns the topic's current ends and columns.

    Raises NotFound, and Refused if nothing readable was written, or if rows must be read elsewhere.
    """
    try:
        view = gateway.topic(topic)
    except NotFound as error:
        # raises NotFound itself if the namespace does not exist, since waiting would be pointless
        _check_here(gateway, topic)
        raise _NoTopic(f"{error}; {WAIT}", outcome=error.outcome, code=error.code, **error.extra) from error
    if view.schema is None:
        _check_here(gateway, topic)
        raise _NoColumns(
            f"topic {topic} has no columns yet: its first write, or a schema at its creation, defines them; {WAIT}"
        )
    return Ends.of(view.low_offsets, view.high_offsets), view.schema


def _check_here(gateway: Gateway, topic: str) -> None:
    """Raises Refused, with the line of code that fixes it, if rows are in Kafka; NotFound if the namespace does not
    exist.
    """
    brokers = gateway.describe().get("topics_at")
    if brokers:
        raise Refused(
            f'rows of topic {topic} are in Kafka: read them with .format("kafka").option("kafka.bootstrap.servers", '
            f'"{brokers}").option("subscribe", "{topic}").option("kafka.isolation.level", "read_committed")',
            code="READ_ELSEWHERE",
        )


def look_if_there(gateway: Gateway, topic: str) -> tuple[Ends, pa.Schema] | None:
    """Like `look`; None for a topic that does not exist yet. Raises NotFound if its namespace does not exist."""
    try:
        return look(gateway, topic)
    except (_NoTopic, _NoColumns):
        return None


def sliced(
    start: PartitionOffsets, end: PartitionOffsets, ends: Ends, options: ReadOptions, columns: tuple[str, ...] | None
) -> list[Slice]:
    """Returns the slices from `start` to `end`; rows that retention has dropped raise Stopped or are logged."""
    first = {}
    for partition, offset in start.items():
        span = OffsetSpan(partition, offset, end[partition])
        first[partition], lost = offsets.first_kept(span, ends.low[partition], options.fail_on_data_loss, options.topic)
        if lost:
            log.warning(lost)
    return [Slice(span, columns) for span in offsets.slices(first, end)]


def read_slice(options: ReadOptions, wanted: StructType, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """Reads a slice in a task: yields its rows in offset order, in the layout that Spark expects.

    Raises TaskFailed with the place and the cause.
    """
    if not isinstance(part, Slice):  # Spark creates a partition of its own if there is nothing to read
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
