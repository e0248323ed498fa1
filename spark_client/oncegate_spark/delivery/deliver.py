"""Delivers records to a sink: claims, writes and completes each of them, and resolves records in doubt by asking the
sink.

1. Claim the ids. 2. For ids taken over from an earlier holder, or granted unchecked, ask the sink which it has. 3.
Write the others; after an error that leaves the effect unknown, ask again. 4. Complete the claim. If the process dies
in between, the ids stay claimed until their lease expires, and the next delivery starts with 2. Nothing in doubt is
released, since the next claim would not be reported as a takeover.

A record in doubt is neither written again nor dropped until the sink has answered. The resolver writes nothing: it
completes or releases a claim, depending on the sink's answer.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.delivery.event_ids import Horizon
from oncegate_spark.delivery.sink import Record, Sink, checked
from oncegate_spark.errors import InDoubt, OncegateError, SinkRefused
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.protocol.effort import BusyWatch, pause_ms
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.gateway import Gateway
from oncegate_spark.sync.lease import Holder
from oncegate_spark.sync.runner import Runner

TRIES_MAX = 4  # a restarting sink answers again within seconds; longer outages are the caller's decision
PAUSE_MS, PAUSE_MS_MAX = 100, 5_000


class NothingWritten(SinkRefused):
    """The sink has none of a claim's records, and none will arrive: their ids may be released at once."""


class Writing:
    """Writes records until the sink confirms them; `tries_max` limits the tries after a lost reply."""

    def __init__(self, gateway: Runner, sink: Sink, tries_max: int = TRIES_MAX) -> None:
        self._gateway, self._sink, self._tries_max = gateway, sink, tries_max

    def write(self, granted: list[Record], doubtful: set[str]) -> int:
        """Writes a claim's records unless the sink has them; returns the number written. `doubtful`: ids that the sink
        may have.

        Raises InDoubt if the sink cannot tell, SinkRefused if it rejects some records (NothingWritten if it has none of
        them), and other errors of Oncegate that the sink raises.
        """
        missing = self._missing(granted, doubtful)
        if missing:
            self._put(missing, is_whole=len(missing) == len(granted))
        return len(missing)

    def _put(self, missing: list[Record], *, is_whole: bool) -> None:
        failed: Exception | None = None
        for turn in range(self._tries_max):
            try:
                self._sink.write(missing)
                return
            except SinkRefused as error:
                if failed is None and is_whole:
                    raise NothingWritten(str(error)) from error
                raise
            except OncegateError:
                raise
            except Exception as error:
                failed = error
            pause = min(PAUSE_MS << turn, PAUSE_MS_MAX)
            self._gateway.clock.sleep_ms(int(pause * self._gateway.rng.uniform(0.5, 1.0)))
            missing = self._missing(missing, {record.id for record in missing}, failed)
            if not missing:
                return
        raise _in_doubt(missing, f"the sink's write() failed {self._tries_max} times, last by {failed!r}") from failed

    def _missing(self, records: list[Record], doubtful: set[str], failed: Exception | None = None) -> list[Record]:
        """Returns the records to write: all except those in doubt that the sink has."""
        if not doubtful:
            return records
        try:
            present = self._sink.find(sorted(doubtful))
        except OncegateError:
            raise
        except Exception as error:
            candidates = [record for record in records if record.id in doubtful]
            why = "their earlier holder's lease expired" if failed is None else f"write() raised {failed!r}"
            raise _in_doubt(candidates, f"{why}, and the sink's find() raised {error!r}") from error
        return [record for record in records if record.id not in doubtful & present]


def _in_doubt(records: Sequence[Record], why: str) -> InDoubt:
    ids = [record.id for record in records]
    return InDoubt(
        f"unknown: whether {len(ids)} records are in the sink, the first {ids[0]!r}: {why}. They stay claimed until "
        "the "
        "lease expires, and the next delivery asks the sink first: deliver them again, or run a Resolver",
        ids=ids,
    )


# Each id is a claim of its own until the sink answers: this many fit into a lease.
IDS_AT_ONCE = 1_000
_OVER = "CLAIMED_OVER"


