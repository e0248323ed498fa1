"""Counts the answers that one process gives for a shard, as defined by the table in `engine.counters`."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

import numpy as np

from oncegate.arraytypes import I64, U8
from oncegate.core.causes import Cause
from oncegate.core.producers import ProducerAction as SequenceAction
from oncegate.core.verdicts import Flag
from oncegate.engine.counters import BY_CAUSE, COUNTERS, DUPLICATES, OWN_DUPLICATES, CounterRow
from oncegate.engine.counts.duplicate_log import DuplicateLog
from oncegate.index.claims.firsts import Duplicates
from oncegate.index.shard import ShardIndex
from oncegate.index.table.arrays import SAME_INDEX
from oncegate.ports import Clock
from oncegate.ports.tracing import current_span

# Upper bounds, in ms: an append is a sync of a disk, or a transaction of brokers with its deadlines.
APPEND_MS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 2_000, 5_000, 10_000, 30_000)
# Upper bounds: one append has at most some hundred requests in flight.
CHANGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)
# Upper bounds, in ms: a claim waits for others, for the append before its own, and for its own.
CLAIM_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
# Upper bounds, in ms, of a duplicate's age: from immediate retries to long retentions of ids.
_S, _H, _D = 1_000, 3_600_000, 86_400_000
AGE_MS = (_S, 10 * _S, 60 * _S, 600 * _S, _H, 6 * _H, _D, 3 * _D, 7 * _D, 14 * _D, 30 * _D, 90 * _D)

_OWN_BIT = int(Flag.OWN)
_BY_ACTION = {action: row.name for row in COUNTERS for action in row.actions}
_BY_SEQUENCE_ACTION = {action: row.name for row in COUNTERS for action in row.sequence_actions}
# Up to this many answers, a Python loop is faster than numpy.
_FEW = 32


class Counts:
    """The counters of one process, as listed in `COUNTERS`. They start at 0 and continue when the ledger is reopened.

    appends: duration of each durable append in ms. changes: number of changes per append. claims: waiting time of each
    answered claim in ms, until everything it depends on is durable. ages: ages of duplicates' firsts in ms.
    log: receives single duplicates; None: none are logged.
    """

    def __init__(self, log: DuplicateLog | None = None) -> None:
        self._log = log
        self._counts = {row.name: 0 for row in COUNTERS if row.read is None}
        self._highest: dict[str, int] = {}
        self.appends, self.claims, self.ages = Histogram(APPEND_MS), Histogram(CLAIM_MS), Histogram(AGE_MS)
        self.changes = Histogram(CHANGES)

    @property
    def seen_max(self) -> int:
        """Returns the number of duplicates that the log accepts from one request now."""
        return 0 if self._log is None else self._log.room

    def add(self, row: CounterRow, count: int = 1) -> None:
        """Adds `count` to the counter of `row`. Raises KeyError for one that is read from the index."""
        self._counts[row.name] += count

    def add_cause(self, cause: Cause, count: int, client: "Client | None") -> None:
        """Counts repeated rows or sequences of a client's request by their cause."""
        self._add_causes([count if one is cause else 0 for one in Cause], client)
        if client is not None:
            client.ids += count

    def _add_causes(self, by_cause: Sequence[int], client: "Client | None") -> None:
        """Counts duplicates by cause, for the namespace and for the client that sent the request."""
        for row, count in zip(BY_CAUSE, by_cause, strict=True):
            self._counts[row.name] += count
        if client is not None:
            client.add(by_cause)

    def add_ids(self, actions: U8, verdicts: U8, duplicates: Duplicates | None, client: "Client | None") -> None:
        """Counts the ids of a client's request.

        actions: `core.claims.Action` or SAME_INDEX of each id. duplicates: details of the duplicates; None: there are
        none.
        """
        if client is not None:
            client.ids += len(actions)
        if same := actions.tobytes().count(SAME_INDEX):
            self._add_causes([same if one is Cause.UPSTREAM else 0 for one in Cause], client)
        if duplicates is not None:
            self._add_causes(np.bincount(duplicates.causes, minlength=len(Cause)).tolist(), client)
            self.ages.add(self.ages.tally(duplicates.ages_ms))
            if self._log is not None:
                self._log.add(duplicates.seen, len(duplicates.causes))
        if len(actions) > _FEW:
            self._add(_BY_ACTION, actions, verdicts)
            return
        counts = self._counts
        for action, verdict in zip(actions.tolist(), verdicts.tolist(), strict=True):
            counts[OWN_DUPLICATES.name if verdict & _OWN_BIT else _BY_ACTION[action]] += 1

    def add_sequences(self, actions: U8, verdicts: U8, cause: Cause, client: "Client | None") -> None:
        """Counts the sequences of a client's request.

        actions: `core.producers.Action` of each sequence. cause: of duplicates written by other attempts.
        """
        self._add(_BY_SEQUENCE_ACTION, actions, verdicts)
        own, by_cause = int(np.count_nonzero(verdicts & Flag.OWN)), [0] * len(Cause)
        by_cause[Cause.CLIENT_RETRY] = own
        by_cause[cause] = int(np.count_nonzero(actions == SequenceAction.DUPLICATE)) - own
        self._add_causes(by_cause, client)
        if client is not None:
            client.ids += len(actions)

    def _add(self, names: dict[int, str], actions: U8, verdicts: U8) -> None:
        by_action = np.bincount(actions, minlength=256)
        for action, name in names.items():
            self._counts[name] += int(by_action[action])
        own = int(np.count_nonzero(verdicts & Flag.OWN))
        self._counts[DUPLICATES.name] -= own
        self._counts[OWN_DUPLICATES.name] += own

    def all(self, index: ShardIndex) -> dict[str, int]:
        """Returns all counters by name, in the table's order."""
        return {row.name: self._counts[row.name] if row.read is None else row.read(index) for row in COUNTERS}

    def shown(self, row: CounterRow, index: ShardIndex | None) -> int | None:
        """Returns a counter for metrics; None if it is read from the index and there is no index.

        A growing counter never decreases, although the index undoes changes that a full disk refused.
        """
        if row.read is None:
            return self._counts[row.name]
        if index is None:
            return None
        value = row.read(index)
        if row.grows:
            value = self._highest[row.name] = max(value, self._highest.get(row.name, 0))
        return value


