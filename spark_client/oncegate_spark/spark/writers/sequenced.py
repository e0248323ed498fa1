"""Lanes of one task attempt: the rows of each producer, in the order of its source.

A lane is registered at its first row, waiting while another attempt's lease is live, and closed when the task ends.
Sequences are claimed in order. Each claim names the last sequence that this task has seen before it, never an unseen
one, so that no unlisted sequence is ever covered.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import NOTHING, BadId, OncegateError, OutOfOrder, SourceReplaced, StillBusy, Unavailable
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Produced
from oncegate_spark.protocol.packed import Verdicts
from oncegate_spark.protocol.sequences import increasing, uint64_column
from oncegate_spark.spark.kafka_source import replaced, source_of
from oncegate_spark.spark.writers.claim_loop import ClaimProgress, Write
from oncegate_spark.sync.gateway import Gateway
from oncegate_spark.sync.lease import Holder
from oncegate_spark.sync.producers import Producer

CLOSE_TIMEOUT_MS = 2_000  # best effort: an unclosed lease expires by itself
WAYS_ON = (
    "one task must have a contiguous range of a lane, in the order of its source. This holds after a Kafka source "
    "without "
    "minPartitions and maxRecordsPerPartition, also through filters and new columns; it does not hold after a join, an "
    'aggregate, a sort or a repartition: write there with .option("idCol", …), or with '
    '.option("write", "staged")'
)

log = logging.getLogger("oncegate_spark")


@dataclass
class TaskLane:
    """One lane as this task writes it.

    `last`: last sequence that the task has seen. `leading`: number of its first rows that another epoch has written;
    `leads`: all rows so far are such.
    """

    producer: Producer
    last: int | None = None
    leading: int = 0
    leads: bool = True

    def note(self, verdicts: Verdicts) -> None:
        """Counts the leading rows that are not this task's."""
        if self.leads:
            self.leading += verdicts.leading
            self.leads = verdicts.leading == len(verdicts.data)


