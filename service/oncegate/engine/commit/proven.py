"""Delays answers until the entries that they depend on are durable and this gateway has proven that it still owns the
ledger.

Shadow mode is applied here too: an answer is translated before it waits.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from oncegate.core.errors import LedgerFull, MissingStage, Rejected, Stop
from oncegate.core.verdicts import VERDICT_MASK, Verdict
from oncegate.engine.commit.journal import Journal
from oncegate.engine.producer_requests import LaneAnswer
from oncegate.engine.requests import ClaimResult, ProduceResult
from oncegate.ports.tracing import child, current_span

# How often a request is decided again after it was undone with another's change, before its client must retry.
DECIDED_AGAIN = 8
# BUSY may be stale, but it is harmless: the client asks again.
_LASTING = np.array([Verdict.DUPLICATE, Verdict.STALE, Verdict.BUSY], np.uint8)


class _UseCase(Protocol):
    @property
    def journal(self) -> Journal: ...


U = TypeVar("U", bound=_UseCase)
P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[Concatenate[U, P], Coroutine[Any, Any, R]]


class _Decorator(Protocol):
    def __call__(self, use: Method[U, P, R], /) -> Method[U, P, R]: ...


def answers(name: str, shadowed: Callable[..., Awaitable[Any]] | None = None) -> _Decorator:
    """Returns a decorator for a use case's method that answers requests; `name` is the name of its span.

    Refusals wait until everything submitted so far is durable: they too depend on the index. Answers that a newer owner
    could have invalidated wait for `GroupCommit.owned`. A request that was undone because the ledger rejected another
    change is decided again, as if it had just arrived.

    shadowed: translates an answer while the namespace is in shadow mode. Its arguments are the coroutine that answers,
    the counts, and the request's arguments.
    """

    def decorate(use: Method[U, P, R]) -> Method[U, P, R]:
        async def proven(use_case: U, /, *args: P.args, **kwargs: P.kwargs) -> R:
            journal = use_case.journal
            group_commit = journal.group_commit
            again = DECIDED_AGAIN
            while True:
                undone, since = group_commit.undone, group_commit.next_append
                answering: Awaitable[R] = use(use_case, *args, **kwargs)
                if shadowed is not None and journal.index.settings.in_force.shadow:
                    answering = shadowed(answering, journal.counts, *args)
                try:
                    try:
                        answer = await answering
                    except (Rejected, Stop, MissingStage):
                        await group_commit.all_durable()
                        await group_commit.owned(since)
                        raise
                    if group_commit.fenced_by_appends and not _stays_true(answer):
                        await group_commit.owned(since)
                    return answer
                except LedgerFull:
                    if group_commit.undone == undone or not again:
                        raise
                again -= 1

        @wraps(use)
        def answered(use_case: U, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            answer = proven(use_case, *args, **kwargs)
            return answer if current_span() is None else _traced(name, answer)

        return answered

    return decorate


async def _traced(name: str, answer: Coroutine[Any, Any, R]) -> R:
    """Awaits the answer in a span, which ends when the answer is durable."""
    with child(name, {}) as span:
        found = await answer
        verdicts = found.verdicts if isinstance(found, ClaimResult | ProduceResult) else None
        if span is not None and verdicts is not None:
            duplicates = int(np.count_nonzero((verdicts & VERDICT_MASK) == Verdict.DUPLICATE))
            span.note({"oncegate.ids": len(verdicts), "oncegate.duplicates": duplicates})
        return found


def _stays_true(answer: object) -> bool:
    """Returns whether an answer holds under any owner: DUPLICATE and STALE are permanent, and a caller retries BUSY."""
    # Answers about lanes have waited already, as `core.direct.ASK` requires.
    if isinstance(answer, LaneAnswer):
        return True
    verdicts = answer.verdicts if isinstance(answer, ClaimResult | ProduceResult) else None
    return verdicts is not None and not np.isin(verdicts & VERDICT_MASK, _LASTING, invert=True).any()
