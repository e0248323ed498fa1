"""Counts what one process answers for a shard, by the table of `engine.counters`."""

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
# Upper bounds, in ms, of a duplicate's age: from a retry at once to horizons that somebody may think of.
_S, _H, _D = 1_000, 3_600_000, 86_400_000
AGE_MS = (_S, 10 * _S, 60 * _S, 600 * _S, _H, 6 * _H, _D, 3 * _D, 7 * _D, 14 * _D, 30 * _D, 90 * _D)

_OWN_BIT = int(Flag.OWN)
_BY_ACTION = {action: row.name for row in COUNTERS for action in row.actions}
_BY_SEQUENCE_ACTION = {action: row.name for row in COUNTERS for action in row.sequence_actions}
# Up to so many answers a list costs less than an array's functions do.
_FEW = 32


class Counts:
    """Counts what one process answers, by `COUNTERS`, from 0; also over several ownerships of one ledger.

    appends: how long each durable append of the ledger took, in ms; changes: of how many changes it was. claims: how
    long each answered claim waited, from its ids to what it rests on. ages: how old the firsts of duplicates were.
    log: where duplicates are told one by one; None: nowhere.
    """

    def __init__(self, log: DuplicateLog | None = None) -> None:
        self._log = log
        self._counts = {row.name: 0 for row in COUNTERS if row.read is None}
        self._highest: dict[str, int] = {}
        self.appends, self.claims, self.ages = Histogram(APPEND_MS), Histogram(CLAIM_MS), Histogram(AGE_MS)
        self.changes = Histogram(CHANGES)

    @property
    def seen_max(self) -> int:
        """Tells how many duplicates of one request are to be described one by one."""
        return 0 if self._log is None else self._log.room

    def add(self, row: CounterRow, count: int = 1) -> None:
        """Counts so many more of `row`; KeyError for one that is read of the index."""
        self._counts[row.name] += count

    def add_cause(self, cause: Cause, count: int, client: "Client | None") -> None:
        """Counts rows or sequences of a client's request that came again for this cause."""
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
        """Counts the ids of one request of a client.

        actions: `core.claims.Action` or SAME_INDEX of each id. duplicates: the details of the ids that are duplicates;
        None: no id is.
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
        """Counts the sequences of one request of a client.

        actions: `core.producers.Action` of each sequence. cause: of the duplicates that other attempts wrote.
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
        """Returns every counter of the table by its name, in the table's order."""
        return {row.name: self._counts[row.name] if row.read is None else row.read(index) for row in COUNTERS}

    def shown(self, row: CounterRow, index: ShardIndex | None) -> int | None:
        """Returns a counter for whoever computes rates of it; None: it is read of the index, and there is none.

        What grows is never told less than before: the index takes back what a full disk refused.
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
    """Names the trace of one observed value, of a request that is recorded; at which time, in ms since 1970."""

    trace_id: str
    span_id: str
    value: int
    wall_ms: int


class Histogram:
    """Counts whole numbers by the first of `bounds`, rising, that is not below them; and those above all bounds.

    exemplars: by bucket, the newest value whose request was traced; empty where none is.
    """

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        # A list: one observation costs less than with an array.
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, value: int) -> None:
        """Counts one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_since(self, began_ms: int, clock: Clock) -> None:
        """Counts the milliseconds since `began_ms`, monotonic; keeps whose they were where that is traced."""
        value = clock.monotonic_ms() - began_ms
        at = bisect_left(self.bounds, value)
        self.counts[at] += 1
        self.total += value
        if (span := current_span()) is not None:
            self.exemplars[at] = Exemplar(*span.ids, value, clock.wall_ms())

    def tally(self, values: I64) -> "Histogram":
        """Counts values, int64 (n,), in a histogram of the same bounds, to be added when they are to count."""
        tallied = Histogram(self.bounds)
        at = np.searchsorted(self.bounds, values)
        tallied.counts = np.bincount(at, minlength=len(self.counts)).tolist()
        tallied.total = int(values.sum())
        return tallied

    def add(self, other: "Histogram") -> None:
        """Adds what another histogram of the same bounds has counted."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.exemplars |= other.exemplars

    def plus(self, other: "Histogram") -> "Histogram":
        """Returns what both have counted, of the same bounds."""
        both = self.copy()
        both.add(other)
        return both

    def copy(self) -> "Histogram":
        """Returns what it has counted so far, which does not change any more."""
        copied = Histogram(self.bounds)
        copied.counts, copied.total, copied.exemplars = list(self.counts), self.total, dict(self.exemplars)
        return copied

    def cumulative(self) -> list[int]:
        """Tells how many values were at most each bound, and last how many there were."""
        return list(accumulate(self.counts))


# Ours, and the usual libraries by which others call.
NAMES = frozenset(
    {
        *("oncegate-spark", "oncegate-python", "oncegate-go", "curl", "python-requests", "python-httpx", "aiohttp"),
        *("Python-urllib", "Go-http-client", "Java-http-client", "Apache-HttpClient", "okhttp", "node", "undici"),
        *("grpc-python", "grpc-python-asyncio", "grpc-go", "grpc-java-netty", "grpc-node-js", "grpc-dotnet", "grpc-c"),
    }
)
OTHER, NONE = "other", "none"
# A roll-out has two versions of each of a few programs at a time; each pair is some ten series.
VERSIONS_MAX = 32
_PRODUCT = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,39})/([0-9][0-9A-Za-z.+-]{0,31})(?:[ (;].*)?", re.DOTALL)


@dataclass(slots=True)
class Client:
    """Counts what one client, of one version, has brought. duplicates: by `Cause`."""

    ids: int = 0
    duplicates: list[int] = field(default_factory=lambda: [0] * len(Cause))

    def add(self, causes: Sequence[int]) -> None:
        """Counts duplicates, by `Cause`."""
        for cause, count in enumerate(causes):
            self.duplicates[cause] += count


class Clients:
    """Counts what the clients of one gateway bring. by_name: by name and version."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], Client] = {(OTHER, OTHER): Client()}

    def of(self, user_agent: str | None) -> Client:
        """Returns the counts of the client that names itself so; None: it names nothing."""
        name = product(user_agent)
        # One more for the rest.
        if name not in self.by_name and len(self.by_name) >= VERSIONS_MAX:
            name = OTHER, OTHER
        client = self.by_name.get(name)
        if client is None:
            client = self.by_name[name] = Client()
        return client


@lru_cache(maxsize=256)
def product(user_agent: str | None) -> tuple[str, str]:
    """Returns the client's name and version, of a `User-Agent`."""
    if not user_agent:
        return NONE, NONE
    found = _PRODUCT.fullmatch(user_agent)
    return (found[1], found[2]) if found is not None and found[1] in NAMES else (OTHER, OTHER)