class Lanes:
    """All lanes of one attempt, by the producer named in a row, under the attempt's token.

    A lane leads from a part of the source to one target, and the gateway identifies it by both: "events-3@departures".
    Two writes of one source to two targets are two lanes.
    """

    def __init__(
        self,
        gateway: Gateway,
        names: tuple[str, str],
        target: str,
        driver: str,
        token: str,
        lease_ms: int | None = None,
    ) -> None:
        self._gateway = gateway
        self._names = names
        self._target = target
        self._driver = driver
        self._token = token
        self._lease_ms = lease_ms
        self._lanes: dict[str, TaskLane] = {}

    @property
    def upto(self) -> dict[str, int]:
        """Last sequence of each producer, by its name at the gateway."""
        return {lane.producer.name: lane.last for lane in self._lanes.values() if lane.last is not None}

    @property
    def leading(self) -> dict[str, int]:
        """Number of leading rows of each producer that another epoch has written; producers without any are
        left out.
        """
        return {lane.producer.name: lane.leading for lane in self._lanes.values() if lane.leading}

    def parts(self, rows: pa.Table, size: int = codecs.IDS_MAX) -> Iterator[tuple[TaskLane, pa.Table, pa.UInt64Array]]:
        """Yields the rows lane by lane with their sequences, at most `size` at once; finish each before the next.

        Raises BadId, and OutOfOrder with the remedies, before yielding anything, hence before any effect of these rows.
        """
        parts = [(name, part, self._ordered(name, part)) for name, part in self._by_producer(rows)]
        for name, part, sequences in parts:
            for start in range(0, len(sequences), size):
                some = sequences.slice(start, size)
                lane = self._lane(name)
                yield lane, part.slice(start, size), some
                lane.last = some[-1].as_py()

    def _by_producer(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        column = rows.column(self._names[0])
        if column.null_count or pc.any(pc.equal(pc.binary_length(column), 0)).as_py():
            raise BadId(f"producerCol {self._names[0]}: a row has no producer{NOTHING}")
        names = pc.unique(column).to_pylist()
        if len(names) == 1:
            yield names[0], rows
            return
        for name in names:
            yield name, rows.filter(pc.equal(column, name))

    def _ordered(self, name: str, rows: pa.Table) -> pa.UInt64Array:
        sequences = uint64_column(rows.column(self._names[1]), f"sequenceCol {self._names[1]}")
        last = self._lanes[name].last if name in self._lanes else None
        if not increasing(sequences) or (last is not None and sequences[0].as_py() <= last):
            raise OutOfOrder(f"rows of producer {name} are not in the order of their sequences: {WAYS_ON}{NOTHING}")
        return sequences

    def _lane(self, name: str) -> TaskLane:
        lane = self._lanes.get(name)
        if lane is None:
            # A target is percent-encoded, so the text after the last @ is the target, whatever the row's name contains.
            own, source_id = source_of(name)
            full, attempt = f"{own}@{self._target}", {"driver": self._driver, "token": self._token}
            producer = self._gateway.producer(full, **attempt, lease_ms=self._lease_ms, source_id=source_id)
            try:
                producer.register()
            except SourceReplaced as error:
                raise replaced(error) from error
            lane = self._lanes[name] = TaskLane(producer)
        return lane

    def close(self) -> None:
        """Ends every lease, so that a retry, or the next batch, need not wait for it."""
        for name, lane in self._lanes.items():
            try:
                lane.producer.close(CLOSE_TIMEOUT_MS)
            except OncegateError as error:
                log.warning("producer %s could not be closed; its lease expires by itself: %s", name, error)
                if isinstance(error, Unavailable):
                    return  # the gateway is down; the other calls would fail too


class LaneSettler:
    """Claims, writes and completes rows lane by lane; `progress` stays valid after an error.

    BUSY, FENCED, GAP and OUT_OF_ORDER raise: Spark would otherwise accept the task's empty success, and kill the
    attempt that does the work.
    """

    def __init__(self, gateway: Gateway, lanes: Lanes, write: Write, progress: ClaimProgress) -> None:
        self.progress = progress
        self._lanes = lanes
        self._write = write
        self._holder = Holder(gateway)

    @property
    def upto(self) -> dict[str, int]:
        """Last sequence of each producer, for the ack once this task can no longer be retried."""
        return self._lanes.upto

    @property
    def leading(self) -> dict[str, int]:
        """Number of leading rows of each producer that another epoch has written."""
        return self._lanes.leading

    def close(self) -> None:
        """Waits for the last renewal, and ends every lane's lease."""
        self._holder.close()
        self._lanes.close()

    def settle(self, batch: pa.RecordBatch) -> None:
        """Returns once every row of the batch is done."""
        self.progress.row_count += batch.num_rows
        for lane, rows, sequences in self._lanes.parts(pa.Table.from_batches([batch])):
            self._settle(lane, rows, sequences)

    def _settle(self, lane: TaskLane, rows: pa.Table, sequences: pa.UInt64Array) -> None:
        claimed = lane.producer.claim(sequences, prev_sequence=lane.last)
        verdicts, progress = claimed.verdicts, self.progress
        lane.note(verdicts)
        progress.suppressed += verdicts.suppressed
        if verdicts.granted:
            if not self._holder.fresh(claimed):
                lane.producer.settle(claimed, "renew")
            progress.takeovers += verdicts.takeovers
            progress.open += verdicts.granted
            with self._holder.renewal(lane.producer.held(claimed)):
                for granted in rows.filter(verdicts.may_write).combine_chunks().to_batches():
                    self._write(granted)
            lane.producer.settle(claimed, "complete")
            progress.written += verdicts.granted
            progress.open -= verdicts.granted
        all_ours(verdicts, lane.producer)


def produced(
    lane: TaskLane, topic: str, rows: pa.Table, sequence_col: str, keys: Sequence[str], **payload: Any
) -> Iterator[Produced]:
    """Appends rows of one lane to a topic, in requests within the gateway's limits. Raises like `LaneSettler`.

    `payload`: digest_cols and on_conflict of `Producer.produce`.
    """
    prev = lane.last
    for part, body in codecs.portions(rows.to_batches()):
        done = lane.producer.produce(
            topic, body, sequence_col=sequence_col, prev_sequence=prev, key_col=keys, **payload
        )
        yield done
        if done.verdicts is not None:
            lane.note(done.verdicts)
            all_ours(done.verdicts, lane.producer)
        prev = part.column(sequence_col)[-1].as_py()


def all_ours(verdicts: Verdicts, producer: Producer) -> None:
    """Raises StillBusy for sequences that are neither written nor granted to this attempt."""
    if verdicts.unsettled:
        raise StillBusy(
            f"{verdicts.unsettled} sequences of producer {producer.name} are neither written nor granted to this "
            "request: an earlier request of the producer holds them; they were not written by this one"
        )
