"""Translates answers in shadow mode at the edge of the engine: all verdicts become GRANTED, and the real verdicts are
returned in addition.

Nothing is decided here: decisions, counters and the ledger are the same as without shadow mode. The caller goes on as
if there were no gateway, and sees in addition the verdict that it would have got.
"""

from collections.abc import Awaitable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oncegate.core.claims import SETTLE, STATE_AFTER, ClaimState, Verb
from oncegate.core.errors import UnknownClaim
from oncegate.core.verdicts import BY_BYTE, Verdict
from oncegate.engine.counters import SHADOWED
from oncegate.engine.counts.counts import Counts
from oncegate.engine.producer_requests import SequenceSettled
from oncegate.engine.requests import ClaimResult, ProduceResult, SettleResult
from oncegate.index.table.grants import NO_CLAIM

_MAY_WRITE = np.array([byte in BY_BYTE and BY_BYTE[byte].may_write for byte in range(256)])


def _granted(
    verdicts: NDArray[np.uint8], counts: Counts, told: int = Verdict.GRANTED
) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Returns the verdict `told` for every id, without numbers; counts the ids that would not have been granted."""
    counts.add(SHADOWED, int(np.count_nonzero(~_MAY_WRITE[verdicts])))
    return np.full(len(verdicts), told, np.uint8), np.zeros(len(verdicts), np.uint32)


def unchecked(answer: ClaimResult, counts: Counts, told: int) -> ClaimResult:
    """Translates the answer to a claim that passed unchecked: every id gets the verdict `told`, the unchecked grant."""
    verdicts, numbers = _granted(answer.verdicts, counts, told)
    return replace(answer, verdicts=verdicts, numbers=numbers, shadow=answer.verdicts)


async def claimed(answering: Awaitable[ClaimResult], counts: Counts, *_request: object) -> ClaimResult:
    """Translates the answer to a claim: grants all ids; a claim that was really granted none gets the claim id
    `NO_CLAIM`."""
    answer = await granted(answering, counts)
    return replace(answer, claim=NO_CLAIM) if answer.claim is None else answer


async def granted(answering: Awaitable[ClaimResult], counts: Counts, *_request: object) -> ClaimResult:
    """Translates the answer to a take or to a claim of sequences, which carries no claim id."""
    answer = await answering
    verdicts, numbers = _granted(answer.verdicts, counts)
    return replace(answer, verdicts=verdicts, numbers=numbers, shadow=answer.verdicts)


async def produced(answering: Awaitable[ProduceResult], counts: Counts, *_request: object) -> ProduceResult:
    """Translates the answer to rows with ids or sequences, all of which were written."""
    answer = await answering
    if answer.verdicts is None:
        return answer
    verdicts, numbers = _granted(answer.verdicts, counts)
    return replace(answer, verdicts=verdicts, numbers=numbers, shadow=answer.verdicts)


async def settled(answering: Awaitable[SettleResult], _counts: Counts, *_request: object) -> SettleResult:
    """Translates the answer to renew, complete or release: ids that were taken over count as settled, because shadow
    mode let them be written too."""
    answer = await answering
    whole = answer.settled + answer.taken_over
    return replace(answer, settled=whole, taken_over=0, shadow_taken_over=answer.taken_over)


async def settled_sequences(
    answering: Awaitable[SequenceSettled],
    _counts: Counts,
    verb: Verb,
    _name: str,
    _epoch: int,
    _token: bytes,
    call: int,
    *_: object,
) -> SequenceSettled:
    """Translates the answer to renew, complete or release of sequences; succeeds for calls without grants."""
    try:
        return await answering
    except UnknownClaim:
        return SequenceSettled(call, _state_after(verb), 0, 0)


def settled_nothing(verb: Verb, lease_ms: int) -> SettleResult:
    """Returns the answer to renewing, completing or releasing the placeholder `NO_CLAIM`, which holds no id."""
    return SettleResult(NO_CLAIM, _state_after(verb), 0, 0, lease_ms if verb is Verb.RENEW else 0)


def _state_after(verb: Verb) -> ClaimState:
    return STATE_AFTER[SETTLE[verb, ClaimState.OPEN].effect]
