"""Writes rows with ids until each is done, by this attempt or by another.

1. Claim the ids of one batch. 2. Write the granted rows. 3. Complete the claim. 4. Only then wait for ids held by other
attempts, and claim those in a new call. After a crash before 3 another attempt takes the ids over once the lease
expires, and its writes are counted as takeovers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import Outcome, PayloadConflict
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.protocol.columns import columns_of, payloads_of
from oncegate_spark.protocol.effort import BusyWatch, pause_ms
from oncegate_spark.protocol.payloads import named
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.lease import Holder

Write = Callable[[pa.RecordBatch], None]


@dataclass
class ClaimProgress:
    """Row counts of a task so far.

    open        passed to write() and not known to be completed
    written     completed
    conflicts   dropped under onConflict=drop: their ids are written with other payloads
    unchecked   passed to write() without a look-up, while the ledger was down
    """

    row_count: int = 0
    open: int = 0
    written: int = 0
    suppressed: int = 0
    takeovers: int = 0
    conflicts: int = 0
    unchecked: int = 0

    def outcome(self, who: str) -> tuple[Outcome, str]:
        """Returns the rows written so far, as an outcome and as text for the end of an error message."""
        before = f"{self.written} rows were written and completed"
        if self.open:
            handed = f"unknown: {self.open} rows were passed to the sink and are not known to be completed"
            return Outcome.UNKNOWN, f"{handed}; {before}"
        if self.written:
            return Outcome.WRITTEN, f"{before} by {who}; nothing else was written"
        return Outcome.NOT_WRITTEN, f"nothing was written by {who}"


class Settler:
    """Claims, writes and completes the rows of batches, one after another; `progress` stays valid after an error.

    Raises StillBusy if another attempt neither completes nor releases its ids: at its lease + 50 % after its last
    observed renewal. Raises PayloadConflict if an id is written with another payload, unless `on_conflict` is drop.
    """

    def __init__(
        self,
        attempt: Attempt,
        id_names: Sequence[str],
        write: Write,
        progress: ClaimProgress | None = None,
        lease_ms: int | None = None,
        payloads: Sequence[str] = (),
        on_conflict: str = "fail",
    ) -> None:
        self.progress = progress or ClaimProgress()
        self.attempt = attempt
        self._id_names = list(id_names)
        self._payload_names, self._on_conflict = list(payloads), on_conflict
        self._write = write
        self._lease_ms = lease_ms
        self._holder = Holder(attempt.gateway)

    @property
    def upto(self) -> dict[str, int]:
        """Empty: ids have no order in which they could be acked."""
        return {}

    def close(self) -> None:
        """Waits for the last renewal; claims and releases nothing."""
        self._holder.close()

    def settle(self, batch: pa.RecordBatch) -> None:
        """Returns once every row of the batch is done. Raises BadId before any id is claimed."""
        columns, payloads = columns_of(batch, self._id_names), payloads_of(batch, self._payload_names)
        self.progress.row_count += batch.num_rows
        for start, length in pieces([*columns, *payloads], 0, batch.num_rows):
            parts = ([column.slice(start, length) for column in some] for some in (columns, payloads))
            self._settle(batch.slice(start, length), *parts)

    def _settle(self, rows: pa.RecordBatch, columns: list[pa.Array], payloads: list[pa.Array]) -> None:
        watch: BusyWatch | None = None
        while rows.num_rows:
            claimed = self._claim(columns, payloads)
            self.progress.suppressed += claimed.verdicts.suppressed
            self.progress.conflicts += claimed.verdicts.conflicts
            again = claimed.verdicts.open
            if claimed.verdicts.granted:
                watch = None
                if not self._written(rows, claimed):
                    again = pc.or_(again, claimed.verdicts.may_write)
            elif claimed.verdicts.unsettled:
                watch = watch or BusyWatch(claimed.verdicts.lease_ms, self.attempt.gateway.rng)
                self._wait(watch, claimed)
            rows, columns = rows.filter(again), [column.filter(again) for column in columns]
            payloads = [column.filter(again) for column in payloads]
        self.progress.written += self.progress.open  # rows taken over from this attempt are done as well
        self.progress.open = 0

    def _claim(self, columns: list[pa.Array], payloads: list[pa.Array]) -> Claimed:
        try:
            return self.attempt.claim_columns(columns, self._lease_ms, None, payloads, self._on_conflict)
        except PayloadConflict as error:
            where = named(self._id_names, self._payload_names)
            raise PayloadConflict(f"{where}: {error}", outcome=error.outcome, count=error.count) from error

    def _written(self, rows: pa.RecordBatch, claimed: Claimed) -> bool:
        """Writes and completes the granted rows; returns False if an unknown part of them was taken over."""
        if not self._holder.fresh(claimed) and self._holder.renew(self.attempt.gateway, claimed):
            self.let_go(claimed)
            return False
        granted = rows.filter(claimed.verdicts.may_write)
        self.progress.unchecked += claimed.verdicts.unchecked_count
        self.progress.open += granted.num_rows
        with self._holder.holding(claimed):
            doubtful = self.hand_over(granted, claimed)
        if self.attempt.settle(claimed, "complete"):
            return False
        self.progress.written += granted.num_rows - doubtful
        self.progress.suppressed += doubtful
        self.progress.open -= granted.num_rows
        return True

    def let_go(self, claimed: Claimed) -> None:
        """Releases a claim of which nothing was passed to write()."""
        self.attempt.release(claimed)

    def hand_over(self, granted: pa.RecordBatch, claimed: Claimed) -> int:
        """Writes the rows; returns how many the sink had before, which only a sink with `find` can report."""
        self.progress.takeovers += claimed.verdicts.takeovers
        self._write(granted)
        return 0

    def _wait(self, watch: BusyWatch, claimed: Claimed) -> None:
        clock = self.attempt.gateway.clock
        clock.sleep_ms(pause_ms(watch, clock.monotonic_ms(), claimed.verdicts))


def pieces(columns: Sequence[pa.Array], start: int, length: int) -> Iterator[tuple[int, int]]:
    """Splits a batch into claims within the gateway's limits, as (start, length)."""
    size_bytes = sum(column.slice(start, length).nbytes for column in columns)
    if length <= 1 or (length <= codecs.IDS_MAX and size_bytes <= codecs.BODY_BYTES_MAX // 2):
        if length:
            yield start, length
        return
    half = length // 2
    yield from pieces(columns, start, half)
    yield from pieces(columns, start + half, length - half)
