"""The gateway of the mixed walk: every shipped use case of free ids over the shipped index, tables and upkeep.

This file contains no rule.
"""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from oncegate.core.claims import IdState
from oncegate.core.entries.kinds import NamespaceSet, Opened, TopicCreated
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.places import Places
from oncegate.engine.deadline import Deadline
from oncegate.engine.limits import Limits
from oncegate.engine.maintenance.scheduler import Scheduler
from oncegate.engine.requests import ClaimRequest, ProduceRequest, TakeRequest
from oncegate.engine.usecases.claims import Claims
from oncegate.engine.usecases.produce import Records
from oncegate.engine.usecases.producers import Producers
from oncegate.engine.usecases.topics import Topics
from oncegate.hashing.keys import FUNCTION
from oncegate.index.claims.lookup import explain
from oncegate.index.claims.store import Widths
from oncegate.index.shard import ShardIndex
from oncegate.ports import OutputChange, PublishRanges, WriteRange
from oncegate.testing import FakeClock
from tests.model.kit.attempt import Request
from tests.model.kit.manual_commit import Call
from tests.model.kit.process import KEY_CHECK, LoneClaims, Process
from tests.model.kit.replies import Broken
from tests.model.mixed.rows import keys_of, read, rows_of
from tests.support.index.claim_index import ClaimIndex, contents

TOPIC, PARTITIONS = "topic", 2
LIMITS = Limits()
COUNTS = ("takeovers", "open_claims", "ids")


class Payloads:
    """The payload of each id by sender; 0 without a payload."""

    def __init__(self) -> None:
        self._sent: dict[tuple[bytes, int], dict[int, int]] = {}

    def note(self, request: Request) -> None:
        self._sent[request.token, request.call] = dict(zip(request.ids, request.payloads, strict=False))

    def of(self, token: bytes, call: int, i: int) -> int:
        return self._sent[token, call].get(i, 0)


class Gateway(Process):
    """The gateway under test.

    `published`: the visible rows by id. `senders`: their senders. `places`: the row and sender at each partition and
    offset. `retired`: the number of retired buckets.
    """

    def __init__(
        self,
        clock: FakeClock,
        random: Callable[[int], bytes],
        fingerprints: Any,
        widths: Widths,
        compiled: bool,
        horizon_ms: int,
    ) -> None:
        self._random, self._shape = random, (widths, compiled)
        self.fingerprints = fingerprints
        self.published: Counter[int] = Counter()
        self.senders: set[tuple[int, str]] = set()
        self.places: dict[tuple[int, int], tuple[int, str]] = {}
        self.retired = 0
        self._high_offsets: Counter[int] = Counter()
        self._ranges: dict[bytes, bytes] = {}
        self.payloads = Payloads()
        super().__init__(clock)
        opened = Opened(1, FUNCTION, KEY_CHECK, clock.wall_ms())
        self.begin((opened, NamespaceSet(horizon_ms, 1, 0), TopicCreated(TOPIC, PARTITIONS, b"", 0, 0, 0)))

    def new_index(self) -> ShardIndex:
        return ShardIndex(ClaimIndex(*self._shape))

    def start(self) -> None:
        group_commit: Any = self.group_commit
        observer: Any = SimpleNamespace(event=lambda *_, **__: self._count_retired())
        journal = Journal("model", self.index, group_commit, self.clock, observer, LIMITS, self._random)
        nothing: Any = None
        topics, producers = Topics(journal, nothing), Producers(journal)
        claims, producing = Claims(journal, nothing), Records(journal, topics, producers, Places(nothing, nothing))
        unsealed: Any = SimpleNamespace(busy=False)
        self._upkeep = Scheduler(journal, nothing, unsealed, nothing)
        self._verbs = {"claim": LoneClaims(claims).claim, "take": claims.take, "produce": producing.produce}
        self._settle = claims.settle

    def _count_retired(self) -> None:
        self.retired += 1

    def call(self, request: Request) -> Call:
        """Begins the call of a request."""
        if request.verb is None:
            self.payloads.note(request)
        deadline, ids = Deadline(self.clock), self.fingerprints[list(request.ids)]
        if request.verb is not None:
            return self.began(Call(self._settle(request.verb, request.claim, deadline)))
        return self.began(Call(self._verbs[request.way](self._ask(request, ids), deadline)))

    def _ask(self, request: Request, ids: Any) -> Any:
        digests = np.array(request.payloads, np.uint32) if request.payloads else None
        if request.way == "claim":
            return ClaimRequest(request.token, request.call, ids, request.lease_ms, digests=digests)
        if request.way == "take":
            return TakeRequest(request.token, ids)
        rows, keys = rows_of(request.ids, request.name), keys_of(request.ids)
        return ProduceRequest(TOPIC, request.token, request.call, rows, ids, keys, digests=digests)

    def conflicting(self, request: Request) -> set[int]:
        """Returns the ids that are done in the index by a request with another payload."""
        found = set()
        for i, payload in zip(request.ids, request.payloads, strict=False):
            explained = explain(self.index.claims, self.fingerprints[i].tobytes(), self.clock.monotonic_ms())
            if explained.state is IdState.DONE and explained.token is not None:
                by = self.payloads.of(explained.token, explained.call, i)
                found |= {i} if by not in (0, payload) else set()
        return found

    def scheduler(self) -> None:
        """Runs the owner's timer once."""
        self._upkeep.retire()

    def sweep(self) -> None:
        """Sweeps, and checks that no answer has changed."""
        claims = self.index.claims
        before = self.state_of(self.index)
        claims.sweep(self.clock.monotonic_ms())
        if self.state_of(self.index) != before:
            raise Broken("SWEEP", "a sweep changed what is held")

    def write(self, output: OutputChange) -> None:
        if isinstance(output, WriteRange):
            self._ranges[output.range_id] = output.data
        elif isinstance(output, PublishRanges):
            self._publish(output)

    def _publish(self, output: PublishRanges) -> None:
        if output.first_offset != self._high_offsets[output.partition]:
            raise Broken("OFFSETS", f"partition {output.partition} has a hole, or an offset twice")
        for range_id in output.range_ids:
            for i, by in read(self._ranges.pop(range_id)):
                self.places[output.partition, self._high_offsets[output.partition]] = i, by
                self._high_offsets[output.partition] += 1
                self.published[i] += 1
                self.senders.add((i, by))
                if i % PARTITIONS != output.partition:
                    raise Broken("OFFSETS", f"{i} lies in partition {output.partition}")

    # State for the checks.

    def state_of(self, index: ShardIndex) -> object:
        claims = index.claims
        topics = [(name, topic.partitions, topic.turns) for name, topic in index.topics]
        return [getattr(claims, name) for name in COUNTS], contents(claims), topics, index.settings.snapshot()

    def state(self, i: int) -> IdState:
        """Returns the state of an id by its durable entries. Checks the partition that the index reports for it."""
        explained = explain(self._twin.claims, self.fingerprints[i].tobytes(), self.clock.monotonic_ms())
        if explained.written_at is not None and explained.written_at[1] != i % PARTITIONS:
            raise Broken("OFFSETS", f"{i} is reported in partition {explained.written_at[1]}")
        return explained.state

    @property
    def takeovers(self) -> int:
        """Returns the takeovers including pending ones, whose callers have no answer yet."""
        return self.index.claims.takeovers
