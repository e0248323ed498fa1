"""The holders of rows, from answers alone, and the permitted answers to a person who clears leftovers.

LIVE   nothing is cleared under a live lease;  CLEARED  exactly the leftovers are cleared, and stay so
ACK    abandoned rows do not block an ack;     GAP      in a lane without gaps a claim skips no new row
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import Gap, LeaseLive, NotDone
from oncegate.core.verdicts import BY_BYTE, Verdict
from oncegate.engine.producer_requests import AckResult, ProducerResult, SequenceSettled
from oncegate.engine.requests import ClaimResult, SettleResult
from tests.model.kit.replies import Broken
from tests.model.sequences.actors import Request
from tests.model.sequences.truth import Exchange

Call = tuple[int, int]


@dataclass
class Lease:
    """The ends of a lease with the decisions that set them; `most_ms` includes ends that no answer has reported."""

    ends_ms: list[tuple[int, int]] = field(default_factory=list)
    most_ms: int = 0

    def set(self, said: Exchange, until_ms: int) -> None:
        self.ends_ms.append((said.seq, until_ms))

    def runs(self, said: Exchange) -> bool:
        """Returns whether the lease runs at this decision, according to the answers so far."""
        earlier = [end for seq, end in sorted(self.ends_ms) if seq < said.seq]
        return bool(earlier) and earlier[-1] > said.began_ms


@dataclass
class LaneRecord:
    """A lane. `claimed`: all rows ever claimed; `holder`: the open call of each held row, as (epoch, call)."""

    epoch: int = 0
    lease: Lease = field(default_factory=Lease)
    watermark: int = -1
    claimed: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    given: set[int] = field(default_factory=set)
    holder: dict[int, Call] = field(default_factory=dict)

    def leftovers(self, first: int, last: int, is_done: bool) -> set[int]:
        """Returns the rows from first to last that a person's statement would change."""
        open_ = {one for one in self.claimed - self.done if max(first, self.watermark + 1) <= one <= last}
        return open_ if is_done else open_ - self.given

    def held(self, sequences: set[int]) -> set[int]:
        """Returns the sequences that a call of the current epoch holds."""
        return {one for one in sequences if self.holder.get(one, (0, 0))[0] == self.epoch}

    def passes_over(self, sequences: list[int]) -> bool:
        """Returns whether a claim of these, without the previous row, skips a row that was never claimed."""
        if not self.claimed:
            return any(after != one + 1 for one, after in pairwise(sequences))
        known = max(self.claimed)
        new = [one for one in sequences if one > known]
        return any(after != one + 1 for one, after in pairwise([known, *new]))


@dataclass
class Claimed:
    """A claim of ids. `ids`: the ids that it holds, as bytes; `over`: it was settled or cleared."""

    lease: Lease = field(default_factory=Lease)
    ids: set[bytes] = field(default_factory=set)
    over: bool = False


