"""Lanes of one task of write=direct, each with its transaction; and the conversion of rows to Kafka records."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.direct.transaction import TIMEOUT_MS, DirectRow, LaneTransaction, transaction_time
from oncegate_spark.direct.writer import missing
from oncegate_spark.errors import (
    NOTHING,
    BadId,
    BadOption,
    OncegateError,
    Outcome,
    OutOfOrder,
    Refused,
    SourceReplaced,
)
from oncegate_spark.protocol.sequences import increasing, uint64_column
from oncegate_spark.spark.kafka_source import replaced, source_of
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.writers.sequenced import WAYS_ON
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")


@dataclass
class _Lane:
    """One lane in a task.

    `last`: last sequence in the task. `leading`: number of its first rows that were written before; `leads`: all rows
    so far are such.
    """

    transaction: LaneTransaction
    last: int = -1
    leading: int = 0
    leads: bool = True


@dataclass
class TaskLanes:
    """All lanes of one task.

    written     rows that are committed
    suppressed  rows that were written before
    acked       by producer: the source delivers no sequence up to this one again
    """

    gateway: Gateway
    options: Options
    open: ExitStack
    config: Mapping[str, str]
    acked: Mapping[str, int] = field(default_factory=dict)
    lanes: dict[str, _Lane] = field(default_factory=dict)
    rows: int = 0
    written: int = 0
    suppressed: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch's unwritten rows to their lanes."""
        assert self.options.lane_names is not None
        producers = batch.column(self.options.lane_names[0])
        if producers.null_count or pc.any(pc.equal(pc.binary_length(producers), 0)).as_py():
            raise BadId(f"producerCol {self.options.lane_names[0]}: a row has no producer{NOTHING}")
        names = pc.unique(producers).to_pylist()
        for name in names:
            self._add(name, batch if len(names) == 1 else batch.filter(pc.equal(producers, name)))

    def _add(self, name: str, rows: pa.RecordBatch) -> None:
        assert self.options.lane_names is not None
        column = self.options.lane_names[1]
        sequences = uint64_column(rows.column(column), f"sequenceCol {column}")
        lane = self._lane(name)
        if not increasing(sequences) or sequences[0].as_py() <= lane.last:
            raise OutOfOrder(f"rows of producer {name} do not come in the order of their sequences: {WAYS_ON}{NOTHING}")
        first, last = sequences[0].as_py(), sequences[-1].as_py()
        lacking = list(missing(rows_of(rows, sequences), self._written(name, lane, first, last)))
        if lane.leads:
            is_new = pc.equal(sequences, pa.scalar(lacking[0].sequence, pa.uint64())) if lacking else None
            lane.leading += len(sequences) if is_new is None else pc.index(is_new, True).as_py()
            lane.leads = not lacking
        lane.last = last
        self.rows += len(sequences)
        self.suppressed += len(sequences) - len(lacking)
        lane.transaction.add(lacking)

    def _written(self, name: str, lane: _Lane, first: int, last: int) -> Sequence[tuple[int, int]]:
        """Returns the written sequences; the first request for a lane carries the ack of earlier batches."""
        acked = self.acked.get(source_of(name)[0]) if lane.last < 0 else None
        if acked is None:
            return lane.transaction.ask(first, last)
        if first <= acked:
            raise OutOfOrder(
                f"producer {name} has sequence {first}, but earlier batches, which Spark cannot retry, had all up to "
                f"{acked}: {WAYS_ON}{NOTHING}"
            )
        try:
            return lane.transaction.ask(first, last, acked)
        except Refused as error:
            log.warning("the lane of producer %s could not be acked up to %d: %s", name, acked, error)
            return lane.transaction.ask(first, last)

    @property
    def upto(self) -> dict[str, int]:
        """Last sequence of each producer."""
        return {source_of(name)[0]: lane.last for name, lane in self.lanes.items()}

    @property
    def leading(self) -> dict[str, int]:
        """Number of leading rows of each producer that were already written; producers without any are left out."""
        return {source_of(name)[0]: lane.leading for name, lane in self.lanes.items() if lane.leading}

    def _lane(self, name: str) -> _Lane:
        if name not in self.lanes:
            options = self.options
            own, source_id = source_of(name)
            try:
                opened = self.gateway.open_lane(options.topic, own, source_id)
            except SourceReplaced as error:
                raise replaced(error) from error
            transaction = LaneTransaction(
                self.gateway, (options.topic, own), opened, self.config, **times_of(options, self.config)
            )
            self.open.enter_context(transaction)
            transaction.start()
            self.lanes[name] = _Lane(transaction)
        return self.lanes[name]

    def commit(self) -> None:
        """Commits every lane's transaction, one after another."""
        for lane in self.lanes.values():
            self.written += lane.transaction.commit()

    def outcome(self, error: OncegateError) -> tuple[Outcome, str]:
        """Returns the effect of a failed task."""
        before = f"{self.written} rows of other lanes were written by this task; its retry drops them"
        if error.outcome is Outcome.UNKNOWN:
            return (
                Outcome.UNKNOWN,
                f"unknown: whether the rows of its lane were written, which its retry finds out; {before}",
            )
        return (Outcome.WRITTEN, before) if self.written else (Outcome.NOT_WRITTEN, "nothing was written by this task")


def times_of(options: Options, config: Mapping[str, str]) -> dict[str, int]:
    """Returns the timeouts of a task's transactions as arguments of `LaneTransaction`. Raises BadOption."""
    timeout_ms = min(TIMEOUT_MS, options.transaction_ms or TIMEOUT_MS)
    longest_ms = max(timeout_ms, options.set_timeout_ms)
    return {
        "timeout_ms": timeout_ms,
        "transaction_ms": transaction_time(options.transaction_ms, longest_ms, config),
    }


def config_of(path: str | None) -> dict[str, str]:
    """Reads settings of the Kafka client, one `name=value` per line; ignores empty lines and lines that begin with #.

    Raises BadOption.
    """
    if path is None:
        return {}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"kafkaConfigFile {path} cannot be read: {error}{NOTHING}") from error
    config: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, is_pair, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not is_pair or not name.strip():
            raise BadOption(f"kafkaConfigFile {path}, line {number}: not of the form name=value{NOTHING}")
        config[name.strip()] = value.strip()
    return config


def rows_of(rows: pa.RecordBatch, sequences: pa.UInt64Array) -> list[DirectRow]:
    """Converts rows to records by the columns of Spark's Kafka sink that are present."""
    count = rows.num_rows
    there = set(rows.schema.names)

    def column(name: str) -> Sequence[Any]:
        if name not in there:
            return [None] * count
        values = rows.column(name)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = values.cast(pa.binary())
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        return list(values.to_pylist())

    headers = [
        () if some is None else tuple((header["key"], header["value"]) for header in some) for some in column("headers")
    ]
    columns = column("value"), column("key"), headers, column("partition"), column("timestamp")
    return [DirectRow(*row) for row in zip(sequences.to_pylist(), *columns, strict=True)]
