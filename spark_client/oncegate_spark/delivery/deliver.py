"""Delivers records to a sink: each is claimed, written, and completed; what is in doubt is settled by the sink.

1. Claim the ids. 2. Of those whose earlier holder is gone (takeovers), or that nobody looked up (unchecked), find out
what the sink has. 3. Write the others; after an error that says nothing find out again. 4. Complete the claim. Who dies
in between leaves the ids to its lease: the next delivery begins with 2. Nothing that is in doubt is released, since the
next one would not be told so.

Writes the records of one claim into a sink that can be asked, and settles claims whose writer is gone.

A record in doubt is neither written again nor dropped before the sink has answered. The resolver writes nothing: it
completes a claim or releases it, by the sink's answer.
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

TRIES_MAX = 4  # a sink that is restarted answers again within some seconds; a longer outage is for the caller to see
PAUSE_MS, PAUSE_MS_MAX = 100, 5_000


class NothingWritten(SinkRefused):
    """The sink has none of the records of a claim, and none will come: their ids may be free at once."""


class Writing:
    """Hands records to a sink until it says that it has them. tries_max: how often, where its answer is lost."""

    def __init__(self, gateway: Runner, sink: Sink, tries_max: int = TRIES_MAX) -> None:
        self._gateway, self._sink, self._tries_max = gateway, sink, tries_max

    def write(self, granted: list[Record], doubtful: set[str]) -> int:
        """Write those of a claim that the sink has not; how many that were. `doubtful`: it may have these.

        Raises InDoubt where the sink does not say whether it has some of them, SinkRefused where it refuses some, as
        NothingWritten where it has none; and what the sink raises of Oncegate's errors.
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
        """Return the records that are to be written: all but those of the doubtful that the sink has."""
        if not doubtful:
            return records
        try:
            present = self._sink.find(sorted(doubtful))
        except OncegateError:
            raise
        except Exception as error:
            candidates = [record for record in records if record.id in doubtful]
            why = "their earlier holder's lease ran out" if failed is None else f"write() raised {failed!r}"
            raise _in_doubt(candidates, f"{why}, and the sink's find() raised {error!r}") from error
        return [record for record in records if record.id not in doubtful & present]


def _in_doubt(records: Sequence[Record], why: str) -> InDoubt:
    ids = [record.id for record in records]
    return InDoubt(
        f"unknown: whether {len(ids)} records are in the sink, the first {ids[0]!r}: {why}. Their claim is left to its "
        "lease, and whoever delivers them next asks the sink first: deliver them again, or settle them by a Resolver",
        ids=ids,
    )


# Each id is a claim of its own until the sink has said: as many as fit well into a lease.
IDS_AT_ONCE = 1_000
_OVER = "CLAIMED_OVER"


@dataclass
class Resolved:
    """Counts what became of ids. completed: the sink has them. released: it has not, and they are free. held: another
    attempt holds them, and its lease lives, or the namespace keeps them for it (`lease_expiry` is hold). Ids that are
    written, or that nobody has claimed, are not counted."""

    completed: int = 0
    released: int = 0
    held: int = 0


class Resolver:
    """Settles what writers of one sink have left in doubt; ids come from whoever knows them, as the job's source.

    It costs three small calls for each id that is in doubt, one for each other, and one look into the sink for a
    thousand: it is for what dead writers have left, not for all that was ever written. Where the namespace lets nobody
    take over what a dead writer held (`lease_expiry` is hold or fail), only `oncegate resolve` settles it.
    """

    def __init__(self, gateway: Gateway, sink: Sink, *, lease_ms: int | None = None, id_set: str | None = None) -> None:
        self._gateway, self._sink = gateway, sink
        self._lease_ms, self._id_set = lease_ms, id_set

    def resolve(self, ids: Sequence[str]) -> Resolved:
        """Complete those of these ids that are in doubt and in the sink, release those in doubt that are not.

        Raises what the sink's `find` raises, and what the gateway's calls raise, InDoubt where `lease_expiry` is fail:
        what was in doubt stays so.
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
            else:  # meanwhile settled by another, or free: then nobody has written it since; or kept for its holder
                total.held += claimed.verdicts.unsettled
                attempt.release(claimed)
        if not doubtful:
            return
        present = self._sink.find(list(doubtful))
        for record_id, claimed in doubtful.items():
            # What another attempt has taken over meanwhile it has asked the sink for: nothing of it is changed here.
            taken_over = attempt.settle(claimed, "complete" if record_id in present else "release")
            total.held += taken_over
            total.completed += record_id in present and not taken_over
            total.released += record_id not in present and not taken_over


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