class Leftovers:
    """All leftovers. `gaps_refused`: lanes have no gaps, and registered so."""

    def __init__(self, lease_ms: int, gaps_refused: bool) -> None:
        self._lease_ms, self._gaps_refused = lease_ms, gaps_refused
        self.lanes: dict[str, LaneRecord] = {}
        self.claims: dict[bytes, Claimed] = {}
        self._done: set[bytes] = set()

    def lane(self, name: str) -> LaneRecord:
        return self.lanes.setdefault(name, LaneRecord())

    def is_passed(self, lane: str, row: int) -> bool:
        """Returns whether a person abandoned the row and a later ack passed it."""
        held = self.lane(lane)
        return row in held.given and row <= held.watermark

    def restart(self, seq: int, now_ms: int) -> None:
        """The gateway has restarted: every holder has a full lease."""
        for held in (*self.lanes.values(), *self.claims.values()):
            held.lease.ends_ms.append((seq, now_ms + self._lease_ms))
            held.lease.most_ms = now_ms + self._lease_ms

    def asked(self, request: Request, now_ms: int) -> None:
        """Records that a request may extend a lease from now on, even if its answer is lost."""
        given = request.given
        if request.verb in ("register", "claim", "settle"):
            name = given[1] if request.verb == "settle" else given[0].producer
            self.lane(name).lease.most_ms = now_ms + self._lease_ms
        elif request.verb == "settle_ids" and given[1] in self.claims:
            self.claims[given[1]].lease.most_ms = now_ms + self._lease_ms

    def hear(self, said: Exchange) -> None:
        """Processes an answer, in the order of the decisions. Raises Broken if it breaks a property."""
        match said.request.verb, said.call.reply:
            case "register", ProducerResult() as reply:
                lane = self.lane(said.request.given[0].producer)
                lane.epoch = max(lane.epoch, reply.epoch)
                lane.lease.set(said, said.began_ms + self._lease_ms)
            case "close", None:
                self.lane(said.request.given[0]).lease.set(said, 0)
            case "claim", ClaimResult() | Gap() as reply:
                self._claimed(said, self.lane(said.request.given[0].producer), reply)
            case "settle", SequenceSettled() as reply:
                self._settled(said, self.lane(said.request.given[1]), reply)
            case "ack", AckResult() as reply:
                self._acked(reply)
            case "resolve", int() | LeaseLive() as reply:
                self._cleared(said, reply)
            case "claim_ids", ClaimResult() as reply:
                self._claimed_ids(said, reply)
            case "settle_ids", SettleResult() as reply:
                self._settled_ids(said, reply)
            case "resolve_claim", int() | LeaseLive() as reply:
                self._cleared_claim(said, reply)

    # Sequences.

    def _claimed(self, said: Exchange, lane: LaneRecord, reply: ClaimResult | Gap) -> None:
        ask = said.request.given[0]
        sequences = ask.sequences.tolist()
        if self._gaps_refused and lane.passes_over(sequences) is not isinstance(reply, Gap):
            raise Broken("GAP", f"{said.request}: {type(reply).__name__}, and {sorted(lane.claimed)} were claimed")
        if isinstance(reply, Gap):
            return
        lane.lease.set(said, said.began_ms + self._lease_ms)
        for sequence, byte in zip(sequences, reply.verdicts.tolist(), strict=True):
            if BY_BYTE[byte].verdict is Verdict.GRANTED:
                if sequence in lane.done:
                    raise Broken("CLEARED", f"{sequence} is granted to {said.request.sender}, it is done")
                lane.holder[sequence] = (ask.epoch, ask.call)
                lane.claimed.add(sequence)
                lane.given.discard(sequence)

    def _settled(self, said: Exchange, lane: LaneRecord, reply: SequenceSettled) -> None:
        verb, epoch = said.request.given[0], said.request.given[2]
        if verb is Verb.RENEW:
            if reply.state is ClaimState.OPEN:
                lane.lease.set(said, said.began_ms + self._lease_ms)
            return
        of_call = {one for one, call in lane.holder.items() if call == (epoch, reply.call)}
        lane.done |= of_call if reply.state is ClaimState.DONE else set()
        for one in of_call:
            del lane.holder[one]

    def _acked(self, reply: AckResult) -> None:
        for name, watermark in reply.watermarks:
            self.lane(name).watermark = max(self.lane(name).watermark, -1 if watermark is None else watermark)
        for refused in reply.refused:
            if not isinstance(refused, NotDone) or "producer" not in refused.extra:
                continue
            lane = self.lane(str(refused.extra["producer"]))
            for first, last in np.array(refused.extra["not_done"], np.int64).tolist():
                named = set(range(first, last + 1))
                if named - (lane.claimed - lane.done - lane.given):
                    raise Broken("ACK", f"{first} to {last} hold an ack up: done {lane.done}, given up {lane.given}")

    def _cleared(self, said: Exchange, reply: Any) -> None:
        name, (first, last), found = said.request.given
        lane = self.lane(name)
        changed = lane.leftovers(first, last, found.is_done)
        self._check_live(said, lane.lease, bool(lane.held(changed)))
        if isinstance(reply, LeaseLive):
            return
        if reply != len(changed):
            raise Broken("CLEARED", f"{said.request}: {reply}, and {sorted(changed)} are left over")
        lane.done |= changed if found.is_done else set()
        lane.given = lane.given - changed if found.is_done else lane.given | changed
        for one in changed:
            lane.holder.pop(one, None)

    def _check_live(self, said: Exchange, lease: Lease, is_held: bool) -> None:
        refused = isinstance(said.call.reply, LeaseLive)
        if is_held and lease.runs(said) and not refused:
            raise Broken("LIVE", f"{said.request} is cleared, and its holder's lease runs")
        if refused and lease.most_ms <= said.began_ms:  # a claim that is not durable yet may hold it
            raise Broken("LIVE", f"{said.request} is refused, and no lease of a holder runs")

    # Ids.

    def _claimed_ids(self, said: Exchange, reply: ClaimResult) -> None:
        granted = {
            one.tobytes()
            for one, byte in zip(said.request.given[0].ids, reply.verdicts.tolist(), strict=True)
            if BY_BYTE[byte].verdict is Verdict.GRANTED
        }
        if granted & self._done:
            raise Broken("CLEARED", f"{said.request.sender} is granted what a person has found done")
        if reply.claim is None or not granted:
            return
        for other in self.claims.values():
            other.ids -= granted
        mine = self.claims.setdefault(reply.claim, Claimed())
        mine.lease.set(said, said.began_ms + self._lease_ms)
        mine.lease.most_ms = max(mine.lease.most_ms, said.began_ms + self._lease_ms)
        mine.ids |= granted

    def _settled_ids(self, said: Exchange, reply: SettleResult) -> None:
        claim = self.claims.get(reply.claim)
        if claim is not None and said.request.given[0] is Verb.RENEW:
            claim.lease.set(said, said.began_ms + self._lease_ms)
        elif claim is not None:
            claim.ids, claim.over = set(), True

    def _cleared_claim(self, said: Exchange, reply: Any) -> None:
        name, found = said.request.given
        claim = self.claims[name]
        self._check_live(said, claim.lease, not claim.over)
        if isinstance(reply, LeaseLive):
            return
        if reply != len(claim.ids):
            raise Broken("CLEARED", f"{said.request}: {reply}, and it holds {len(claim.ids)} ids")
        self._done |= claim.ids if found.is_done else set()
        claim.ids, claim.over = set(), True