@dataclass
class Resolved:
    """Counts the outcomes of ids.

        completed  the sink has them
        released   the sink does not have them, and they are free
        held       held by another attempt under a live lease, or kept for their holder (`lease_expiry` is hold)

    Ids that are written or unclaimed are not counted.
    """

    completed: int = 0
    released: int = 0
    held: int = 0


class Resolver:
    """Resolves records that writers of a sink left in doubt; the caller supplies the ids, for instance from the job's
    source.

    Costs three small calls for each id in doubt, one for each other id, and one `find` per thousand ids: use it for the
    records of dead writers, not for everything ever written. Where the namespace forbids takeovers (`lease_expiry` is
    hold or fail), only `oncegate resolve` resolves them.
    """

    def __init__(self, gateway: Gateway, sink: Sink, *, lease_ms: int | None = None, id_set: str | None = None) -> None:
        self._gateway, self._sink = gateway, sink
        self._lease_ms, self._id_set = lease_ms, id_set

    def resolve(self, ids: Sequence[str]) -> Resolved:
        """Completes the ids in doubt that the sink has, and releases those that it does not have.

        Raises errors of the sink's `find` and of the gateway's calls, InDoubt if `lease_expiry` is fail: ids in doubt
        then stay in doubt.
        """
        checked([Record(record_id) for record_id in ids], self._sink)
        total = Resolved()
        for start in range(0, len(ids), IDS_AT_ONCE):
            with self._gateway.attempt(id_set=self._id_set) as attempt:
                self._resolve(attempt, list(dict.fromkeys(ids[start : start + IDS_AT_ONCE])), total)
        return total

    def _resolve(self, attempt: Attempt, ids: list[str], total: Resolved) -> None:
        doubtful: dict[str, Claimed] = {}
        for record_id in ids:
            state = self._gateway.explain(record_id, id_set=self._id_set or "")["state"]
            total.held += state == "CLAIMED_LIVE"
            if state != _OVER:
                continue
            claimed = attempt.claim([record_id], self._lease_ms)
            if claimed.in_doubt:
                doubtful[record_id] = claimed
            else:  # resolved by another, free and thus unwritten since, or kept for its holder
                total.held += claimed.verdicts.unsettled
                attempt.release(claimed)
        if not doubtful:
            return
        present = self._sink.find(list(doubtful))
        for record_id, claimed in doubtful.items():
            # An id taken over meanwhile is left alone: the other attempt has asked the sink itself.
            taken_over = attempt.settle(claimed, "complete" if record_id in present else "release")
            total.held += taken_over
            total.completed += record_id in present and not taken_over
            total.released += record_id not in present and not taken_over


@dataclass
class Delivered:
    """Counts the outcomes of records.

    written     written by this delivery
    found       in doubt, and the sink had them
    duplicates  written by another delivery, or repeated within the records
    stale       older than the retention of ids and not written; whether they were written before is unknown
    unchecked   of written and found, granted while the ledger was down: the sink was asked first, but another
        delivery
                may write the same records concurrently
    """

    written: int = 0
    found: int = 0
    duplicates: int = 0
    stale: int = 0
    unchecked: int = 0


class Delivery:
    """Delivers to one sink through one gateway, in one thread; any number of deliveries may run concurrently.

    Args:
        lease_ms: lease of the claims, renewed while the sink works
        id_set: dedup scope of the ids
        tries_max: limit of the tries for records whose reply from the sink is lost
        horizon: for ids made by EventIds: stale records, which the gateway would take for new, are counted and not
            written
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
        """Returns once each record is written, by this delivery or by another.

        Raises BadId if nothing was written: also for an id without a time if a horizon was given. Raises InDoubt if the
        sink cannot tell whether it has some records, SinkRefused if it rejects some, StillBusy if another attempt
        neither completes nor releases its ids, Fenced if a newer writer owns the sink, and errors of the gateway's
        calls. Records of earlier claims are written then; the same records may be delivered again.
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
                error.add_note(f"before this error: {total}")
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
        """Writes the granted records and completes the claim; returns the number of ids that another attempt has taken
        over.
        """
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
