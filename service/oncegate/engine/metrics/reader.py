"""Reads all metrics of a gateway, a few namespaces at a time, so that requests are not delayed.

`Limits.namespaces_in_metrics` namespaces have series of their own. All others are summed up as one namespace `_others`,
a name that no namespace can have. The assignment is permanent: a counter that moved from one series to another would
look like a rate that never existed.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from oncegate.engine.counts.counts import Histogram
from oncegate.engine.gateway import Gateway
from oncegate.engine.metrics.families import METRICS, Metric, MetricKind
from oncegate.engine.recovery.owner import Owner

# Some milliseconds of the event loop at a time.
NAMESPACES_AT_ONCE = 16
# Not a valid name of a namespace.
OTHERS = "_others"

MetricValue = float | Histogram
# A namespace's values, by the metric's place in the table and the values of its own labels.
_Read = dict[tuple[int, tuple[str, ...]], MetricValue]


@dataclass(frozen=True)
class Family:
    """One metric's values, by the values of all its labels."""

    metric: Metric
    values: Mapping[tuple[str, ...], MetricValue]


class MetricsReader:
    """The reader of a gateway's metrics, which remembers the namespaces that have their own series."""

    def __init__(self) -> None:
        self._alone: set[str] = set()
        # Of the summed-up namespaces: the last known values of counters, and the sums of deleted ones.
        self._together: dict[str, _Read] = {}
        self._left: _Read = {}

    async def read(self, gateway: Gateway | None) -> list[Family]:
        """Returns every metric of the table, in its order. `gateway` is None before a ledger is opened."""
        found: list[dict[tuple[str, ...], MetricValue]] = [{} for _ in METRICS]
        if gateway is None:
            return [Family(one, {(): 0} if one.name == "started" else {}) for one in METRICS]
        for values, metric in zip(found, METRICS, strict=True):
            if metric.of_gateway is not None:
                values.update(metric.of_gateway(gateway))
        together: list[_Read] = []
        async for name, read in self._read_owners(gateway):
            if name in self._alone:
                _file(found, name, read)
            else:
                together.append(self._last_known(name, read))
        if together or self._left:
            _file(found, OTHERS, _merged([*together, self._left]))
        return [Family(metric, values) for metric, values in zip(METRICS, found, strict=True)]

    async def _read_owners(self, gateway: Gateway) -> AsyncIterator[tuple[str, _Read]]:
        owners = gateway.owners()
        self._assign([owner.namespace for owner in owners], gateway.limits.namespaces_in_metrics)
        now_ms = gateway.clock.monotonic_ms()
        for n, owner in enumerate(owners, 1):
            yield owner.namespace, _read(owner, now_ms)
            if n % NAMESPACES_AT_ONCE == 0:
                await gateway.clock.sleep_ms(0)

    def _assign(self, names: Iterable[str], most: int) -> None:
        """Assigns series to new namespaces up to the limit; keeps the counts of deleted namespaces."""
        present = set(names)
        self._alone &= present
        for gone in self._together.keys() - present:
            self._left = _merged([self._left, self._together.pop(gone)])
        for name in sorted(present - self._together.keys() - self._alone):
            if len(self._alone) < most:
                self._alone.add(name)
            else:
                self._together[name] = {}

    def _last_known(self, name: str, read: _Read) -> _Read:
        """Adds the last known counters of a recovering namespace, so that sums do not drop during the recovery."""
        growing = {key: value for key, value in read.items() if METRICS[key[0]].kind is not MetricKind.GAUGE}
        last = self._together[name] = {**self._together[name], **growing}
        return {**last, **read}


def _read(owner: Owner, now_ms: int) -> _Read:
    return {
        (place, labels): value
        for place, metric in enumerate(METRICS)
        if metric.of_owner is not None
        for labels, value in metric.of_owner(owner, now_ms).items()
    }


def _file(found: list[dict[tuple[str, ...], MetricValue]], namespace: str, read: _Read) -> None:
    for (place, labels), value in read.items():
        found[place][namespace, *labels] = value


def _merged(reads: Iterable[_Read]) -> _Read:
    merged: _Read = {}
    for read in reads:
        for key, value in read.items():
            merged[key] = _both(METRICS[key[0]], merged[key], value) if key in merged else value
    return merged


def _both(metric: Metric, one: MetricValue, other: MetricValue) -> MetricValue:
    if isinstance(one, Histogram) and isinstance(other, Histogram):
        return one.plus(other)
    assert not isinstance(one, Histogram), "a metric is of one kind"
    assert not isinstance(other, Histogram), "a metric is of one kind"
    return max(one, other) if metric.greatest else one + other
