"""Delivers records to a sink: each is claimed, written, and completed; what is in doubt is settled by the sink.

1. Claim the ids. 2. Of those whose earlier holder is gone (takeovers), or that nobody looked up (unchecked), find out
what the sink has. 3. Write the others; after an error that says nothing find out again. 4. Complete the claim. Who dies
in between leaves the ids to its lease: the next delivery begins with 2. Nothing that is in doubt is released, since the
next one would not be told so.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.delivery.event_ids import Horizon
from oncegate_spark.delivery.sink import Record, Sink, checked
from oncegate_spark.delivery.writing import TRIES_MAX, NothingWritten, Writing
from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.protocol.effort import BusyWatch, pause_ms
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.gateway import Gateway
from oncegate_spark.sync.lease import Holder


@dataclass
class Delivered:
    """Counts what became of records. written: by this delivery. found: in doubt, and the sink had them. duplicates:
    another delivery has written them, or the same id stands earlier among them. stale: older than the horizon, not
    written, and nobody knows any more whether they were. unchecked: of written and found, granted while the ledger was
    down: the sink was asked first, and another delivery may do the same at this moment."""

    written: int = 0
    found: int = 0
    duplicates: int = 0
    stale: int = 0
    unchecked: int = 0


class Delivery:
    """Delivers to one sink through one gateway, from one thread; any number of them may run at a time.

    lease_ms: of the claims, renewed while the sink works. id_set: the set of the ids. tries_max: how often records are
    handed to the sink whose answer is lost. horizon: records have ids of EventIds, and those that are stale are counted
    and not written, as the gateway would take them for new.
    """

    def __init__(
        self,
        gateway: Gateway,
        sink: Sink,
        *,
        lease_ms: int | None = None,
        id_set: str | None = None,
        tries_max: int = TRIES_MAX,
        horizon: Horizon | None = None,
    ) -> None:
        self._gateway, self._sink, self._horizon = gateway, sink, horizon
        self._lease_ms, self._id_set, self._writing = lease_ms, id_set, Writing(gateway, sink, tries_max)
        self._holder = Holder(gateway)

    def deliver(self, records: Sequence[Record]) -> Delivered:
        """Return when each record is written, by this delivery or by another.

        Raises InDoubt where the sink does not say whether it has some of them, SinkRefused where it refuses some,
        StillBusy where another attempt neither completes nor lets go, Fenced where a newer writer has the sink, and
        what the gateway's calls raise. Records of claims before that one are written; all may be delivered again.
        BadId: nothing was written; so for an id that carries no time where a horizon was given.
        """
        size, total = checked(records, self._sink), Delivered()
        if self._horizon is not None:
            stale = self._horizon.stale([record.id for record in records])
            total.stale = sum(record.id in stale for record in records)
            records = [record for record in records if record.id not in stale]
        with closing(self._holder), self._gateway.attempt(id_set=self._id_set) as attempt:
            try:
                for start in range(0, len(records), size):
                    self._settle(attempt, records[start : start + size], total)
            except OncegateError as error:
                error.add_note(f"before it: {total}")
                raise
        return total

    def _settle(self, attempt: Attempt, records: Sequence[Record], total: Delivered) -> None:
        watch: BusyWatch | None = None
        written: set[str] = set()
        while records:
            claimed = attempt.claim([record.id for record in records], self._lease_ms)
            verdicts = claimed.verdicts
            total.duplicates += sum(record.id not in written for record in _those(records, verdicts.dropped))
            again = verdicts.open
            if verdicts.granted:
                watch, granted = None, _those(records, verdicts.may_write)
                taken_over = self._written(attempt, claimed, granted, total, written)
                written |= {record.id for record in granted}
                again = pc.or_(again, verdicts.may_write) if taken_over else again
            elif verdicts.unsettled:
                watch = watch or BusyWatch(verdicts.lease_ms, self._gateway.rng)
                self._gateway.clock.sleep_ms(pause_ms(watch, self._gateway.clock.monotonic_ms(), verdicts))
            records = _those(records, again)

    def _written(
        self, attempt: Attempt, claimed: Claimed, granted: list[Record], total: Delivered, before: set[str]
    ) -> int:
        """Write what was granted, and complete it; how many ids another attempt has taken over meanwhile."""
        with self._holder.holding(claimed):
            doubtful = {*claimed.in_doubt, *claimed.unchecked, *before}.intersection(record.id for record in granted)
            total.unchecked += len(claimed.unchecked)
            try:
                written = self._writing.write(granted, doubtful)
            except NothingWritten:
                attempt.release(claimed)
                raise
            total.found += len(granted) - written
            total.written += written
        return attempt.settle(claimed, "complete")


def _those(records: Sequence[Record], mask: pa.BooleanArray) -> list[Record]:
    return [record for record, wanted in zip(records, mask.to_pylist(), strict=True) if wanted]
