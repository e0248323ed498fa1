"""Lists every metric of /metrics in one table, from which the endpoint and its documentation derive.

A row reads a number that is kept anyway: none walks over ids or claims, none waits. What the counters of a namespace
are, `engine.counters` says; what the index alone knows is left out while there is none, for then it is unknown.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import oncegate
from oncegate.core.causes import Cause
from oncegate.engine.counters import COUNTERS, CounterRow
from oncegate.engine.counts.counts import Counts, Histogram
from oncegate.engine.counts.duplicate_log import OUTCOMES, DuplicateLogs
from oncegate.engine.gateway import Gateway
from oncegate.engine.recovery.owner import STATES, Owner
from oncegate.engine.shard import WORKS, Shard
from oncegate.ports.tracing import SPAN_OUTCOMES, Tracer

PREFIX = "oncegate_"
# More producers, or drivers, are not walked through: that would take milliseconds of the loop.
STEPS_MOST = 1_000
# By the values of a metric's own labels, those beside the namespace.
Values = Mapping[tuple[str, ...], float | Histogram]


class MetricKind(Enum):
    """The kind of a metric. A counter only grows while the process runs."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """A metric of the gateway, or of each namespace (`of_owner`, read at a monotonic time in ms).

    name: without prefix and suffix; ends with its unit if that is a base unit. labels: besides the namespace. known:
    all values of the label. scale: factor to base units. greatest: summed-up namespaces show their greatest value
    instead of their sum.
    """

    name: str
    kind: MetricKind
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    of_gateway: Callable[[Gateway], Values] | None = None
    of_owner: Callable[[Owner, int], Values] | None = None
    scale: float = 1.0
    greatest: bool = False

    @property
    def full_name(self) -> str:
        """Returns the metric's name as used in queries: with the prefix and, for counters, the suffix."""
        return f"{PREFIX}{self.name}{'_total' if self.kind is MetricKind.COUNTER else ''}"

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Returns the names of the metric's labels, beginning with the namespace label if it has one."""
        return ("namespace", *self.labels) if self.of_owner is not None else self.labels


def _of_gateway(name: str, unit: str, meaning: str, read: Callable[[Gateway], float]) -> Metric:
    return Metric(name, MetricKind.GAUGE, unit, meaning, of_gateway=lambda gateway: {(): read(gateway)})


def _of_owner(name: str, unit: str, meaning: str, read: Callable[[Owner, int], float], **more: object) -> Metric:
    metric = Metric(name, MetricKind.GAUGE, unit, meaning, of_owner=lambda owner, now_ms: {(): read(owner, now_ms)})
    return replace(metric, **more)  # type: ignore[arg-type]


def _of_shard(name: str, unit: str, meaning: str, read: Callable[[Shard, int], float | None], **more: object) -> Metric:
    """Returns a gauge that has a value only while the namespace is served."""

    def of_owner(owner: Owner, now_ms: int) -> Values:
        value = None if owner.serving is None else read(owner.serving.home, now_ms)
        return {} if value is None else {(): value}

    return replace(Metric(name, MetricKind.GAUGE, unit, meaning, of_owner=of_owner), **more)  # type: ignore[arg-type]


def _histogram(name: str, meaning: str, read: Callable[[Counts], Histogram]) -> Metric:
    """Returns a histogram of milliseconds, shown in seconds. Its counts survive a reopening of the ledger."""
    return Metric(
        name,
        MetricKind.HISTOGRAM,
        "seconds",
        meaning,
        of_owner=lambda owner, _: {(): read(owner.counts).copy()},
        scale=1e-3,
    )


# The meanings of metrics made of several counters.
_TOGETHER = {
    "answered_ids": "answered, sequences too, by verdict",
    "appends": "of the ledger, on Kafka transactions, by how they ended",
    "quota_refusals": "refused, by the quota that was used up, of the namespace or of the tenant",
    "duplicates": "that came again and were not written, sequences and rows too, by what is known of the cause",
}


