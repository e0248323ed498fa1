"""Lets answers wait for what they rest on, and for the proof that nobody else owns the ledger by now."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from oncegate.core.errors import LedgerFull, MissingStage, Rejected, Stop
from oncegate.core.verdicts import VERDICT_MASK, Verdict
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.producer_requests import LaneAnswer
from oncegate.engine.requests import ClaimResult, ProduceResult
from oncegate.ports.tracing import child, current_span

# How often a request is decided again that was undone with another's change, before its client is told to retry.
DECIDED_AGAIN = 8
# BUSY may have become untrue, and harms nobody: it is asked again.
_LASTING = np.array([Verdict.DUPLICATE, Verdict.STALE, Verdict.BUSY], np.uint8)


class _Committing(Protocol):
    @property
    def group_commit(self) -> GroupCommit: ...


S = TypeVar("S", bound=_Committing)
P = ParamSpec("P")
R = TypeVar("R")


def answers_when_proven(
    use: Callable[Concatenate[S, P], Awaitable[R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Makes a method's answers wait for what they rest on.

    Refusals wait until all that was submitted is durable: they too rest on what the index knows. Whatever may have
    become untrue by a newer owner waits for `GroupCommit.owned`.

    Of a request that is traced a span says how long it took, and how many of its ids were duplicates.

    What was undone because the ledger refuses another's change is decided again, as if it had come then.
    """

    async def proven(shard: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        group_commit = shard.group_commit
        since = group_commit.next_append
        try:
            found = await use(shard, *args, **kwargs)
        except (Rejected, Stop, MissingStage):
            await group_commit.all_durable()
            await group_commit.owned(since)
            raise
        if group_commit.fenced_by_appends and not _stays_true(found):
            await group_commit.owned(since)
        return found

    async def careful(shard: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(DECIDED_AGAIN):
            undone = shard.group_commit.undone
            try:
                return await proven(shard, *args, **kwargs)
            except LedgerFull:
                if shard.group_commit.undone == undone:
                    raise
        return await proven(shard, *args, **kwargs)

    @wraps(use)
    def answered(shard: S, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        answer = careful(shard, *args, **kwargs)
        return answer if current_span() is None else _traced(use.__name__, answer)

    return answered


async def _traced(name: str, answer: Coroutine[Any, Any, R]) -> R:
    """Records what the engine does for a request, until what it answers is durable."""
    with child(name, {}) as span:
        found = await answer
        verdicts = found.verdicts if isinstance(found, ClaimResult | ProduceResult) else None
        if span is not None and verdicts is not None:
            duplicates = int(np.count_nonzero((verdicts & VERDICT_MASK) == Verdict.DUPLICATE))
            span.note({"oncegate.ids": len(verdicts), "oncegate.duplicates": duplicates})
        return found


def _stays_true(found: object) -> bool:
    """Tells whether an answer holds whoever owns the ledger by now: what is a duplicate or stale is so for ever."""
    # An answer about a lane has waited for as much as it needs (`core.direct.ASK`).
    if isinstance(found, LaneAnswer):
        return True
    verdicts = found.verdicts if isinstance(found, ClaimResult | ProduceResult) else None
    return verdicts is not None and not np.isin(verdicts & VERDICT_MASK, _LASTING, invert=True).any()
