"""Decides claims of sequences, and registrations of producers. Reads the store of producers and never changes it."""

from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import U8, U32, U64
from oncegate.core.errors import TokenReused
from oncegate.core.producers import GAP, Gaps, Look, ProducerAction, ProducerAsker, Registrant, SequenceState, Standing
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.producers.intervals import spans_of
from oncegate.index.producers.store import HELD, OWN, STATES, TAKEN, Driver, ProducerState, ProducerStore

_Kinds = np.ndarray[tuple[int], np.dtype[np.intp]]
_VERDICTS = {
    ProducerAction.STALE: Verdict.STALE,
    ProducerAction.GRANT: Verdict.GRANTED,
    ProducerAction.GRANT_AGAIN: Verdict.GRANTED,
    ProducerAction.TAKE_OVER: Verdict.GRANTED | Flag.TAKEOVER,
    ProducerAction.SAME: Verdict.SAME | Flag.OF_CALL,
    ProducerAction.BUSY: Verdict.BUSY,
    ProducerAction.DUPLICATE: Verdict.DUPLICATE,
    # Never sent: the whole request is refused.
    ProducerAction.OUT_OF_ORDER: 0,
    ProducerAction.HOLD: Verdict.BUSY,
    ProducerAction.IN_DOUBT: Verdict.IN_DOUBT,
    ProducerAction.CONFLICT: Verdict.CONFLICT,
}
_TAKEOVER, _OWN = np.uint8(Flag.TAKEOVER), np.uint8(Flag.OWN)
_BYTES = np.array([int(_VERDICTS[action]) for action in ProducerAction], np.uint8)


@dataclass(frozen=True, eq=False)
class SequenceDecision:
    """The outcome of a claim of sequences before it is applied; n elements, in the request's order.

    actions: `ProducerAction`.
    verdicts: wire bytes.
    numbers: of_call or lease_left_ms, for verdicts that have one.
    fresh, taken: spans of shape (k, 2), for the entry.
    gap: sequences were skipped that must not be.
    out_of_order: the first sequence that comes after a later one, or None.
    """

    actions: U8
    verdicts: U8
    numbers: U32
    fresh: U64
    taken: U64
    gap: bool
    out_of_order: int | None


def decide(
    store: ProducerStore,
    producer: ProducerState,
    call: int,
    digest: bytes,
    sequences: U64,
    prev: int | None,
    digests: U32 | None = None,
) -> SequenceDecision:
    """Decides the answer for each of `sequences`, uint64[n], strictly increasing, in the current epoch. No effect.

    prev: the sequence before the first of these; None: not given.
    digests: uint32[n] of their payloads, none of them 0; None: payloads are not compared.

    Raises TokenReused if this call is known with other sequences.
    """
    earlier = producer.calls.get(call)
    if earlier is not None and earlier.digest != digest:
        raise TokenReused("this call of this epoch was used with other sequences: send the new request with a new call")
    labels = producer.intervals.find(sequences)
    kinds, calls = (labels >> np.uint64(32)).astype(np.intp), (labels & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    states = _states(producer, sequences, kinds)
    if digests is not None:
        states[(states == SequenceState.DONE) & producer.digests.differ(sequences, digests)] = SequenceState.DONE_OTHER
    is_repeat = call <= max(producer.last_call, producer.quiet_call)
    askers = np.full(len(sequences), ProducerAsker.REPEAT if is_repeat else ProducerAsker.NEWER, np.uint8)
    is_open = (kinds == HELD) | (kinds == TAKEN)
    askers[is_open | (kinds == OWN)] = ProducerAsker.SAME_EPOCH
    askers[is_open & (calls == call)] = ProducerAsker.SAME_CALL
    actions = store.rules[states * len(ProducerAsker) + askers]
    return _decision(producer, sequences, prev, actions, kinds, calls)


def _states(producer: ProducerState, sequences: U64, kinds: _Kinds) -> U8:
    states = STATES[kinds]
    outside = kinds == 0
    states[outside] = SequenceState.ABSENT
    if producer.claimed_to is not None:
        states[outside & (sequences <= np.uint64(producer.claimed_to))] = SequenceState.SKIPPED
    if producer.watermark is not None:
        states[sequences <= np.uint64(producer.watermark)] = SequenceState.STALE
    return states


def _decision(
    producer: ProducerState, sequences: U64, prev: int | None, actions: U8, kinds: _Kinds, calls: U32
) -> SequenceDecision:
    verdicts = _BYTES[actions]
    verdicts[(actions == ProducerAction.GRANT_AGAIN) & (kinds == TAKEN)] |= _TAKEOVER
    verdicts[(actions == ProducerAction.DUPLICATE) & (kinds == OWN)] |= _OWN
    late = np.flatnonzero(actions == ProducerAction.OUT_OF_ORDER)
    return SequenceDecision(
        actions,
        verdicts,
        np.where(actions == ProducerAction.SAME, calls, np.uint32(0)).astype(np.uint32),
        fresh=spans_of(sequences[actions == ProducerAction.GRANT]),
        taken=spans_of(sequences[actions == ProducerAction.TAKE_OVER]),
        gap=_is_gap(producer, sequences, prev),
        out_of_order=int(sequences[late[0]]) if len(late) else None,
    )


def _is_gap(producer: ProducerState, sequences: U64, prev: int | None) -> bool:
    """Returns whether the claim skips sequences that the producer's `gaps` setting does not allow to skip."""
    look, claimed_to = GAP[Gaps(producer.gaps), prev is not None].effect, producer.claimed_to
    if prev is not None and look in (Look.PREV, Look.PREV_AND_EACH) and (claimed_to is None or prev > claimed_to):
        return True
    if look not in (Look.EACH, Look.PREV_AND_EACH):
        return False
    new = sequences if claimed_to is None else sequences[sequences > np.uint64(claimed_to)]
    if not len(new) or bool((new[1:] != new[:-1] + np.uint64(1)).any()):
        return bool(len(new))
    # A caller that names the previous sequence vouches for the gap before its first one, but not for later gaps.
    vouched = prev is not None and len(new) == len(sequences)
    return claimed_to is not None and not vouched and int(new[0]) != claimed_to + 1


def standing(known: ProducerState | Driver | None, epoch: int, token: bytes) -> Standing:
    """Compares a request's epoch and token with the current ones."""
    if known is None or not known.epoch:
        return Standing.UNKNOWN
    if epoch != known.epoch:
        return Standing.ABOVE if epoch > known.epoch else Standing.BELOW
    return Standing.OWN if token == known.token else Standing.OTHER_TOKEN


def registrant(known: ProducerState | Driver | None, token: bytes, lease_left_ms: int) -> Registrant:
    """Classifies a registration relative to the holder of the name. A driver has no lease."""
    if known is None or not known.epoch:
        return Registrant.FIRST
    if token == known.token:
        return Registrant.SAME
    if token in known.past:
        return Registrant.PAST
    return Registrant.OTHER_LIVE if lease_left_ms > 0 else Registrant.OTHER_OVER
