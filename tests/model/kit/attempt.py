"""An attempt of a task, as a client behaves: it asks until every row's id is done, and writes the rows granted to it.

An attempt knows only the replies that it has received.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from oncegate.core.claims import Verb
from oncegate.core.errors import OncegateError
from oncegate.core.verdicts import Verdict
from tests.model.kit.replies import ClaimReply, SettleReply


@dataclass(frozen=True)
class Request:
    """A request about `ids` (verb None: by `way`, claim, produce or take), or a settling of `claim`.

    payloads: the digest of each id's payload; empty without payloads.
    """

    name: str
    token: bytes
    verb: Verb | None = None
    call: int = 0
    ids: tuple[int, ...] = ()
    lease_ms: int = 0
    claim: bytes = b""
    way: str = "claim"
    payloads: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.verb is None:
            return f"{self.name} {self.way}#{self.call}{self.ids}"
        return f"{self.name} {self.verb.name} {self.claim.hex()[:4]}"


@dataclass
class Attempt:
    """An attempt. `granted`: id -> claim. `failed`: it will not turn green, but cleans up first.

    `refusing`: probability that its sink refuses a row before writing any of it. `payloads`: the payload digest by id,
    or none. `dropping`: drops a row answered CONFLICT; otherwise the attempt fails.
    """

    name: str
    token: bytes
    wanted: tuple[int, ...]
    lease_ms: int
    refusing: float
    call: int = 0
    pending: Request | None = None
    granted: dict[int, bytes] = field(default_factory=dict)
    wrote: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    alive: bool = True
    payloads: dict[int, int] = field(default_factory=dict)
    dropping: bool = False
    failed: bool = False
    green: bool = False

    @property
    def trying(self) -> bool:
        return self.alive and not self.green

    def next(self, rng: random.Random, write: Callable[["Attempt", int], None]) -> Request | None:
        """Returns the next request, or writes a row instead. A request without a reply is repeated unchanged."""
        if not self.trying:
            return None
        if self.pending is not None:
            if self.pending.verb is None and rng.random() < 0.2:
                self.pending = None  # give up this call; a later one will ask
                return None
            return self.pending
        self.pending = self._work(rng, write)
        return self.pending

    def _work(self, rng: random.Random, write: Callable[["Attempt", int], None]) -> Request | None:
        unwritten = [i for i in self.granted if i not in self.wrote]
        if unwritten and rng.random() < 0.6:
            if rng.random() < self.refusing:
                return self._give_back(self.granted[unwritten[0]])
            i = rng.choice(unwritten)
            write(self, i)
            self.wrote.add(i)
            return None
        written = [claim for claim in dict.fromkeys(self.granted.values()) if self._ids_of(claim) <= self.wrote]
        if written and rng.random() < 0.6:
            return self._settling(Verb.COMPLETE, written[0])
        if self.granted and rng.random() < 0.3:
            return self._settling(Verb.RENEW, rng.choice(list(self.granted.values())))
        needed = tuple(i for i in self.wanted if i not in self.done and i not in self.granted)
        return self._ask(needed, rng) if needed and not self.failed else None

    def _ask(self, needed: tuple[int, ...], rng: random.Random) -> Request:
        self.call += 1
        came = tuple(self.payloads[i] for i in needed) if self.payloads else ()
        return Request(self.name, self.token, None, self.call, needed, self.lease_ms, payloads=came)

    def _ids_of(self, claim: bytes) -> set[int]:
        return {i for i, holder in self.granted.items() if holder == claim}

    def _settling(self, verb: Verb, claim: bytes) -> Request:
        return Request(self.name, self.token, verb, claim=claim)

    def _give_back(self, claim: bytes) -> Request | None:
        """Releases the claim of a refused row, unless another row of it went to the sink: then only the lease helps."""
        self.failed = True
        ids = self._ids_of(claim)
        for i in ids:
            del self.granted[i]
        if ids & self.wrote:
            self.alive = False
            return None
        return self._settling(Verb.RELEASE, claim)

    def finish(self) -> bool:
        """Returns True if it has just turned green. A failed attempt dies when nothing is left to clean up."""
        if not self.trying or self.pending is not None:
            return False
        if self.failed:
            self.alive = bool(self.granted)
            return False
        self.green = set(self.wanted) <= self.done
        return self.green

    def take(self, reply: ClaimReply | SettleReply | OncegateError) -> None:
        """Processes a reply. A non-retryable refusal ends the attempt."""
        request, self.pending = self.pending, None
        assert request is not None
        if isinstance(reply, OncegateError):
            self.alive = False
        elif isinstance(reply, ClaimReply):
            self._take_verdicts(request, reply)
        elif request.verb is Verb.COMPLETE:
            ids = self._ids_of(request.claim)
            if reply.taken_over == 0:
                self.done |= ids
            for i in ids:
                del self.granted[i]

    def _take_verdicts(self, request: Request, reply: ClaimReply) -> None:
        for i, row in reply.verdicts.items():
            if row.verdict is Verdict.DUPLICATE:
                self.done.add(i)
            elif row.verdict is Verdict.CONFLICT:
                self._take_conflict(i)
            elif row.verdict is Verdict.IN_DOUBT:
                self.failed = True
            elif row.may_write:
                assert reply.claim is not None
                self.granted[i] = reply.claim
                self.wrote.discard(i)

    def _take_conflict(self, i: int) -> None:
        """Handles an id that was written with another payload."""
        self.failed = self.failed or not self.dropping
        self.done.add(i)