@dataclass(frozen=True, slots=True)
class Exemplar:
    """The trace of one observed value of a sampled request. wall_ms: its time, in ms since 1970."""

    trace_id: str
    span_id: str
    value: int
    wall_ms: int


class Histogram:
    """A histogram of integers. A value counts in the bucket of the first bound >= value; the last has no bound.

    bounds: ascending. exemplars: by bucket, the newest value whose request was traced.
    """

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        # A list: one observation costs less than with an array.
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, value: int) -> None:
        """Counts one value in its bucket."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_since(self, began_ms: int, clock: Clock) -> None:
        """Counts the milliseconds since `began_ms`, monotonic; keeps an exemplar if the request is traced."""
        value = clock.monotonic_ms() - began_ms
        at = bisect_left(self.bounds, value)
        self.counts[at] += 1
        self.total += value
        if (span := current_span()) is not None:
            self.exemplars[at] = Exemplar(*span.ids, value, clock.wall_ms())

    def tally(self, values: I64) -> "Histogram":
        """Returns a new histogram of values, int64 (n,), with the same bounds, for a later `add`."""
        tallied = Histogram(self.bounds)
        at = np.searchsorted(self.bounds, values)
        tallied.counts = np.bincount(at, minlength=len(self.counts)).tolist()
        tallied.total = int(values.sum())
        return tallied

    def add(self, other: "Histogram") -> None:
        """Adds the counts of another histogram with the same bounds."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.exemplars |= other.exemplars

    def plus(self, other: "Histogram") -> "Histogram":
        """Returns the sum of two histograms with the same bounds."""
        both = self.copy()
        both.add(other)
        return both

    def copy(self) -> "Histogram":
        """Returns an independent copy of the histogram."""
        copied = Histogram(self.bounds)
        copied.counts, copied.total, copied.exemplars = list(self.counts), self.total, dict(self.exemplars)
        return copied

    def cumulative(self) -> list[int]:
        """Returns the cumulative count of each bucket; the last is the number of all values."""
        return list(accumulate(self.counts))


# Our clients, and common HTTP and gRPC libraries.
NAMES = frozenset(
    {
        *("oncegate-spark", "oncegate-python", "oncegate-go", "curl", "python-requests", "python-httpx", "aiohttp"),
        *("Python-urllib", "Go-http-client", "Java-http-client", "Apache-HttpClient", "okhttp", "node", "undici"),
        *("grpc-python", "grpc-python-asyncio", "grpc-go", "grpc-java-netty", "grpc-node-js", "grpc-dotnet", "grpc-c"),
    }
)
OTHER, NONE = "other", "none"
# A roll-out runs two versions of a few programs at a time; each pair has some ten series.
VERSIONS_MAX = 32
_PRODUCT = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,39})/([0-9][0-9A-Za-z.+-]{0,31})(?:[ (;].*)?", re.DOTALL)


@dataclass(slots=True)
class Client:
    """The counts of one client version: its ids, and its duplicates by `Cause`."""

    ids: int = 0
    duplicates: list[int] = field(default_factory=lambda: [0] * len(Cause))

    def add(self, causes: Sequence[int]) -> None:
        """Counts duplicates, by `Cause`."""
        for cause, count in enumerate(causes):
            self.duplicates[cause] += count


class Clients:
    """The counts of a gateway's clients, by name and version."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], Client] = {(OTHER, OTHER): Client()}

    def of(self, user_agent: str | None) -> Client:
        """Returns the counts of the client with this `User-Agent`; None if the request has no such header."""
        name = product(user_agent)
        # All further versions share one entry.
        if name not in self.by_name and len(self.by_name) >= VERSIONS_MAX:
            name = OTHER, OTHER
        client = self.by_name.get(name)
        if client is None:
            client = self.by_name[name] = Client()
        return client


@lru_cache(maxsize=256)
def product(user_agent: str | None) -> tuple[str, str]:
    """Parses a `User-Agent` to the client's name and version; unknown clients are OTHER."""
    if not user_agent:
        return NONE, NONE
    found = _PRODUCT.fullmatch(user_agent)
    return (found[1], found[2]) if found is not None and found[1] in NAMES else (OTHER, OTHER)
