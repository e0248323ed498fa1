"""Fetches the rows of one span in a task, each once and in order, or raises."""

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from oncegate_spark.errors import LedgerBehind, OffsetTrimmed, Stopped
from oncegate_spark.spark.readers.offsets import OffsetSpan, first_kept
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
