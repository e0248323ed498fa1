"""Answers for producers and drivers of one shard: epochs, watermarks, which sequences are held or done. A function of
the ledger.

`ask` decides and changes nothing; `apply` folds an entry in, the same way live and in replay, and returns what takes it
back. Leases live in memory only, by `now_ms`, monotonic. Intervals per producer, never a row per sequence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import U8, U32, U64
from oncegate.core.claims import ClaimState
from oncegate.core.errors import TokenReused
from oncegate.core.producers import (
    ACK,
    SEQUENCE,
    AckEffect,
    Action,
    Asker,
    Registrant,
    SequenceState,
    Standing,
    actions,
)
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.producers.apply import DONE, FREE, HELD, LEFT, OWN, TAKEN, Call, Driver, Producer, ProducerStore
from oncegate.index.producers.intervals import spans_of

__all__ = ["Call", "Driver", "Producer", "ProducerIndex", "SequenceDecision", "actions_of", "registrant", "standing"]

# One more would have no successor: a span ends before it.
SEQUENCE_MAX = 2**64 - 2
# The most intervals of what is done that a registration is answered with: some 20 kB of JSON.
DONE_TOLD = 1_000
_VERDICTS = {
    Action.STALE: Verdict.STALE,
    Action.GRANT: Verdict.GRANTED,
    Action.GRANT_AGAIN: Verdict.GRANTED,
    Action.TAKE_OVER: Verdict.GRANTED | Flag.TAKEOVER,
    Action.SAME: Verdict.SAME | Flag.OF_CALL,
    Action.BUSY: Verdict.BUSY,
    Action.DUPLICATE: Verdict.DUPLICATE,
    # Refused with the whole request: never sent.
    Action.OUT_OF_ORDER: 0,
}
_TAKEOVER, _OWN = np.uint8(Flag.TAKEOVER), np.uint8(Flag.OWN)
_BYTES = np.array([int(_VERDICTS[action]) for action in Action], np.uint8)
# By kind of interval; kind 0, in none, is told apart by where the sequence lies.
_STATES = np.zeros(OWN + 1, np.uint8)
_STATES[[FREE, LEFT, HELD, TAKEN, DONE, OWN]] = [
    SequenceState.FREE,
    *[SequenceState.CLAIMED] * 3,
    *[SequenceState.DONE] * 2,
]


def actions_of(table: Mapping[tuple[SequenceState, Asker], object] = SEQUENCE) -> U8:
    """Returns the table in force as an array, `Action` at `state * len(Asker) + asker`."""
    return np.frombuffer(actions(table), np.uint8)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class SequenceDecision:
    """Says what a claim of sequences would mean; n elements, in the order asked.

    actions: `Action`. verdicts: wire bytes. numbers: of_call or lease_left_ms where the verdict has one. fresh, taken:
    spans of shape (k, 2), for the entry. gap: the highest claimed so far does not reach the one before these.
    out_of_order: the first sequence that comes after a later one, or None.
    """

    actions: U8
    verdicts: U8
    numbers: U32
    fresh: U64
    taken: U64
    gap: bool
    out_of_order: int | None


class ProducerIndex(ProducerStore):
    """Answers what is asked of producers and drivers; `ProducerStore` is how they change."""

    def __init__(self) -> None:
        super().__init__()
        self._rules = actions_of()
        refused = [ACK[state].effect is AckEffect.REFUSE_NOT_DONE for state in SequenceState]
        self._holds_up = np.array(refused)[_STATES] & (np.arange(OWN + 1) > 0)

    def decide(
        self, producer: Producer, call: int, digest: bytes, sequences: U64, prev: int | None
    ) -> SequenceDecision:
        """Tells what each of `sequences`, uint64[n], strictly increasing, is answered now in the epoch in force. No
        effect.

        Raises TokenReused: this call is known with other sequences.
        """
        known = producer.calls.get(call)
        if known is not None and known.digest != digest:
            raise TokenReused("this call of this epoch was used with other sequences: a new request needs a new call")
        labels = producer.held.find(sequences)
        kinds, calls = (labels >> np.uint64(32)).astype(np.intp), (labels & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
        states = self._states(producer, sequences, kinds)
        is_repeat = call <= max(producer.last_call, producer.quiet_call)
        askers = np.full(len(sequences), Asker.REPEAT if is_repeat else Asker.NEWER, np.uint8)
        held = (kinds == HELD) | (kinds == TAKEN)
        askers[held | (kinds == OWN)] = Asker.SAME_EPOCH
        askers[held & (calls == call)] = Asker.SAME_CALL
        found = self._rules[states * len(Asker) + askers]
        return self._asked(producer, sequences, prev, found, kinds, calls)

    def _states(self, producer: Producer, sequences: U64, kinds: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> U8:
        states = _STATES[kinds]
        nowhere = kinds == 0
        states[nowhere] = SequenceState.ABSENT
        if producer.claimed_to is not None:
            states[nowhere & (sequences <= np.uint64(producer.claimed_to))] = SequenceState.SKIPPED
        if producer.watermark is not None:
            states[sequences <= np.uint64(producer.watermark)] = SequenceState.STALE
        return states

    def _asked(
        self,
        producer: Producer,
        sequences: U64,
        prev: int | None,
        found: U8,
        kinds: "np.ndarray[tuple[int], np.dtype[np.intp]]",
        calls: U32,
    ) -> SequenceDecision:
        verdicts = _BYTES[found]
        verdicts[(found == Action.GRANT_AGAIN) & (kinds == TAKEN)] |= _TAKEOVER
        verdicts[(found == Action.DUPLICATE) & (kinds == OWN)] |= _OWN
        late = np.flatnonzero(found == Action.OUT_OF_ORDER)
        return SequenceDecision(
            found,
            verdicts,
            np.where(found == Action.SAME, calls, np.uint32(0)).astype(np.uint32),
            fresh=spans_of(sequences[found == Action.GRANT]),
            taken=spans_of(sequences[found == Action.TAKE_OVER]),
            gap=prev is not None and (producer.claimed_to is None or prev > producer.claimed_to),
            out_of_order=int(sequences[late[0]]) if len(late) else None,
        )

    def call_state(self, producer: Producer, call: int) -> ClaimState:
        """Tells what is known about a call of the epoch in force."""
        known = producer.calls.get(call)
        return ClaimState.UNKNOWN if known is None else known.state

    def done(self, producer: Producer) -> U64:
        """Returns the intervals above the watermark that are done, shape (k, 2), in order."""
        kinds = producer.held.label >> np.uint64(32)
        done = np.where((kinds == DONE) | (kinds == OWN), np.uint64(DONE << 32), np.uint64(0))
        joined = producer.held.relabelled(done)
        return np.stack((joined.first, joined.last), axis=1)

    def undone(self, producer: Producer, upto: int | None = None) -> U64:
        """Returns the intervals up to `upto` that an ack may not pass over, shape (k, 2), in order; the last may go
        on."""
        chosen = self._holds_up[(producer.held.label >> np.uint64(32)).astype(np.intp)]
        if upto is not None:
            chosen = chosen & (producer.held.first <= np.uint64(upto))
        return producer.held.spans(chosen)

    def watermark_after(self, producer: Producer, sequence: int) -> int | None:
        """Tells where the watermark stands once `sequence` is acked, which nothing holds up; None: where it does
        now."""
        reached = producer.claimed_to
        if ACK[SequenceState.ABSENT].effect is not AckEffect.STOP_BELOW or (reached is not None and sequence < reached):
            reached = sequence
        is_stale = reached is not None and producer.watermark is not None and reached <= producer.watermark
        return None if is_stale and ACK[SequenceState.STALE].effect is AckEffect.NOTHING else reached

    def resume_after(self, producer: Producer) -> int | None:
        """Returns the highest sequence such that everything that was claimed up to it is done; None when there is
        none."""
        undone = self.undone(producer)
        if not len(undone):
            return producer.claimed_to
        done = producer.held.last[producer.held.last < undone[0, 0]]
        return int(done[-1]) if len(done) else producer.watermark


def standing(found: Producer | Driver | None, epoch: int, token: bytes) -> Standing:
    """Compares a request's epoch and token with those in force."""
    if found is None or not found.epoch:
        return Standing.UNKNOWN
    if epoch != found.epoch:
        return Standing.ABOVE if epoch > found.epoch else Standing.BELOW
    return Standing.OWN if token == found.token else Standing.OTHER_TOKEN


def registrant(found: Producer | Driver | None, token: bytes, lease_left_ms: int) -> Registrant:
    """Tells who registers, seen from who holds the name; a driver has no lease."""
    if found is None or not found.epoch:
        return Registrant.FIRST
    if token == found.token:
        return Registrant.SAME
    if token in found.past:
        return Registrant.PAST
    return Registrant.OTHER_LIVE if lease_left_ms > 0 else Registrant.OTHER_OVER


def total(producers: Iterable[Producer]) -> int:
    """Counts the intervals that producers hold."""
    return sum(len(producer.held) for producer in producers)