def _counted(name: str, rows: list[CounterRow]) -> Metric:
    """Returns a metric for one counter, or for several counters that a label distinguishes."""
    first = rows[0]
    labels = () if first.label is None else (first.label[0],)
    meaning = first.meaning if first.label is None else _TOGETHER[name]
    kind, unit = MetricKind.COUNTER if first.grows else MetricKind.GAUGE, first.unit if first.scale == 1.0 else "ratio"
    keys = [() if row.label is None else (row.label[1],) for row in rows]

    def of_owner(owner: Owner, _: int) -> Values:
        index = None if owner.serving is None else owner.serving.home.journal.index
        shown = [owner.counts.shown(row, index) for row in rows]
        return {key: value for key, value in zip(keys, shown, strict=True) if value is not None}

    known = tuple(value for key in keys for value in key)
    is_ratio = first.scale != 1.0
    return Metric(name, kind, unit, meaning, labels, known, of_owner=of_owner, scale=first.scale, greatest=is_ratio)


def _counters() -> Iterable[Metric]:
    by_name: dict[str, list[CounterRow]] = {}
    for row in COUNTERS:
        by_name.setdefault(row.metric or row.name, []).append(row)
    return [_counted(name, rows) for name, rows in by_name.items()]


def _outcomes(duplicates: DuplicateLogs | None) -> Values:
    return {(one,): 0 if duplicates is None else duplicates.outcomes[one] for one in OUTCOMES}


def _spans(tracer: Tracer | None) -> Values:
    return {(one,): 0 if tracer is None else tracer.outcomes[one] for one in SPAN_OUTCOMES}


def _states(owner: Owner, _: int) -> Values:
    state = owner.state
    return {(one,): float(one == state) for one in STATES}


def _failing(owner: Owner, _: int) -> Values:
    works = {} if owner.serving is None else owner.serving.home.works()
    return {(work,): float(bool(error)) for work, error in works.items()}


def _unacked(shard: Shard) -> int | None:
    producers = shard.journal.index.producers
    return producers.unacked if len(producers.producers) <= STEPS_MOST else None


def _unacked_ms(shard: Shard) -> int | None:
    if len(shard.journal.index.producers.drivers) > STEPS_MOST:
        return None
    oldest_wall_ms = shard.journal.index.claims.scopes.oldest_wall_ms()
    return 0 if oldest_wall_ms is None else max(0, shard.journal.wall_ms() - oldest_wall_ms)


