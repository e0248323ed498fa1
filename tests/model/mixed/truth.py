"""The external knowledge of ids and claims, from answers alone, and the properties of every answer.

P1    a done or taken id is granted to no other actor;  H1  the same, until it is older than the retention of ids
P2    an id of a live claim is granted to no other actor
P6    no actor is rejected without cause
LOSS  DUPLICATE is never answered for an unwritten id; an owner is never refused an id that it took
CONFLICT  is answered exactly for ids that are done with another payload
O1    rows that a produce reports as written are there;  COUNT  an answer counts its settled ids and written rows
OWN   a retry of a produce reports its own rows and no others
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from oncegate.core.claims import Verb
from oncegate.core.errors import OncegateError, ReleasedClaim, UnknownClaim
from oncegate.core.verdicts import Verdict
from oncegate.engine.requests import ProduceResult, SettleResult
from tests.model.kit.attempt import Request
from tests.model.kit.manual_commit import Call
from tests.model.kit.replies import Broken, ClaimReply


@dataclass
class Exchange:
    """A request, the time of its decision, and its outcome.

    `alone`: nothing else was pending at its decision. `conflicting`: the ids that were done with another payload then.
    """

    seq: int
    began_ms: int
    request: Request
    call: Call
    alone: bool
    reply: object = None
    conflicting: frozenset[int] = frozenset()


@dataclass
class ClaimRecord:
    """A claim as its answers describe it: the ends of its lease, with the requests that set them."""

    lease_ms: int
    ends: list[tuple[int, int]] = field(default_factory=list)
    done: bool = False
    released: bool = False

    def until_ms(self, seq: int) -> int:
        """Returns the end of its lease as set by requests before this one."""
        return max((end for number, end in self.ends if number < seq), default=0)


@dataclass(frozen=True)
class Ended:
    """An id that is done, or taken by `owner`, with the time of that."""

    seq: int
    began_ms: int
    owner: bytes | None = None


class Truth:
    """Checks all answers.

    `again`: how often each id was rightly granted again because it was older than the retention of ids. `retries_told`:
    the number of ranges reported to retries of a produce.
    """

    def __init__(self, horizon_ms: int, copies: Callable[[int], int], published: Callable[[int], int]) -> None:
        self._horizon_ms = horizon_ms
        self._copies, self._published = copies, published
        self.claims: dict[bytes, ClaimRecord] = {}
        self.holders: dict[int, bytes] = {}
        self.ended: dict[int, Ended] = {}
        self.again: Counter[int] = Counter()
        self.retries_told = 0

    def hear(self, said: Exchange) -> None:
        """Processes an answer, in the order of the decisions. Raises Broken if it breaks a property."""
        if isinstance(said.reply, OncegateError):
            self._hear_refusal(said, said.reply)
        elif isinstance(said.reply, SettleResult):
            self._hear_settling(said, said.reply)
        elif isinstance(said.reply, ClaimReply):
            self._hear_verdicts(said, said.reply)

    def _hear_verdicts(self, said: Exchange, reply: ClaimReply) -> None:
        request = said.request
        told = {i for i, row in reply.verdicts.items() if row.verdict is Verdict.CONFLICT}
        if told != said.conflicting:
            raise Broken("CONFLICT", f"{request} with {request.payloads}: {told}, and it is {set(said.conflicting)}")
        for i, row in reply.verdicts.items():
            if row.may_write:
                self._check_grant(said, i, reply.claim)
                self._note_grant(said, i, reply.claim)
            else:
                self._check_refused(said, i, row.verdict)
        if reply.claim is not None:
            held = self.claims.setdefault(reply.claim, ClaimRecord(request.lease_ms))
            held.ends.append((said.seq, said.began_ms + held.lease_ms))

    def _check_grant(self, said: Exchange, i: int, claim: bytes | None) -> None:
        ended, holder, name = self.ended.get(i), self.holders.get(i), said.request.name
        if ended is not None and ended.seq < said.seq and not self._is_own(said, ended):
            if not self._is_old(ended, said.began_ms):
                raise Broken("H1" if self._horizon_ms else "P1", f"{i} granted to {name}, it was another's for good")
            self.again[i] += 1
            del self.ended[i]
        if holder not in (None, claim) and said.began_ms < self.claims[holder].until_ms(said.seq):
            raise Broken("P2", f"{i} granted to {name} while a live claim holds it")

    def _is_own(self, said: Exchange, ended: Ended) -> bool:
        return said.request.way == "take" and ended.owner == said.request.token

    def _is_old(self, ended: Ended, began_ms: int) -> bool:
        return 0 < self._horizon_ms <= began_ms - ended.began_ms

    def _note_grant(self, said: Exchange, i: int, claim: bytes | None) -> None:
        if claim is not None:
            self.holders[i] = claim
            return
        self.holders.pop(i, None)
        owner = said.request.token if said.request.way == "take" else None
        self.ended.setdefault(i, Ended(said.seq, said.began_ms, owner))
        if owner is None and self._published(i) == 0:
            raise Broken("O1", f"{said.request.name} was answered that {i} is written, but it does not exist")

    def _check_refused(self, said: Exchange, i: int, verdict: Verdict) -> None:
        ended, name = self.ended.get(i), said.request.name
        if ended is not None and ended.seq < said.seq and self._is_own(said, ended):
            if not self._is_old(ended, said.began_ms):
                raise Broken("LOSS", f"{i} was granted to {name} before, and is refused to it now")
        elif verdict is Verdict.DUPLICATE and self._copies(i) == 0 and (ended is None or ended.owner is None):
            raise Broken("LOSS", f"{name} was told DUPLICATE of {i}, nobody wrote it")

    def _hear_settling(self, said: Exchange, reply: SettleResult) -> None:
        held, verb = self.claims[reply.claim], said.request.verb
        mine = [i for i, holder in self.holders.items() if holder == reply.claim]
        is_open = not held.done and not held.released
        if said.alone and is_open and reply.settled != len(mine):
            raise Broken("COUNT", f"{said.request} told {reply.settled} ids, {len(mine)} are the claim's")
        if verb is Verb.RENEW:
            held.ends.append((said.seq, said.began_ms + held.lease_ms))
        elif is_open:
            held.done, held.released = verb is Verb.COMPLETE, verb is Verb.RELEASE
            for i in mine:
                del self.holders[i]
                if held.done:
                    self.ended[i] = Ended(said.seq, said.began_ms)

    def _hear_refusal(self, said: Exchange, error: OncegateError) -> None:
        held = self.claims.get(said.request.claim)
        if isinstance(error, ReleasedClaim) and (held is None or not held.released):
            raise Broken("P6", "stopped for a release that never was")
        if isinstance(error, UnknownClaim) and said.request.claim in self.holders.values():
            raise Broken("P6", "stopped though the claim holds ids")

    def hear_rows(
        self, said: Exchange, answer: ProduceResult, granted: int, places: Mapping[tuple[int, int], tuple[int, str]]
    ) -> None:
        """Checks COUNT and OWN of a produce. `places`: the row and sender at each partition and offset."""
        for span in answer.before:
            for offset in range(span.first_offset, span.first_offset + span.rows):
                i, by = places.get((span.partition, offset), (None, ""))
                if i not in said.request.ids or by != said.request.name:
                    raise Broken("OWN", f"{said.request} is told of {span}, and {i} by {by} lies at {offset}")
        self.retries_told += len(answer.before)
        if not answer.rows == granted == sum(span.rows for span in answer.spans):
            raise Broken("COUNT", f"{said.request}: {granted} granted, {answer.rows} rows at {answer.spans}")

    def restart(self, seq: int, now_ms: int) -> None:
        """The gateway has restarted: every open claim has a full lease."""
        for held in self.claims.values():
            held.ends.append((seq, now_ms + held.lease_ms))
