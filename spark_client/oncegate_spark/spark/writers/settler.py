"""Writes granted rows into a sink with `find` (`oncegate_spark.delivery`), and resolves rows in doubt by asking it.

Like `claim_loop`, except between claim and completion: for rows taken over from an earlier holder, and after a lost
reply, the sink is asked first. So a killed task causes no duplicate if the sink keeps its guarantee.
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

NO_LANES = f"a sink of Deliver finds records by their ids: use idCol, not producerCol and sequenceCol{NOTHING}"


class AskingSettler(Settler):
    """Claims, writes and completes rows; each is a record of one sink, identified by the text of its id.

    Raises BadOption for rows without ids; otherwise like `Settler`, and InDoubt if the sink cannot tell which records
    it has, SinkRefused if it rejects some.
    """

    def __init__(self, attempt: Attempt, made: Deliver, sink: AskedSink, options: Options, done: ClaimProgress) -> None:
        if options.lane_names is not None:
            raise BadOption(NO_LANES)
        payloads = (options.digest_names, options.on_conflict)
        super().__init__(attempt, options.id_names, _written_here, done, options.lease_ms, *payloads)
        self._sink, self._made, self._names = sink, made, options.id_names
        self._writing = Writing(attempt.gateway, sink)
        # Ids that this task wrote under a claim that was then taken over from it.
        self._handed: set[str] = set()

    def settle(self, batch: pa.RecordBatch) -> None:
        """Returns once every row of the batch is done. A claim has at most the sink's `records_max` rows."""
        self._made.check(batch.schema.names)
        size = checked((), self._sink)
        for start in range(0, batch.num_rows, size):
            super().settle(batch.slice(start, size))

    def let_go(self, claimed: Claimed) -> None:
        """Releases a claim unless something of it is in doubt: the next claim would not be reported as a takeover."""
        if not claimed.verdicts.takeovers and not self._handed:
            super().let_go(claimed)

    def hand_over(self, granted: pa.RecordBatch, claimed: Claimed) -> int:
        """Writes the records that the sink does not have; returns how many it had."""
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
        """Returns each row as a record: its id as text, or as a JSON array of texts for ids of several columns."""
        row_values = rows.to_pylist()
        ids = [[_text(row[name]) for name in self._names] for row in row_values]
        texts = [row_id[0] if len(row_id) == 1 else json.dumps(row_id, separators=(",", ":")) for row_id in ids]
        return [Record(row_id, self._made.body_of(row)) for row_id, row in zip(texts, row_values, strict=True)]


def _text(value: Any) -> str:
    """Returns an id's canonical text as in the gateway, independent of time zone, unit and scale."""
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
