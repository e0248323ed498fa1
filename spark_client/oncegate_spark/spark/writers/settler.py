"""Writing granted rows into a sink that can be asked (`oncegate_spark.delivery`): what is in doubt it settles itself.

As `claim_loop`, but for what it does between claim and completion: of rows whose earlier holder is gone, and of those
whose answer was lost, the sink is asked first. So a killed task makes no copy where the sink keeps its promise.
"""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.delivery.deliver import NothingWritten, Writing
from oncegate_spark.delivery.sink import Record, checked
from oncegate_spark.delivery.sink import Sink as AskedSink
from oncegate_spark.errors import NOTHING, BadOption
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.sinks import Deliver
from oncegate_spark.spark.writers.claim_loop import ClaimProgress, Settler
from oncegate_spark.sync.attempt import Attempt

NO_LANES = (
    f"a sink of Deliver finds records by their ids: write them with idCol, not producerCol and sequenceCol{NOTHING}"
)


class AskingSettler(Settler):
    """Claims, writes and completes rows; each is a record of one sink, known there by the text of its id.

    Raises BadOption for rows without ids; then as `Settler`, InDoubt where the sink does not say what it has, and
    SinkRefused where it refuses some.
    """

    def __init__(self, attempt: Attempt, made: Deliver, sink: AskedSink, options: Options, done: ClaimProgress) -> None:
        if options.lane_names is not None:
            raise BadOption(NO_LANES)
        payloads = (options.digest_names, options.on_conflict)
        super().__init__(attempt, options.id_names, _written_here, done, options.lease_ms, *payloads)
        self._sink, self._made, self._names = sink, made, options.id_names
        self._writing = Writing(attempt.gateway, sink)
        # Ids that this task handed over under a claim that was then taken over from it.
        self._handed: set[str] = set()

    def settle(self, batch: pa.RecordBatch) -> None:
        """Return when every row of the batch is done; so many rows share a claim as the sink writes together."""
        self._made.check(batch.schema.names)
        size = checked((), self._sink)
        for start in range(0, batch.num_rows, size):
            super().settle(batch.slice(start, size))

    def let_go(self, claimed: Claimed) -> None:
        """Have it free, unless something of it is in doubt: whoever comes next would not be told so."""
        if not claimed.verdicts.takeovers and not self._handed:
            super().let_go(claimed)

    def hand_over(self, granted: pa.RecordBatch, claimed: Claimed) -> int:
        """Write what the sink has not; how many rows it had."""
        records = self.records(granted)
        verdicts = claimed.verdicts
        is_doubtful = pc.or_(verdicts.in_doubt, verdicts.unchecked).filter(verdicts.may_write).to_pylist()
        doubtful = {
            record.id for record, doubt in zip(records, is_doubtful, strict=True) if doubt or record.id in self._handed
        }
        try:
            written = self._writing.write(records, doubtful)
        except NothingWritten:
            self.progress.open -= granted.num_rows
            self.attempt.release(claimed)
            raise
        self._handed.update(record.id for record in records)
        return len(records) - written

    def records(self, rows: pa.RecordBatch) -> list[Record]:
        """Each row as a record: the text of its id, or a JSON array of texts where ids are of several columns."""
        row_values = rows.to_pylist()
        ids = [[_text(row[name]) for name in self._names] for row in row_values]
        texts = [row_id[0] if len(row_id) == 1 else json.dumps(row_id, separators=(",", ":")) for row_id in ids]
        return [Record(row_id, self._made.body_of(row)) for row_id, row in zip(texts, row_values, strict=True)]


def _text(value: Any) -> str:
    """As the gateway knows it: the same whatever the session's time zone, a column's unit or a decimal's scale."""
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime):
        text = (value if value.tzinfo is None else value.astimezone(UTC)).replace(tzinfo=None).isoformat()
        text = text.rstrip("0") if "." in text else text
        return text if value.tzinfo is None else f"{text}Z"
    return str(value)


def _written_here(_rows: pa.RecordBatch) -> None:
    raise AssertionError("hand_over writes")