METRICS: tuple[Metric, ...] = (
    Metric(
        "build_info",
        MetricKind.GAUGE,
        "",
        "1, with the program's version",
        ("version",),
        of_gateway=lambda gateway: {(oncegate.__version__,): 1},
    ),
    _of_gateway("started", "", "1 once every ledger was opened; until then 0, and nothing else is told", lambda _: 1),
    _of_gateway("namespaces", "namespaces", "there are", lambda gateway: len(gateway.namespaces())),
    _of_gateway("admission_requests", "requests", "in flight", lambda gateway: gateway.admission.requests),
    _of_gateway(
        "admission_limit_requests", "requests", "that may be", lambda gateway: gateway.limits.requests_in_flight
    ),
    _of_gateway(
        "admission_bytes",
        "bytes",
        "of bodies in flight, and of answers that are not read",
        lambda gateway: gateway.admission.size_bytes,
    ),
    _of_gateway("admission_limit_bytes", "bytes", "that may be", lambda gateway: gateway.limits.bytes_in_flight),
    Metric(
        "admission_refused_requests",
        MetricKind.COUNTER,
        "requests",
        "answered OVERLOADED because one of these limits was reached, or they would wait too long",
        of_gateway=lambda gateway: {(): gateway.admission.refused},
    ),
    _of_gateway(
        "cold_false_positive_limit_ratio",
        "ratio",
        "of ids in no run that filters may let pass, by the setting cold_fpr",
        lambda gateway: gateway.limits.cold_fpr,
    ),
    Metric(
        "duplicate_records",
        MetricKind.COUNTER,
        "records",
        "of duplicates that were to be told one by one, by what became of them",
        ("outcome",),
        OUTCOMES,
        of_gateway=lambda gateway: _outcomes(gateway.duplicates),
    ),
    Metric(
        "client_ids",
        MetricKind.COUNTER,
        "ids",
        "that clients brought, sequences and rows of batches too, by the program and version that `User-Agent` names",
        ("client", "version"),
        of_gateway=lambda gateway: {name: client.ids for name, client in gateway.clients.by_name.items()},
    ),
    Metric(
        "client_duplicates",
        MetricKind.COUNTER,
        "ids",
        "of these, that came again and were not written, by what is known of the cause",
        ("client", "version", "cause"),
        of_gateway=lambda gateway: {
            (*name, cause.name.lower()): client.duplicates[cause]
            for name, client in gateway.clients.by_name.items()
            for cause in Cause
        },
    ),
    Metric(
        "trace_spans",
        MetricKind.COUNTER,
        "spans",
        "that were recorded, by what became of them; each exporter counts its own",
        ("outcome",),
        SPAN_OUTCOMES,
        of_gateway=lambda gateway: _spans(gateway.tracer),
    ),
    Metric(
        "namespace_state",
        MetricKind.GAUGE,
        "",
        "1 for the state that the namespace is in, 0 for the others",
        ("state",),
        STATES,
        of_owner=_states,
    ),
    _of_owner(
        "recovery_seconds",
        "seconds",
        "for which it has been opened, rebuilt or followed so far; where it serves, how long the last time took",
        lambda owner, _: owner.recovery_ms,
        scale=1e-3,
        greatest=True,
    ),
    _of_owner(
        "ownerships",
        "ownerships",
        "of its ledger that this process began: more than one, and it was lost in between",
        lambda owner, _: owner.opened,
        kind=MetricKind.COUNTER,
    ),
    Metric(
        "failing",
        MetricKind.GAUGE,
        "",
        "1 where this work in the background, or room on the disk for more, fails for now",
        ("work",),
        WORKS,
        of_owner=_failing,
    ),
    *_counters(),
    _histogram(
        "duplicate_age_seconds",
        "from the claim or write of an id to its duplicate: those above a bucket a horizon of so long would miss",
        lambda counts: counts.ages,
    ),
    _histogram(
        "claim_seconds",
        "that an answered claim waited, from its ids to a durable ledger; a request each, however many ids it has; in "
        "whole milliseconds",
        lambda counts: counts.claims,
    ),
    _of_shard(
        "horizon_seconds",
        "seconds",
        "for which ids are known at least; 0: for ever, unless their batches are acked",
        lambda shard, _: shard.journal.index.settings.in_force.horizon_ms,
        scale=1e-3,
        greatest=True,
    ),
    _of_shard(
        "ledger_position",
        "entries",
        "the ledger's last durable position",
        lambda shard, _: shard.group_commit.mark.position,
    ),
    _of_shard(
        "snapshot_position",
        "entries",
        "up to which a snapshot stands for the entries; 0: they are all there",
        lambda shard, _: shard.marks.compacted_to,
    ),
    _of_shard(
        "ledger_uncompacted_bytes",
        "bytes",
        "of entries since the last snapshot, which a start replays",
        lambda shard, _: shard.journal.size_bytes,
    ),
    _of_shard(
        "snapshot_age_seconds",
        "seconds",
        "since a snapshot replaced the entries; before the first of this ownership, since it began",
        lambda shard, now_ms: now_ms - shard.scheduler.compacted_ms,
        scale=1e-3,
        greatest=True,
    ),
    _histogram(
        "append_seconds",
        "that an append of the ledger took: on disk a write and a sync, on Kafka a transaction; in whole milliseconds",
        lambda counts: counts.appends,
    ),
    Metric(
        "append_changes",
        MetricKind.HISTOGRAM,
        "changes",
        "that one append took together, of requests that came while the append before it ran",
        of_owner=lambda owner, _: {(): owner.counts.changes.copy()},
    ),
    _of_shard(
        "group_commit_changes",
        "changes",
        "that wait for the next append",
        lambda shard, _: shard.group_commit.queued[0],
    ),
    _of_shard(
        "group_commit_answers",
        "answers",
        "that wait for an append to end",
        lambda shard, _: shard.group_commit.queued[1],
    ),
    _of_shard(
        "index_bytes",
        "bytes",
        "of memory that slots and rows of ids take",
        lambda shard, _: shard.journal.index.claims.size_bytes,
    ),
    _of_shard("producers", "producers", "known", lambda shard, _: len(shard.journal.index.producers.producers)),
    _of_shard("drivers", "drivers", "known", lambda shard, _: len(shard.journal.index.producers.drivers)),
    _of_shard(
        "unacked_sequences",
        "sequences",
        "from the producers' watermarks to the highest they claimed, added up; left out above 1,000 producers",
        lambda shard, _: _unacked(shard),
    ),
    _of_shard(
        "unacked_batch_age_seconds",
        "seconds",
        "since the first claim in the oldest batch that its driver has not acked; 0: there is none; left out above "
        "1,000 drivers",
        lambda shard, _: _unacked_ms(shard),
        scale=1e-3,
        greatest=True,
    ),
)
