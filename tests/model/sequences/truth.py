"""The external knowledge from answers alone, and the properties of every answer.

P1    a completed row is never granted again;  P2  no registration over a live lease;  EPOCH  one token per epoch
FENCE nothing is granted or completed in a superseded epoch
STALE an acked row is answered STALE from then on;  LOSS  an unwritten row is never to be dropped
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.verdicts import BY_BYTE, Verdict
from oncegate.engine.producer_requests import AckResult, ProducerResult, SequenceSettled
from oncegate.engine.requests import ClaimResult
from tests.model.kit.manual_commit import Call
from tests.model.kit.replies import Broken
from tests.model.sequences.actors import Request


@dataclass
class Exchange:
    """A request, the time of its decision, and its outcome."""

    seq: int
    began_ms: int
    request: Request
    call: Call


@dataclass
class Lane:
    """A producer: (decided, epoch) of registrations; lease ends and watermarks with their times; the sequences of
    calls."""

    epochs: list[tuple[int, int]] = field(default_factory=list)
    tokens: dict[int, bytes] = field(default_factory=dict)
    leases: list[tuple[int, int]] = field(default_factory=list)
    watermarks: list[tuple[int, int]] = field(default_factory=list)
    granted: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)


class Truth:
    """Checks all answers. `copies`: the number of writes of a sequence of a lane."""

    def __init__(self, lease_ms: int, copies: Callable[[str, int], int]) -> None:
        self._lease_ms, self._copies = lease_ms, copies
        self.lanes: dict[str, Lane] = {}

    def lane(self, name: str) -> Lane:
        return self.lanes.setdefault(name, Lane())

    def hear(self, said: Exchange) -> None:
        """Processes an answer, in the order of the decisions. Raises Broken if it breaks a property."""
        reply, given = said.call.reply, said.request.given
        if isinstance(reply, ProducerResult):
            self._registered(said, self.lane(given[0].producer), given[0].token, reply.epoch)
        elif isinstance(reply, ClaimResult) and said.request.verb == "claim":
            self._claimed(said, self.lane(given[0].producer), given[0], reply)
        elif isinstance(reply, SequenceSettled):
            self._settled(said, self.lane(given[1]), given[2], reply)
        elif isinstance(reply, AckResult):
            for name, watermark in reply.watermarks:
                if watermark is not None:
                    self.lane(name).watermarks.append((said.seq, watermark))
        elif said.request.verb == "close" and reply is None:
            self.lane(given[0]).leases.append((said.seq, 0))

    def _registered(self, said: Exchange, lane: Lane, token: bytes, epoch: int) -> None:
        if lane.tokens.setdefault(epoch, token) != token:
            raise Broken("EPOCH", f"epoch {epoch} has two tokens")
        earlier = [end for seq, end in sorted(lane.leases) if seq < said.seq]
        if epoch not in (known for _, known in lane.epochs):
            if earlier and earlier[-1] > said.began_ms:
                raise Broken("P2", f"{said.request.sender} registers, another's lease ends in {earlier[-1]}")
            lane.epochs.append((said.seq, epoch))
        lane.leases.append((said.seq, said.began_ms + self._lease_ms))

    def _check_epoch(self, said: Exchange, lane: Lane, epoch: int) -> None:
        if any(seq < said.seq and later > epoch for seq, later in lane.epochs):
            raise Broken("FENCE", f"{said.request} continues in epoch {epoch}, and a later one was given")

    def _claimed(self, said: Exchange, lane: Lane, ask: Any, answer: ClaimResult) -> None:
        self._check_epoch(said, lane, ask.epoch)
        lane.leases.append((said.seq, said.began_ms + self._lease_ms))
        acked = max((watermark for seq, watermark in lane.watermarks if seq < said.seq), default=-1)
        for sequence, byte in zip(ask.sequences.tolist(), answer.verdicts.tolist(), strict=True):
            verdict = BY_BYTE[byte].verdict
            if sequence <= acked and verdict is not Verdict.STALE:
                raise Broken("STALE", f"{sequence} was acked, and is answered {verdict.name}")
            if verdict in (Verdict.STALE, Verdict.DUPLICATE) and not self._copies(ask.producer, sequence):
                raise Broken("LOSS", f"{said.request.sender} is told {verdict.name} of {sequence}, nobody wrote it")
            if verdict is Verdict.GRANTED:
                if lane.done.get(sequence, said.seq) < said.seq:
                    raise Broken("P1", f"{sequence} is granted to {said.request.sender}, it was completed")
                lane.granted.setdefault((ask.epoch, ask.call), set()).add(sequence)

    def _settled(self, said: Exchange, lane: Lane, epoch: int, answer: SequenceSettled) -> None:
        self._check_epoch(said, lane, epoch)
        verb: Verb = said.request.given[0]
        if verb is Verb.RENEW and answer.state is ClaimState.OPEN:
            lane.leases.append((said.seq, said.began_ms + self._lease_ms))
        if answer.state is ClaimState.DONE:
            for sequence in lane.granted.get((epoch, answer.call), ()):
                lane.done.setdefault(sequence, said.seq)

    def restart(self, seq: int, now_ms: int) -> None:
        """The gateway has restarted: every holder has a full lease."""
        for lane in self.lanes.values():
            lane.leases.append((seq, now_ms + self._lease_ms))
