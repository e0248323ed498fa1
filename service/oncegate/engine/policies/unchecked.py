"""Answers claims while the ledger is down, if an operator has configured it: grants all ids, marked as unchecked.

Nothing is looked up or stored, so that no answer depends on state unknown to the ledger. The number of these ids, the
period and the callers are counted, and noted in the ledger once it is available again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import OnLedgerDown, Verb
from oncegate.core.errors import Recovering, TooLarge
from oncegate.core.verdicts import Flag, Verdict
from oncegate.core.wall_time import text_of
from oncegate.engine.admission import Backlog
from oncegate.engine.commit.marks import Marks
from oncegate.engine.counters import UNCHECKED
from oncegate.engine.counts.counts import Counts
from oncegate.engine.deadline import Deadline
from oncegate.engine.limits import Limits
from oncegate.engine.names import CLAIMED, chosen, cut_name
from oncegate.engine.policies import shadow
from oncegate.engine.policies.settings import Settings
from oncegate.engine.producer_requests import Note
from oncegate.engine.quotas import Rates
from oncegate.engine.requests import ClaimRequest, ClaimResult, SettleResult
from oncegate.hashing.id_times import ReadTimes, TimedFingerprinter
from oncegate.hashing.ids import Fingerprinter, IdSets
from oncegate.hashing.payloads import PayloadDigester
from oncegate.index.audit_trail import NO_CALLER
from oncegate.index.table.grants import NO_CLAIM
from oncegate.ports import Clock, Mark

# Callers named in a note; the others are only counted.
CALLERS_MAX = 5
# Limit of remembered names: with tokens, each request may have a new one, for the whole outage.
CALLERS_KNOWN_MAX = 100
ACTION = "pass unchecked"
_PASSED = np.uint8(Verdict.GRANTED | Flag.UNCHECKED)


@dataclass
class Tally:
    """Counts ids that passed unchecked and are not yet noted in the ledger. from_ms, until_ms: wall-clock time."""

    ids: int = 0
    requests: int = 0
    from_ms: int = 0
    until_ms: int = 0
    callers: set[str] = field(default_factory=set)

    def count(self, ids: int, wall_ms: int, caller: str) -> None:
        """Counts one request of `caller`, which is empty if the gateway has no credentials."""
        self.from_ms = min(self.from_ms or wall_ms, wall_ms)
        self.until_ms = max(self.until_ms, wall_ms)
        self.ids, self.requests = self.ids + ids, self.requests + 1
        self._know({caller} if caller else set())

    def add(self, other: "Tally") -> None:
        """Adds the counts of a tally that could not be noted."""
        self.from_ms = min(self.from_ms or other.from_ms, other.from_ms)
        self.until_ms = max(self.until_ms, other.until_ms)
        self.ids, self.requests = self.ids + other.ids, self.requests + other.requests
        self._know(other.callers)

    def _know(self, callers: set[str]) -> None:
        room = CALLERS_KNOWN_MAX - len(self.callers)
        self.callers |= set(sorted(callers - self.callers)[:room])

    @property
    def subject(self) -> str:
        """Returns a description of the claims and their period."""
        return f"ids of {self.requests} claims from {text_of(self.from_ms)} until {text_of(self.until_ms)}"

    def note(self, name_bytes: int) -> Note:
        """Returns a note of the callers and the reason, each cut to `name_bytes` bytes of UTF-8."""
        named = sorted(self.callers)[:CALLERS_MAX]
        others = len(self.callers) - len(named)
        more = " or more" if len(self.callers) >= CALLERS_KNOWN_MAX else ""
        counted = f" and {others} others{more}" if others else ""
        who = cut_name(", ".join(named), max(0, name_bytes - len(counted))) + counted
        why = "the ledger was down, and on_ledger_down is pass_marked"
        return Note(cut_name(who or NO_CALLER, name_bytes), cut_name(why, name_bytes))


@dataclass(frozen=True)
class Unchecked:
    """A stand-in for a shard whose ledger is down; handles claims of ids only. Made by `UncheckedClaims`.

    is_over: returns whether the ledger is available again, or claims may no longer pass. mark: the position of the last
    durable append. in_shadow: the namespace is in shadow mode. caller: the sender of the request.
    """

    rates: Rates
    backlog: Backlog
    payloads: PayloadDigester
    mark: Mark
    id_sets: IdSets
    read_time: ReadTimes | None
    marks: Marks
    limits: Limits
    clock: Clock
    counts: Counts
    tally: Tally
    is_over: Callable[[], bool]
    in_shadow: bool = False
    caller: str = ""

    def fingerprints(self, named: str | None = None, own: str = CLAIMED) -> Fingerprinter:
        """Returns the fingerprinter that the shard would use, so that the same ids are refused. Raises TooLarge for a
        long scope name."""
        printer = self.id_sets.of(chosen(named, own, self.limits))
        return printer if self.read_time is None else TimedFingerprinter(printer, self.read_time)

    @property
    def claims(self) -> "Unchecked":
        """Returns itself: claims are the only use case that works without the ledger."""
        return self

    def require(self, mark: Mark) -> None:
        """Raises LedgerBehind for a ledger position unknown to this gateway, because a different owner has served
        since."""
        if not self.marks.is_of_predecessor(mark):
            self.marks.require(mark)

    async def claim(self, request: ClaimRequest, deadline: Deadline) -> ClaimResult:
        """Grants every id unchecked; an id repeated within the request is SAME, or CONFLICT if its payload differs.

        In shadow mode a repeated id is granted as well, with its real verdict in addition.

        Raises Recovering if the request asks for the firsts of duplicates, or the ledger is available again; TooLarge,
        BadRequest, QuotaExceeded, DeadlinePassed as a shard. In all cases nothing was passed.
        """
        self.rates.take_ids(len(request.ids), request.sender.tenant)
        deadline.check()
        if len(request.ids) > self.limits.ids_per_request:
            raise TooLarge(f"{len(request.ids)} ids in one request; at most {self.limits.ids_per_request}")
        lease_ms = self.limits.lease_of(request.lease_ms)
        if request.locate:
            raise Recovering("the ledger is down, and without it nobody can tell of firsts; nothing was written")
        if self.is_over():
            raise Recovering("claims pass unchecked no more: ask again, and the ledger decides; nothing was written")
        answer = ClaimResult(NO_CLAIM, lease_ms, *verdicts_alone(request.ids, request.digests))
        if self.in_shadow:
            answer = shadow.unchecked(answer, self.counts, int(_PASSED))
        passed = int(np.count_nonzero(answer.verdicts == _PASSED))
        self.counts.add(UNCHECKED, passed)
        self.tally.count(passed, self.clock.wall_ms(), self.caller)
        return answer

    async def settle(self, verb: Verb, claim: bytes, deadline: Deadline, result: bytes | None = None) -> SettleResult:
        """Answers requests to renew, complete or release the placeholder `NO_CLAIM`. Raises Recovering for every other
        claim, unchanged."""
        if claim != NO_CLAIM:
            raise Recovering("the ledger is down, so no claim can be settled; nothing was written, ask again")
        return shadow.settled_nothing(verb, self.limits.lease_ms)


def may_pass(settings: Settings, is_durable: bool) -> bool:
    """Returns whether claims may pass once the ledger is down; `is_durable`: the settings are durable in the ledger."""
    return is_durable and settings.on_ledger_down is OnLedgerDown.PASS_MARKED


def verdicts_alone(
    ids: NDArray[np.uint64], digests: NDArray[np.uint32] | None
) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Returns verdicts and numbers from the request alone: repeated ids within a request are detected without a ledger.

    ids: (n, 2). digests: of their payloads, 0: no payload; None: none at all. Blocks the event loop: 4 ms for 100,000
    ids with few repetitions, 37 ms if all are repeated.
    """
    firsts = _firsts(ids)
    again = firsts != np.arange(len(ids))
    verdicts = np.where(again, np.uint8(Verdict.SAME), _PASSED)
    if digests is not None:
        verdicts[again & (digests != digests[firsts]) & (digests != 0) & (digests[firsts] != 0)] = Verdict.CONFLICT
    return verdicts, np.where(verdicts == Verdict.SAME, firsts, 0).astype(np.uint32)


def _firsts(ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns, for each id of a request, the index of its first occurrence. Compares only ids whose first word occurs
    more than once."""
    firsts = np.arange(len(ids))
    words = np.sort(ids[:, 0])
    several = words[1:][words[1:] == words[:-1]]
    if not len(several):
        return firsts
    some = np.flatnonzero(np.isin(ids[:, 0], several))
    # The sort is stable: equal ids keep their order.
    some = some[np.lexsort((ids[some, 1], ids[some, 0]))]
    begins = np.append(True, (ids[some[1:]] != ids[some[:-1]]).any(axis=1))
    firsts[some] = some[np.maximum.accumulate(np.where(begins, np.arange(len(some)), 0))]
    return firsts
